from pathlib import Path

import pytest

from mirrorlake.config.destinations.archive import ArchiveDestination, ArchiveFormat, Flush
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.process_settings import ListenAddress, OnPark
from mirrorlake.config.resolved import Form
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.page_compression import Compression
from mirrorlake.stores.settings import FilesystemSettings
from unit.config.config_texts import load, messages, refusals, v3

KAFKA = "{type: kafka, bootstrap-servers: west}"
FLUSH = "flush: {max-time-ms: 5000, max-bytes: 67108864, max-offsets: 18446744073709551615}"
FILES = f"{{type: filesystem, root: /lake, {FLUSH}}}"
S3 = f"{{type: s3, region: eu, bucket: b, {FLUSH}}}"
TWO = """
    - {name: p0, source: {bootstrap-servers: "east:9092"}, topic: orders, partition: 0}
    - name: p1
      source: {bootstrap-servers: "east:9092", group-id: mine}
      topic: orders
      partition: 1
      destination-name-override: copy
    """


def test_a_kafka_destination_is_shared_by_all_mirrors() -> None:
    configuration = load(v3(KAFKA, TWO))
    first, second = configuration.mirrors
    west = first.destinations[0]
    assert configuration.form is Form.MIRROR_V3
    assert configuration.destination_types == ("kafka",)
    assert isinstance(west, KafkaDestination)
    assert west.cluster.settings.bootstrap_servers == ("west:9092",)
    assert first.source.topics == TopicSelection(names=("orders",))
    assert (first.source.partitions, second.source.partitions) == ((0,), (1,))
    assert isinstance(first.source, KafkaSource)
    assert isinstance(second.source, KafkaSource)
    assert (first.source.group_id, second.source.group_id) == ("mirror-v3-p0", "mine")
    assert first.source.cluster is second.source.cluster
    assert [m.destinations[0].name_for("orders") for m in configuration.mirrors] == ["orders", "copy"]
    assert [cluster.name for cluster in configuration.clusters] == ["east:9092", "west:9092"]


def test_a_folder_is_shared_by_all_mirrors() -> None:
    configuration = load(v3(FILES, TWO))
    lake = configuration.mirrors[0].destinations[0]
    assert configuration.destination_types == ("filesystem",)
    assert isinstance(lake, ArchiveDestination)
    assert isinstance(lake.store.settings, FilesystemSettings)
    assert lake.store.settings.root == Path("/lake")
    assert (lake.format, lake.compression) == (ArchiveFormat.PARQUET, Compression.ZSTD_1)
    # 2**64 - 1 switches a trigger off there; it becomes the largest 64 bit signed number.
    assert lake.flush == Flush(bytes_max=67_108_864, records_max=9_223_372_036_854_775_807, time_seconds_max=5.0)


def test_the_process_wide_defaults_are_those_of_mirror_v3() -> None:
    configuration = load(v3(KAFKA, TWO))
    assert configuration.on_park is OnPark.EXIT
    assert configuration.service.metrics == ListenAddress(host="0.0.0.0", port=9090)
    assert configuration.service.heartbeat_seconds == 30.0


def test_the_native_forms_settings_of_the_process_may_stand_beside() -> None:
    text = v3(KAFKA, TWO) + "engine: {lanes: 3}\nservice: {metrics: off}\non-park: continue\n"
    configuration = load(text, MIRROR_V3_METRICS_PORT="9191")
    assert (configuration.engine.lanes, configuration.service.metrics) == (3, None)
    assert configuration.on_park is OnPark.CONTINUE


def test_no_mirrors_are_valid_but_cannot_run() -> None:
    configuration = load(v3(KAFKA, "[]"))
    assert configuration.destination_types == ("kafka",)
    assert configuration.refusal_to_run == "no mirrors configured"


