"""One session of Spark's: what users write, from the first line to the rows; streams over restarts; and no secret."""

import csv
import errno
import io
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import NewKafka
from mirrorlake.config.loading import load_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.errors import ConfigurationError, JavaUnusableError, QueryError
from mirrorlake.java import find_java
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.spark import register
from mirrorlake.spark_source import sql, sql_counts
from mirrorlake.spark_source.columns import SPARK_TYPES
from mirrorlake.spark_source.source import with_slots
from mirrorlake.spark_source.sql import prepare, run_query
from mirrorlake.spark_source.sql_output import write_rows
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import S3Settings
from support.archived_schemas import DECODED_QUERY, DECODED_ROWS, write_bills, write_trees
from support.archives import FIRST_TIME_MS, publish_segment, write_archive, write_segment
from support.object_servers import ACCESS_KEY, SECRET_KEY, ObjectServer
from support.records import simple_records
from support.topics import make_topic

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/spark.md"
SECRET = "hunter2-of-the-test"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one session of this module; its JVM, and so its workers, know a secret by its variable."""
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    secrets = {"TEST_OF_SECRETS": SECRET, "TEST_OF_ACCESS_KEYS": ACCESS_KEY, "TEST_OF_SECRET_KEYS": SECRET_KEY}
    os.environ.update(secrets)
    try:
        with build_session(SessionSettings(lanes=2, batch_slots=0, uses_sql=True)) as session:
            register(session.spark)
            yield session.spark
    finally:
        for name in secrets:
            del os.environ[name]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    write_archive(root, "orders", 0, 20, 50, 100)
    write_archive(root, "orders", 1, 30)
    write_bills(root)
    return root


def offsets_of(frame: Any) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def expected(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end) if offset % 10 != 7]


def test_rows_arrive_in_spark_as_they_were_and_filters_are_handed_over(spark: Any, lake: Path) -> None:
    frame = spark.read.format("mirrorlake").option("store", lake.as_uri()).option("topics", "orders").load()

    assert dict(frame.dtypes) == SPARK_TYPES
    assert offsets_of(frame) == expected(0, 0, 100) + expected(1, 0, 30)
    one = frame.where("topic = 'orders' and partition = 0 and offset between 30 and 40")
    assert offsets_of(one) == expected(0, 30, 41)
    late = frame.where(f"timestamp >= timestamp_millis({FIRST_TIME_MS + 95_000})")
    (row,) = late.where("offset = 99").collect()
    assert (row.topic, row.key, row.value, row.timestamp_type) == ("orders", b"key 4", b"value 99", "create_time")
    assert offsets_of(late) == expected(0, 95, 100)
    assert frame.where("value = cast('value 3' as binary)").count() == 2


@pytest.mark.quick
def test_queries_of_one_frame_do_not_meet_each_others_filters(spark: Any, lake: Path) -> None:
    frame = spark.read.format("mirrorlake").option("store", lake.as_uri()).option("topics", "orders").load()

    assert frame.where("offset < 0").count() == 0
    assert frame.count() == 117
    ones, others = frame.where("partition = 0 and offset < 5").alias("a"), frame.where("partition = 1").alias("b")
    assert ones.join(others, on="offset").count() == 5


def test_with_pushdown_what_a_filter_leaves_out_is_not_planned(spark: Any, lake: Path) -> None:
    def read() -> Any:
        options = {"store": lake.as_uri(), "topics": "orders", "pushdown": "true", "minPartitions": "50"}
        return spark.read.format("mirrorlake").options(**options).load()

    assert read().where("offset >= 0").rdd.getNumPartitions() == 4, "a task for each file"
    one = read().where("topic = 'orders' and partition = 0 and offset between 30 and 40")
    assert one.rdd.getNumPartitions() == 1
    assert offsets_of(one) == expected(0, 30, 41)
    late = read().where(f"timestamp >= timestamp_millis({FIRST_TIME_MS + 95_000})")
    assert offsets_of(late) == expected(0, 95, 100)


def test_a_read_is_divided_by_the_slots_of_the_session_it_was_registered_with(spark: Any, lake: Path) -> None:
    def read(**more: str) -> Any:
        return spark.read.format("mirrorlake").options(store=lake.as_uri(), topics="orders", **more).load()

    try:
        for slots, tasks in ((1, 1), (4, 4)):  # of four files
            spark.dataSource.register(with_slots(slots))
            assert read().rdd.getNumPartitions() == tasks
            assert offsets_of(read()) == expected(0, 0, 100) + expected(1, 0, 30)
            assert read(minPartitions="4").rdd.getNumPartitions() == 4
    finally:
        register(spark)  # of two slots
    assert 1 < read().rdd.getNumPartitions() < 4


def test_a_task_that_waits_too_long_for_what_it_reads_fails_and_says_where(
    spark: Any, new_kafka: NewKafka, topic_name: str
) -> None:
    """A broker that is frozen between plan and read: it is asked, and does not answer."""
    server = new_kafka()
    make_topic(server.bootstrap_servers, topic_name, simple_records(20))
    read = spark.read.format("mirrorlake").option("kafka.bootstrap.servers", server.bootstrap_servers)
    frame = read.options(topics=topic_name, readTimeout="500ms").load()
    assert frame.rdd.getNumPartitions() == 1, "it is planned"
    server.pause()
    try:
        with pytest.raises(Exception, match=r"nothing came of what a task reads on .* for 0\.5 s") as caught:
            frame.collect()
    finally:
        server.resume()
    assert "whether brokers, store or filesystem answer there" in str(caught.value)


def test_a_stream_of_a_growing_archive_is_exactly_once_over_restarts(spark: Any, tmp_path: Path) -> None:
    root, seen, checkpoint = tmp_path / "lake", str(tmp_path / "seen"), str(tmp_path / "checkpoint")
    root.mkdir()
    write_archive(root, "orders", 0, 20, 50)

    def run() -> None:
        stream = spark.readStream.format("mirrorlake").option("store", root.as_uri()).option("topics", "orders").load()
        query = (
            stream.writeStream.format("parquet")
            .option("path", seen)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)

    run()
    assert offsets_of(spark.read.parquet(seen)) == expected(0, 0, 50)
    write_segment(root, "orders", 0, 50, 80)
    write_archive(root, "orders", 1, 10)
    run()
    assert offsets_of(spark.read.parquet(seen)) == expected(0, 0, 80) + expected(1, 0, 10)


def in_bucket(settings: S3Settings) -> dict[str, str]:
    """A bucket by its address and what goes with it; its keys by the variables that the session's JVM knows."""
    return {
        "store": f"s3://{settings.bucket}/{settings.prefix}",
        "store.region": str(settings.region),
        "store.endpoint": str(settings.endpoint),
        "store.access-key-id": "${TEST_OF_ACCESS_KEYS}",
        "store.secret-access-key": "${TEST_OF_SECRET_KEYS}",
        "topics": "orders",
    }


