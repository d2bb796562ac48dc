from collections.abc import Iterator

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.claims import RangeClaim, encode_claim
from mirrorlake.archive.names import ClaimName, SegmentName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Adopted, Claimed, SegmentPublication, StandDown, State, Step
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo
from unit.archive.sample_records import ORIGIN

CLAIM_0 = "orders/0/_claim-00000000000000000000"
SEGMENT_0_4 = "orders/0/00000000000000000000-00000000000000000004.parquet"


def archived(store: MemoryStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")


def publication(store: MemoryStore, from_offset: int = 0, writer: str = "me") -> SegmentPublication:
    return archived(store).publication(from_offset, origin=ORIGIN, writer=writer)


def claim_bytes(to_offset: int, *, writer: str = "other", extension: str = "parquet") -> bytes:
    claim = RangeClaim(to_offset=to_offset, extension=extension, raw_bytes=7, writer=writer, origin=ORIGIN)
    return encode_claim(claim, ClaimName(from_offset=0))


def refuse(key: str) -> None:
    raise ChainBrokenError(f"{key} is not equal")


def test_a_writer_alone_claims_publishes_and_leaves_only_the_segment() -> None:
    store = MemoryStore()
    writer = publication(store)
    staged = writer.stage()
    staged.file.write(b"records")
    assert writer.claim(4, raw_bytes=7) == Claimed(to_offset=4)
    assert list(store.objects) == [CLAIM_0]
    assert writer.publish(staged, confirm_equal=refuse) is True
    writer.release()
    assert store.objects == {SEGMENT_0_4: b"records"}
    assert writer.state is State.RELEASED


def test_another_writers_claim_is_adopted() -> None:
    store = MemoryStore({CLAIM_0: claim_bytes(9)})
    writer = publication(store)
    assert writer.claim(4, raw_bytes=1) == Adopted(to_offset=9, raw_bytes=7, writer="other")
    staged = writer.stage()
    writer.publish(staged, confirm_equal=refuse)
    writer.release()
    assert list(store.objects) == ["orders/0/00000000000000000000-00000000000000000009.parquet"]


def test_another_writers_claim_of_the_same_end_needs_no_new_cut() -> None:
    assert publication(MemoryStore({CLAIM_0: claim_bytes(4)})).claim(4, raw_bytes=1) == Claimed(to_offset=4)


def test_the_claim_left_by_a_dead_writer_is_seen_before_anything_is_encoded() -> None:
    archive = archived(MemoryStore({CLAIM_0: claim_bytes(9)}))
    pending = archive.pending_claim(archive.read_chain(), origin=ORIGIN)
    assert pending == RangeClaim(to_offset=9, extension="parquet", raw_bytes=7, writer="other", origin=ORIGIN)


def test_a_writer_behind_stands_down_and_withdraws_its_claim() -> None:
    store = MemoryStore({SEGMENT_0_4: b""})
    writer = publication(store)
    assert writer.claim(2, raw_bytes=1) == StandDown(position=5)
    assert list(store.objects) == [SEGMENT_0_4]
    assert writer.state is State.STOOD_DOWN


def test_a_writer_behind_leaves_another_writers_claim_alone() -> None:
    store = MemoryStore({SEGMENT_0_4: b"", CLAIM_0: claim_bytes(9)})
    assert publication(store).claim(2, raw_bytes=1) == StandDown(position=5)
    assert CLAIM_0 in store.objects


def test_an_equal_segment_published_meanwhile_counts_as_published() -> None:
    store = MemoryStore()
    writer = publication(store)
    writer.claim(4, raw_bytes=1)
    store.objects[SEGMENT_0_4] = b"by another"
    confirmed: list[str] = []
    assert writer.publish(writer.stage(), confirm_equal=confirmed.append) is False
    assert confirmed == [SEGMENT_0_4]
    assert store.objects[SEGMENT_0_4] == b"by another"


def test_an_unequal_segment_published_meanwhile_is_an_error_and_stays() -> None:
    store = MemoryStore()
    writer = publication(store)
    writer.claim(4, raw_bytes=1)
    store.objects[SEGMENT_0_4] = b"foreign"
    staged = writer.stage()
    with pytest.raises(ChainBrokenError, match="is not equal"):
        writer.publish(staged, confirm_equal=refuse)
    assert store.objects[SEGMENT_0_4] == b"foreign"


def test_an_unreadable_claim_is_void_and_the_next_revision_decides() -> None:
    store = MemoryStore({CLAIM_0: b"", f"{CLAIM_0}.1": b"\xff"})
    writer = publication(store)
    assert writer.claim(4, raw_bytes=1) == Claimed(to_offset=4)
    assert f"{CLAIM_0}.2" in store.objects
    late = publication(store, writer="late")
    assert late.claim(8, raw_bytes=1) == Adopted(to_offset=4, raw_bytes=1, writer="me")
    writer.publish(writer.stage(), confirm_equal=refuse)
    writer.release()
    assert list(store.objects) == [SEGMENT_0_4]


def test_too_many_unreadable_claims_are_refused_with_the_remedy() -> None:
    store = MemoryStore({CLAIM_0: b""} | {f"{CLAIM_0}.{revision}": b"" for revision in range(1, 10)})
    with pytest.raises(ChainBrokenError, match="10 unreadable claims of offset 0") as refused:
        publication(store).claim(4, raw_bytes=1)
    assert CLAIM_0 in refused.value.hint


def test_a_claim_for_another_format_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match="claims a ndjson segment for other"):
        publication(MemoryStore({CLAIM_0: claim_bytes(4, extension="ndjson")})).claim(4, raw_bytes=1)


