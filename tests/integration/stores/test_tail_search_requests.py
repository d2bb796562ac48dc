"""What a start costs on a long archive: listing requests on a real S3 server, CPU time on a file system."""

import time
from pathlib import Path

import pytest

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from support.object_servers import BUCKET, ObjectServer
from support.store_proxy import StoreProxy

SEGMENTS_MANY = 100_000


def archive_in(store: ObjectStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")


def fill(folder: Path, segments: int) -> None:
    """Ten offsets each; the gateway's objects are files, so that making them takes no request."""
    folder.mkdir(parents=True)
    for number in range(segments):
        (folder / f"{number * 10:020}-{number * 10 + 9:020}.parquet").touch()
    (folder / f"_claim-{segments * 10:020}").touch()


def requests_to_find(versitygw: ObjectServer, segments: int) -> tuple[int, int, int]:
    """Returns the position found, the claims found, and the listing requests it took."""
    with StoreProxy(versitygw.port) as proxy:
        settings = versitygw.settings(endpoint=proxy.endpoint)
        fill(versitygw.folder / "buckets" / BUCKET / settings.prefix / "orders" / "0", segments)
        chain = archive_in(BucketStore(settings)).find_end()
        assert set(proxy.kinds()) == {"list"}
        return chain.position, len(chain.claims), len(proxy.kinds())


def test_a_bucket_is_searched_in_few_listings(versitygw: ObjectServer) -> None:
    position, claims, requests = requests_to_find(versitygw, 20_000)
    assert (position, claims) == (200_000, 1)
    assert requests <= 13  # a listing of it all takes 21


def test_a_short_archive_in_a_bucket_takes_one_listing(versitygw: ObjectServer) -> None:
    assert requests_to_find(versitygw, 900) == (9_000, 1, 1)


@pytest.mark.soak
def test_a_hundred_thousand_segments_in_a_bucket_take_some_twenty_listings(versitygw: ObjectServer) -> None:
    position, claims, requests = requests_to_find(versitygw, SEGMENTS_MANY)
    assert (position, claims) == (1_000_000, 1)
    assert requests <= 20


@pytest.mark.parametrize("segments", [20_000, pytest.param(SEGMENTS_MANY, marks=pytest.mark.soak)])
def test_a_long_archive_on_a_file_system_is_checked_whole_in_seconds(tmp_path: Path, segments: int) -> None:
    fill(tmp_path / "orders" / "0", segments)
    archive = archive_in(FilesystemStore(tmp_path))
    begun = time.process_time()
    chain = archive.find_end()
    archive.sweep(chain)
    seconds = time.process_time() - begun
    assert (chain.position, chain.segment_count) == (segments * 10, segments)
    assert seconds < 5 * segments / SEGMENTS_MANY
