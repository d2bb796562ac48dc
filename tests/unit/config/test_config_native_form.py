import pickle
from datetime import time
from pathlib import Path

import pytest

from mirrorlake.config.destinations.archive import ArchiveDestination, ArchiveFormat, Compaction, Flush
from mirrorlake.config.destinations.archive_form import FlushForm
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode, TimestampMode
from mirrorlake.config.loading import available_cores
from mirrorlake.config.process_settings import ListenAddress, OnPark
from mirrorlake.config.resolved import Form, LostTailPolicy, RecreationPolicy, TruncationPolicy
from mirrorlake.config.section import Section
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.topics.policy import CountRule
from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.offsets import GapFill, StartKind
from mirrorlake.page_compression import Compression
from mirrorlake.stores.settings import FilesystemSettings
from unit.config.config_texts import archive, kafka, load, messages, native, refusals

FULL = """
clusters:
  east:
    bootstrap-servers: ["East-1:9092", "east-2:9093"]
    properties: {client.id: copier, request.timeout.ms: 20000, fetch.max.wait.ms: "250", fetch.min.bytes: 1}
  west: {bootstrap-servers: "west-1:9092, west-2:9092"}
stores:
  lake: {type: filesystem, root: /var/lake/}
mirrors:
  - name: orders
    source:
      cluster: east
      topics: [orders, "/payments-.*/"]
      exclude: ["/.*-tmp/", scratch]
      partitions: [3, 0]
      start: earliest
    destinations:
      - {type: kafka, cluster: west, topic: "{cluster}.{mirror}.{topic}", create-topics: true, replication-factor: 3}
      - type: archive
        store: lake
        name: "{cluster}-{topic}"
        compression: zstd-3
        flush: {max-bytes: 64kB, max-records: 10, max-time: 250ms}
    enabled: false
engine: {lanes: 2, lease: 2s, memory: 1GiB, batch-slots: 0}
service: {metrics: "[::1]:9090", heartbeat: off}
on-park: exit
"""


def test_every_available_setting_of_the_native_form_arrives() -> None:
    configuration = load(FULL)
    east, west = configuration.clusters
    reached = east.settings
    mirror = configuration.mirrors[0]
    copy, lake = mirror.destinations
    assert configuration.form is Form.NATIVE
    assert (east.name, reached.bootstrap_servers) == ("east", ("east-1:9092", "east-2:9093"))
    assert (reached.client_id, reached.request_timeout_seconds, reached.connect_timeout_seconds) == (
        "copier",
        20.0,
        10.0,
    )
    assert (reached.fetch_wait_seconds_max, reached.fetch_bytes_min, reached.fetch_bytes_max) == (0.25, 1, None)
    assert (west.settings.bootstrap_servers, west.settings.client_id) == (
        ("west-1:9092", "west-2:9092"),
        "mirrorlake",
    )
    assert isinstance(mirror.source, KafkaSource)
    assert mirror.source.cluster is east
    assert mirror.source.topics == TopicSelection(
        names=("orders",),
        patterns=("payments-.*",),
        excluded_names=("scratch",),
        excluded_patterns=(".*-tmp",),
    )
    assert (mirror.source.partitions, mirror.source.start.kind) == ((0, 3), StartKind.EARLIEST)
    assert mirror.is_enabled is False
    assert isinstance(copy, KafkaDestination)
    assert (copy.cluster, copy.name_for("orders"), copy.replication_rule) == (
        west,
        "east.orders.orders",
        CountRule(fixed=3),
    )
    assert isinstance(lake, ArchiveDestination)
    assert isinstance(lake.store.settings, FilesystemSettings)
    assert (lake.store.settings.root, lake.name_for("orders")) == (Path("/var/lake"), "east-orders")
    assert lake.compression is Compression.ZSTD_3
    assert lake.flush == Flush(bytes_max=64_000, records_max=10, time_seconds_max=0.25)
    assert configuration.engine.lanes == 2
    assert (configuration.engine.lease_seconds, configuration.engine.memory_bytes) == (2.0, 2**30)
    assert configuration.engine.batch_slots == 0
    assert configuration.service.metrics == ListenAddress(host="::1", port=9090)
    assert configuration.service.heartbeat_seconds is None
    assert configuration.on_park is OnPark.EXIT
    assert configuration.destination_types == ("kafka", "filesystem")


