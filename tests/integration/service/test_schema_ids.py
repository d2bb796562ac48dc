"""Records with schema ids, mirrored while the service runs: their schemas are there before them, in both modes."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Selection
from mirrorlake.service.subjects.known_ids import ABSENT_SECONDS_MIN
from mirrorlake.service.supervisor import Supervisor
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, wait_until
from support.records import CODECS, Record, build_batch, consume, produce
from support.registry_model import RegistryModel, record
from support.running_service import RunningService
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, numbered
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MODES = ("preserve", "map")


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Iterator[SchemaSite]:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        yield SchemaSite(east, west, first, second, topic_name, tmp_path)


@pytest.mark.quick
@pytest.mark.parametrize("mode", MODES)
def test_every_record_arrives_with_the_id_that_its_schema_has_there(site: SchemaSite, mode: str) -> None:
    one, two = site.register("a"), site.register("a", "b")
    make_topic(site.east, site.topic, numbered([one, two, None, one] * 10), numbered([two] * 20))
    other = site.register("c", subject="of-another-topic-value")
    with RunningService(site.file(mode)) as running:
        site.await_copied(running)
        site.assert_equal()
        # Versions that come while it runs, and the schema of another topic's subject: each is there before its records.
        three = site.register("a", "b", "c")
        append(site.east, site.topic, 0, numbered([three, one, other], start=40))
        append(site.east, site.topic, 1, numbered([None, site.register("z")], start=20))
        site.await_copied(running)
        site.assert_equal()
    there = site.there.model
    assert [each.body["schema"] for each in there.live(site.subject)] == [
        record(*fields) for fields in (["a"], ["a", "b"], ["a", "b", "c"], ["z"])
    ]
    assert [each.id >= FIRST_ID_THERE for each in there.live("of-another-topic-value")] == [True]
    verified = mirrorlake("verify", "-c", site.file(mode), "--level", "records", "--format", "json")
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified
    assert verified.code == 0


def test_verify_tells_a_copy_with_an_id_that_means_something_else(site: SchemaSite) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 20), [])
    with RunningService(site.file("preserve")) as running:
        site.await_copied(running)
    # The destination's registry is made anew, and gives the schema another id.
    there = site.there.model
    there.subjects.clear()
    there.register(site.subject, {"schema": record("a")})
    moved = mirrorlake("verify", "-c", site.file("preserve"), "--level", "records", "--format", "json")
    there.subjects.clear()
    lost = mirrorlake("verify", "-c", site.file("preserve"), "--level", "records", "--format", "json")
    for verified in (moved, lost):
        first, _ = verified.rows()
        assert (first["result"], first["first_difference"]) == ("differs", 0), verified


@pytest.mark.parametrize("mode", MODES)
def test_a_registry_that_is_away_keeps_only_those_waiting_who_need_it(site: SchemaSite, mode: str) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 10), numbered([one] * 10))
    with RunningService(site.file(mode)) as running:
        site.await_copied(running)
        new = site.register("a", "b")
        site.there.fault = lambda _method, _path: (503, {})
        append(site.east, site.topic, 0, numbered([one, new], start=10))
        append(site.east, site.topic, 1, numbered([one] * 5, start=10))
        wait_until(lambda: len(site.copied(1)) == 15, "what needs no registry")
        wait_until(
            lambda: "not known yet" in str(running.rows()), "the wait to be said", log=lambda: str(running.rows())
        )
        assert len(site.copied(0)) <= 11
        assert running.states() <= {"running", "caught-up"}, "none is parked"
        assert running.service.health().is_good
        site.there.fault = lambda _method, _path: None
        site.await_copied(running)
        site.assert_equal()


def test_partitions_that_wait_for_schema_ids_after_a_start_are_one_line_until_they_wait_for_more(
    site: SchemaSite,
) -> None:
    one, two = site.register("a"), site.register("a", "b")
    partitions = 8
    make_topic(site.east, site.topic, *(numbered([one if n % 2 else two] * 3) for n in range(partitions)))
    site.there.fault = lambda _method, _path: (503, {})
    with capture_logs() as lines, RunningService(site.file("map")) as running:

        def waiting() -> list[dict[str, object]]:
            return [row for row in running.rows() if row.get("reason") == "schema-ids"]

        wait_until(lambda: len(waiting()) == partitions, "all to wait", log=lambda: str(running.rows()))
        tries = len(site.there.requests)
        wait_until(lambda: len(site.there.requests) > tries + 3, "it to be tried again", log=lambda: str(lines))
        assert all("not known yet" in str(row["error"]) for row in waiting())
        site.there.fault = lambda _method, _path: None
        ends = dict.fromkeys(range(partitions), 3)
        wait_until(
            lambda: {row["partition"]: row["dest_next"] for row in running.rows()} == ends,
            "all to be copied",
            log=lambda: str(running.rows()),
        )
        told = [line for line in lines if line["event"] == "waiting for schema ids"]
        # Whether the first lease had all of them is not said; a line more is one for an id more.
        assert 1 <= len(told) <= 2, told
        assert {line["log_level"] for line in told} == {"info"}
        (mirror,) = {(line["name"], line["destination"], line["registry"]) for line in told}
        assert mirror == (site.topic, "west", "here")
        assert sorted(told[-1]["ids"].split(", ")) == sorted([str(one), str(two)])
        assert [line["count"] for line in told] in ([2], [1, 2])
        assert not [line for line in lines if line.get("kind") == "SchemaUnknownError"]


@pytest.mark.parametrize(("mode", "otherwise"), [("preserve", "dead-letter"), ("map", "pass")])
def test_an_id_registered_while_its_registry_is_away_is_not_called_absent(
    site: SchemaSite, mode: str, otherwise: str
) -> None:
    one = site.register("a")
    next_id = site.here.model.next_id
    asked: list[str] = []

    def note(_method: str, path: str) -> None:
        if f"/{next_id}" in path:
            asked.append(path)

    site.here.fault = note
    make_topic(site.east, site.topic, numbered([one] * 3), [])
    create_topic(site.west, site.letters)
    append(site.east, site.topic, 0, numbered([next_id], start=3))
    letters = f", dead-letters: {{topic: {site.letters}}}" if otherwise == "dead-letter" else ""
    with RunningService(site.file(mode, f", on-unreadable: {otherwise}{letters}")) as running:
        wait_until(lambda: len(asked) > 1, "an answer that nobody knows it", log=lambda: str(running.rows()))
        site.here.fault = lambda _method, _path: (503, {})
        assert site.register("a", "b") == next_id
        time.sleep(ABSENT_SECONDS_MIN + 1)
        running.service.restart(Selection(mirror=site.topic))  # or it would be tried again later than the test waits
        time.sleep(4)
        assert len(site.copied(0)) == 3, "it is waited for"
        site.here.fault = lambda _method, _path: None
        site.await_copied(running)
        site.assert_equal()


def test_what_cannot_be_read_parks_its_partition_or_passes_as_it_is(site: SchemaSite) -> None:
    one = site.register("a")
    texts = [Record(int(time.time() * 1000), b"key", value) for value in (b"{}", b"", b"\1" + bytes(16))]
    make_topic(site.east, site.topic, numbered([one] * 5), numbered([one] * 5))
    append(site.east, site.topic, 0, numbered([4711], start=5))  # an id nobody has given out
    append(site.east, site.topic, 1, texts[:1])
    with RunningService(site.file("preserve")) as running:
        running.await_states("parked", partitions=2)
        errors = {row["partition"]: (row["reason"], row["error"]) for row in running.rows()}
    assert errors[0][0] == errors[1][0] == "unreadable-schema"
    assert "the value of the record at offset 5 names no schema that is known: absent" in errors[0][1]
    assert "the value of the record at offset 5 names no schema that is known: not-framed" in errors[1][1]
    assert [len(site.copied(partition)) for partition in (0, 1)] == [5, 5]

    append(site.east, site.topic, 1, texts[1:])
    with RunningService(site.file("preserve", ", on-unreadable: {value: pass}")) as running:
        site.await_copied(running)
    assert [each.value for each in site.copied(1)[5:]] == [each.value for each in texts]
    assert [each.value for each in site.copied(0)[5:]] == [framed(4711, b"body 5")]


def test_a_history_that_cannot_become_the_sources_parks_what_needs_it_and_says_both(site: SchemaSite) -> None:
    one = site.register("a")
    site.there.model.register(site.subject, {"schema": record("a")})
    site.there.model.register(site.subject, {"schema": record("foreign")})
    two = site.register("a", "b")
    make_topic(site.east, site.topic, numbered([one] * 5), numbered([one, two]))
    with RunningService(site.file("map")) as running:
        wait_until(lambda: "parked" in running.states(), "the refusal", log=lambda: str(running.rows()))
        wait_until(lambda: len(site.copied(0)) == 5, "what is there already", log=lambda: str(running.rows()))
        (parked,) = [row for row in running.rows() if row["state"] == "parked"]
    assert parked["partition"] == 1
    assert f"schema id {two}" in parked["error"]
    assert "source: 1=" in parked["error"]
    assert "destination: 1=" in parked["error"]
    assert site.copied(1) == []


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_of_thousands_of_batches_is_copied_in_pieces(site: SchemaSite, mode: str) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, [], [])
    batch = build_batch(numbered([one]), codec=CODECS["zstd"])
    asyncio.run(produce(site.east, site.topic, 0, [batch] * 4000))
    with RunningService(site.file(mode)) as running:
        site.await_copied(running)
        site.assert_equal()


def test_batches_of_every_codec_and_ids_in_headers_are_changed_too(site: SchemaSite) -> None:
    one = site.register("a")
    create_topic(site.east, site.topic, 2)
    now_ms = int(time.time() * 1000)
    plain = [replace(each, value=(each.value or b"") + bytes(500)) for each in numbered([one] * 30)]
    in_header = Record(now_ms, b"k", b"body", (("__value_schema_id", framed(one, b"")), ("trace", None)))
    batches = [build_batch([*plain, in_header], codec) for codec in CODECS.values()]
    asyncio.run(produce(site.east, site.topic, 0, batches))
    with RunningService(site.file("preserve")) as running:
        site.await_copied(running)
    there = site.there.model.live(site.subject)[0].id
    copied, expected = site.copied(), site.expected()
    assert len(copied) == len(CODECS) * 31
    for start in range(0, len(copied), 31):
        *found, last = copied[start : start + 31]
        assert found == expected[start : start + 30]
        assert last.headers == (("__value_schema_id", framed(there, b"")), ("trace", None))
        assert last.value == b"body"


def test_with_ids_kept_schemas_have_the_sources_ids_and_records_are_copied_as_they_are(site: SchemaSite) -> None:
    one, two = site.register("a"), site.register("a", "b")
    make_topic(site.east, site.topic, numbered([one, two, None]), numbered([two]))
    with RunningService(site.file("preserve", ", ids: keep, interval: 1s")) as running:
        site.await_copied(running)
        three = site.register("a", "b", "c")
        append(site.east, site.topic, 1, numbered([three], start=1))
        site.await_copied(running)
        wait_until(lambda: len(site.there.model.live(site.subject)) == 3, "the version that came later")
    assert [each.id for each in site.there.model.live(site.subject)] == [one, two, three]
    for partition in (0, 1):
        assert consume(site.west, site.topic, partition) == consume(site.east, site.topic, partition)
    verified = mirrorlake(
        "verify", "-c", site.file("preserve", ", ids: keep"), "--level", "records", "--format", "json"
    )
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified


def test_a_sources_registry_that_is_made_anew_stops_what_has_an_id_of_both(
    site: SchemaSite, capfd: pytest.CaptureFixture[str]
) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 5), numbered([one] * 5))
    with RunningService(site.file("preserve", ", interval: 1s, mode: lenient")) as running:
        site.await_copied(running)
        before = site.copied()
        site.make_registry_anew(one)
        appended = site.append_until_parked(running, one, start=5)
        (row,) = [row for row in running.rows() if row["state"] == "parked"]
        assert row["partition"] == 0
        assert f"schema id {one}: it was version 1 of {site.subject} and is version 1 of {site.subject}" in str(row)
    assert site.copied()[:5] == before
    assert len(site.copied()) < appended, "nothing more is copied with the id of the schema before"
    told = capfd.readouterr().out
    assert told.count("a schema id means another schema at the source's registry than it did before") == 1
    assert "another id at the destination's registry" not in told


def test_leases_that_were_told_ids_of_before_are_recalled(site: SchemaSite, monkeypatch: pytest.MonkeyPatch) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 5), numbered([one] * 5))
    recalled: list[str] = []
    recall = Supervisor.recall

    def noted(supervisor: Supervisor, states: Sequence[PartitionState]) -> None:
        recalled.extend(state.mirror for state in states)
        recall(supervisor, states)

    monkeypatch.setattr(Supervisor, "recall", noted)
    with RunningService(site.file("preserve", ", interval: 1s")) as running:
        site.await_copied(running)
        looks = len(site.there.requests)
        wait_until(lambda: len(site.there.requests) > looks + 10, "looks that find nothing new")
        assert recalled == []
        model = RegistryModel(level="NONE", next_id=FIRST_ID_THERE + 100)
        site.there.model = model
        wait_until(lambda: recalled, "its leases to be recalled", log=lambda: str(running.rows()))
        wait_until(lambda: model.live(site.subject), "its subject to be there again")
    assert set(recalled) == {site.topic}


def test_what_one_mirror_finds_lost_lets_the_others_of_that_registry_look_at_once(site: SchemaSite) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 5), [])
    *before, mirrors, service, engine = site.file("preserve", ", interval: 1s").read_text().splitlines()
    often = mirrors.removeprefix("mirrors: [").removesuffix("]")
    seldom = often.replace("interval: 1s", "interval: 1h").replace('name: "', 'name: "seldom-', 1)
    seldom = seldom.replace("offsets: preserve", 'offsets: map, topic: "seldom-{topic}"')
    text = "\n".join([*before, f"mirrors: [{often}, {seldom}]", service, engine, ""])
    subjects = [site.subject, f"seldom-{site.subject}"]
    with RunningService(write_yaml(site.folder / "two.yaml", text)) as running:
        wait_until(lambda: all(site.there.model.live(each) for each in subjects), "both subjects")
        anew = RegistryModel(level="NONE", next_id=FIRST_ID_THERE + 100)
        site.there.model = anew
        wait_until(
            lambda: all(anew.live(each) for each in subjects), "both to be there again", log=lambda: str(running.rows())
        )


def test_a_subject_that_no_mirror_names_is_looked_at_and_changed_only_for_a_schema(site: SchemaSite) -> None:
    other = site.register("c", subject="of-another-topic-value")
    make_topic(site.east, site.topic, numbered([other] * 5), [])
    with RunningService(site.file("preserve", ", interval: 1s")) as running:
        site.await_copied(running)
        done = list(site.there.model.changes)
        site.here.model.levels["of-another-topic-value"] = "FULL"
        looks = site.there.requests.count("GET /subjects/of-another-topic-value/versions")
        wait_until(
            lambda: site.there.requests.count("GET /subjects/of-another-topic-value/versions") > looks + 3,
            "looks at it that find another level",
        )
        assert site.there.model.changes == done
        site.register("c", "d?", subject="of-another-topic-value")
        wait_until(lambda: len(site.there.model.live("of-another-topic-value")) == 2, "its next version")
