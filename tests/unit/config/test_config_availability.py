"""What this version cannot do is refused by name, beside all other problems, in both forms."""

import pytest

from mirrorlake.config.availability import EACH, UNAVAILABLE
from unit.config.config_texts import archive, kafka, load, messages, v3

FLUSH = "flush: {max-time-ms: 1, max-bytes: 1, max-offsets: 1}"
MIRROR = "- {name: m, source: {bootstrap-servers: e}, topic: t, partition: 0}"
LAKE = "type: filesystem, root: /lake"
EAST = '"east:9092"'


def stores(text: str) -> str:
    """Returns a file whose store is of another type."""
    return archive().replace("{type: filesystem, root: /lake}", text)


def properties(text: str) -> str:
    """Returns a file whose cluster east has properties."""
    return kafka().replace(EAST, f"{EAST}, properties: {{{text}}}")


CASES = [
    (kafka() + "service: {control: '127.0.0.1:8080'}\n", "service.control: `control`"),
    (properties("linger.ms: 5"), 'clusters.east.properties["linger.ms"]: `linger.ms`'),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_feature_that_is_not_there_is_refused_by_name_and_alone(text: str, expected: str) -> None:
    lines = messages(text)
    assert [line.split(" (")[0] for line in lines] == [f"{expected} is not available in this version"]
    assert lines[0].endswith(")"), "a remedy is missing"


def test_every_row_of_the_table_has_a_case() -> None:
    refused = "\n".join(expected for _, expected in CASES)
    for row in UNAVAILABLE:
        where = ".".join(row.where).replace(f".{EACH}", "[0]")
        assert f"{where}: `{row.where[-1]}`" in refused


@pytest.mark.parametrize(
    "text",
    [
        kafka(destination=", gap-fill: refuse, offsets: preserve, timestamp-mode: source"),
        kafka(destination=", timestamp-mode: destination"),
        v3("{type: kafka, bootstrap-servers: w, timestamp-mode: destination}", MIRROR),
        kafka(destination=", gap-fill: filler, gap-fill-max-offsets: 1000000000"),
        kafka(source=", start: earliest"),
        kafka(destination=", offsets: map"),
        kafka(source=", start: latest", destination=", offsets: map"),
        kafka(source=", start: {timestamp: 2026-01-31T00:00:00Z}", destination=", offsets: map"),
        kafka(source=", start: {offsets: {orders: {0: 5}}}", destination=", offsets: map"),
        kafka().replace("source: {cluster: east", "source: {store: lake"),
        archive(", format: ndjson"),
        archive(", format: log"),
        v3(f"{{{LAKE}, format: ndjson, compression: snappy, {FLUSH}}}", MIRROR),
        stores("{type: s3, bucket: b, region: r}"),
        stores("{type: gcs, bucket: b}"),
        stores("{type: azure, account: a, container: c}"),
        v3(f"{{type: s3, region: r, bucket: b, {FLUSH}}}", MIRROR),
        archive(", format: parquet, compaction: none, flush: {daily: null}"),
        archive(", compaction: log"),
        v3(f"{{{LAKE}, compaction: log, {FLUSH}}}", MIRROR),
        v3(f"{{{LAKE}, {FLUSH}}}", MIRROR.replace("topic: t", "topic: t, compaction: log")),
        archive(", flush: {daily: {at-utc: '00:30'}}"),
        v3(f"{{{LAKE}, {FLUSH[:-1]}, daily: {{at-utc: 00:00:00}}}}}}", MIRROR),
        kafka() + "service: {control: off}\nengine: {master: null}\n",
        properties("security.protocol: PLAINTEXT"),
    ],
)
def test_what_works_may_be_written_out(text: str) -> None:
    assert len(load(text).mirrors) == 1


def test_refusals_come_together_with_other_problems() -> None:
    text = kafka(destination=", flush: {daily: null}, creat-topics: true") + "service: {control: 'h:1'}\n"
    assert [line.split(":")[0] for line in messages(text)] == [
        "mirrors[0].destinations[0].flush",
        "mirrors[0].destinations[0].creat-topics",
        "service.control",
    ]