def test_a_foreign_name_at_the_tail_keeps_anything_from_being_published() -> None:
    with pytest.raises(ChainBrokenError, match="README"):
        publication(MemoryStore({"orders/0/README": b""})).claim(4, raw_bytes=1)


def test_a_claim_that_was_made_though_the_store_said_exists_is_our_own() -> None:
    store = MemoryStore({SEGMENT_0_4: b"", CLAIM_0: claim_bytes(4, writer="me")})
    assert publication(store).claim(4, raw_bytes=7) == StandDown(position=5)
    assert CLAIM_0 not in store.objects


def test_the_crash_point_is_called_before_every_step_that_touches_the_store() -> None:
    store = MemoryStore({CLAIM_0: b""})
    steps: list[str] = []
    writer = archived(store).publication(0, origin=ORIGIN, writer="me", crash_point=steps.append)
    staged = writer.stage()
    writer.claim(4, raw_bytes=1)
    store.objects[SEGMENT_0_4] = b""
    writer.publish(staged, confirm_equal=lambda key: None)
    writer.release()
    assert steps == [
        *(Step.CREATE_CLAIM, Step.READ_CLAIM, Step.CREATE_CLAIM, Step.LIST_TAIL),
        *(Step.PUBLISH_SEGMENT, Step.CONFIRM_SEGMENT, Step.DELETE_CLAIM, Step.DELETE_CLAIM),
    ]


def test_claims_below_the_position_are_swept_and_the_one_at_it_is_not() -> None:
    claim_5 = "orders/0/_claim-00000000000000000005"
    store = MemoryStore({SEGMENT_0_4: b"", CLAIM_0: b"", f"{CLAIM_0}.1": claim_bytes(4), claim_5: b""})
    archive = archived(store)
    assert archive.sweep(archive.read_chain()) == 2
    assert list(store.objects) == [SEGMENT_0_4, claim_5]


def test_the_tail_is_read_from_a_narrow_listing() -> None:
    names = [f"orders/0/{start:020d}-{start + 4:020d}.parquet" for start in (0, 5, 10)]
    store = MemoryStore(dict.fromkeys(names, b"x"))
    archive = archived(store)
    known = archive.read_chain().tail
    del store.objects[names[0]]  # below the tail, and not looked at
    store.objects["orders/0/00000000000000000015-00000000000000000015.parquet"] = b""
    assert archive.read_tail(known).position == 16
    del store.objects[names[2]]
    del store.objects["orders/0/00000000000000000015-00000000000000000015.parquet"]
    with pytest.raises(ChainBrokenError, match="is gone"):
        archive.read_tail(known)


BEFORE = Segment(name=SegmentName(from_offset=0, to_offset=4, extension="parquet"), size_bytes=3)


@pytest.mark.parametrize("there", [{}, {SEGMENT_0_4: b"1234"}], ids=["gone", "altered"])
def test_nothing_is_published_behind_a_segment_that_is_not_there_as_it_was(there: dict[str, bytes]) -> None:
    store = MemoryStore(there)
    with pytest.raises(ChainBrokenError, match="was the last segment"):
        publication(store, 5).claim(9, raw_bytes=1, behind=BEFORE)
    # Whoever has adopted the claim meanwhile ends where it says: it stays, as a crash would leave it.
    assert set(store.objects) == {*there, "orders/0/_claim-00000000000000000005"}


def test_one_listing_without_the_segment_before_is_not_believed() -> None:
    """A folder is not read in one instant: two looks must agree."""

    class Missed(MemoryStore):
        looks = 0

        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            self.looks += 1
            listing = super().list(prefix, start_after=start_after)
            return (info for info in listing if self.looks > 1 or info.name != str(BEFORE.name))

    store = Missed({SEGMENT_0_4: b"123"})
    assert publication(store, 5).claim(9, raw_bytes=1, behind=BEFORE) == Claimed(to_offset=9)
    assert store.looks == 2
