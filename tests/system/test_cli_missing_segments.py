"""`on-missing-segment: {skip-after: …}`: a hole of the archive is waited for, then passed over and recorded."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.opening import open_store
from support.archived_source import archive, held_records, settings_at
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import archive_position, archived_records, assert_same_records, log_end, wait_until
from support.records import Record, build_batch, consume, simple_records
from support.service_process import ServiceProcess

pytestmark = pytest.mark.kafka

SKIP_AFTER_SECONDS = 3
HOLE = OffsetRange(start_offset=10, end_offset=20)
LONG_HOLE = OffsetRange(start_offset=10, end_offset=810)
"""Its filling by markers takes seconds."""
FLUSH_BYTES_MAX = 1_000_000
"""Who takes over from a dead owner waits until no lease of it can append: as long as a segment of so many may take."""
RECORDS = simple_records(40)
BEHIND = {offset: record for offset, record in enumerate(RECORDS) if offset not in range(10, 20)}
"""What is there of the records without those in the hole."""


@dataclass(frozen=True)
class Scene:
    """An archive of 40 records in four files, of which the second lies aside, and a mirror of it to three kinds."""

    folder: Path
    topic: str
    servers: str
    skip_after_seconds: int = SKIP_AFTER_SECONDS
    hole: OffsetRange = HOLE

    @property
    def segment(self) -> Path:
        hole = self.hole
        return self.folder / "lake" / self.topic / "0" / f"{hole.start_offset:020}-{hole.end_offset - 1:020}.log"

    @property
    def aside(self) -> Path:
        return self.folder / self.segment.name

    @property
    def config(self) -> Path:
        return write_yaml(
            self.folder / "mirror.yaml",
            f"""clusters:
  west: {{bootstrap-servers: "{self.servers}"}}
stores:
  lake: {{type: filesystem, root: {self.folder / "lake"}}}
  other: {{type: filesystem, root: {self.folder / "other"}}}
mirrors:
  - name: back-{self.topic}
    source: {{store: lake, topics: [{self.topic}]}}
    on-missing-segment: {{skip-after: {self.skip_after_seconds}s}}
    destinations:
      - {{type: kafka, cluster: west, topic: "{self.kept}"}}
      - {{type: kafka, cluster: west, topic: "{self.mapped}", offsets: map}}
      - {{type: archive, store: other, flush: {{max-time: 1s, max-bytes: {FLUSH_BYTES_MAX}}}}}
