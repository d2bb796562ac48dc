"""What is said of a file of a bucket that is handed out before the last of it tells whether it is right."""

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.codec import Codec
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive import opened_segment
from mirrorlake.sources.archive.known_segments import KnownSegments
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.stores.memory import MemoryStore
from support.archived_source import held_records, write_segment
from support.records import build_batch, simple_records

RECORDS = simple_records(60, size=40)


@pytest.mark.parametrize("is_far", [True, False])
@pytest.mark.parametrize("start", [0, 30])
def test_it_is_not_said_of_a_far_file_that_nothing_wrong_was_copied(
    is_far: bool, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    if is_far:
        monkeypatch.setattr(opened_segment, "HELD_BYTES_MAX", 0)
        monkeypatch.setattr(MemoryStore, "listing_page_objects", 1000)  # as buckets have
    key = write_segment(
        store, TopicPartition("orders", 0), held_records([(0, build_batch(RECORDS))]), 0, 60, form="ndjson"
    )
    lines = store.objects[key].splitlines(keepends=True)
    value = lines[40].index(b'"value":"') + 9
    lines[40] = lines[40][:value] + (b"A" if lines[40][value : value + 1] != b"A" else b"B") + lines[40][value + 1 :]
    store.objects[key] = b"".join(lines)
    name = parse_segment_name(key.rpartition("/")[2])
    assert name is not None
    segment = Segment(name=name, size_bytes=len(store.objects[key]))

    with pytest.raises(ChainBrokenError) as caught:  # noqa: PT012  opening compares what is near, reading the rest
        opened = OpenSegment(store, key, segment, is_snapshot=False, known=KnownSegments())
        content = opened.content(
            OffsetRange(start_offset=start, end_offset=60), codec=Codec.NONE, batch_bytes_max=1 << 20
        )
        while content.next_piece() is not None:
            pass

    assert key in caught.value.message
    assert caught.value.hint is not None
    assert ("nothing of it was copied that is not right" in caught.value.hint) is not is_far
    assert ("copy it anew" in caught.value.hint) is is_far
