import io

import pytest

from mirrorlake.archive.seal import blocks_of


@pytest.mark.parametrize("read_bytes", [1, 3, 7, 10, 11, 100])
def test_all_bytes_come_in_order_whatever_is_read_at_a_time(read_bytes: int) -> None:
    file = io.BytesIO(b"0123456789")
    assert b"".join(bytes(block) for block in blocks_of(file, read_bytes)) == b"0123456789"


@pytest.mark.parametrize("total", [0, 1, 4, 9, 10, 11])
def test_no_more_is_read_than_was_asked_for(total: int) -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(1)
    found = b"".join(bytes(block) for block in blocks_of(file, 4, total_bytes=total))
    assert found == b"123456789"[:total]
    assert file.tell() == 1 + len(found)