def test_what_is_left_out_has_its_default() -> None:
    configuration = load(
        native("""
            - name: m
              source: {cluster: east, topics: [orders]}
              destinations: [{type: kafka, cluster: west}, {type: archive, store: lake}]
            """)
    )
    mirror = configuration.mirrors[0]
    copy, lake = mirror.destinations
    assert isinstance(copy, KafkaDestination)
    assert isinstance(lake, ArchiveDestination)
    assert (mirror.source.partitions, mirror.is_enabled) == (None, True)
    assert (mirror.on_truncation, mirror.on_recreate) == (TruncationPolicy.PARK, RecreationPolicy.PARK)
    assert mirror.on_lost_tail is LostTailPolicy.PARK
    assert (copy.topic_template, copy.offsets, copy.gap_fill) == ("{topic}", OffsetMode.PRESERVE, GapFill.MARKERS)
    assert copy.gap_fill_offsets_max == 100_000_000
    assert (copy.timestamp_mode, copy.creates_topics, copy.replication_rule) == (TimestampMode.SOURCE, True, None)
    assert (lake.format, lake.compression, lake.compaction) == (
        ArchiveFormat.PARQUET,
        Compression.ZSTD_1,
        Compaction.NONE,
    )
    assert lake.flush == Flush(bytes_max=134_217_728, records_max=1_000_000, time_seconds_max=60.0)
    assert (configuration.engine.lanes, configuration.engine.lease_seconds) == (available_cores(), 5.0)
    assert (configuration.engine.memory_bytes, configuration.engine.batch_slots) == (2_147_483_648, 1)
    assert (configuration.service.metrics, configuration.service.control) == (None, None)
    assert configuration.service.heartbeat_seconds == 30.0
    assert configuration.on_park is OnPark.CONTINUE
    assert configuration.refusal_to_run is None


def test_the_configuration_travels_pickled() -> None:
    configuration = load(FULL)
    assert pickle.loads(pickle.dumps(configuration)) == configuration


def test_places_lead_back_to_the_file() -> None:
    mirror = load(FULL).mirrors[0]
    assert str(mirror.place) == "c.yaml:10: mirrors[0]"
    assert str(mirror.destinations[1].place) == "c.yaml:19: mirrors[0].destinations[1]"


def test_numbers_and_booleans_may_come_from_the_environment() -> None:
    text = FULL.replace("lanes: 2", 'lanes: "${LANES}"').replace("enabled: false", "enabled: ${ON:-true}")
    configuration = load(text, LANES="7")
    assert (configuration.engine.lanes, configuration.mirrors[0].is_enabled) == (7, True)


def test_a_number_from_the_environment_that_is_none_is_refused_without_its_content() -> None:
    text = FULL.replace("lanes: 2", 'lanes: "${LANES}"')
    assert messages(text, LANES="hunter2") == [
        "engine.lanes: expected a whole number, found the value of ${LANES} "
        "(write digits alone, without quotes, unit or point)"
    ]


