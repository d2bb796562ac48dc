"""Two sources that are archived to one folder, under every interleaving of their writers and crashes.

Each writer reads the position, looks whose segment ends there, and does what a lease does with the real code. Whatever
happens, a folder holds the records of one source, and the other one's writer is told.
"""

import contextlib
import io
import json
from functools import cache, partial

import pytest

from mirrorlake.archive import partition, publish
from mirrorlake.archive.claims import RangeClaim, decode_claim, encode_claim
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.ndjson import NdjsonSegmentWriter
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import ClaimName, parse_claim_name
from mirrorlake.archive.newest import check_newest, read_newest
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.segment import OpenSegment
from mirrorlake.errors import ChainBrokenError, OtherSourceError, PositionMovedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectStore
from unit.archive.publish_model import Search, World
from unit.archive.sample_records import Record, columns_of

SOURCE_END = 3
ORDERS = TopicPartition("orders", 3)


def origin_of(cluster: str) -> Origin:
    return Origin(cluster_id=cluster, topic="orders", topic_id="topic-id", partition=3)


CLAIM_OF_EAST = RangeClaim(to_offset=0, extension="ndjson", raw_bytes=1, writer="east", origin=origin_of("east"))


@cache
def lines(cluster: str, start: int, end: int) -> tuple[bytes, SegmentFooter]:
    """What the real writer makes of a range of a cluster's topic."""
    about = SegmentEnvelope(
        cluster_id=cluster,
        topic_id="topic-id",
        topic="orders",
        partition=3,
        start_offset=start,
        writer=cluster,
        created_at="2026-01-02T03:04:05Z",
    )
    file = io.BytesIO()
    writer = NdjsonSegmentWriter(file, about)
    writer.write(columns_of([Record(n, b"k", cluster.encode()) for n in range(start, end)]))
    footer = writer.close(end_offset=end)
    return file.getvalue(), footer


class LinesWriter:
    """A segment's writer that was done before: the search runs each lease a thousand times."""

    records = 0
    raw_bytes = 0

    def __init__(self, file: object, about: SegmentEnvelope) -> None:
        self._file = file
        self._about = about

    def close(
        self,
        *,
        end_offset: int,
        gaps: object = (),
        leader_epoch: int | None = None,
        filtered: object = None,
        schema_ids: object = None,
    ) -> SegmentFooter:
        data, footer = lines(self._about.cluster_id, self._about.start_offset, end_offset)
        self._file.write(data)  # type: ignore[attr-defined]
        return footer

    def abandon(self) -> None:
        pass


def archived(store: ObjectStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=3, extension="ndjson")


def one_lease(store: ObjectStore, *, cluster: str, length: int, looks: bool = True) -> None:
    """What a lease does; raises what parks its partition."""
    archive, origin = archived(store), origin_of(cluster)
    chain = archive.read_chain()
    archive.sweep(chain)
    if chain.tail is not None and looks:
        said = read_newest(archive, chain.tail)
        check_newest(archive, chain.tail, said, origin=origin, is_snapshot=False, known=None)
    if chain.position >= SOURCE_END:
        return
    pending = archive.pending_claim(chain, origin=origin)
    end = pending.to_offset + 1 if pending else min(chain.position + length, SOURCE_END)
    begun = OpenSegment(
        archive,
        source=ORDERS,
        cluster_id=cluster,
        topic_id="topic-id",
        make_writer=LinesWriter,
        writer=cluster,
        start_offset=chain.position,
        clock=ManualClock(0.0),
    )
    try:
        begun.publish(end_offset=end, trigger="model")
    except PositionMovedError:
        begun.discard()


def lease_or_park(store: ObjectStore, *, cluster: str, length: int, looks: bool = True) -> None:
    with contextlib.suppress(ChainBrokenError, OtherSourceError):
        one_lease(store, cluster=cluster, length=length, looks=looks)


def run(*, start: World = frozenset(), looks: bool = True) -> Search:
    east = tuple(partial(lease_or_park, cluster="east", length=n, looks=looks) for n in (1, 2))
    west = (partial(lease_or_park, cluster="west", length=2, looks=looks),)
    search = Search((east, west), start)
    search.run()
    return search


def clusters_in(world: World) -> list[str]:
    """Whose records lie in a world, segment by segment."""
    store = MemoryStore(dict(world))
    found = []
    for key in sorted(store.objects):
        if key.startswith("orders/3/") and not parse_claim_name(key.rpartition("/")[2]):
            with open_segment(store, key) as segment:
                assert segment.footer is not None, key
                segment.check_content()
                found.append(segment.footer.envelope.cluster_id)
    return found


def claims_in(world: World) -> list[tuple[int, RangeClaim]]:
    """The claims of a world, by the offset they are for."""
    named = ((parse_claim_name(key.rpartition("/")[2]), data) for key, data in world)
    return [(name.from_offset, claim) for name, data in named if name and (claim := decode_claim(data, name))]


def assert_the_other_is_told(world: World) -> None:
    """A writer left alone finishes where the folder is its source's, and is stopped with the reason where it is not."""
    owners = set(clusters_in(world))
    for cluster in ("east", "west"):
        store = MemoryStore(dict(world))
        claimed = {claim.origin.cluster_id for _, claim in claims_in(world) if claim.origin is not None}
        if (owners or claimed) <= {cluster}:
            for _ in range(SOURCE_END):
                one_lease(store, cluster=cluster, length=1)
            assert archived(store).read_chain().position == SOURCE_END
        else:
            with pytest.raises(OtherSourceError):
                one_lease(store, cluster=cluster, length=1)


def test_a_folder_holds_the_records_of_one_source_and_the_other_is_told() -> None:
    search = run()
    assert len(search.states) > 2_000  # the search did search
    owners = [set(clusters_in(world)) for world in search.worlds]
    assert {"east"} in owners
    assert {"west"} in owners
    assert {"east", "west"} not in owners
    for world in search.worlds:
        assert_the_other_is_told(world)


def test_a_claim_that_does_not_say_whose_it_is_leaves_one_source_all_the_same() -> None:
    """An early version's: both sources adopt its end, and of two files of one name one wins."""
    early = {"version": 1, "to_offset": 1, "extension": "ndjson", "raw_bytes": 1, "writer": "before"}
    start = frozenset({(f"orders/3/_claim-{0:020}", json.dumps(early).encode())})
    search = run(start=start)
    for world in search.worlds:
        assert len(set(clusters_in(world))) <= 1
    assert {"east"} in [set(clusters_in(world)) for world in search.worlds]


def test_without_a_look_at_the_newest_segment_the_same_search_finds_two_sources() -> None:
    """The search can fail: a position taken from names lets the second source go on behind the first."""
    owners = [set(clusters_in(world)) for world in run(looks=False).worlds]
    assert {"east", "west"} in owners


def test_behind_a_claim_of_another_source_nothing_is_written_and_without_the_check_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its writer may live, and count on its claim."""
    start = frozenset({(f"orders/3/_claim-{0:020}", encode_claim(CLAIM_OF_EAST, ClaimName(from_offset=0)))})
    west = (partial(lease_or_park, cluster="west", length=2),)
    search = Search((west, west), start)
    search.run()
    assert search.worlds == [start]
    monkeypatch.setattr(publish, "check_claim", lambda *ignored, **also: None)
    monkeypatch.setattr(partition, "check_claim", lambda *ignored, **also: None)
    search = Search((west,), start)
    search.run()
    assert ["west"] in [clusters_in(world) for world in search.worlds]