engine: {{lanes: 2, lease: 1s, memory: 512MiB, discovery: 500ms}}
""",
        )

    @property
    def kept(self) -> str:
        return f"{self.topic}.kept"

    @property
    def mapped(self) -> str:
        return f"{self.topic}.mapped"

    def stands_at(self, end: int, mapped: int) -> bool:
        """Whether the copies that have equal offsets stand at an offset, and the mapped one has so many records."""
        where = log_end(self.servers, self.kept), archive_position(self.folder / "other", self.topic)
        return where == (end, end) and len(self.records_mapped()) == mapped

    def records_mapped(self) -> list[Record]:
        return [*consume(self.servers, self.mapped, 0).values()] if log_end(self.servers, self.mapped) else []

    def command(self, *arguments: str | Path) -> Ended:
        return mirrorlake(*arguments, "-c", self.config)

    def runs_until(self, is_there: Callable[[], bool], what: str) -> str:
        """Runs the mirror until something is there, ends it in good order, and returns what it said."""
        with ServiceProcess("run", "-c", str(self.config), folder=self.folder, without_spark=True) as service:
            wait_until(lambda: is_there() or not service.is_running, what, log=service.said)
            service.stop()
            assert service.exit_code() == 0, service.said()
            return service.said()

    def gaps(self) -> list[Gap]:
        """The gaps that the copied archive records, but those of no kind of their own."""
        store = open_store(settings_at(self.folder / "other"))
        found: list[Gap] = []
        for each in sorted(store.list(f"{self.topic}/0"), key=lambda info: info.name):
            with open_segment(store, each.key) as segment:
                assert segment.footer is not None
                found += [gap for gap in segment.footer.gaps if gap.kind is not GapKind.ABSENT]
        return found

    def assert_passed_over(self) -> None:
        assert_same_records(BEHIND, consume(self.servers, self.kept, 0))
        assert self.records_mapped() == [*BEHIND.values()]
        assert_same_records(BEHIND, archived_records(self.folder / "other", self.topic))
        assert self.gaps() == [Gap(offsets=HOLE, kind=GapKind.MISSING)]


def with_hole(scene: Scene) -> Scene:
    """Writes the archive: ten records, ten in what will be missing, twenty behind it."""
    for name in ("lake", "other"):
        (scene.folder / name).mkdir()
    end = scene.hole.end_offset
    bases = [0, 5, 10, 15, *range(end, end + 20, 5)]
    content = held_records((base, build_batch(RECORDS[n * 5 : n * 5 + 5])) for n, base in enumerate(bases))
    ends = [10, end, end + 10, end + 20]
    archive(settings_at(scene.folder / "lake"), TopicPartition(scene.topic, 0), content, ends, form="log")
    scene.segment.rename(scene.aside)
    return scene


@pytest.fixture
def scene(destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Scene:
    return with_hole(Scene(folder=tmp_path, topic=topic_name, servers=destination_kafka.bootstrap_servers))


@pytest.mark.slow
def test_a_hole_is_passed_over_after_its_time_recorded_and_not_filled_by_what_comes_late(scene: Scene) -> None:
    started = time.monotonic()
    said = scene.runs_until(lambda: scene.stands_at(40, len(BEHIND)), "all behind the hole")
    assert time.monotonic() - started > SKIP_AFTER_SECONDS
    assert "missing segment is passed over" in said
    assert "[10, 20) are missing in the archive" in said, "it was waited for, and that was said"
    scene.assert_passed_over()

    # Who comes anew does not know how old the hole is, and need not.
    again = scene.command("run", "--once")
    assert again.code == 0, again.err
    status, verified = scene.command("status", "--format", "json"), scene.command("verify", "--format", "json")
    assert {(row["state"], row["lag"]) for row in status.rows()} == {("caught-up", 0)}, status.out
    assert {row["result"] for row in verified.rows()} == {"equal"}, verified.out

    # What comes late is not copied behind what follows it, and `verify` says so.
    scene.aside.rename(scene.segment)
    late = scene.command("run", "--once")
    assert late.code == 0, late.err
    scene.assert_passed_over()
    compared = scene.command("verify", "--format", "json")
    assert compared.code == 1
    assert {(row["result"], row["first_difference"], row["difference"]) for row in compared.rows()} == {
        ("differs", 10, "missing")
    }, compared.out


@pytest.mark.slow
def test_a_segment_that_comes_in_time_is_copied_and_no_gap_is_recorded(scene: Scene) -> None:
    scene = replace(scene, skip_after_seconds=120)

    def comes_in_time() -> bool:
        if scene.aside.exists() and scene.stands_at(10, 10):
            scene.aside.rename(scene.segment)
        return scene.stands_at(40, 40)

    said = scene.runs_until(comes_in_time, "all of it")
    assert "passed over" not in said
    assert_same_records(dict(enumerate(RECORDS)), consume(scene.servers, scene.kept, 0))
    assert scene.records_mapped() == RECORDS
    assert scene.gaps() == []


def test_plan_and_status_name_the_hole_that_is_waited_for(scene: Scene) -> None:
    planned, status = scene.command("plan", "--format", "json"), scene.command("status", "--format", "json")
    for ended in (planned, status):
        rows = json.loads(ended.out)
        rows = rows if isinstance(rows, list) else rows["plan"]
        assert rows
        assert all("[10, 20) are missing in the archive" in str(row["error"]) for row in rows), ended.out


@pytest.mark.slow
def test_a_service_killed_in_the_middle_of_a_hole_fills_the_rest_of_it_and_nothing_twice(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers = destination_kafka.bootstrap_servers
    scene = with_hole(Scene(folder=tmp_path, topic=topic_name, servers=servers, hole=LONG_HOLE))
    with ServiceProcess("run", "-c", str(scene.config), folder=tmp_path, without_spark=True) as service:
        wait_until(lambda: log_end(servers, scene.kept) > 100, "a part of the hole filled", log=service.said)
        service.kill()
    assert 100 < log_end(servers, scene.kept) < LONG_HOLE.end_offset

    end = LONG_HOLE.end_offset + 20
    scene.runs_until(lambda: scene.stands_at(end, len(BEHIND)), "all behind the hole")
    behind = dict(enumerate(RECORDS[:10])) | dict(enumerate(RECORDS[20:], start=LONG_HOLE.end_offset))
    assert_same_records(behind, consume(servers, scene.kept, 0))
    assert scene.records_mapped() == [*behind.values()]
    assert_same_records(behind, archived_records(tmp_path / "other", scene.topic))
    assert scene.gaps() == [Gap(offsets=LONG_HOLE, kind=GapKind.MISSING)]
