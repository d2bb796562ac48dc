"""Segments that are described before they exist, under every interleaving of two writers and their crashes.

The writers' records differ: the topic was compacted between their reads. Whichever segment wins must be the one that
its description is about.
"""

import contextlib
import io
from functools import cache, partial

import pytest

from mirrorlake.archive.envelope import SegmentFooter, encode_footer
from mirrorlake.archive.formats.ndjson import NdjsonSegmentWriter
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import parse_claim_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.archive.reading import check_archived_content
from mirrorlake.archive.sidecar import create_sidecar, sidecar_key
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive import segment as segment_module
from mirrorlake.destinations.archive.segment import OpenSegment
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectExistsError, ObjectStore
from unit.archive.publish_model import Search, World
from unit.archive.sample_records import ORIGIN, Record, columns_of, envelope

SOURCE_END = 2


@cache
def lines(from_offset: int, to_offset: int, *, is_compacted: bool) -> tuple[bytes, SegmentFooter]:
    """What the real writer makes of a range; of a compacted source it read the last record only, and a newer one."""
    file = io.BytesIO()
    writer = NdjsonSegmentWriter(file, envelope(start_offset=from_offset))
    first = to_offset if is_compacted else from_offset
    writer.write(columns_of([Record(n, b"k", b"new" if is_compacted else b"old") for n in range(first, to_offset + 1)]))
    footer = writer.close(end_offset=to_offset + 1)
    return file.getvalue(), footer


class LinesWriter:
    """A segment's writer that was done before: the search runs each lease a thousand times."""

    records = 0
    raw_bytes = 0

    def __init__(self, file: object, start_offset: int, *, is_compacted: bool) -> None:
        self._file = file
        self._start_offset = start_offset
        self._is_compacted = is_compacted

    def close(
        self,
        *,
        end_offset: int,
        gaps: object = (),
        leader_epoch: int | None = None,
        filtered: object = None,
        schema_ids: object = None,
    ) -> SegmentFooter:
        data, footer = lines(self._start_offset, end_offset - 1, is_compacted=self._is_compacted)
        self._file.write(data)  # type: ignore[attr-defined]
        return footer

    def abandon(self) -> None:
        pass


def archived(store: ObjectStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=3, extension="ndjson")


def one_lease(store: ObjectStore, *, length: int, is_compacted: bool) -> None:
    """What a lease does: position, the claim that may be there, and the real code of a segment."""
    archive = archived(store)
    chain = archive.read_chain()
    archive.sweep(chain)
    if chain.position >= SOURCE_END:
        return
    pending = archive.pending_claim(chain, origin=ORIGIN)
    end = pending.to_offset + 1 if pending else min(chain.position + length, SOURCE_END)
    begun = OpenSegment(
        archive,
        source=TopicPartition("orders", 3),
        cluster_id="cluster",
        topic_id="topic-id",
        make_writer=lambda file, about: LinesWriter(file, about.start_offset, is_compacted=is_compacted),
        writer=f"{length} {is_compacted}",
        start_offset=chain.position,
        clock=ManualClock(0.0),
    )
    try:
        begun.publish(end_offset=end, trigger="model")
    except PositionMovedError:
        begun.discard()


def run(start: World = frozenset()) -> Search:
    search = Search(
        (
            (partial(one_lease, length=1, is_compacted=False), partial(one_lease, length=2, is_compacted=False)),
            (partial(one_lease, length=2, is_compacted=True),),
        ),
        start,
    )
    search.run()
    return search


def assert_every_segment_is_described(world: World) -> None:
    store = MemoryStore(dict(world))
    position = 0
    for key in sorted(store.objects):
        if not key.startswith("orders/3/") or parse_claim_name(key.rpartition("/")[2]):
            continue
        with open_segment(store, key) as segment:
            assert segment.footer is not None, f"{key} is not described in {sorted(store.objects)}"
            segment.check_content()
            assert segment.footer.offsets.start_offset == position
            position = segment.footer.end_offset
    assert position <= SOURCE_END


def assert_all_are_described(search: Search) -> None:
    for world in search.worlds:
        assert_every_segment_is_described(world)


def assert_one_writer_finishes_from(world: World) -> None:
    store = MemoryStore(dict(world))
    for _ in range(SOURCE_END):
        one_lease(store, length=1, is_compacted=False)
    archive = archived(store)
    chain = archive.read_chain()
    archive.sweep(chain)
    assert chain.position == SOURCE_END
    assert check_archived_content(archive) == chain.segment_count
    assert not [key for key in store.objects if parse_claim_name(key.rpartition("/")[2])]


def test_whichever_segment_wins_is_the_one_its_description_is_about() -> None:
    search = run()
    assert len(search.states) > 5_000  # the search did search
    assert any(sidecar_key(f"orders/3/{0:020}-{1:020}.ndjson", 1) in dict(world) for world in search.worlds)
    assert_all_are_described(search)
    for world in search.worlds:
        assert_one_writer_finishes_from(world)


def test_void_descriptions_neither_block_nor_mislead() -> None:
    start = frozenset((sidecar_key(f"orders/3/{0:020}-{end:020}.ndjson"), b"") for end in (0, 1))
    search = run(start)
    assert_all_are_described(search)
    for world in search.worlds:
        assert_one_writer_finishes_from(world)


def test_with_one_description_for_a_range_the_same_search_finds_a_segment_of_other_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search can fail: where the first description stands for good, the other writer's segment may win."""

    def describe_once(store: ObjectStore, key: str, footer: SegmentFooter, **_: object) -> None:
        with contextlib.suppress(ObjectExistsError):
            store.create(sidecar_key(key), encode_footer(footer))

    monkeypatch.setattr(segment_module, "create_sidecar", describe_once)
    with pytest.raises(ChainBrokenError, match="its description says"):
        assert_all_are_described(run())


def test_with_the_description_last_the_same_search_finds_a_segment_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search can fail: a crash between the two leaves a segment that nobody describes any more."""
    asked: list[tuple[ObjectStore, str, SegmentFooter]] = []
    release = SegmentPublication.release

    def describe_then_release(self: SegmentPublication) -> None:
        create_sidecar(*asked[-1])
        release(self)

    monkeypatch.setattr(segment_module, "create_sidecar", lambda *described, **_: asked.append(described))
    monkeypatch.setattr(SegmentPublication, "release", describe_then_release)
    with pytest.raises(AssertionError, match="is not described"):
        assert_all_are_described(run())
