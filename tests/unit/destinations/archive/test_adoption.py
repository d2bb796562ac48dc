"""Claims that no source, or no segment, reaches: what a sink makes of them, over a real folder and without a broker."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.claims import RangeClaim, encode_claim
from mirrorlake.archive.names import ClaimName
from mirrorlake.destinations.archive import sink as archive
from mirrorlake.destinations.archive.adoption import CLAIM_LOOKS_MAX
from mirrorlake.errors import ChainBrokenError, ClaimAheadError
from support.records import simple_records
from unit.destinations.archive.test_sink import Bench, delivery
from unit.destinations.snapshots.test_sink import Bench as SnapshotBench
from unit.destinations.snapshots.test_sink import record

CLAIM_0 = f"_claim-{0:020}"


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def bench(tmp_path: Path, executor: ThreadPoolExecutor) -> Bench:
    return Bench(tmp_path, executor, "parquet", skips=False)


def test_a_claim_past_the_sources_end_is_looked_at_again_and_then_stops_the_partition(bench: Bench) -> None:
    bench.claim(1_000_000_000)
    for looks in range(CLAIM_LOOKS_MAX):
        bench.sink._orders = replace(bench.orders, claim_looks=looks)
        with pytest.raises(ClaimAheadError):
            asyncio.run(bench.sink.open())
    bench.sink._orders = replace(bench.orders, claim_looks=CLAIM_LOOKS_MAX)
    with pytest.raises(ChainBrokenError) as found:
        asyncio.run(bench.sink.open())
    assert f"orders/0/{CLAIM_0}, the claim of other, reaches offset 1000000000" in str(found.value)
    assert "source orders-0 ends at 30" in str(found.value)
    assert f"delete orders/0/{CLAIM_0}" in found.value.hint
    assert bench.names() == [CLAIM_0]
    assert bench.source_looks == CLAIM_LOOKS_MAX + 1


def test_a_claim_past_what_is_due_and_below_the_sources_end_is_adopted(bench: Bench) -> None:
    bench.claim(40)
    bench.source_end = 40

    async def story() -> None:
        await bench.sink.open()
        assert bench.sink.wanted_end == 40
        await bench.sink.deliver(delivery(0, 40))
        await bench.sink.finish()

    asyncio.run(story())
    assert [name for name, _, _ in bench.held()] == ["0-39"]


def test_a_claim_of_what_is_due_costs_no_question_to_the_source(bench: Bench) -> None:
    bench.claim(30)
    asyncio.run(bench.sink.open())
    assert bench.source_looks == 0


def test_a_claim_that_reaches_farther_than_a_segment_may_stops_the_partition(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "SEGMENT_RAW_BYTES_MAX", 50)
    bench.claim(30)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 30))

    with pytest.raises(ChainBrokenError, match=f"{CLAIM_0}, the claim of other, reaches offset 30 and farther than"):
        asyncio.run(story())
    asyncio.run(bench.sink.end_encoding())
    assert bench.names() == [CLAIM_0]


def test_a_claim_that_ends_with_the_record_that_fills_its_segment_is_adopted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = simple_records(20)
    record_bytes = sum(len(each.key or b"") + len(each.value or b"") for each in records)
    monkeypatch.setattr(archive, "SEGMENT_RAW_BYTES_MAX", record_bytes)
    bench.claim(20)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 30))
        await bench.sink.finish()

    asyncio.run(story())
    assert [flush.trigger for flush in bench.sink.progress.flushes] == ["adopted", "explicit"]
    assert [name for name, _, _ in bench.held()] == ["0-19", "20-29"]


def test_a_claim_that_says_more_bytes_than_a_segment_may_hold_stops_the_partition(bench: Bench) -> None:
    claim = RangeClaim(
        to_offset=19, extension="parquet", raw_bytes=(1 << 30) + (1 << 31), writer="other", origin=bench.settings.origin
    )
    bench.archived.store.create(f"orders/0/{CLAIM_0}", encode_claim(claim, ClaimName(from_offset=0)))
    with pytest.raises(ChainBrokenError, match="it says 3221225472"):
        asyncio.run(bench.sink.open())


def test_a_view_is_not_waited_for_past_the_sources_end(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    bench = SnapshotBench(tmp_path, executor)
    bench.log.append(record(b"k", b"v"))
    sink = bench.sink()
    sink._folder.publication(0, origin=sink._settings.origin, writer="other").claim(99, raw_bytes=1)
    with pytest.raises(ClaimAheadError, match="reaches offset 100, and source users-0 ends at 1"):
        asyncio.run(sink.open())
