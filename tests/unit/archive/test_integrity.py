"""A file that was changed anywhere is told from a good one: every byte of it, and of what describes it, is tried."""

import io
from collections.abc import Iterator

import pytest

from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import log_batch
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import LOG, NDJSON, PARQUET, record_writer
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content
from mirrorlake.archive.sidecar import create_sidecar, find_sidecar
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, UnsupportedError
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.stores.memory import MemoryStore
from unit.archive.sample_records import Record, columns_of, envelope

SEGMENT = "00000000000000000000-00000000000000000005"
FORMATS = [PARQUET, NDJSON, LOG]
RECORDS = [
    Record(0, b"key", b"value", headers=((b"a", b"1"), (b"\xff", None))),
    Record(1, None, None, timestamp_ms=-1, timestamp_type=-1),
    Record(4, b"", b"x" * 20),
]


def archive_of_one_segment(extension: str) -> MemoryStore:
    """A segment of offsets 0 to 5 that no record fills, in a store, with its description where it has one."""
    store, file = MemoryStore(), io.BytesIO()
    key = f"orders/3/{SEGMENT}.{extension}"
    if extension == LOG:
        batch = encode_batch(columns_of(RECORDS), codec=Codec.ZSTD, base_offset=0)
        log_writer = LogSegmentWriter(file, envelope())
        log_writer.write([log_batch(each) for each in walk(memoryview(bytes(batch)))])
        footer = log_writer.close(end_offset=6)
    else:
        writer = record_writer(extension, file, envelope(), compression="zstd-1")
        writer.write(columns_of(RECORDS))
        footer = writer.close(end_offset=6)
    if footer.file is not None:
        create_sidecar(store, key, footer)
    store.create(key, file.getvalue())
    return store


def check(objects: dict[str, bytes], extension: str) -> None:
    store = MemoryStore(objects)
    archived = ArchivedPartition(store, destination_name="orders", partition=3, extension=extension)
    assert check_archived_content(archived) == 1


def told(objects: dict[str, bytes], extension: str) -> str:
    """Returns what the check says is wrong, nothing where it finds nothing; any other error gets out."""
    try:
        check(objects, extension)
    except (ChainBrokenError, UnsupportedError) as error:
        return error.message
    return ""


def bytes_changed(objects: dict[str, bytes], masks: range) -> Iterator[tuple[str, int, dict[str, bytes]]]:
    """Yields the archive with one byte of one object changed, for every byte; which bits, goes around ``masks``."""
    for key, data in objects.items():
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= masks[at % len(masks)]
            yield key, at, {**objects, key: bytes(changed)}


def assert_every_change_is_told(extension: str, masks: range) -> int:
    objects = archive_of_one_segment(extension).objects
    check(objects, extension)
    tried = 0
    for key, at, changed in bytes_changed(objects, masks):
        assert SEGMENT in told(changed, extension), f"byte {at} of {key} was changed, and nobody noticed"
        tried += 1
    return tried


@pytest.mark.parametrize("extension", FORMATS)
def test_a_change_of_any_byte_is_told(extension: str) -> None:
    # 149 different changes, one at each byte: 149 is no multiple of the width of anything in the files.
    tried = assert_every_change_is_told(extension, range(1, 150))
    assert tried > 500  # the files are as long as that, with their descriptions


@pytest.mark.soak
@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("extension", FORMATS)
def test_a_change_of_any_bit_is_told(extension: str, bit: int) -> None:
    assert_every_change_is_told(extension, range(1 << bit, (1 << bit) + 1))


@pytest.mark.parametrize("extension", FORMATS)
def test_a_file_cut_anywhere_is_told(extension: str) -> None:
    objects = archive_of_one_segment(extension).objects
    for key, data in objects.items():
        for length in range(len(data)):
            with pytest.raises(MirrorlakeError):
                check({**objects, key: data[:length]}, extension)


@pytest.mark.parametrize("extension", FORMATS)
def test_a_byte_added_at_the_end_is_told(extension: str) -> None:
    objects = archive_of_one_segment(extension).objects
    for key, data in objects.items():
        with pytest.raises(ChainBrokenError):
            check({**objects, key: data + b"\n"}, extension)


@pytest.mark.parametrize("extension", ["parquet", "ndjson"])
def test_a_topic_whose_name_looks_like_an_open_seal_keeps_its_name(extension: str) -> None:
    """32 zeros are a name that Kafka allows."""
    about = envelope(topic="0" * 32)
    file = io.BytesIO()
    writer = record_writer(extension, file, about, compression="zstd-1")
    footer = writer.close(end_offset=5)
    if extension == "parquet":
        with ParquetSegmentReader(io.BytesIO(file.getvalue()), where="x") as reader:
            reader.check_content()
            assert reader.footer is not None
            assert reader.footer.envelope == about
        return
    store = MemoryStore()
    create_sidecar(store, "t/0/s.ndjson", footer)
    found = find_sidecar(store, "t/0/s.ndjson", io.BytesIO(file.getvalue()))
    assert found is not None
    assert found.envelope == about
