"""Records that name no schema, in a topic for dead letters: what is in it, and that the copy goes on without them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.admin import alter_topic
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, wait_until
from support.records import Record, consume
from support.registry_model import RegistryModel, record
from support.running_service import RunningService
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, letter_headers, letters_in, numbered
from support.stub_registry import StubRegistry
from support.topics import append, delete_before, make_topic, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

POLICY = ', on-unreadable: {value: dead-letter}, dead-letters: {topic: "{topic}.dead-letters"}'
UNKNOWN = 4711


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Iterator[SchemaSite]:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        yield SchemaSite(east, west, first, second, topic_name, tmp_path)


@pytest.mark.parametrize("mode", ["map", "preserve", "preserve, gap-fill: filler"])
def test_each_kind_of_unreadable_record_is_a_dead_letter_once_and_all_others_are_copied(
    mode: str, site: SchemaSite
) -> None:
    one = site.register("a")
    # The destination has a history of its own, which `two` does not fit behind.
    site.there.model.register(site.subject, {"schema": record("a")})
    site.there.model.register(site.subject, {"schema": record("foreign")})
    two = site.register("a", "b")
    bad = {
        "short": Record(time_ms(), b"k1", b"\0\0"),
        "not-framed": Record(time_ms(), None, b"{}", (("trace", None), ("trace", b"2"))),
        "absent, a guid": Record(time_ms(), b"", b"\1" + bytes(16)),
        "absent": Record(time_ms(), b"k4", framed(UNKNOWN, b"x")),
        "refused": Record(time_ms(), b"k5", framed(two, b"y")),
    }
    make_topic(
        site.east, site.topic, [*numbered([one, None, one]), *bad.values(), *numbered([one] * 5)], [*bad.values()]
    )
    file = site.file(mode, POLICY)
    planned = mirrorlake("plan", "-c", file, "--format", "json").rows()
    assert {row["note"].partition(", which is made")[0].rpartition(", ")[2] for row in planned} == {
        f"dead letters to {site.letters}"
    }
    with RunningService(file) as running:
        site.await_copied(running)
        append(site.east, site.topic, 0, [bad["short"], *numbered([one])])
        site.await_copied(running)
        assert running.states() <= {"running", "caught-up"}, "none is parked"
    for partition, lettered in ((0, [3, 4, 5, 6, 7, 13]), (1, [0, 1, 2, 3, 4])):
        source = consume(site.east, site.topic, partition)
        found = letters_in(site.west, site.letters, partition)
        assert [letter_headers(each)["offset"] for each in found] == [str(offset) for offset in lettered]
        for offset, reason, letter in zip(lettered, [*bad, "short"], found, strict=False):
            own, original = letter_headers(letter), source[offset]
            assert (own["topic"], own["partition"], own["mirror"]) == (site.topic, str(partition), site.topic)
            named = (site.topic, "value", reason.partition(",")[0])
            assert (own["destination.topic"], own["side"], own["reason"]) == named
            assert len(own["cluster.id"]) == len(own["topic.id"]) == 22
            assert (letter.timestamp, letter.key, letter.value) == (original.timestamp, original.key, original.value)
            assert letter.headers[: len(original.headers)] == original.headers
            assert len(letter.headers) == len(original.headers) + 9
        left = [each.key for offset, each in sorted(source.items()) if offset not in lettered]
        assert [each.key for each in site.copied(partition)] == left
        if mode != "map":
            copied = consume(site.west, site.topic, partition)
            assert sorted(copied) == [offset for offset in source if offset not in lettered], "at their own offsets"

    again = mirrorlake("plan", "-c", file, "--format", "json").rows()
    assert [row["action"] for row in again] == ["nothing to do"] * 2, "its looks know of the letters"

    def verified() -> list[tuple[object, ...]]:
        rows = mirrorlake("verify", "-c", file, "--level", "records", "--format", "json").rows()
        names = ("result", "records", "dead_lettered", "dead_lettered_copied", "difference")
        return [tuple(row[name] for name in names) for row in rows]

    assert verified() == [("equal", 9, 6, 0, None), ("equal", 0, 5, 0, None)]
    letter = letters_in(site.west, site.letters, 0)[0]
    headers = tuple((name, b"1" if name.endswith("errors.offset") else value) for name, value in letter.headers)
    append(site.west, site.letters, 0, [replace(letter, headers=headers)])
    assert verified() == [("equal", 8, 7, 1, None), ("equal", 0, 5, 0, None)], "one is in the copy as well"
    delete_before(site.west, site.letters, 1, partition=1)
    assert verified() == [("equal", 8, 7, 1, None), ("differs", None, 4, 0, "missing")], "what is nowhere is lost"


@pytest.mark.quick
def test_a_letter_is_the_record_as_the_source_has_it_whatever_select_makes_of_the_others(site: SchemaSite) -> None:
    one = site.register("a")
    headers = (("trace", b"1"), ("at", b"here"))
    sent = [Record(time_ms(), b"k%d" % n, b"{}" if n % 3 == 1 else framed(one, b"x"), headers) for n in range(9)]
    make_topic(site.east, site.topic, sent, sent[:2])
    mirror = f'name: "{site.topic}",'
    select = """select: {key: "key || X'21'", headers: {at: "CAST(offset AS STRING)"}, drop-headers: [trace]},"""
    text = site.file("map", POLICY).read_text()
    assert mirror in text
    file = write_yaml(site.folder / "selecting.yaml", text.replace(mirror, f"{mirror} {select}"))

    run = mirrorlake("run", "--once", "-c", file)

    assert run.code == 0, run.err
    source = consume(site.east, site.topic, 0)
    found = letters_in(site.west, site.letters, 0)
    assert [letter_headers(each)["offset"] for each in found] == ["1", "4", "7"]
    for letter, offset in zip(found, (1, 4, 7), strict=True):
        assert replace(letter, headers=letter.headers[:-9]) == source[offset]
    copied = site.copied(0)
    assert [each.key for each in copied] == [b"k%d!" % n for n in range(9) if n % 3 != 1]
    assert [each.headers for each in copied] == [(("at", b"%d" % n),) for n in range(9) if n % 3 != 1]
    rows = mirrorlake("verify", "-c", file, "--format", "json").rows()
    assert [(row["result"], row["dead_lettered"]) for row in rows] == [("equal", 3), ("equal", 1)]


def test_a_topic_for_dead_letters_is_not_mirrored_by_its_own_mirror_and_must_not_be_compacted(
    site: SchemaSite,
) -> None:
    create_topic(site.west, site.topic)
    create_topic(site.west, site.letters)
    create_topic(site.west, f"{site.topic}.other")
    create_topic(site.west, f"{site.topic}.other.dead-letters", 1, **{"cleanup.policy": "compact"})
    text = site.file("map", POLICY).read_text()
    text = text.replace("source: {cluster: east", "source: {cluster: west").replace(
        f"topics: [{site.topic}]", f'topics: ["/{site.topic}.*/"]'
    )
    file = write_yaml(
        site.folder / "same.yaml",
        text.replace("cluster: west, offsets", 'cluster: west, topic: "copy-of-{topic}", offsets'),
    )
    rows = {row["topic"]: row for row in mirrorlake("plan", "-c", file, "--format", "json").rows()}
    assert sorted(rows) == [site.topic, f"{site.topic}.other"]
    assert rows[site.topic]["action"] == "nothing to do"
    assert (rows[f"{site.topic}.other"]["action"], "is compacted" in rows[f"{site.topic}.other"]["error"]) == (
        "refused",
        True,
    )


def time_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("letters", ["{topic}.dead-letters", "fixed"])
@pytest.mark.parametrize("mode", ["map", "preserve"])
def test_heartbeats_of_a_mirror_with_dead_letters_are_copied_as_they_are(
    mode: str, letters: str, site: SchemaSite
) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, [*numbered([one]), Record(time_ms(), b"k", b"{}")])
    beats = f"mirrorlake.heartbeats.{site.topic}"
    name = f"{site.topic}.all-letters" if letters == "fixed" else letters
    text = site.file(mode, POLICY.replace("{topic}.dead-letters", name)).read_text()
    mirror = f'name: "{site.topic}",'
    assert text.count(mirror) == 1
    file = write_yaml(site.folder / "beating.yaml", text.replace(mirror, f"{mirror} heartbeats: {{interval: 1s}},"))
    planned = mirrorlake("plan", "-c", file, "--format", "json").rows()
    assert [row["note"].count("dead letters to") for row in planned if row["topic"] == site.topic] == [1]
    with RunningService(file) as running:
        wait_until(
            lambda: beats in topics_of(site.west) and len(consume(site.west, beats, 0)) > 1,
            "heartbeats at the destination",
            log=lambda: str(running.rows()),
        )
        wait_until(lambda: len(letters_in(site.west, name.replace("{topic}", site.topic), 0)) == 1, "the letter")
        assert "parked" not in running.states()
    assert not any(each.startswith(beats) and each != beats for each in topics_of(site.west)), "no letters of theirs"


def test_letter_progress_that_would_be_deleted_by_age_parks_before_a_letter_is_written(site: SchemaSite) -> None:
    """Who makes the topic, or an operator's policy, may have it delete: what it forgets could be told by nobody."""
    one = site.register("a")
    make_topic(site.east, site.topic, [*numbered([one]), Record(time_ms(), b"k", b"{}"), *numbered([one])], [])
    progress = f"mirrorlake.letter-progress.{site.topic}"
    create_topic(site.west, progress, 16, **{"cleanup.policy": "delete"})
    file = site.file("preserve", POLICY)
    with RunningService(file) as running:
        wait_until(lambda: "parked" in running.states(), "its partition to park", log=lambda: str(running.rows()))
        (row,) = [each for each in running.rows() if each["state"] == "parked" and each["partition"] == 0]
    assert (row["reason"], f"{progress} has cleanup.policy=delete" in row["error"]) == ("unsupported", True)
    assert not letters_in(site.west, site.letters, 0)
    alter_topic(site.west, progress, **{"cleanup.policy": "compact"})
    with RunningService(file) as running:
        site.await_copied(running)
    assert [letter_headers(each)["offset"] for each in letters_in(site.west, site.letters, 0)] == ["1"]


