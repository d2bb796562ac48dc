"""Sealed files, as they lie on disks, are read by every version of the package, and by whoever reads the docs."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash

from golden.records_v1 import RECORDS
from golden.test_segments_v1 import GOOD, records_in
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "sealed"
SEGMENT = "orders/3/00000000000000000010-00000000000000000020"
DESCRIPTION = "orders/_meta/3/00000000000000000010-00000000000000000020"


def seal_in(path: Path) -> tuple[str, str]:
    """Returns algorithm and digits, as anybody finds them."""
    is_parquet = path.suffix == ".parquet"
    fields = json.loads(pq.read_metadata(path).metadata[b"mirrorlake"] if is_parquet else path.read_bytes())
    return fields["sealed_by"], fields["seal"]


@pytest.mark.parametrize(
    ("name", "seal"),
    [
        (f"{SEGMENT}.parquet", "223cc0ab0b7395b7baa831ef5d3cba60"),
        (f"{DESCRIPTION}.ndjson.json", "a9c35dd9b632c964c9dfc7fb32af1c27"),
        (f"{DESCRIPTION}.log.json", "14c85ada4c912bef8ceada75b0af4ab9"),
    ],
)
def test_a_seal_is_the_hash_of_all_bytes_with_zeros_in_its_place(name: str, seal: str) -> None:
    data = (FOLDER / name).read_bytes()
    assert seal_in(FOLDER / name) == ("xxh3-128", seal)
    assert data.count(seal.encode()) == 1
    assert xxhash.xxh3_128_hexdigest(data.replace(seal.encode(), b"0" * 32)) == seal


@pytest.mark.parametrize("extension", ["parquet", "ndjson"])
def test_sealed_segments_are_read(extension: str) -> None:
    with open_segment(FilesystemStore(FOLDER), f"{SEGMENT}.{extension}") as segment:
        assert segment.footer is not None
        assert segment.footer.checksum == GOOD.checksum
        assert records_in(segment) == list(RECORDS)
        segment.check_content()


def test_a_sealed_log_is_read() -> None:
    with open_segment(FilesystemStore(FOLDER), f"{SEGMENT}.log") as segment:
        assert segment.footer is not None
        assert [record.offset for record in records_in(segment)] == [record.offset for record in RECORDS]
        segment.check_content()