def test_null_stands_for_what_is_left_out() -> None:
    source = "source: {bootstrap-servers: e, group-id: null}"
    mirror = f"- {{name: m, {source}, topic: t, partition: 0, destination-name-override: ~}}"
    configuration = load(v3(KAFKA, mirror))
    assert configuration.mirrors[0].destinations[0].name_for("t") == "t"


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        ("{type: gcs}", "destination.type: expected one of kafka, filesystem, s3, found `gcs`"),
        ("{bootstrap-servers: w}", "destination.type: is required (one of kafka, filesystem, s3)"),
        ("5", "destination: expected a mapping, found the number 5"),
        ("{type: kafka}", "destination.bootstrap-servers: is required"),
        ("{type: kafka, bootstrap-servers: w, root: /x}", "destination.root: is not a known field"),
        ("{type: kafka, bootstrap-servers: w, flush: {}}", "destination.flush: is not a known field"),
        ("{type: filesystem, root: /x}", "destination.flush: is required"),
        (f"{{type: filesystem, root: x, {FLUSH}}}", "destination.root: `x` is a relative path"),
        (f"{{type: filesystem, {FLUSH}}}", "destination.root: is required"),
        (
            "{type: filesystem, root: /x, flush: {max-bytes: 1, max-offsets: 1}}",
            "destination.flush.max-time-ms: is required",
        ),
        (
            "{type: filesystem, root: /x, flush: {max-bytes: 1, max-offsets: 1, max-time-ms: 0}}",
            "destination.flush.max-time-ms: expected a whole number at least 1, found the number 0",
        ),
        (
            "{type: filesystem, root: /x, flush: {max-bytes: 1MiB, max-offsets: 1, max-time-ms: 1}}",
            "destination.flush.max-bytes: expected a whole number, found `1MiB`",
        ),
        (f"{{type: filesystem, root: /x, compression: zstd, {FLUSH}}}", "destination.compression: expected zstd-1"),
        (f"{{type: filesystem, root: /x, format: parqet, {FLUSH}}}", "destination.format: expected parquet"),
        (f"{{type: s3, bucket: b, {FLUSH}}}", "destination.region: is required"),
        (f"{{type: s3, region: eu, {FLUSH}}}", "destination.bucket: is required"),
        (
            f"{{type: s3, region: eu, bucket: b, endpoint: here, {FLUSH}}}",
            "destination.endpoint: `here` is not an http",
        ),
        (
            f"{{type: s3, region: eu, bucket: b, prefix: a/../b, {FLUSH}}}",
            "destination.prefix: `a/../b` cannot be a prefix",
        ),
    ],
)
def test_a_wrong_destination_is_refused_where_it_stands(destination: str, expected: str) -> None:
    assert [line for line in messages(v3(destination, TWO)) if line.startswith(expected)] != []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("partition: 0}", "}", "mirrors[0].partition: is required"),
        ("partition: 0}", "partition: -1}", "mirrors[0].partition: expected a whole number from 0 to 2147483647"),
        ("partition: 0}", "partition: all}", "mirrors[0].partition: expected a whole number, found `all`"),
        ("topic: orders, ", "", "mirrors[0].topic: is required"),
        ("topic: orders, ", "topic: __x, ", "mirrors[0].topic: `__x` cannot be mirrored"),
        ("topic: orders, ", "topic: a/b, ", "mirrors[0].topic: `a/b` cannot be mirrored"),
        ("name: p0", "name: p1", "mirrors[1].name: the name `p1` is taken, on line 3"),
        ("override: copy", "override: ../etc", "mirrors[1].destination-name-override: `../etc` cannot be"),
        ("override: copy", "override: ..", "mirrors[1].destination-name-override: `..` cannot be"),
        ("override: copy", "override: /etc", "mirrors[1].destination-name-override: `/etc` cannot be"),
        ("override: copy", "override: a b", "mirrors[1].destination-name-override: topic orders would become `a b`"),
        ("override: copy", "overide: copy", "mirrors[1].destination-name-overide: is not a known field"),
        ('bootstrap-servers: "east:9092"}', "group-id: g}", "mirrors[0].source.bootstrap-servers: is required"),
        (
            "partition: 0}",
            "partition: 0, compaction: log}",
            "mirrors[0].compaction: `compaction: log` needs an archive",
        ),
    ],
)
def test_a_wrong_mirror_is_refused_where_it_stands(old: str, new: str, expected: str) -> None:
    text = v3(KAFKA, TWO)
    assert old in text
    assert [line for line in messages(text.replace(old, new, 1)) if line.startswith(expected)] != []