def test_several_mirrors_write_to_one_topic_for_dead_letters_each_its_own_once(site: SchemaSite) -> None:
    """Two copies of one topic, one at equal and one at other offsets, and another topic's."""
    one, other = site.register("a"), f"{site.topic}-other"
    site.here.model.register(f"{other}-value", {"schema": record("a")})
    bad = Record(time_ms(), b"k", b"{}")
    make_topic(site.east, site.topic, [*numbered([one]), bad, *numbered([one])], [bad] * 2)
    make_topic(site.east, other, [bad, *numbered([one])] * 2, [])
    text = site.file("preserve", POLICY.replace("{topic}.dead-letters", site.letters)).read_text()
    start, end = text.index("mirrors: [") + len("mirrors: ["), text.index("]\nservice")
    first = text[start:end]
    mapped = first.replace(f'name: "{site.topic}"', f'name: "{site.topic}-mapped"')
    mapped = mapped.replace("cluster: west, offsets: preserve", 'cluster: west, topic: "mapped-{topic}", offsets: map')
    third = first.replace(site.topic, other).replace(f"{other}.dead-letters", site.letters)
    file = write_yaml(site.folder / "three.yaml", f"{text[:start]}{first}, {mapped}, {third}{text[end:]}")

    def found() -> list[tuple[str, str, str]]:
        letters = [each for partition in (0, 1) for each in letters_in(site.west, site.letters, partition)]
        told = [letter_headers(each) for each in letters]
        return sorted((each["mirror"], each["partition"], each["offset"]) for each in told)

    expected = [
        (name, *at) for name in (site.topic, f"{site.topic}-mapped") for at in (("0", "1"), ("1", "0"), ("1", "1"))
    ]
    expected += [(other, "0", "0"), (other, "0", "2")]
    with RunningService(file) as running:
        running.await_states("caught-up", partitions=6)
        wait_until(lambda: len(found()) >= len(expected), "all letters", log=lambda: str(running.rows()))
        append(site.east, site.topic, 1, [bad])
        expected += [(site.topic, "1", "2"), (f"{site.topic}-mapped", "1", "2")]
        wait_until(lambda: len(found()) >= len(expected), "the letters", log=lambda: str(running.rows()))
    assert found() == sorted(expected)
    verified = mirrorlake("verify", "-c", file, "--level", "records", "--format", "json").rows()
    assert [(row["result"], row["dead_lettered_copied"]) for row in verified] == [("equal", 0)] * 6
