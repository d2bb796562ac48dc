"""Whether a bucket keeps old versions is told by what it says of one object."""

from dataclasses import replace
from urllib.request import Request, urlopen

import pytest

from mirrorlake.stores.bucket_store import BucketStore
from support.object_servers import ObjectServer

ENABLED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


def put(url: str, content: bytes = b"") -> None:
    """As the console of a bucket's owner does; this server asks nobody for a signature."""
    headers = {"Content-Type": "application/xml"}
    with urlopen(Request(url, data=content, headers=headers, method="PUT")) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("is_versioned", [False, True])
def test_a_bucket_with_versioning_is_told_from_one_without(moto: ObjectServer, is_versioned: bool) -> None:
    name = f"versions-{str(is_versioned).lower()}"
    put(f"{moto.endpoint}/{name}")
    if is_versioned:
        put(f"{moto.endpoint}/{name}?versioning", ENABLED)
    store = BucketStore(replace(moto.settings(), bucket=name))
    store.create("orders/0/object", b"content")
    assert store.keeps_versions("orders/0/object") is is_versioned
