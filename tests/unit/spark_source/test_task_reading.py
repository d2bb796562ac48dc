"""A task of a query looks at its host before it reads: who has another archive there brings no rows of it."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from mirrorlake.pipeline.cluster.executors import ExecutorUnusableError
from mirrorlake.spark_source.options import read_options
from mirrorlake.spark_source.source import MirrorlakeReader
from mirrorlake.spark_source.task_reading import read_needs, read_task
from support.archives import mark_archive, write_segment


def test_a_task_reads_the_archive_that_was_planned_and_no_other_in_its_place(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    write_segment(root, "orders", 0, 0, 20)
    mark_archive(root, {"orders": {0: 20}})
    options = read_options({"store": root.as_uri(), "topics": "orders"})
    (planned,) = pickle.loads(pickle.dumps(MirrorlakeReader(options, options.columns).partitions()))

    assert sum(batch.num_rows for batch in read_task(options, options.columns, planned)) == 18

    root.rename(tmp_path / "away")
    with pytest.raises(ExecutorUnusableError, match=f"cannot read this: there is no folder {root}"):
        next(read_task(options, options.columns, planned))

    root.mkdir()
    write_segment(root, "orders", 0, 0, 20)  # the same files in an archive of their own, with a marker of its own
    mark_archive(root, {"orders": {0: 20}})
    with pytest.raises(ExecutorUnusableError, match="is not the folder that the driver has there"):
        next(read_task(options, options.columns, planned))


def test_a_task_of_a_live_topic_needs_the_files_and_no_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()
    monkeypatch.setenv("EAST", "hunter2")
    options = read_options(
        {
            "kafka.bootstrap.servers": "east:9093",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "me",
            "kafka.sasl.password": "${EAST}",
            "kafka.ssl.truststore.location": str(authority),
            "topics": "orders",
        }
    )
    needs = read_needs(options)
    assert (needs.files, needs.variables, needs.roots) == ((str(authority),), (), ())


def test_what_spark_makes_where_nothing_was_planned_reads_nothing(tmp_path: Path) -> None:
    options = read_options({"store": tmp_path.as_uri(), "topics": "orders"})
    assert [*read_task(options, options.columns, InputPartition(None))] == []