def test_an_archive_in_a_bucket_is_read_as_one_in_a_folder(
    spark: Any, versitygw: ObjectServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = versitygw.settings()
    store = open_store(settings)
    for partition, start, end in ((0, 0, 20), (0, 20, 50), (1, 0, 30)):
        publish_segment(store, "orders", partition, start, end)

    frame = spark.read.format("mirrorlake").options(**in_bucket(settings)).load()
    assert offsets_of(frame) == expected(0, 0, 50) + expected(1, 0, 30)
    assert frame.where("value = cast('value 3' as binary)").count() == 2
    assert spark.read.format("mirrorlake").options(**in_bucket(settings), columns="partition").load().count() == 72
    pruned = spark.read.format("mirrorlake").options(**in_bucket(settings), pushdown="true").load()
    assert offsets_of(pruned.where("partition = 0 and offset >= 20")) == expected(0, 20, 50)
    with pytest.raises(Exception, match="did you mean `orders`"):
        spark.read.format("mirrorlake").options(**{**in_bucket(settings), "topics": "order"}).load().count()

    file = tmp_path / "mirror.yaml"
    file.write_text(
        f"stores: {{lake: {{type: s3, bucket: {settings.bucket}, prefix: {settings.prefix}, region: {settings.region}, "
        f"endpoint: '{settings.endpoint}', access-key-id: '${{TEST_OF_ACCESS_KEYS}}', "
        "secret-access-key: '${TEST_OF_SECRET_KEYS}'}}\n"
        'clusters: {east: {bootstrap-servers: "127.0.0.1:1"}}\n'
        "mirrors: [{name: a, source: {cluster: east, topics: [orders]}, "
        "destinations: [{type: archive, store: lake}]}]\n"
    )
    config = load_configuration(file, os.environ)
    assert written(spark, config, "select count(*) as n from lake.orders", "json") == b'{"n": 72}\n'
    assert written(spark, config, "select max(offset) as n from lake.orders where partition = 0", "json") == (
        b'{"n": 49}\n'
    )
    said = capfd.readouterr()
    assert SECRET_KEY not in said.out + said.err


def test_a_stream_of_a_bucket_is_exactly_once_over_restarts(
    spark: Any, versitygw: ObjectServer, tmp_path: Path
) -> None:
    settings = versitygw.settings()
    store = open_store(settings)
    seen, checkpoint = str(tmp_path / "seen"), str(tmp_path / "checkpoint")

    def run() -> None:
        stream = spark.readStream.format("mirrorlake").options(**in_bucket(settings)).load()
        writer = stream.writeStream.format("parquet").option("path", seen).option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start().awaitTermination(300)

    publish_segment(store, "orders", 0, 0, 20)
    run()
    assert offsets_of(spark.read.parquet(seen)) == expected(0, 0, 20)
    publish_segment(store, "orders", 0, 20, 50)
    publish_segment(store, "orders", 1, 0, 10)
    run()
    assert offsets_of(spark.read.parquet(seen)) == expected(0, 0, 50) + expected(1, 0, 10)


@pytest.mark.parametrize("late_partition", [0, 1])
def test_a_batch_that_was_planned_before_a_crash_is_run_whole_or_ends_with_an_error(
    spark: Any, tmp_path: Path, late_partition: int
) -> None:
    """Of the first batch, and of one with a new partition, the checkpoint alone says where it begins."""
    root, seen, checkpoint = tmp_path / "lake", str(tmp_path / "seen"), tmp_path / "checkpoint"
    root.mkdir()
    write_archive(root, "orders", 0, 20, 50)

    def run() -> None:
        stream = spark.readStream.format("mirrorlake").option("store", root.as_uri()).option("topics", "orders").load()
        writer = stream.writeStream.format("parquet").option("path", seen)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(300)

    run()
    if late_partition:
        write_archive(root, "orders", 1, 20, 50)
        run()
    # As if the process had died before the batch was done: its offsets are noted, its rows are nowhere.
    batch = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for file in [*(checkpoint / "commits").glob(f"*{batch}*"), *(tmp_path / "seen/_spark_metadata").glob(f"*{batch}*")]:
        file.unlink()
    retired = root / f"orders/{late_partition}"
    (retired / f"_floor-{20:020d}").touch()
    (retired / f"{0:020d}-{19:020d}.parquet").unlink()

    with pytest.raises(Exception, match="retention deleted the rest"):
        run()


def test_no_secret_stands_in_plans_schemas_or_errors(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    frame = (
        spark.read.format("mirrorlake")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafka.security.protocol", "SASL_PLAINTEXT")
        .option("kafka.sasl.mechanism", "PLAIN")
        .option("kafka.sasl.username", "me")
        .option("kafka.sasl.password", "${TEST_OF_SECRETS}")
        .option("kafka.socket.connection.setup.timeout.ms", "100")
        .option("topics", "orders")
        .load()
    )
    frame.createOrReplaceTempView("secured")
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as error:
        frame.count()

    plans = "".join(row[0] for row in spark.sql("explain extended select * from secured").collect())
    assert SECRET not in plans + str(error.value) + frame._jdf.queryExecution().toString()
    assert SECRET not in "".join(capfd.readouterr())


def test_a_secret_in_an_option_is_refused(spark: Any) -> None:
    read = spark.read.format("mirrorlake").option("kafka.bootstrap.servers", "127.0.0.1:1").option("topics", "orders")

    with pytest.raises(Exception, match="holds a secret") as error:
        read.option("kafka.sasl.password", SECRET).load()
    assert SECRET not in str(error.value)


@pytest.fixture(scope="module")
def config(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    file = tmp_path_factory.mktemp("config") / "mirror.yaml"
    file.write_text(
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
registries: {{kept: {{store: lake, registry: here}}, lost: {{store: lake}}, live: {{url: "http://127.0.0.1:1"}}}}
mirrors:
- {{name: orders, source: {{cluster: east, topics: [orders]}}, destinations: [{{type: archive, store: lake}}]}}
"""
    )
    return load_configuration(file)


def written(spark: Any, config: Configuration, query: str, form: str) -> bytes:
    target = io.BytesIO()
    write_rows(run_query(spark, config, prepare(config, query)), form, target)
    return target.getvalue()


def test_values_are_decoded_by_the_archived_schemas_that_their_ids_name(spark: Any, config: Configuration) -> None:
    def rows(query: str, schemas: str = "kept") -> list[Any]:
        target = io.BytesIO()
        write_rows(run_query(spark, config, prepare(config, query), schemas=schemas), "json", target)
        return [json.loads(line) for line in target.getvalue().splitlines()]

    assert rows(DECODED_QUERY) == DECODED_ROWS
    assert rows("select decoded(value) as v from lake.bills where offset = 2") == [{"v": None}]
    with pytest.raises(QueryError, match="no schema with id 9 of registry kept"):
        rows("select decoded(value) from lake.bills where offset = 5")
    for schemas, said in {
        "lost": "holds no schemas of a registry lost",
        "live": "is not in an archive",
        "none": "has no registry `none`",
    }.items():
        with pytest.raises(ConfigurationError, match=said):
            rows("select 1", schemas=schemas)


def test_a_value_that_is_nested_too_deep_ends_no_worker(spark: Any, tmp_path: Path) -> None:
    write_trees(tmp_path / "deep", levels=(3, 5_000, 100_000))
    file = tmp_path / "deep.yaml"
    file.write_text(
        f"stores: {{deep: {{type: filesystem, root: {tmp_path / 'deep'}}}}}\n"
        "registries: {kept: {store: deep, registry: here}}\n"
        "mirrors: [{name: t, source: {store: deep, topics: [trees]}, destinations: [{type: kafka, cluster: west}]}]\n"
        'clusters: {west: {bootstrap-servers: "127.0.0.1:1"}}\n'
    )
    deep = load_configuration(file)

    def rows(query: str) -> list[Any]:
        target = io.BytesIO()
        write_rows(run_query(spark, deep, prepare(deep, query), schemas="kept"), "json", target)
        return [json.loads(line) for line in target.getvalue().splitlines()]

    assert rows("select offset, try_decoded(value) as v from deep.trees order by offset") == [
        {"offset": 0, "v": '{"n": {"n": {"n": null}}}'},
        {"offset": 1, "v": None},
        {"offset": 2, "v": None},
    ]
    with pytest.raises(QueryError, match=r"schema id 7, of 5005 bytes, cannot be decoded: .* deeper than 500 levels"):
        rows("select decoded(value) from deep.trees where offset = 1")


def test_a_worker_that_died_is_told_as_the_reason(spark: Any) -> None:
    def die(_: int) -> str:
        os._exit(7)

    spark.udf.register("die", die, "string")
    with pytest.raises(QueryError, match=r"a task failed \d times, the last time with Python worker exited"):
        write_rows(spark.sql("select die(id) from range(1)"), "json", io.BytesIO())


def test_a_query_reads_the_columns_it_needs_and_writes_its_rows_in_every_format(
    spark: Any, config: Configuration
) -> None:
    count = run_query(spark, config, prepare(config, "select count(*) from lake.orders where offset >= 20"))
    assert [
        column for column in SPARK_TYPES if re.search(rf"\b{column}#", str(count._jdf.queryExecution().optimizedPlan()))
    ] == ["offset"]
    shared = "with t as (select * from lake.orders) select count(*) n from t a join t b on a.offset = b.offset"
    narrowed = f"{shared} where a.partition = 0 and b.partition = 1 and b.offset < 5"
    assert written(spark, config, narrowed, "json") == b'{"n": 5}\n'
    both = "select o.partition, o.value from lake.orders o join (select max(offset) m from lake.orders) on o.offset = m"

    assert written(spark, config, both, "json") == b'{"partition": 0, "value": "dmFsdWUgOTk="}\n'
    assert written(spark, config, both, "csv") == b"partition,value\n0,dmFsdWUgOTk=\n"
    assert written(spark, config, both, "table") == b"partition  value\n---------  --------\n0          value 99\n"
    first = "select timestamp from lake.orders where offset = 0 and partition = 1"
    assert written(spark, config, first, "json") == b'{"timestamp": "2023-11-14T22:13:20+00:00"}\n'
    whole = pq.read_table(io.BytesIO(written(spark, config, "select * from lake.orders where offset < 2", "parquet")))
    assert whole.column_names == list(SPARK_TYPES)
    assert sorted(whole["value"].to_pylist()) == [b"value 0", b"value 0", b"value 1", b"value 1"]


def test_what_writes_or_runs_something_is_refused_before_it_does(
    spark: Any, config: Configuration, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "precious").write_text("the only copy")
    target = f"directory '{kept}' using parquet"
    for query, why in (
        (
            f"with a as (select key from lake.orders) insert overwrite {target} select * from a",
            "insert overwrite directory",
        ),
        (f"with a as (select 1 as x) insert overwrite {target} select * from a", "insert overwrite directory"),
        (f"from lake.orders insert overwrite {target} select key", "insert overwrite directory"),
        (f"explain with a as (select 1) insert overwrite {target} select * from a", "insert overwrite directory"),
        ("with a as (select 1 as x) insert into t select * from a", "an `insert`"),
        ("with a as (select 1 as x) insert into identifier('t' || 'u') select * from a", ""),
        (f"select transform(key) using 'touch {kept}/ran' from lake.orders", "starts a program"),
        ("select x from (select transform(key) using 'cat' as x from lake.orders)", "starts a program"),
        (f"select reflect('java.lang.System', 'setProperty', 'ran', '{kept}')", "call what they like"),
        ("select * from lake.orders where 'a' = try_reflect('java.lang.System', 'lineSeparator')", "what they like"),
        ("select * from values (1) t(x) where exists (select java_method('java.lang.System', 'gc'))", "what they like"),
        ("select identifier('ref' || 'lect')('java.lang.System', 'setProperty', 'ran', 'x')", "what they like"),
    ):
        with pytest.raises(QueryError) as error:
            written(spark, config, query, "json")
        assert why in error.value.message, query
    assert [path.name for path in kept.iterdir()] == ["precious"]
    assert spark.sparkContext._jvm.java.lang.System.getProperty("ran") is None
    assert written(spark, config, "select identifier('up' || 'per')('a') as x", "json") == b'{"x": "A"}\n'


def test_topics_that_differ_in_case_alone_are_read_each_by_itself(
    spark: Any, config: Configuration, lake: Path
) -> None:
    write_archive(lake, "Orders", 0, 3)
    try:
        query = "select (select count(*) from lake.Orders) as few, (select count(*) from lake.orders) as many"
        assert written(spark, config, query, "json") == b'{"few": 3, "many": 117}\n'
    finally:
        shutil.rmtree(lake / "Orders")


def test_a_plan_is_that_of_the_query_and_written_as_it_is(spark: Any, config: Configuration) -> None:
    query = prepare(config, "explain extended select value from lake.orders where partition = 1")
    assert (query.explain, run_query(spark, config, query).columns) == ("explain extended", ["plan"])
    target = io.BytesIO()
    write_rows(run_query(spark, config, query), "text", target)
    scan = next(line for line in target.getvalue().decode().splitlines() if "BatchScan" in line)
    assert re.findall(r"\b(partition|offset|value|key)#", scan) == ["partition", "value"]


def test_times_beyond_python_are_right_or_an_error_in_every_format(spark: Any, config: Configuration) -> None:
    late = "select timestamp_millis(1700000000000000) as t, timestamp_millis(0) as u, cast(null as timestamp) as v"
    text = "+55840-11-08T22:13:20+00:00"

    assert written(spark, config, late, "json").decode() == (
        f'{{"t": "{text}", "u": "1970-01-01T00:00:00+00:00", "v": null}}\n'
    )
    assert written(spark, config, late, "csv").decode().splitlines()[1] == f"{text},1970-01-01T00:00:00+00:00,"
    assert text in written(spark, config, late, "table").decode()
    table = pq.read_table(io.BytesIO(written(spark, config, late, "parquet")))
    assert table.schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert [table[name].cast(pa.int64()).to_pylist() for name in table.column_names] == [[17 * 10**17], [0], [None]]
    for query in (f"select array(t) as a from ({late})", "select make_date(12000, 1, 1) as d"):
        for form in ("json", "csv", "table", "parquet"):
            with pytest.raises(QueryError, match="Python cannot hold a value") as error:
                written(spark, config, query, form)
            assert "cast others to string" in error.value.hint


class _FullDisk(io.BytesIO):
    def write(self, data: Any, /) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")


@pytest.mark.parametrize("form", ["json", "csv", "table", "parquet"])
def test_a_result_that_was_not_written_whole_leaves_no_connection_to_spark(
    spark: Any, config: Configuration, form: str
) -> None:
    """PySpark's own end of it complains, when the error is forgotten long after, that Spark has gone.

    Connections to the gateway do not count: Py4J keeps those for its next calls, and opens one
    more whenever an object is forgotten in the middle of a call.
    """
    gateway = spark.sparkContext._gateway.gateway_parameters.port

    def connections() -> set[tuple[int, Any, Any]]:
        found = psutil.Process().net_connections("all")
        return {(c.fd, c.laddr, c.raddr) for c in found if not (c.raddr and getattr(c.raddr, "port", None) == gateway)}

    rows = run_query(spark, config, prepare(config, "select id, repeat('x', 100) as t from range(0, 100000)"))
    before = connections()
    with pytest.raises(OSError, match="no space left") as full:
        write_rows(rows, form, _FullDisk())
    with pytest.raises(QueryError, match="Python cannot hold") as beyond:
        written(spark, config, "select make_date(2000 + 10 * id, 1, 1) as d from range(0, 1000)", form)

    assert not connections() - before, f"while {full.value} and {beyond.value} are held"


def test_times_inside_of_values_say_their_zone_in_json_and_csv(spark: Any, config: Configuration) -> None:
    moment = "timestamp_millis(0)"
    query = (
        f"select array({moment}, null) as a, map({moment}, array({moment})) as m, "
        f"named_struct('t', {moment}, 'n', timestamp_ntz'2026-01-31 12:00:00') as s"
    )
    utc = "1970-01-01T00:00:00+00:00"

    assert json.loads(written(spark, config, query, "json")) == {
        "a": [utc, None],
        "s": {"t": utc, "n": "2026-01-31T12:00:00"},
        "m": {utc: [utc]},
    }
    (fields,) = csv.DictReader(io.StringIO(written(spark, config, query, "csv").decode()))
    assert [json.loads(fields[name]) for name in "asm"] == [
        [utc, None],
        {"t": utc, "n": "2026-01-31T12:00:00"},
        {utc: [utc]},
    ]
    (row,) = pq.read_table(io.BytesIO(written(spark, config, query, "parquet"))).to_pylist()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert (row["a"], row["s"]["t"], row["m"]) == ([epoch, None], epoch, [(epoch, [epoch])])


def shown_plan(spark: Any, config: Configuration, query: str) -> str:
    return written(spark, config, f"explain {query}", "text").decode()


def test_a_count_of_an_archive_is_told_by_the_ends_of_its_files(
    spark: Any, config: Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_ends = {
        "select count(*) as n from lake.orders": b'{"n": 117}\n',
        "select topic, partition, count(*) as n from lake.orders group by 1, 2 order by 2": (
            b'{"topic": "orders", "partition": 0, "n": 90}\n{"topic": "orders", "partition": 1, "n": 27}\n'
        ),
        "select a.n * b.n as n from (select count(*) n from lake.orders) a, (select count(*) n from lake.orders) b": (
            b'{"n": 13689}\n'
        ),
        "select distinct topic from lake.orders": b'{"topic": "orders"}\n',
    }
    with monkeypatch.context() as changed:
        changed.delattr(sql, "register")  # the data source is not used, and Spark starts no process for it
        for query, rows in by_ends.items():
            plan = shown_plan(spark, config, query)
            assert ("Range" in plan, "BatchScan" in plan) == (True, False), query
            assert written(spark, config, query, "json") == rows
    filtered = "select count(*) as n from lake.orders where partition = 1"
    assert "BatchScan" in shown_plan(spark, config, filtered), "a filter leaves files out that a count would look at"
    assert written(spark, config, filtered, "json") == b'{"n": 27}\n'
    for limit in ("FILES_MAX", "PARTITIONS_MAX"):
        with monkeypatch.context() as changed:
            changed.setattr(sql_counts, limit, 1)
            query, rows = next(iter(by_ends.items()))
            assert "Range" not in shown_plan(spark, config, query), "it is for tasks to read"
            assert written(spark, config, query, "json") == rows


def test_a_count_whose_store_does_not_answer_ends_when_it_is_told_to(
    spark: Any, config: Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(sql_counts, "planned_archive", lambda _options: answers.wait(60))
    try:
        with pytest.raises(QueryError, match="stopped before the store had answered"):
            run_query(spark, config, prepare(config, "select count(*) from lake.orders"), is_stopping=lambda: True)
    finally:
        answers.set()


def test_a_count_of_a_broken_archive_is_an_error_that_names_the_file(
    spark: Any, config: Configuration, lake: Path
) -> None:
    _, middle, _ = write_archive(lake, "broken", 0, 20, 40, 60)
    try:
        middle.unlink()
        for query in ("select count(*) from lake.broken", "select max(offset) from lake.broken"):
            with pytest.raises(QueryError, match="leaves a hole after"):
                written(spark, config, query, "json")
    finally:
        shutil.rmtree(lake / "broken")


def test_nothing_is_lost_for_its_name_nor_null_taken_for_empty(spark: Any, config: Configuration) -> None:
    twice = "select a.key, b.key from lake.orders a join lake.orders b on a.offset = b.offset and a.offset = 1"
    for form in ("json", "parquet"):
        with pytest.raises(QueryError, match="are called key"):
            written(spark, config, twice, form)
    empty = "select '' as a, cast(null as string) as b, map(cast('k' as binary), cast('' as binary)) as c"
    assert written(spark, config, empty, "csv") == b'a,b,c\n"",,"{""aw=="": """"}"\n'
    (row,) = pq.read_table(io.BytesIO(written(spark, config, empty, "parquet"))).to_pylist()
    assert row == {"a": "", "b": None, "c": [(b"k", b"")]}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select nothing from lake.orders", "nothing"),
        ("select * from lake.order", "the archive has no topic 'order' (did you mean `orders`?)"),
        ("select * form lake.orders", "Syntax error at or near"),
    ],
)
def test_what_is_wrong_with_a_query_is_told_in_one_line(
    spark: Any, config: Configuration, query: str, told: str
) -> None:
    with pytest.raises(QueryError) as error:
        written(spark, config, query, "json")

    assert told in error.value.message
    assert "\n" not in error.value.message


def test_the_examples_of_the_page_run(spark: Any, lake: Path, tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    names: dict[str, Any] = {"spark": spark}
    for code in examples:
        for shown, meant in (("file:///var/lib/mirrorlake", lake.as_uri()), ('"/data', f'"{tmp_path}')):
            code = code.replace(shown, meant)
        exec(code, names)
    assert names["orders"].count() == 117
    assert dict(names["live"].dtypes) == SPARK_TYPES
    names["query"].processAllAvailable()
    names["query"].stop()
    assert spark.read.parquet(f"{tmp_path}/orders").count() == 117