def test_a_variable_that_is_not_set_is_reported_once() -> None:
    text = FULL.replace("lanes: 2", 'lanes: "${LANES}"').replace("[3, 0]", "['${P}']")
    assert [line.split(" (")[0] for line in messages(text)] == [
        "mirrors[0].source.partitions[0]: the environment variable P is not set",
        "engine.lanes: the environment variable LANES is not set",
    ]


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = """
        clusters:
          east: {bootstrap-server: "east:9092"}
        mirrors:
          - name: "no good"
            source: {cluster: east, topics: orders}
            destinations:
              - {type: kafka, cluster: wset, offsets: keep}
              - {type: archive, store: lake, flush: {max-bytes: 0, max-time: 5}}
        engine: 5
        on-park: never
        """
    assert refusals(text) == [
        "3: clusters.east.bootstrap-servers: is required (add it; `mirrorlake config schema` describes it)",
        "3: clusters.east.bootstrap-server: is not a known field (did you mean `bootstrap-servers`?)",
        "5: mirrors[0].name: `no good` cannot be a name "
        "(up to 120 letters, digits, `.`, `_` and `-`, the first no `.` and no `-`)",
        "6: mirrors[0].source.topics: expected a list, found `orders` (put it in [ ], several separated by commas)",
        "8: mirrors[0].destinations[0].cluster: there is no cluster `wset` (known here: east)",
        "8: mirrors[0].destinations[0].offsets: expected preserve or map, found `keep`",
        "9: mirrors[0].destinations[1].store: there is no store `lake` (the file has no stores)",
        "9: mirrors[0].destinations[1].flush.max-bytes: expected a size at least 1B, found the number 0",
        "9: mirrors[0].destinations[1].flush.max-time: expected a duration, found the number 5 "
        "(a unit is missing: ms, s, m, h or d)",
        "10: engine: expected a mapping, found the number 5",
        "11: on-park: expected continue or exit, found `never`",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (kafka(topics="[a/b]"), "mirrors[0].source.topics[0]: `a/b` cannot be mirrored"),
        (kafka(topics="['..']"), "mirrors[0].source.topics[0]: `..` cannot be mirrored"),
        (kafka(topics="[" + "x" * 250 + "]"), "mirrors[0].source.topics[0]: `xxx"),
        (kafka(topics="[__consumer_offsets]"), "mirrors[0].source.topics[0]: `__consumer_offsets` cannot be mirrored"),
        (kafka(topics="['/(/']"), "mirrors[0].source.topics[0]: `/(/` is not a regular expression"),
        (kafka(topics="['/a{99999999999}/']"), "mirrors[0].source.topics[0]: `/a{99999999999}/` is not a regular"),
        (kafka(topics="['/[[a]/']"), "mirrors[0].source.topics[0]: `/[[a]/` is not a regular expression"),
        (kafka(topics="['/orders']"), "mirrors[0].source.topics[0]: `/orders` is neither a topic nor an expression"),
        (kafka(topics="[5]"), "mirrors[0].source.topics[0]: expected text, found the number 5 (put it in quotes)"),
        (kafka(topics="[]"), "mirrors[0].source.topics: names no topic"),
        (kafka(topics="[a, b, a]"), "mirrors[0].source.topics[2]: `a` is listed twice"),
        (kafka(source=", exclude: [orders]"), "mirrors[0]: topic orders is named and excluded at once"),
        (kafka(source=", partitions: 0"), "mirrors[0].source.partitions: expected all or a list of partitions"),
        (kafka(source=", partitions: [-1]"), "mirrors[0].source.partitions: expected a whole number from 0"),
        (kafka(source=", partitions: [1, 1]"), "mirrors[0].source.partitions: names a partition twice"),
        (kafka(source=", partitions: [true]"), "mirrors[0].source.partitions: expected a whole number, found `true`"),
        (kafka(destination=", cluster: 5"), "mirrors[0].destinations[0].cluster: is there twice"),
        (kafka(destination=", topic: 'a/b'"), "mirrors[0].destinations[0].topic: `a/b` cannot be a destination's name"),
        (
            kafka(destination=", topic: '{topik}'"),
            "mirrors[0].destinations[0].topic: the placeholder {topik} is not known",
        ),
        (kafka(destination=", topic: '{topic'"), "mirrors[0].destinations[0].topic: `{topic` has a brace without"),
        (kafka(destination=", topic: 'a b'"), "mirrors[0].destinations[0]: topic orders would become `a b`"),
        (kafka(destination=", topic: '__{topic}'"), "mirrors[0].destinations[0]: topic orders would become `__orders`"),
        (
            kafka(destination=", topic: '" + "x" * 245 + "{topic}'"),
            "mirrors[0].destinations[0]: topic orders would become",
        ),
        (
            kafka(destination=", replication-factor: 0"),
            "mirrors[0].destinations[0].replication-factor: expected a whole",
        ),
        (
            kafka(destination=", create-topics: false, replication-factor: 3"),
            "mirrors[0].destinations[0].replication-factor: has no meaning with `create-topics: false`",
        ),
        (
            kafka(destination=", create-topics: yes"),
            "mirrors[0].destinations[0].create-topics: expected never, like-source or rules",
        ),
        (
            archive(", name: '../{topic}'"),
            "mirrors[0].destinations[0].name: `../{topic}` cannot be a destination's name",
        ),
        (archive(", name: '..'"), "mirrors[0].destinations[0].name: `..` cannot be a destination's name"),
        (archive(", name: /etc"), "mirrors[0].destinations[0].name: `/etc` cannot be a destination's name"),
        (archive(", flush: {max-records: 0}"), "mirrors[0].destinations[0].flush.max-records: expected a whole number"),
        (
            archive(", flush: {max-time: 0s}"),
            "mirrors[0].destinations[0].flush.max-time: expected a duration from 100ms",
        ),
        (
            archive(", flush: {max-offsets: 5}"),
            "mirrors[0].destinations[0].flush.max-offsets: is not a known field (did you mean `max-records`?)",
        ),
        (archive(", flush: {max-bytes: -1}"), "mirrors[0].destinations[0].flush.max-bytes: expected a size"),
        (archive(", format: csv"), "mirrors[0].destinations[0].format: expected parquet or ndjson or log, found `csv`"),
        (archive(", format: parqet"), "mirrors[0].destinations[0].format: expected parquet or ndjson or log"),
        (archive(", compression: zstd"), "mirrors[0].destinations[0].compression: expected zstd-1 or zstd-3 or"),
        (
            archive(", format: ndjson, compression: lz4"),
            "mirrors[0].destinations[0].compression: has no meaning with `format: ndjson`",
        ),
        (
            archive(", format: ndjson, compaction: log"),
            "mirrors[0].destinations[0]: `compaction: log` cannot be had with `format: ndjson`",
        ),
        (
            archive(", flush: {daily: {at-utc: '24:00'}}"),
            "mirrors[0].destinations[0].flush.daily.at-utc: at-utc out of",
        ),
        (
            archive(", flush: {daily: {at-utc: midnight}}"),
            "mirrors[0].destinations[0].flush.daily.at-utc: at-utc must be",
        ),
        (
            archive(", flush: {daily: 5}"),
            "mirrors[0].destinations[0].flush.daily: expected a mapping, found the number 5",
        ),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(text: str, expected: str) -> None:
    assert [line for line in messages(text) if line.startswith(expected)] != []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("root: /lake", "root: lake", "stores.lake.root: `lake` is a relative path"),
        ("root: /lake", "root: /lake/../etc", "stores.lake.root: `/lake/../etc` goes through `..`"),
        ("root: /lake", "rot: /lake", "stores.lake.rot: is not a known field (did you mean `root`?)"),
        ("type: filesystem", "type: filesytem", "stores.lake.type: expected one of filesystem, s3, gcs, azure"),
        ("type: filesystem, ", "", "stores.lake.type: is required (one of filesystem, s3, gcs, azure)"),
        ("{type: filesystem, root: /lake}", "/lake", "stores.lake: expected a mapping, found `/lake`"),
        ("east:9092", "east", "clusters.east.bootstrap-servers: `east` is not host:port"),
        ("east:9092", "east:99999", "clusters.east.bootstrap-servers: `east:99999` is not host:port"),
        ("east:9092", "SSL://east:9092", "clusters.east.bootstrap-servers: `SSL://east:9092` has a scheme"),
        ("east:9092", " , ", "clusters.east.bootstrap-servers: names no server"),
        ('"east:9092"', "9092", "clusters.east.bootstrap-servers: expected text, found the number 9092"),
        (
            "cluster: east",
            "cluster: eas",
            "mirrors[0].source.cluster: there is no cluster `eas` (did you mean `east`?)",
        ),
        (
            "cluster: west",
            "cluster: wst",
            "mirrors[0].destinations[0].cluster: there is no cluster `wst` (did you mean `west`?)",
        ),
        (
            "store: lake",
            "store: laek",
            "mirrors[0].destinations[1].store: there is no store `laek` (did you mean `lake`?)",
        ),
        ("name: m", "name: ../m", "mirrors[0].name: `../m` cannot be a name"),
        ("name: m", "name: " + "m" * 121, "mirrors[0].name: `mmm"),
        ("name: m", "nam: m", "mirrors[0].name: is required"),
        ("name: m", "name: 7", "mirrors[0].name: expected text, found the number 7 (put it in quotes)"),
        ("name: m", "name:", "mirrors[0].name: expected text, found nothing"),
        (
            "destinations:",
            "destination:",
            "mirrors[0].destination: is not a known field (did you mean `destinations`?)",
        ),
        (
            "type: kafka",
            "type: kakfa",
            "mirrors[0].destinations[0].type: expected one of kafka, archive",
        ),
        ("mirrors:", "mirors:", "mirors: is not a known field (did you mean `mirrors`?)"),
        ("mirrors:", "mirors:", "mirrors: is required (add `mirrors:`, and below it each item behind a `- `)"),
    ],
)
def test_a_slip_in_a_file_is_refused_with_a_hint(old: str, new: str, expected: str) -> None:
    text = native("""
        - name: m
          source: {cluster: east, topics: [orders]}
          destinations:
            - {type: kafka, cluster: west}
            - {type: archive, store: lake}
        """)
    changed = text.replace(old, new, 1)
    assert changed != text
    assert [line for line in messages(changed) if line.startswith(expected)] != []


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("engine: {lanes: 0}", "engine.lanes: expected a whole number from 1 to 1024, found the number 0"),
        ("engine: {lanes: two}", "engine.lanes: expected a whole number, found `two`"),
        ("engine: {lanes: 1.5}", "engine.lanes: expected a whole number, found the number 1.5"),
        ("engine: {lease: 1h}", "engine.lease: expected a duration from 100ms to 10m, found `1h`"),
        ("engine: {memory: 1MiB}", "engine.memory: expected a size at least 256MiB, found `1MiB`"),
        ("engine: {lane: 1}", "engine.lane: is not a known field (did you mean `lanes`?)"),
        (
            "service: {metrics: 9090}",
            "service.metrics: expected host:port or off, found the number 9090 (for example 127.0.0.1:9090)",
        ),
        ("service: {metrics: ':9090'}", "service.metrics: `:9090` has no host (127.0.0.1:9090 for this machine alone"),
        ("service: {metrics: here}", "service.metrics: expected host:port or off, found `here`"),
        ("service: {metrics: 'a:70000'}", "service.metrics: `a:70000`: the port is above 65535"),
        ("service: {heartbeat: 1ms}", "service.heartbeat: expected a duration from 1s to 1d, found `1ms`"),
        ("service: []", "service: expected a mapping, found a list"),
        ("on-park: continu", "on-park: expected continue or exit, found `continu` (did you mean `continue`?)"),
    ],
)
def test_engine_and_service_are_checked(section: str, expected: str) -> None:
    lines = messages(kafka() + section + "\n")
    assert [line for line in lines if line.startswith(expected)] == lines
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "c.yaml: holds no configuration"),
        ("# nothing\n", "c.yaml: holds no configuration"),
        ("- a\n", "c.yaml:1: expected a mapping, found a list"),
        ("just text\n", "c.yaml:1: expected a mapping, found `just text`"),
        ("mirrors: []\n", "c.yaml:1: mirrors: no mirrors configured"),
        ("mirrors: 5\n", "c.yaml:1: mirrors: expected a list, found the number 5"),
        ("clusters: []\nmirrors: []\n", "c.yaml:1: clusters: expected a mapping of names, found a list"),
    ],
)
def test_a_file_without_mirrors_is_refused(text: str, expected: str) -> None:
    assert f"c.yaml:{refusals(text)[0]}".startswith(expected)


