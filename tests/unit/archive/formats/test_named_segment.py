"""What a segment says of itself is taken only where it is about the file that is there."""

from pathlib import Path

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.named_segment import read_named_footer
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.filesystem import FilesystemStore
from support.archives import write_segment


@pytest.mark.parametrize("length", [0, 1, -1])
@pytest.mark.parametrize("extension", ["ndjson", "log"])
def test_a_file_of_another_length_than_its_description_says_is_refused(
    tmp_path: Path, extension: str, length: int
) -> None:
    file = write_segment(tmp_path, "orders", 0, 0, 30, extension=extension)
    whole = file.read_bytes()
    name = parse_segment_name(file.name)
    assert name is not None

    def read() -> int:
        segment = Segment(name=name, size_bytes=file.stat().st_size)
        footer = read_named_footer(FilesystemStore(tmp_path), "orders/0", segment, partition=0, is_snapshot=False)
        assert footer is not None
        return footer.end_offset

    assert read() == 30
    file.chmod(0o644)
    file.write_bytes(whole[:length])
    with pytest.raises(ChainBrokenError, match=f"has .* bytes, its description says {len(whole)}"):
        read()
    file.write_bytes(whole)
    assert read() == 30
