"""A source that is put back from a backup, under a service or while nobody looks, with the same end or a later one.

Its topic ids and leader epochs are those it had, so that nothing but the records tells.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import NewKafka
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.stores.filesystem import FilesystemStore
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, log_end, source_end, wait_until
from support.records import consume, simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KEPT, COPIED = 40, 70
FORMATS = ("parquet", "ndjson", "log")
PARKED = {
    "preserve": "foreign",
    "map": "diverged",
    "parquet": "diverged",
    "ndjson": "diverged",
    "log": "diverged",
}
"""Of each copy, why it stops."""


@dataclass(frozen=True)
class Site:
    """One topic that is copied in every way, by a mirror each."""

    east: EmbeddedKafka
    west: str
    folder: Path
    topic: str
    config: Path

    def write(self, start: int, count: int) -> None:
        append(self.east.bootstrap_servers, self.topic, 0, simple_records(count, start=start), batch_records=10)

    def write_aborted(self, start: int, count: int) -> None:
        servers = self.east.bootstrap_servers
        append_in_transaction(servers, self.topic, simple_records(count, start=start), committed=False)

    @contextmanager
    def filtered(self, condition: str) -> Iterator[None]:
        """The mirror with mapped offsets copies nothing but records that meet a condition, within the block."""
        plain, mirror = self.config.read_text(), f"name: map-{self.topic}"
        self.config.write_text(plain.replace(mirror, f"{mirror}, filter: {{where: {json.dumps(condition)}}}"))
        yield
        self.config.write_text(plain)

    def back_up(self) -> None:
        self.east.stop()
        shutil.copytree(self.east.folder, self.folder / "backup")
        self.east.start()

    def put_back(self) -> None:
        self.east.stop()
        shutil.rmtree(self.east.folder)
        shutil.copytree(self.folder / "backup", self.east.folder)
        self.east.start()

    def service(self) -> ServiceProcess:
        words = ("run", "-c", str(self.config), "--log-format", "json")
        return ServiceProcess(*words, folder=self.folder, without_spark=True)

    @contextmanager
    def service_past_its_backup(self) -> Iterator[ServiceProcess]:
        """A service that has copied records which the backup of its source lacks."""
        self.back_up()
        words = ("run", "-c", str(self.config), "--log-format", "json")
        with ServiceProcess(*words, folder=self.folder, without_spark=True) as service:
            self.await_copied(KEPT)
            self.write(1000, COPIED - KEPT)
            self.await_copied(COPIED)
            yield service

    def archived(self, form: str) -> list[tuple[int, bytes | None]]:
        """Offset and value of all that is archived in a format, in order."""
        store, found = FilesystemStore(self.folder / "lake"), list[tuple[int, bytes | None]]()
        for path in sorted((self.folder / "lake" / f"{form}-{self.topic}" / "0").glob(f"*.{form}")):
            with open_segment(store, str(path.relative_to(self.folder / "lake"))) as segment:
                for columns in segment.records():
                    found += zip(columns.offsets.tolist(), columns.values.to_pylist(), strict=True)
        return found

    def copied(self) -> dict[str, list[bytes | None]]:
        """The values of each copy, in order."""
        of_kafka = {
            way: [record.value for _, record in sorted(consume(self.west, f"{way}-{self.topic}", 0).items())]
            for way in ("preserve", "map")
        }
        return of_kafka | {form: [value for _, value in self.archived(form)] for form in FORMATS}

    def await_copied(self, count: int) -> None:
        def has_all() -> bool:
            kafka = [log_end(self.west, f"{way}-{self.topic}") for way in ("preserve", "map")]
            return min(kafka) >= count and all(len(self.archived(form)) == count for form in FORMATS)

        wait_until(has_all, f"{count} records in each copy", log=lambda: str(self.copied()))


@pytest.fixture
def site(new_kafka: NewKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Site:
    east, west = new_kafka(), destination_kafka.bootstrap_servers
    (tmp_path / "lake").mkdir()
    archive = "{{type: archive, store: lake, name: '{form}-{{topic}}', format: {form}, flush: {{max-time: 1s}}}}"
    destinations = {
        "preserve": "{type: kafka, cluster: west, topic: 'preserve-{topic}'}",
        "map": "{type: kafka, cluster: west, topic: 'map-{topic}', offsets: map}",
        **{form: archive.format(form=form) for form in FORMATS},
    }
    mirrors = [
        f"  - {{name: {way}-{topic_name}, source: {{cluster: east, topics: [{topic_name}]}}, destinations: [{to}]}}"
        for way, to in destinations.items()
    ]
    lines = [
        f"clusters: {{east: {{bootstrap-servers: '{east.bootstrap_servers}'}}, west: {{bootstrap-servers: '{west}'}}}}",
        f"stores: {{lake: {{type: filesystem, root: {tmp_path}/lake}}}}",
        "engine: {lanes: 2, memory: 512MiB}",
        "mirrors:",
        *mirrors,
        "",
    ]
    config = write_yaml(tmp_path / "mirror.yaml", "\n".join(lines))
    make_topic(east.bootstrap_servers, topic_name, simple_records(KEPT))
    for way in ("preserve", "map"):
        create_topic(west, f"{way}-{topic_name}")
    return Site(east, west, tmp_path, topic_name, config)


def parked(said: str) -> dict[str, str]:
    """Why each mirror was parked, by the way it copies."""
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {each["mirror"].partition("-")[0]: each["reason"] for each in events if each["event"] == "partition parked"}


@pytest.mark.parametrize("new", [30, 100], ids=["the-same-end", "a-later-end"])
def test_a_running_service_parks_every_copy_of_a_source_that_was_put_back(site: Site, new: int) -> None:
    with site.service_past_its_backup() as service:
        before = site.copied()

        site.put_back()
        site.write(5000, new)

        wait_until(lambda: len(parked(service.said())) == len(PARKED), "all to be parked", log=service.said)
        # Where a service looks before anything new is there, it finds a copy past the source's end.
        for way, reason in parked(service.said()).items():
            assert reason in (PARKED[way], "ahead"), way
        service.stop()
        assert service.exit_code() == 3
    assert site.copied() == before, "nothing was copied behind what the source has lost"


@pytest.mark.parametrize("new", [30, 100], ids=["the-same-end", "a-later-end"])
def test_a_bounded_run_parks_every_copy_of_a_source_that_was_put_back_meanwhile(site: Site, new: int) -> None:
    site.back_up()
    site.write(1000, COPIED - KEPT)
    assert mirrorlake("run", "--once", "-c", site.config).code == 0
    before = site.copied()
    site.put_back()
    site.write(5000, new)
    assert source_end(site.east.bootstrap_servers, site.topic) == KEPT + new

    for _ in range(2):
        ended = mirrorlake("run", "--once", "-c", site.config, "--log-format", "json")

        assert ended.code == 3, ended.err
        assert parked(ended.err) == PARKED
    assert site.copied() == before


def test_a_source_that_has_the_same_records_again_is_copied_on(site: Site) -> None:
    with site.service_past_its_backup() as service:
        site.put_back()
        site.write(1000, COPIED - KEPT)
        site.write(2000, 5)

        def is_over() -> bool:
            ahead = parked(service.said())
            return all(len(values) == COPIED + 5 or way in ahead for way, values in site.copied().items())

        wait_until(is_over, "the rest in each copy", log=service.said)
        # Where a service looks while the records are not there again, it finds a copy past the source's end.
        assert set(parked(service.said()).values()) <= {"ahead"}
    assert mirrorlake("run", "--once", "-c", site.config).code == 0
    assert {way: len(values) for way, values in site.copied().items()} == dict.fromkeys(PARKED, COPIED + 5)


@pytest.mark.parametrize("way", ["a service", "a bounded run"])
def test_records_that_took_the_place_of_an_aborted_transaction_are_not_passed_over(site: Site, way: str) -> None:
    site.back_up()
    site.write_aborted(1000, COPIED - KEPT)
    end = COPIED + 1  # with the marker
    assert mirrorlake("run", "--once", "-c", site.config).code == 0
    before = site.copied()
    assert {name: len(values) for name, values in before.items()} == dict.fromkeys(PARKED, KEPT)
    site.put_back()
    site.write(5000, 60)
    assert source_end(site.east.bootstrap_servers, site.topic) > end

    if way == "a bounded run":
        ended = mirrorlake("run", "--once", "-c", site.config, "--log-format", "json")
        assert ended.code == 3, ended.err
        said = ended.err
    else:
        with site.service() as service:
            wait_until(lambda: len(parked(service.said())) == len(PARKED), "all to be parked", log=service.said)
            service.stop()
            assert service.exit_code() == 3
        said = service.said()

    assert parked(said) == {**PARKED, "preserve": "misaligned"}, "there the copy has the marker of its filler"
    assert f"at source offset {KEPT}" in said
    assert site.copied() == before


def test_records_at_the_beginning_of_what_was_empty_are_found_behind_which_much_is_empty_still(site: Site) -> None:
    site.back_up()
    site.write_aborted(1000, 200)
    assert mirrorlake("run", "--once", "-c", site.config).code == 0
    site.put_back()
    site.write(5000, 20)
    site.write_aborted(6000, 190)

    ended = mirrorlake("run", "--once", "-c", site.config, "--log-format", "json")

    assert parked(ended.err)["map"] == "diverged"
    assert len(site.copied()["map"]) == KEPT


def test_another_aborted_transaction_in_the_place_of_one_is_no_difference_to_a_copy_with_mapped_offsets(
    site: Site,
) -> None:
    site.back_up()
    site.write_aborted(1000, COPIED - KEPT)
    assert mirrorlake("run", "--once", "-c", site.config).code == 0
    site.put_back()
    site.write_aborted(5000, COPIED - KEPT)
    site.write(6000, 5)

    ended = mirrorlake("run", "--once", "-c", site.config, "--log-format", "json")

    assert "map" not in parked(ended.err)
    assert len(site.copied()["map"]) == KEPT + 5


def test_a_filter_that_is_taken_away_leaves_no_copy_in_doubt(site: Site) -> None:
    with site.filtered("value IS NULL"):
        assert mirrorlake("run", "--once", "-c", site.config).code == 0
        assert site.copied()["map"] == []
    site.write(2000, 5)

    ended = mirrorlake("run", "--once", "-c", site.config, "--log-format", "json")

    assert (ended.code, parked(ended.err)) == (0, {}), ended.err
    assert len(site.copied()["map"]) == 5
