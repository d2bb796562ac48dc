"""Records that name their schemas by GUIDs, mirrored while the service runs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.subjects import known_ids
from support.command import without_spark as mirrorlake
from support.copies import wait_until
from support.guid_site import SIDES, GuidSite
from support.registry_model import RegistryModel, guid_of, record
from support.running_service import RunningService
from support.schema_site import FIRST_ID_THERE, letter_headers, letters_in
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = (0, 1)
Make = Callable[..., GuidSite]


@pytest.fixture
def make_site(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Iterator[Make]:
    """Makes a site by what its two registries are, with the source's GUIDs as from 8.0 on."""
    here = RegistryModel(level="NONE", has_guids=True)
    there = RegistryModel(level="NONE", next_id=FIRST_ID_THERE, has_guids=True)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers

        def make(*, side: str = "value", source_has_guids: bool = True, has_guids_there: bool = True) -> GuidSite:
            here.has_guids, there.has_guids = source_has_guids, has_guids_there
            return GuidSite(east, west, first, second, topic_name, tmp_path, side)

        yield make


@pytest.mark.parametrize(("mode", "side"), [("preserve", "value"), ("map", "key")])
def test_a_guid_waits_for_its_schema_and_is_the_one_it_has_there(make_site: Make, mode: str, side: str) -> None:
    site = make_site(side=side)
    site.make_base_with_other_numbers()
    one, two = site.register_guid("a"), site.register_guid("a", "b", base=2)
    written = [site.by_guid([one, two, None] * 4, partition) for partition in PARTITIONS]
    make_topic(site.east, site.topic, *written)
    with RunningService(site.guid_file(mode)) as running:
        site.await_copied(running)
        # While it runs: the registry is told of another version, and the record with it comes at once.
        three = site.register_guid("a", "b", "c", base=2)
        for partition in PARTITIONS:
            more = site.by_guid([three, one], partition, start=12)
            append(site.east, site.topic, partition, more)
            written[partition] += more
        site.await_copied(running)
    there = site.guids_there()
    assert (there[one], there[two] == two, there[three] == three) == (one, False, False)
    for partition in PARTITIONS:
        assert site.copied_guids(partition) == site.copies_of(written[partition])
    verified = mirrorlake("verify", "-c", site.guid_file(mode), "--level", "records", "--format", "json")
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified
    # A take-over compares the newest records, and sets GUIDs aside as it does ids.
    with RunningService(site.guid_file(mode)) as running:
        append(site.east, site.topic, 0, site.by_guid([two], 0, start=14))
        site.await_copied(running)
    # A schema that the destination has lost is equal to none.
    site.there.model.subjects.clear()
    lost = mirrorlake("verify", "-c", site.guid_file(mode), "--level", "records", "--format", "json")
    assert {row["result"] for row in lost.rows()} == {"differs"}, lost


def test_where_the_destination_gives_no_guids_records_park_or_pass_or_become_letters(make_site: Make) -> None:
    site = make_site(has_guids_there=False)
    one = site.register_guid("a")
    written = [site.by_guid([None, one], partition) for partition in PARTITIONS]
    make_topic(site.east, site.topic, *written)
    with RunningService(site.guid_file("map")) as running:
        running.await_states("parked", partitions=2)
        (row, _) = running.rows()
    assert row["reason"] == "unreadable-schema"
    assert "names its schema by a guid, and the destination's registry gives none" in row["error"]
    assert [site.copied_guids(partition) for partition in PARTITIONS] == [[], []]
    letters = f', on-unreadable: dead-letter, dead-letters: {{topic: "{site.letters}"}}'
    with RunningService(site.guid_file("map", letters)) as running:
        running.await_states("caught-up", partitions=2)
    for partition in PARTITIONS:
        (letter,) = letters_in(site.west, site.letters, partition)
        assert letter_headers(letter)["reason"] == "guid"
        assert (letter.key, letter.value) == (written[partition][1].key, written[partition][1].value)


def test_where_the_destination_gives_no_guids_they_pass_as_they_are_and_verify_finds_them_equal(
    make_site: Make,
) -> None:
    site = make_site(has_guids_there=False)
    one = site.register_guid("a")
    written = [site.by_guid([None, one], partition) for partition in PARTITIONS]
    make_topic(site.east, site.topic, *written)
    file = site.guid_file("preserve", ", on-unreadable: pass")
    with RunningService(file) as running:
        site.await_copied(running)
    for partition in PARTITIONS:
        assert [(each.key, each.value) for each in site.copied_guids(partition)] == [
            (each.key, each.value) for each in written[partition]
        ]
    verified = mirrorlake("verify", "-c", file, "--level", "records", "--format", "json")
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified


@pytest.mark.parametrize("side", SIDES)
def test_a_guid_that_nobody_knows_parks_also_where_the_source_gives_none(make_site: Make, side: str) -> None:
    site = make_site(side=side, source_has_guids=side == "key")
    site.register_guid("a")
    make_topic(site.east, site.topic, *(site.by_guid([None, UUID(int=5)], partition) for partition in PARTITIONS))
    with RunningService(site.guid_file("preserve")) as running:
        running.await_states("parked", partitions=2)
        errors = [row["error"] for row in running.rows()]
    assert all(f"the {side} of the record at offset 1 names no schema that is known: absent" in e for e in errors)
    checked = mirrorlake("schemas", "check", "-c", site.guid_file("preserve"), "--format", "json")
    assert checked.code == 1
    assert f'"{UUID(int=5)}"' in checked.out


def test_a_registry_that_cannot_be_asked_for_guids_is_waited_for_and_nothing_passes(
    make_site: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy does not know their path, or shows a page of its own, or the registry fails: none of it says absent."""
    monkeypatch.setattr(known_ids, "ABSENT_SECONDS_MIN", 1.0)
    site = make_site()
    site.register_guid("a")
    there = UUID(guid_of(site.here.model.register("of-another-topic-value", {"schema": record("b")}).body))
    written = [site.by_guid([None, there], partition) for partition in PARTITIONS]
    make_topic(site.east, site.topic, *written)
    answers: list[tuple[int, dict[str, str]] | bytes] = [(404, {}), (500, {}), b"<html>log in</html>", (403, {})]
    asked: list[int] = []

    def fault(_method: str, path: str) -> tuple[int, dict[str, str]] | bytes | None:
        if not path.startswith("/schemas/guids/"):
            return None
        asked.append(len(asked))
        return answers[len(asked) % len(answers)]

    site.here.fault = fault
    with RunningService(site.guid_file("map", ", on-unreadable: pass")) as running:
        wait_until(lambda: len(asked) > 8, "the registry to be asked again and again", log=lambda: str(running.rows()))
        assert "parked" not in running.states()
        assert [site.copied_guids(partition) for partition in PARTITIONS] == [[], []]
        site.here.fault = lambda _method, _path: None
        site.await_copied(running)
    assert site.there.model.live("of-another-topic-value"), "brought before its records"
    for partition in PARTITIONS:
        assert [(r.key, r.value) for r in site.copied_guids(partition)] == [
            (r.key, r.value) for r in written[partition]
        ]
