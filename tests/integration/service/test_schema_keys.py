"""Keys that name no schema, beside values that do: each policy, both offset modes, into an archive and out of it."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.subjects import known_ids
from support.command import write_yaml
from support.copies import archived_records, assert_same_records, log_end, wait_until
from support.records import Headers, Record, consume
from support.registry_model import RegistryModel, record
from support.running_service import Row, RunningService
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, letter_headers, letters_in
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MODES = ("map", "preserve")
POLICIES = {
    "fail": "{key: fail, value: pass}",
    "pass": "{key: pass, value: fail}",
    "letter": "{key: dead-letter, value: fail}",
}
"""Values have another policy than keys each time, so that who takes one side for the other is seen."""

CROSSED = {
    #                                   fail                pass                letter
    "a null key":                      ("copied",           "copied",           "copied"),
    "an id in a header":               ("copied",           "copied",           "copied"),
    "a short key":                     ("key: short",       "copied",           "letter: short"),
    "a key of another framing":        ("key: not-framed",  "copied",           "letter: not-framed"),
    "a key with an id of nobody's":    ("key: absent",      "copied",           "letter: absent"),
    "a header with an id of nobody's": ("key: absent",      "copied",           "letter: absent"),
    "a value of another framing":      ("copied",           "value: not-framed", "value: not-framed"),
    "a short key and a short value":   ("key: short",       "value: short",     "value: short"),
}  # fmt: skip
"""A source partition each, by number, and what becomes of it under each policy, in both modes and from both sources.