def test_a_folder_may_have_a_name_no_topic_could_have() -> None:
    configuration = load(v3(FILES, TWO.replace("override: copy", "override: a b")))
    assert configuration.mirrors[1].destinations[0].name_for("orders") == "a b"


def test_one_partition_to_one_name_twice_is_refused_with_both_places() -> None:
    mirrors = TWO.replace("partition: 1", "partition: 0").replace("destination-name-override: copy", "")
    lines = messages(v3(FILES, mirrors))
    assert lines == [
        "mirrors[1]: mirror p1 (topic orders) writes folder orders of store destination, partition 0, as does "
        "mirror p0 (topic orders) at c.yaml:3: mirrors[0] "
        "(give one of them another destination, or other partitions)"
    ]


def test_another_topic_under_the_same_name_is_refused() -> None:
    mirrors = TWO.replace("topic: orders\n", "topic: copy\n").replace(
        "topic: orders, partition: 0", "topic: copy, partition: 1"
    )
    assert len(messages(v3(FILES, mirrors))) == 1


def test_a_mirror_onto_its_own_topic_is_refused() -> None:
    lines = messages(v3("{type: kafka, bootstrap-servers: 'other:9092,EAST:9092'}", TWO))
    assert [line.split(" (give")[0] for line in lines] == [
        "mirrors[0]: mirror p0 (topic orders) writes topic orders of cluster other:9092,east:9092, the topic it reads"
    ]


def test_a_forgotten_destination_is_what_gets_reported() -> None:
    text = v3(KAFKA, TWO).replace("destination:", "destinaton:", 1)
    assert messages(text) == [
        "destination: is required (add it; `mirrorlake config schema` describes it)",
        "destinaton: is not a known field (did you mean `destination`?)",
    ]


def test_a_file_of_a_later_mirror_v3_is_refused_as_what_it_is_and_with_nothing_beside_it() -> None:
    """Its mirrors have `destinations` of their own; what follows from reading it as the older form helps nobody."""
    text = """
    mirrors:
      - name: operations
        source: {bootstrap-servers: "kafka-source:9092"}
        topic: operations-v1
        partition: 0
        destinations:
          - {type: kafka, bootstrap-servers: "redpanda:9092"}
        http-access: {cache-v1: {}}
    """
    assert refusals(text) == [
        "7: mirrors[0].destinations: is of a later mirror-v3, whose files are not read here "
        "(write one `destination` at the root, or `clusters` and the native form)"
    ]


def test_the_forms_cannot_be_mixed() -> None:
    text = v3(KAFKA, TWO) + "clusters: {}\n"
    assert messages(text) == [
        "clusters: is not a known field (`destination` at the root makes this the mirror-v3 form)"
    ]


def test_what_errors_name_as_remedies_can_be_had_at_the_root_for_all_mirrors() -> None:
    plain = load(v3(FILES, TWO)).mirrors
    chosen = load(v3(FILES, TWO) + "on-truncation: skip\non-recreate: new-topic\n").mirrors
    assert {(m.on_truncation, m.on_recreate) for m in plain} == {("park", "park")}
    assert {(m.on_truncation, m.on_recreate) for m in chosen} == {("skip", "new-topic")}
    assert messages(v3(FILES, TWO) + "on-truncation: jump\n") == ["on-truncation: expected park or skip, found `jump`"]


def test_a_name_of_several_folders_is_taken_where_an_archive_may_have_it() -> None:
    def named(name: str) -> str:
        return TWO.replace("destination-name-override: copy", f"destination-name-override: {name}")

    nested = load(v3(FILES, named("team/orders"))).mirrors[1].destinations[0]
    assert nested.name_for("orders") == "team/orders"
    for name in ("team/0", "team/_meta", "_own/orders", "team//orders", "team/", "team/../orders", "team/."):
        (line,) = messages(v3(FILES, named(name)))
        assert line.startswith(f"mirrors[1].destination-name-override: `{name}` cannot be a destination's name"), line
    (line,) = messages(v3(KAFKA, named("team/orders")))
    assert line.startswith("mirrors[1].destination-name-override: topic orders would become `team/orders`")
