"""Writers that are killed at their crash points leave one chain with every record, on a file system and in a bucket."""

import random
from pathlib import Path

import pytest

from fault.archive_writer import archived, bucket_root, die_at_each, die_at_random, source_records, write_archive
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.stores.crash_points import no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from support.fork_server import exit_codes
from support.object_servers import ObjectServer
from support.store_proxy import Fault, StoreProxy, StoreRequest

SOURCE_END = 40
REPAIRED_END = 15
"""Where the source ends for writers that go on after one crash: a few segments behind it."""
FAR_FUTURE_SECONDS = 4_000_000_000.0


def assert_archive_is_the_source(root: str, extension: str, source_end: int) -> None:
    """One chain, whole files, every record once; and nothing but segments and their descriptions after a sweep."""
    archive = archived(root, no_crash, extension=extension)
    chain = archive.read_chain()
    assert chain.position == source_end
    found = []
    for info in archive.store.list("orders/0"):
        if not info.name.startswith("_"):
            with open_segment(archive.store, info.key) as segment:
                segment.check_content()
                found += list(segment.records())
    assert RecordColumns.concat(found).equals(source_records(0, source_end))
    archive.sweep(chain)
    # Every writer has the same records, so what a dead one described is what the next one publishes.
    described = 0 if extension == "parquet" else chain.segment_count
    if not root.startswith("http"):
        store = FilesystemStore(Path(root), clock=ManualClock(FAR_FUTURE_SECONDS))
        ArchivedPartition(store, destination_name="orders", partition=0, extension=extension).sweep(chain)
        assert len(list(Path(root, "orders/0").iterdir())) == chain.segment_count
        assert len(list(Path(root).glob("orders/_meta/0/*"))) == described
    assert len(list(archive.store.list("orders/0"))) == chain.segment_count
    assert len(list(archive.store.list("orders/_meta/0"))) == described


@pytest.mark.parametrize("length_after", [2, 5])
@pytest.mark.parametrize(("extension", "steps"), [("parquet", 14), ("ndjson", 20), ("log", 20)])
def test_a_kill_at_any_crash_point_is_repaired_by_the_next_writer(
    tmp_path: Path, extension: str, steps: int, length_after: int
) -> None:
    (deaths,) = exit_codes([(die_at_each, (str(tmp_path), extension, 3))])
    # 5 crash points of the segment's file, 5 of the claim's, 4 of the protocol; 6 of the description.
    assert deaths == steps
    for life in range(deaths + 1):
        root = str(tmp_path / str(life))
        write_archive(archived(root, no_crash, extension=extension), REPAIRED_END, length_after, no_crash)
        assert_archive_is_the_source(root, extension, REPAIRED_END)


@pytest.mark.parametrize(("extension", "seed"), [("parquet", 1), ("parquet", 2), ("ndjson", 3), ("log", 4)])
def test_processes_with_different_cuts_killed_at_random_leave_one_chain(
    tmp_path: Path, extension: str, seed: int
) -> None:
    race_to_the_end(str(tmp_path), extension, seed, probability=0.06)


def race_to_the_end(root: str, extension: str, seed: int, *, probability: float) -> None:
    codes = exit_codes(
        [
            (die_at_random, (root, extension, SOURCE_END, length, seed * 10 + length, probability))
            for length in (3, 4, 7)
        ]
    )
    assert codes == [0, 0, 0]
    assert_archive_is_the_source(root, extension, SOURCE_END)


@pytest.mark.slow
@pytest.mark.parametrize("server_name", ["versitygw", "moto"])
@pytest.mark.parametrize(("extension", "steps"), [("parquet", 4), ("ndjson", 5)])
def test_a_kill_at_any_crash_point_is_repaired_by_the_next_writer_in_a_bucket(
    request: pytest.FixtureRequest, server_name: str, extension: str, steps: int
) -> None:
    server: ObjectServer = request.getfixturevalue(server_name)
    root = bucket_root(server.settings())
    (deaths,) = exit_codes([(die_at_each, (root, extension, 3))])
    # 4 crash points of the protocol, and the description; a put is one request, whole or not at all.
    assert deaths == steps
    for life in range(deaths + 1):
        place = f"{root}/{life}"
        write_archive(archived(place, no_crash, extension=extension), REPAIRED_END, 5, no_crash)
        assert_archive_is_the_source(place, extension, REPAIRED_END)


@pytest.mark.parametrize(("server_name", "extension", "seed"), [("versitygw", "parquet", 4), ("moto", "ndjson", 5)])
def test_processes_with_different_cuts_killed_at_random_leave_one_chain_in_a_bucket(
    request: pytest.FixtureRequest, server_name: str, extension: str, seed: int
) -> None:
    server: ObjectServer = request.getfixturevalue(server_name)
    race_to_the_end(bucket_root(server.settings()), extension, seed, probability=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("extension", "seed"), [("parquet", 6), ("ndjson", 7)])
def test_processes_whose_answers_are_lost_at_random_leave_one_chain_in_a_bucket(
    versitygw: ObjectServer, extension: str, seed: int
) -> None:
    """Of the requests that change something a third is done and not answered, or never arrives."""
    chance = random.Random(seed)
    # Whatever chance has for the others: the first segment does not arrive and has to be sent again.
    certain = iter([Fault(cuts_before=True)])

    def spoil(asked: StoreRequest) -> Fault | None:
        if asked.kind == "create segment" and (fault := next(certain, None)):
            return fault
        if asked.method not in ("PUT", "DELETE") or chance.random() > 1 / 3:
            return None
        return chance.choice(
            [Fault(cuts_after=True), Fault(cuts_before=True), Fault(cuts_after=True, wait_seconds=0.3)]
        )

    with StoreProxy(versitygw.port, spoil) as proxy:
        root = bucket_root(versitygw.settings(endpoint=proxy.endpoint))
        race_to_the_end(root, extension, seed, probability=0.03)
        created = [asked.name for asked in proxy.requests if asked.kind == "create segment"]
    assert len(created) > len(set(created)), "no create had to be tried again"