``copied``: all of it; ``letter``: what is meant is a dead letter, with that reason, and what is around it is copied;
else the partition is parked at what is meant, by that side and for that reason. The archive takes all as it is.
"""

PARTITIONS = range(len(CROSSED))
UNKNOWN = 4711
BEFORE, MEANT = 1, 2
"""Records before those that are meant, and these; behind them is one more."""


@dataclass
class KeySite(SchemaSite):
    """Schemas for keys and values; the topic is copied once for each mode and policy, to a name of its own."""

    def records(self, partition: int) -> list[Record]:
        key_id, value_id = self.register("k", subject=f"{self.topic}-key"), self.register("a")
        good = framed(value_id, b"value")
        in_header: Headers = (("trace", b"\0\0\0\0\1"), ("__key_schema_id", framed(key_id, b"")))
        absent: Headers = (("__key_schema_id", framed(UNKNOWN, b"")),)
        meant: list[list[tuple[bytes | None, bytes | None, Headers]]] = [
            [(None, good, ()), (None, good, absent)],
            [(b"plain", good, in_header), (b"", None, in_header)],
            [(b"", good, ()), (b"\0\0\0\1", None, (("trace", None),))],
            [(b"{}", good, ()), (b"\2" + bytes(16), good, ())],
            [(framed(UNKNOWN, b"x"), good, ()), (b"\1" + bytes(16), good, ())],
            [(framed(key_id, b"x"), good, absent), (b"plain", good, absent)],
            [(framed(key_id, b"x"), b"{}", ()), (None, b"text", ())],
            [(b"", b"\0", ()), (b"\0", b"", ())],
        ]
        now_ms = int(time.time() * 1000)
        around = [Record(now_ms, framed(key_id, b"key %d" % n), good) for n in range(2)]
        return [around[0], *(Record(now_ms, *each) for each in meant[partition]), around[1]]

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def crossed_file(self, source: str) -> Path:
        """Mirrors of every mode and policy, out of the cluster with one into the archive, or out of the archive."""
        sides = "key: topic-name, value: topic-name"
        read = "cluster: east" if source == "cluster" else "store: lake"
        known_from = "here" if source == "cluster" else "kept"
        mirrors = [
            f"{{name: {name}, source: {{{read}, topics: [{self.topic}]}}, "
            f"destinations: [{{type: kafka, cluster: west, offsets: {mode}, topic: {name}}}], "
            f"schemas: {{from: {known_from}, to: there, {sides}, on-unreadable: {POLICIES[policy]}"
            + (f", dead-letters: {{topic: {name}.letters}}}}}}" if policy == "letter" else "}}")
            for policy in policies(source)
            for mode in MODES
            for name in [self.name(source, policy, mode)]
        ]
        if source == "cluster":
            mirrors.append(
                f"{{name: {self.topic}-kept, source: {{{read}, topics: [{self.topic}]}}, destinations: "
                f"[{{type: archive, store: lake, flush: {{max-time: 1s}}}}], schemas: {{from: here, {sides}}}}}"
            )
        return write_yaml(
            self.folder / f"from-{source}.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f'stores: {{lake: {{type: filesystem, root: "{self.lake}"}}}}\n'
            f'registries: {{here: {{url: "{self.here.url}"}}, there: {{url: "{self.there.url}"}}, '
            "kept: {store: lake, registry: here}}\n"
            f"mirrors: [{', '.join(mirrors)}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def name(self, source: str, policy: str, mode: str) -> str:
        return f"{self.topic}-{source}-{policy}-{mode}"

    def ends(self) -> list[int]:
        return [log_end(self.east, self.topic, partition) for partition in PARTITIONS]

    def positions(self, running: RunningService, mirror: str) -> list[int]:
        return [row["dest_next"] for row in sorted(running.rows(mirror), key=lambda row: int(row["partition"]))]

    def await_crossed(self, running: RunningService, source: str) -> None:
        """Waits until every partition of every mirror is at its end, or parked where it should be."""
        ends = self.ends()

        def left() -> list[Row]:
            return [
                row
                for policy, becomes in outcomes(source).items()
                for mode in MODES
                for row in running.rows(self.name(source, policy, mode)) or [{"partition": None}]
                if row["partition"] is None
                or (
                    row["state"] != "parked"
                    if is_parked(becomes[row["partition"]])
                    else row["dest_next"] != ends[row["partition"]]
                )
            ]

        wait_until(lambda: not left(), "all to be where it belongs", log=lambda: str(left()))


def policies(source: str) -> list[str]:
    """Out of an archive dead letters alone: what a policy makes of a key is the same there, what letters say is not."""
    return list(POLICIES) if source == "cluster" else ["letter"]


def outcomes(source: str) -> dict[str, list[str]]:
    """By policy, what becomes of each partition."""
    columns = {policy: [told[at] for told in CROSSED.values()] for at, policy in enumerate(POLICIES)}
    return {policy: columns[policy] for policy in policies(source)}


def is_parked(told: str) -> bool:
    return told.startswith(("key: ", "value: "))


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[KeySite]:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    (tmp_path / "lake").mkdir()
    monkeypatch.setattr(known_ids, "ABSENT_SECONDS_MIN", 2.0)  # how long it is has tests of its own
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        yield KeySite(east, west, first, second, topic_name, tmp_path)


def test_what_becomes_of_a_key_that_names_no_schema(site: KeySite) -> None:
    make_topic(site.east, site.topic, *([] for _ in PARTITIONS))
    for partition in PARTITIONS:
        first, *others = site.records(partition)
        append(site.east, site.topic, partition, [first])
        append(site.east, site.topic, partition, others)
    sent = [consume(site.east, site.topic, partition) for partition in PARTITIONS]
    with RunningService(site.crossed_file("cluster")) as running:
        site.await_crossed(running, "cluster")
        wait_until(lambda: site.positions(running, f"{site.topic}-kept") == site.ends(), "all to be archived")
        rows = running.rows()
    assert_crossed(site, sent, rows, "cluster")
    for partition, records in enumerate(sent):
        assert_same_records(records, archived_records(site.lake, site.topic, partition))
    site.here.fault = lambda _method, _path: (503, {})  # the archive is all that is known of the source
    with RunningService(site.crossed_file("archive")) as running:
        site.await_crossed(running, "archive")
        rows = running.rows()
    assert_crossed(site, sent, rows, "archive")


def assert_crossed(site: KeySite, sent: list[dict[int, Record]], rows: list[Row], source: str) -> None:
    """Every copy and every letter is what the table says."""
    expected = [site.expected(partition) for partition in PARTITIONS]
    # An archive's records are one batch, and nothing of a batch is copied that has one which parks.
    before = BEFORE if source == "cluster" else 0
    for policy, becomes in outcomes(source).items():
        for mode in MODES:
            name = site.name(source, policy, mode)
            copies = at_once(partial(site.copied, topic=name))
            parked = {row["partition"]: row for row in rows if row["name"] == name and row["state"] == "parked"}
            assert list(parked) == [partition for partition, told in enumerate(becomes) if is_parked(told)]
            for partition, told in enumerate(becomes):
                case = (name, list(CROSSED)[partition])
                copied, whole = copies[partition], expected[partition]
                if told == "copied":
                    assert copied == whole, case
                elif told.startswith("letter"):
                    assert copied == [*whole[:BEFORE], *whole[BEFORE + MEANT :]], case
                else:
                    assert copied == whole[:before], case
                    assert_parked(parked[partition], *told.split(": "))
            if policy == "letter":
                assert_letters(site, sent, name, becomes)


def at_once(read: Callable[[int], list[Record]]) -> list[list[Record]]:
    """What is read of each partition: a consumer mostly waits."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(read, PARTITIONS))


