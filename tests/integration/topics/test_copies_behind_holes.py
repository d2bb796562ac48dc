"""Copies whose position lies inside or behind a hole of the archive they are made of: named, waited for, completed.

Every place of a position is crossed with every kind of destination, and with a bounded run and a service.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import read_archived_range
from mirrorlake.cli.start import load
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service import partition_state
from mirrorlake.service.lifecycle.endings import EXIT_DONE, EXIT_FAILED
from mirrorlake.service.lifecycle.parts import RunOptions
from mirrorlake.service.service import Service
from mirrorlake.sources.archive import work as work_module
from mirrorlake.stores.opening import open_store
from support.archived_source import archive, held_records, settings_at, write_segment
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import assert_same_records, store_of, wait_until
from support.held_source import HeldPartition
from support.records import Record, build_batch, consume, simple_records
from support.running_service import ClosingEngine, RunningService
from support.segments import records_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

END, GROWN = 60, 80
RECORDS = simple_records(GROWN)
ARCHIVES = ("log", "parquet", "ndjson")
KINDS = ("kept", "mapped", *ARCHIVES, "latest")


@dataclass(frozen=True)
class Place:
    """Where copies stand, of 60 records in files of ten, and the files that go then."""

    position: int
    lost: tuple[int, ...]
    hole: str


PLACES = (
    Place(position=35, lost=(30,), hole="[30, 40)"),
    Place(position=40, lost=(30,), hole="[30, 40)"),
    Place(position=END, lost=(30,), hole="[30, 40)"),
    Place(position=END, lost=(10, 30), hole="[10, 20)"),
    Place(position=END, lost=(0,), hole="[0, 10)"),
    Place(position=END, lost=(40, 50), hole="[40, 60)"),
)
"""Of each partition: inside, right behind, behind, behind two; the first file is lost; and the newest."""


def in_tens() -> HeldPartition:
    return held_records([(base, build_batch(RECORDS[base : base + 10])) for base in range(0, GROWN, 10)])


@dataclass(frozen=True)
class Scene:
    folder: Path
    topic: str
    servers: str

    def configured(self, *, bounds: bool = False) -> Path:
        until = ", ".join(f"{number}: {place.position}" for number, place in enumerate(PLACES))
        archives = "\n".join(
            f"      - {{type: archive, store: {form}, format: {form}, flush: {{max-time: 1s}}}}" for form in ARCHIVES
        )
        stores = "\n".join(
            f"  {name}: {{type: filesystem, root: {self.folder / name}}}" for name in ("lake", *ARCHIVES, "latest")
        )
        return write_yaml(
            self.folder / "mirror.yaml",
            f"""clusters:
  west: {{bootstrap-servers: "{self.servers}"}}
stores:
{stores}
mirrors:
  - name: back-{self.topic}
    source: {{store: lake, topics: [{self.topic}]{f", until-offsets: {{{self.topic}: {{{until}}}}}" if bounds else ""}}}
    destinations:
      - {{type: kafka, cluster: west, topic: "{self.topic}.kept"}}
      - {{type: kafka, cluster: west, topic: "{self.topic}.mapped", offsets: map}}
{archives}
      - {{type: archive, store: latest, compaction: log, flush: {{max-time: 1s}}}}
service: {{metrics: off}}
engine: {{lanes: 2, memory: 512MiB, discovery: 500ms}}
""",
        )

    def segment(self, number: int, start: int) -> Path:
        return self.folder / "lake" / self.topic / str(number) / f"{start:020}-{start + 9:020}.parquet"

    def archived(self, form: str, number: int) -> dict[int, Record]:
        store = store_of(self.folder / form)
        copy = ArchivedPartition(store, destination_name=self.topic, partition=number, extension=form)
        all_of_it = OffsetRange(start_offset=0, end_offset=copy.read_chain().position)
        return {o: each for part in read_archived_range(copy, all_of_it) for o, each in records_of(part).items()}

    def assert_copied(self, ends: list[int]) -> None:
        for number, end in enumerate(ends):
            expected = dict(enumerate(RECORDS[:end]))
            assert_same_records(expected, consume(self.servers, f"{self.topic}.kept", number))
            mapped = consume(self.servers, f"{self.topic}.mapped", number)
            assert [*mapped.values()] == [*expected.values()]
            for form in ARCHIVES:
                assert_same_records(expected, self.archived(form, number))
            views = (self.folder / "latest" / self.topic / str(number)).glob("0*.parquet")
            assert any(each.name.endswith(f"-{end - 1:020}.parquet") for each in views)


@pytest.fixture
def scene(destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Scene:
    for name in ("lake", *ARCHIVES, "latest"):
        (tmp_path / name).mkdir()
    for number in range(len(PLACES)):
        where = TopicPartition(topic_name, number)
        archive(settings_at(tmp_path / "lake"), where, in_tens(), list(range(10, END + 1, 10)), form="parquet")
    return Scene(folder=tmp_path, topic=topic_name, servers=destination_kafka.bootstrap_servers)


def test_copies_inside_and_behind_a_hole_wait_whatever_they_are_and_go_on_when_it_is_closed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "LOOKS_APART_SECONDS", 0.2)
    monkeypatch.setattr(partition_state, "AHEAD_SECONDS", 0.5)
    begun = Service(load(scene.configured(bounds=True)), RunOptions(once=True, engine=ClosingEngine)).run()
    assert begun == EXIT_DONE
    scene.assert_copied([place.position for place in PLACES])
    lost = {scene.segment(number, start): b"" for number, place in enumerate(PLACES) for start in place.lost}
    for path in lost:
        lost[path] = path.read_bytes()
        path.unlink()

    config = scene.configured()
    assert Service(load(config), RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_FAILED
    planned = json.loads(mirrorlake("plan", "-c", config, "--format", "json").out)
    for row in planned if isinstance(planned, list) else planned["plan"]:
        assert f"offsets {PLACES[row['partition']].hole} are missing" in str(row["error"]), row
    with RunningService(config) as running:
        wait_until(
            lambda: (
                len(running.rows()) == len(PLACES) * len(KINDS)
                and all(
                    f"offsets {PLACES[row['partition']].hole} are missing" in str(row.get("error"))
                    for row in running.rows()
                )
            ),
            "all that is missing to be said",
            log=lambda: str([(row["destination"], row["partition"], row.get("error")) for row in running.rows()]),
        )
        assert "parked" not in running.states()
        for path, content in lost.items():
            path.write_bytes(content)
        for number in range(len(PLACES)):
            where = TopicPartition(scene.topic, number)
            write_segment(open_store(settings_at(scene.folder / "lake")), where, in_tens(), END, GROWN, form="parquet")
        wait_until(
            lambda: {row["dest_next"] for row in running.rows()} == {GROWN},
            "all of it",
            log=lambda: str(running.rows()),
        )
        assert "parked" not in running.states()
    scene.assert_copied([GROWN] * len(PLACES))
