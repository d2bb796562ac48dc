"""Writers that are killed at their crash points leave one chain with every record, on a file system and in a bucket."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from fault import archive_writer
from fault.archive_writer import archived, bucket_root, source_records, write_archive
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.kafka.columns import RecordColumns
from mirrorlake.stores.crash_points import no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from support.object_servers import ObjectServer
from support.script_environ import SCRIPT_ENVIRON
from support.store_proxy import Fault, StoreProxy, StoreRequest

SOURCE_END = 40
FAR_FUTURE_SECONDS = 4_000_000_000.0


def assert_archive_is_the_source(root: str, extension: str) -> None:
    """One chain, whole files, every record once; and nothing but segments and their descriptions after a sweep."""
    archive = archived(root, no_crash, extension=extension)
    chain = archive.read_chain()
    assert chain.position == SOURCE_END
    found = []
    for info in archive.store.list("orders/0"):
        if not info.name.startswith("_"):
            with open_segment(archive.store, info.key) as segment:
                segment.check_content()
                found += list(segment.records())
    assert RecordColumns.concat(found).equals(source_records(0, SOURCE_END))
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
    done = subprocess.run(
        [sys.executable, archive_writer.__file__, "each", str(tmp_path), extension, "3"],
        check=False,
        env=SCRIPT_ENVIRON,
    )
    # 5 crash points of the segment's file, 5 of the claim's, 4 of the protocol; 6 of the description.
    assert done.returncode == steps
    for life in range(done.returncode + 1):
        root = str(tmp_path / str(life))
        write_archive(archived(root, no_crash, extension=extension), SOURCE_END, length_after, no_crash)
        assert_archive_is_the_source(root, extension)


@pytest.mark.parametrize(("extension", "seed"), [("parquet", 1), ("parquet", 2), ("ndjson", 3), ("log", 4)])
def test_processes_with_different_cuts_killed_at_random_leave_one_chain(
    tmp_path: Path, extension: str, seed: int
) -> None:
    race_to_the_end(str(tmp_path), extension, seed, probability=0.06)


def race_to_the_end(root: str, extension: str, seed: int, *, probability: float) -> None:
    writers = [
        subprocess.Popen(
            [
                sys.executable,
                archive_writer.__file__,
                "random",
                *(root, extension, str(SOURCE_END), str(length), str(seed * 10 + length), str(probability)),
            ],
            env=SCRIPT_ENVIRON,
        )
        for length in (3, 4, 7)
    ]
    try:
        codes = [writer.wait(timeout=300) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert codes == [0, 0, 0]
    assert_archive_is_the_source(root, extension)


@pytest.mark.parametrize("server_name", ["versitygw", "moto"])
@pytest.mark.parametrize(("extension", "steps"), [("parquet", 4), ("ndjson", 5)])
def test_a_kill_at_any_crash_point_is_repaired_by_the_next_writer_in_a_bucket(
    request: pytest.FixtureRequest, server_name: str, extension: str, steps: int
) -> None:
    server: ObjectServer = request.getfixturevalue(server_name)
    root = bucket_root(server.settings())
    done = subprocess.run(
        [sys.executable, archive_writer.__file__, "each", root, extension, "3"], check=False, env=SCRIPT_ENVIRON
    )
    # 4 crash points of the protocol, and the description; a put is one request, whole or not at all.
    assert done.returncode == steps
    for life in range(done.returncode + 1):
        place = f"{root}/{life}"
        write_archive(archived(place, no_crash, extension=extension), SOURCE_END, 5, no_crash)
        assert_archive_is_the_source(place, extension)


@pytest.mark.parametrize(("server_name", "extension", "seed"), [("versitygw", "parquet", 4), ("moto", "ndjson", 5)])
def test_processes_with_different_cuts_killed_at_random_leave_one_chain_in_a_bucket(
    request: pytest.FixtureRequest, server_name: str, extension: str, seed: int
) -> None:
    server: ObjectServer = request.getfixturevalue(server_name)
    race_to_the_end(bucket_root(server.settings()), extension, seed, probability=0.1)


@pytest.mark.parametrize(("extension", "seed"), [("parquet", 6), ("ndjson", 7)])
def test_processes_whose_answers_are_lost_at_random_leave_one_chain_in_a_bucket(
    versitygw: ObjectServer, extension: str, seed: int
) -> None:
    """Of the requests that change something a third is done and not answered, or never arrives."""
    chance = random.Random(seed)

    def spoil(asked: StoreRequest) -> Fault | None:
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
