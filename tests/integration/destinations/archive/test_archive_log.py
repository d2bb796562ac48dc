"""Archives in the format `log`: a broker's own batches, as its log file has them and Kafka's own tool shows them."""

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.embedded import jars
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.java import find_java
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, source_end
from support.leases import NEVER, archive_work, lease_plan, run_lease
from support.records import Record, consume, simple_records
from support.segments import records_of
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

TOOLS_VERSION = "3.9.1"
"""The newest Kafka whose server jar has `kafka.tools.DumpLogSegments`."""


@pytest.fixture(scope="module")
def tools_libs() -> Path:
    try:
        return jars.kafka_libs(TOOLS_VERSION)
    except MirrorlakeError as error:
        pytest.skip(str(error))


class LogLake:
    """A topic on a broker and its archive of batches in a folder."""

    def __init__(self, source: EmbeddedKafka, topic: str, root: Path) -> None:
        self.source, self.topic, self.root = source, topic, root
        self.archived = ArchivedPartition(FilesystemStore(root), destination_name=topic, partition=0, extension="log")

    def archive(self, *, records_max: int = NEVER, bytes_max: int = NEVER, rest: bool = True) -> LeaseRow:
        where = TopicPartition(self.topic, 0)
        work = archive_work(
            self.root,
            where,
            end=source_end(self.source.bootstrap_servers, self.topic, 0),
            records_max=records_max,
            bytes_max=bytes_max,
            flushes_rest=rest,
            format_name="log",
        )
        return run_lease(lease_plan(self.source.bootstrap_servers, [(where, [work])], end=None))[0, "lake"]

    def held(self) -> dict[int, Record]:
        everything = OffsetRange(start_offset=0, end_offset=self.archived.read_chain().position)
        found: dict[int, Record] = {}
        for columns in read_archived_range(self.archived, everything):
            found |= records_of(columns)
        return found

    def files(self) -> list[Path]:
        return sorted((self.root / self.topic / "0").iterdir())

    def data(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.files())

    def at_the_broker(self) -> list[tuple[int, int, bytes]]:
        """Each batch in the broker's log: base offset, attributes, bytes; read here without the code under test."""
        logs = sorted((self.source.folder / "data" / f"{self.topic}-0").glob("*.log"))
        return [batch for log in logs for batch in batches_in(log.read_bytes())]


def batches_in(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while position + 12 <= len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        if length == 0:
            return  # the rest of a file the broker has made room in
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        yield base_offset, attributes, data[position : position + 12 + length]
        position += 12 + length


@pytest.fixture
def lake(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> LogLake:
    return LogLake(source_kafka, topic_name, tmp_path)


def test_a_segment_holds_the_brokers_bytes_but_for_markers_and_what_was_aborted(lake: LogLake) -> None:
    servers = lake.source.bootstrap_servers
    create_topic(servers, lake.topic)
    append(servers, lake.topic, 0, simple_records(20))  # 0-19
    append_in_transaction(servers, lake.topic, simple_records(2, start=20))  # 20, 21 and a marker
    append_in_transaction(servers, lake.topic, simple_records(1, start=50), committed=False)  # 23 and a marker
    append(servers, lake.topic, 0, simple_records(5, start=30))  # 25-29
    row = lake.archive()
    assert (row.error, row.position, row.records) == (None, 30, 27)
    assert row.gap_offsets == {"absent": 3}
    is_control = 0x20
    wanted = [data for base, attributes, data in lake.at_the_broker() if not attributes & is_control and base != 23]
    assert lake.data() == b"".join(wanted)
    assert lake.held() == consume(servers, lake.topic, 0)
    assert check_archived_content(lake.archived) == 1


def test_kafkas_own_tool_reads_a_copy_under_the_name_of_its_first_offset(lake: LogLake, tools_libs: Path) -> None:
    servers = lake.source.bootstrap_servers
    create_topic(servers, lake.topic)
    append(servers, lake.topic, 0, simple_records(30))
    append_in_transaction(servers, lake.topic, simple_records(1, start=30))
    append(servers, lake.topic, 0, simple_records(10, start=40))
    assert lake.archive(records_max=20).error is None
    # Cuts are at batch ends: 20, then 30 and the rest up to 42 with the marker between.
    names = [path.name.partition(".")[0] for path in lake.files()]
    assert names == [f"{0:020}-{19:020}", f"{20:020}-{41:020}"]
    shown = []
    for path in lake.files():
        copy = lake.root / f"{path.name[:20]}.log"
        shutil.copyfile(path, copy)
        shown.append(dumped(tools_libs, copy))
    assert [[base for base, _ in batches] for batches in shown] == [[0, 10], [20, 30, 32]]
    assert [[last for _, last in batches] for batches in shown] == [[9, 19], [29, 30, 41]]


def dumped(libs: Path, log: Path) -> list[tuple[int, int]]:
    """The base and last offsets of the batches the tool finds; it verifies each checksum."""
    command = [str(find_java().executable), "-Xmx128m", "-cp", f"{libs}/*", "kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, "--deep-iteration", "--files", str(log)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) .* isvalid: true$", done.stdout, re.MULTILINE)
    assert len(found) == done.stdout.count("baseOffset:"), done.stdout
    return [(int(base), int(last)) for base, last in found]


def test_segments_end_with_the_batch_that_reaches_a_bound(lake: LogLake) -> None:
    servers = lake.source.bootstrap_servers
    create_topic(servers, lake.topic)
    append(servers, lake.topic, 0, simple_records(60), batch_records=10)
    sizes = [len(data) for _, _, data in lake.at_the_broker()]
    row = lake.archive(bytes_max=max(sizes) + 1, rest=False)
    assert row.error is None
    assert [(flush.records, flush.raw_bytes, flush.trigger) for flush in row.flushes] == [
        (20, sum(sizes[start : start + 2]), "max-bytes") for start in (0, 2, 4)
    ]
    assert [path.stat().st_size for path in lake.files()] == [flush.file_bytes for flush in row.flushes]


def test_a_compacted_source_is_archived_with_its_holes(lake: LogLake) -> None:
    servers = lake.source.bootstrap_servers
    create_compacted(servers, lake.topic)
    clean = append_and_compact(servers, lake.topic, keyed_records(60, 7), left={*range(53, 60), 60})
    row = lake.archive()
    assert (row.error, row.position, row.records) == (None, 61, 8)
    assert row.gap_offsets == {"absent": 53}
    assert lake.held() == clean
    with open_segment(lake.archived.store, f"{lake.archived.prefix}/{lake.files()[0].name}") as segment:
        assert segment.footer is not None
        assert segment.footer.gap_offsets == {GapKind.ABSENT: 53}
        segment.check_content()
