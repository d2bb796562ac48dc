"""Every store that suites of this folder run against."""

from pathlib import Path

import pytest

from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectStore
from support.azurite import Azurite
from support.given_gcs import GivenGcs
from support.object_servers import ObjectServer

SERVERS = ["versitygw", "moto", *(pytest.param(name, marks=pytest.mark.soak) for name in ("minio", "azurite", "gcs"))]


@pytest.fixture(params=["filesystem", "memory", *SERVERS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    match request.param:
        case "filesystem":
            return FilesystemStore(tmp_path)
        case "memory":
            return MemoryStore()
        case server_name:
            server: ObjectServer | Azurite | GivenGcs = request.getfixturevalue(server_name)
            return BucketStore(server.settings())
