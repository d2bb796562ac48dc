"""Nothing of a file is handed out that was not compared: wherever it lies, however large, and whenever it changed."""

import base64
import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest

from mirrorlake.archive import seal
from mirrorlake.archive.blocks import seen_file
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats import ndjson
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.codec import Codec
from mirrorlake.kafka.records.decode import decode_batches
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive import opened_segment
from mirrorlake.sources.archive.known_segments import KnownSegments
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectStore
from support.archived_source import BLOCKLESS_LOG, held_records, without_blocks, write_segment
from support.records import Record, build_batch, simple_records
from support.segments import records_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

WHERE = TopicPartition("orders", 0)
RECORDS = simple_records(60, size=40)
BLOCKLESS = {"parquet without blocks": "parquet", "ndjson without blocks": "ndjson"}
"""By earlier versions."""
FORMS = ["parquet", "ndjson", "log", BLOCKLESS_LOG, *BLOCKLESS]
RIGHT = dict(enumerate(RECORDS))
ALL = OffsetRange(start_offset=0, end_offset=60)


class Bucket(MemoryStore):
    """A store that is far away: files of it are held, or read range by range."""

    @property
    def listing_page_objects(self) -> int:
        """So many names a request."""
        return 1000


class Archive:
    """One segment in a store, of which a byte can be changed in its place."""

    def __init__(self, store: ObjectStore, change: Callable[[str, Callable[[bytes], bytes]], None], form: str) -> None:
        self.store, self._change = store, change
        batches = [(start, build_batch(RECORDS[start : start + 20])) for start in (0, 20, 40)]
        self.key = write_segment(store, WHERE, held_records(batches), 0, 60, form=form, compression="uncompressed")
        self.known = KnownSegments()
        self.opens_copies = isinstance(store, MemoryStore)

    def damage(self) -> None:
        """Changes a byte of the value of record 45, or gives it back the one it had."""
        value = RECORDS[45].value
        assert value is not None
        begins = value[:9]  # with its number
        if self.key.endswith(".ndjson"):
            begins = base64.b64encode(begins)

        def changed(data: bytes) -> bytes:
            at = data.index(begins) + 20
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

        self._change(self.key, changed)

    def opened(self) -> OpenSegment:
        name = parse_segment_name(self.key.rpartition("/")[2])
        assert name is not None
        with self.store.open(self.key) as file:
            size_bytes = file.seek(0, 2)
        segment = Segment(name=name, size_bytes=size_bytes)
        return OpenSegment(self.store, self.key, segment, is_snapshot=False, known=self.known)


@pytest.fixture(params=["on a disk", "small in a bucket", "large in a bucket"])
def archive_of(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Archive]:
    # Several to a file: the block that was read last is held, and what is held is right.
    for module in (seen_file, seal, ndjson):
        monkeypatch.setattr(module, "BLOCK_BYTES", 256)

    def archive_in(store: ObjectStore, change: Callable[[str, Callable[[bytes], bytes]], None], form: str) -> Archive:
        if form in BLOCKLESS:
            without_blocks(monkeypatch)
        return Archive(store, change, BLOCKLESS.get(form, form))

    if request.param == "on a disk":

        def change_file(key: str, changed: Callable[[bytes], bytes]) -> None:
            file = tmp_path / key
            file.write_bytes(changed(file.read_bytes()))

        return lambda form: archive_in(FilesystemStore(tmp_path), change_file, form)
    if request.param == "large in a bucket":
        monkeypatch.setattr(opened_segment, "HELD_BYTES_MAX", 0)
    store = Bucket()

    def change_object(key: str, changed: Callable[[bytes], bytes]) -> None:
        store.objects[key] = changed(store.objects[key])

    return lambda form: archive_in(store, change_object, form)


def read_all(opened: OpenSegment, taken: dict[int, Record], *, start: int = 0) -> None:
    """Takes the records by offset, one piece after another; closes the segment."""
    offsets = OffsetRange(start_offset=start, end_offset=60)
    with closing(opened), closing(opened.content(offsets, codec=Codec.NONE, batch_bytes_max=1_000)) as content:
        while (piece := content.next_piece()) is not None:
            taken |= records_of(decode_batches([item.batch for item in piece.items], start_offset=start))