def test_one_broken_part_does_not_make_references_to_it_wrong() -> None:
    text = kafka().replace('west: {bootstrap-servers: "west:9092"}', "west: {bootstrap-servers: 5}")
    assert [line.split(":")[0] for line in messages(text)] == ["clusters.west.bootstrap-servers"]


def test_two_destinations_on_one_cluster_have_different_labels() -> None:
    configuration = load(
        native("""
            - name: m
              source: {cluster: east, topics: [orders]}
              destinations:
                - {type: kafka, cluster: west, topic: "a.{topic}"}
                - {type: kafka, cluster: west, topic: "b.{topic}"}
                - {type: archive, store: lake}
            """)
    )
    labels = [destination.label for destination in configuration.mirrors[0].destinations]
    assert labels == ["west/a.{topic}", "west/b.{topic}", "lake"]


def test_a_configuration_whose_mirrors_are_all_disabled_says_so() -> None:
    configuration = load(kafka().replace("name: m", "name: m\n    enabled: false"))
    assert configuration.enabled_mirrors == ()
    assert configuration.refusal_to_run == "every mirror is disabled"


def test_a_daily_time_is_read_with_and_without_seconds() -> None:
    form = FlushForm.model_validate({"daily": {"at-utc": "23:59"}})
    assert form.daily is not None
    assert form.daily.at_utc == time(23, 59)
    with_seconds = FlushForm.model_validate({"daily": {"at-utc": "00:00:07"}})
    assert with_seconds.daily is not None
    assert with_seconds.daily.at_utc == time(0, 0, 7)


def test_every_model_refuses_unknown_keys_and_change() -> None:
    models = [Section]
    for model in models:
        models.extend(model.__subclasses__())
    assert len(models) > 20
    assert {(m.model_config["extra"], m.model_config["frozen"]) for m in models} == {("forbid", True)}
