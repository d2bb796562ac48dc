"""What a start's probe of a bucket costs, however much is archived there."""

from mirrorlake.stores.bucket_store import BucketStore
from support.object_servers import BUCKET, ObjectServer
from support.store_proxy import StoreProxy

TOPICS = 12
OBJECTS_OF_A_TOPIC = 300
"""Together several pages of a listing."""


def test_a_probe_takes_six_requests_beside_thousands_of_objects(versitygw: ObjectServer) -> None:
    with StoreProxy(versitygw.port) as proxy:
        settings = versitygw.settings(endpoint=proxy.endpoint)
        root = versitygw.folder / "buckets" / BUCKET / settings.prefix
        for topic in range(TOPICS):
            folder = root / f"topic{topic:03}" / "0"
            folder.mkdir(parents=True)
            for number in range(OBJECTS_OF_A_TOPIC):
                (folder / f"{number:020}-{number:020}.parquet").touch()
        BucketStore(settings).probe()
        methods = sorted(request.method for request in proxy.requests)
        assert methods == ["DELETE", "GET", "GET", "GET", "PUT", "PUT"]
        assert proxy.kinds().count("list") == 2
        assert sorted(path.name for path in root.iterdir()) == [f"topic{number:03}" for number in range(TOPICS)]