def assert_parked(row: Row, side: str, framing: str) -> None:
    assert row["reason"] == "unreadable-schema", row
    assert f"the {side} of the record at offset {BEFORE} names no schema that is known: {framing}" in row["error"], row


def assert_letters(site: KeySite, sent: list[dict[int, Record]], name: str, becomes: list[str]) -> None:
    """The letters of each partition are those records that are meant, as the source has them, each once."""
    letters = at_once(partial(letters_in, site.west, f"{name}.letters"))
    for partition, (told, found) in enumerate(zip(becomes, letters, strict=True)):
        meant = range(BEFORE, BEFORE + MEANT) if told.startswith("letter") else range(0)
        own = [letter_headers(each) for each in found]
        assert [(each["offset"], each["side"], each["reason"]) for each in own] == [
            (str(offset), "key", told.removeprefix("letter: ")) for offset in meant
        ]
        assert [replace(each, headers=each.headers[:-9]) for each in found] == [sent[partition][n] for n in meant]


def test_a_key_whose_history_the_destination_cannot_have_parks_or_is_a_letter_and_never_passes(site: KeySite) -> None:
    key, value = f"{site.topic}-key", site.register("a")
    common, refused = site.register("k", subject=key), site.register("k", "l", subject=key)
    names = {policy: [site.name("cluster", policy, mode) for mode in MODES] for policy in POLICIES}
    for name in [name for each in names.values() for name in each]:
        site.there.model.register(f"{name}-key", {"schema": record("k")})
        site.there.model.register(f"{name}-key", {"schema": record("somebody's own")})
    now_ms = int(time.time() * 1000)
    keys = [framed(common, b"0"), framed(refused, b"1"), framed(common, b"2")]
    make_topic(site.east, site.topic, [Record(now_ms, each, framed(value, b"v")) for each in keys], batch_records=1)
    sent = consume(site.east, site.topic, 0)

    with RunningService(site.crossed_file("cluster")) as running:
        for policy, each in names.items():
            for name in each:
                state = "caught-up" if policy == "letter" else "parked"
                running.await_states(state, mirror=name, partitions=1)
        rows = {row["name"]: row for row in running.rows()}

    for policy, each in names.items():
        for name in each:
            key_there, value_there = (site.there.model.live(f"{name}-{side}")[0].id for side in ("key", "value"))
            first, last = (
                replace(sent[at], timestamp=0, key=framed(key_there, b"%d" % at), value=framed(value_there, b"v"))
                for at in (0, 2)
            )
            copied = site.copied(topic=name)
            if policy == "letter":
                assert copied == [first, last], name
                (letter,) = letters_in(site.west, f"{name}.letters", 0)
                own = letter_headers(letter)
                assert (own["offset"], own["side"], own["reason"]) == ("1", "key", "refused")
                assert replace(letter, headers=letter.headers[:-9]) == sent[1]
                continue
            assert copied == [first], name
            assert rows[name]["reason"] == "unreadable-schema"
            error = rows[name]["error"]
            assert f"schema id {refused}" in error
            assert "source: 1=" in error
            assert "destination: 1=" in error
