"""`on-truncation: skip` of an archive that has lost its newest segment: the loss is told, and not called a gap."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.admin import alter_topic
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.records import simple_records
from support.topics import append, delete_before, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def segment_name(first: int, last: int, form: str) -> str:
    return f"{first:020}-{last:020}.{form}"


@pytest.mark.parametrize("form", ["parquet", "ndjson", "log"])
def test_a_lost_end_that_the_source_has_deleted_too_is_no_gap_until_somebody_says_so(
    form: str, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    lake.mkdir()
    make_topic(east, topic_name, simple_records(10))
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters: {{east: {{bootstrap-servers: '{east}'}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - name: m-{topic_name}
    on-truncation: skip
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: archive, store: lake, format: {form}}}]
""",
    )
    for start in (10, 20):
        assert mirrorlake("run", "--once", "-c", config).code == 0
        append(east, topic_name, 0, simple_records(10, start=start))
    folder = lake / topic_name / "0"
    newest = folder / segment_name(10, 19, form)
    assert mirrorlake("run", "--once", "-c", config).code == 0
    # A topic's record says how far its partitions had come when it was last changed.
    alter_topic(east, topic_name, retention_ms="-1", retention_bytes="1000000000")
    assert mirrorlake("run", "--once", "-c", config).code == 0
    # The third is lost with the second; the source keeps only the newest records.
    newest.rename(tmp_path / newest.name)
    third = folder / segment_name(20, 29, form)
    third.rename(tmp_path / third.name)
    delete_before(east, topic_name, 25)
    append(east, topic_name, 0, simple_records(5, start=30))
    before = sorted(each.name for each in folder.glob(f"*.{form}"))
    assert before == [segment_name(0, 9, form)]

    ended = mirrorlake("run", "--once", "-c", config)

    assert ended.code == 3, ended.err
    assert "reason=chain-broken" in ended.err
    assert "had reached offset" in ended.err
    assert sorted(each.name for each in folder.glob(f"*.{form}")) == before, "nothing was published"

    for each in (newest, third):
        (tmp_path / each.name).rename(each)

    assert mirrorlake("run", "--once", "-c", config).code == 0
    assert sorted(each.name for each in folder.glob(f"*.{form}")) == [
        segment_name(first, last, form) for first, last in ((0, 9), (10, 19), (20, 29), (30, 34))
    ]
    assert mirrorlake("archive", "check", "-c", config).code == 0