def whole_of(archive: Archive) -> dict[int, Record]:
    taken: dict[int, Record] = {}
    read_all(archive.opened(), taken)
    return taken


def assert_stops_before_it(archive: Archive, *, start: int) -> None:
    """Reading a damaged file names it, and hands out nothing that is not right."""
    taken: dict[int, Record] = {}

    with pytest.raises(ChainBrokenError, match=archive.key):
        read_all(archive.opened(), taken, start=start)
    assert taken.items() <= RIGHT.items()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [0, 30])
def test_of_a_damaged_file_nothing_wrong_is_handed_out(
    archive_of: Callable[[str], Archive], form: str, start: int
) -> None:
    archive = archive_of(form)
    archive.damage()
    assert_stops_before_it(archive, start=start)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [0, 30])
def test_a_file_that_changes_after_a_worker_found_it_right_is_not_trusted_by_it(
    archive_of: Callable[[str], Archive], form: str, start: int
) -> None:
    archive = archive_of(form)
    assert whole_of(archive) == RIGHT
    archive.damage()
    assert_stops_before_it(archive, start=start)

    archive.damage()  # the byte is what it was
    assert whole_of(archive) == RIGHT


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_changes_between_comparing_and_decoding_hands_out_nothing_wrong(
    archive_of: Callable[[str], Archive], form: str
) -> None:
    archive = archive_of(form)
    opened = archive.opened()
    archive.damage()
    taken: dict[int, Record] = {}

    if archive.opens_copies:
        read_all(opened, taken)
        assert taken == RIGHT
    else:
        with pytest.raises(ChainBrokenError, match=archive.key):
            read_all(opened, taken)
        assert taken.items() <= RIGHT.items()


@pytest.mark.parametrize("form", ["parquet", "ndjson", *BLOCKLESS])
def test_a_glimpse_of_a_file_that_was_found_right_shows_nothing_that_changed_since(
    archive_of: Callable[[str], Archive], form: str
) -> None:
    archive = archive_of(form)
    assert whole_of(archive) == RIGHT
    archive.damage()

    with pytest.raises(ChainBrokenError, match=archive.key):
        look(archive)


def look(archive: Archive) -> None:
    with closing(archive.opened()) as opened:
        list(opened.records(ALL, is_glimpse=True))


class CountedBytes(io.BytesIO):
    """Counts what is read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        count = super().readinto(buffer)
        self.count += count
        return count


class CountingStore(Bucket):
    """Counts what is read of opened files."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[CountedBytes] = []

    def open(self, key: str) -> BinaryIO:
        self.files.append(CountedBytes(self.read(key)))
        return self.files[-1]


@pytest.mark.parametrize(
    ("form", "times"), [("parquet", 1), ("ndjson", 1), ("parquet without blocks", 2), ("ndjson without blocks", 2)]
)
def test_a_large_file_of_a_bucket_is_downloaded_once_and_one_by_an_earlier_version_twice(
    monkeypatch: pytest.MonkeyPatch, form: str, times: int
) -> None:
    monkeypatch.setattr(opened_segment, "HELD_BYTES_MAX", 0)
    for module in (seal, ndjson):
        monkeypatch.setattr(module, "BLOCK_BYTES", 4096)
    if form in BLOCKLESS:
        without_blocks(monkeypatch)
    store = CountingStore()
    batches = [(start, build_batch(simple_records(20, size=50_000))) for start in (0, 20, 40)]
    archive = Archive(store, lambda _key, _changed: None, "log")
    form = BLOCKLESS.get(form, form)
    archive.key = write_segment(store, WHERE, held_records(batches), 0, 60, form=form, compression="uncompressed")
    store.files.clear()

    assert len(whole_of(archive)) == 60
    read, size = sum(file.count for file in store.files), len(store.objects[archive.key])
    assert size > 2_900_000
    assert times <= read / size < times + 0.2
