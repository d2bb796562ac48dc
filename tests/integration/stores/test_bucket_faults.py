"""What a bucket store makes of lost answers, refusals and stores that are not what they should be."""

import mmap
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile

import pytest

from mirrorlake.errors import (
    ConfigurationError,
    MirrorlakeError,
    PermissionDeniedError,
    StoreUnavailableError,
    StoreUnusableError,
    UnsupportedError,
)
from mirrorlake.secret import Secret
from mirrorlake.stores.bucket_clients import PUT_BYTES_MAX
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError
from mirrorlake.stores.settings import S3Settings
from support.object_servers import ObjectServer
from support.store_proxy import Fault, Spoil, StoreProxy, StoreRequest


class Spoilt:
    """A store behind a proxy, and the same store without it."""

    def __init__(self, server: ObjectServer, proxy: StoreProxy) -> None:
        self.proxy = proxy
        self.settings = server.settings(endpoint=proxy.endpoint)
        self.store = BucketStore(self.settings, pause=lambda seconds: None)
        self.behind = BucketStore(server.settings(prefix=self.settings.prefix))

    def spoil(self, spoil: Spoil) -> None:
        self.proxy.spoil = spoil
        self.proxy.requests.clear()


@pytest.fixture(params=["versitygw", "moto"])
def spoilt(request: pytest.FixtureRequest) -> Iterator[Spoilt]:
    server: ObjectServer = request.getfixturevalue(request.param)
    with StoreProxy(server.port) as proxy:
        yield Spoilt(server, proxy)


def on_creates(fault: Fault, *, times: int = 1_000) -> Spoil:
    left = [times]

    def spoil(request: StoreRequest) -> Fault | None:
        if not request.is_create or not left[0]:
            return None
        left[0] -= 1
        return fault

    return spoil


def publish(store: BucketStore, key: str, data: bytes) -> None:
    staged = store.stage(key.rpartition("/")[0], "staged")
    staged.file.write(data)
    staged.publish(key)


def test_a_create_whose_answer_is_lost_is_found_done(spoilt: Spoilt) -> None:
    spoilt.spoil(on_creates(Fault(cuts_after=True)))
    spoilt.store.create("orders/0/a", b"content")
    publish(spoilt.store, "orders/0/b", b"x" * 3_000_000)
    assert spoilt.behind.read("orders/0/a") == b"content"
    assert spoilt.behind.read("orders/0/b") == b"x" * 3_000_000
    assert spoilt.proxy.kinds() == ["create segment", "read segment", "create segment", "read segment"]


def test_a_create_that_never_arrived_is_tried_again(spoilt: Spoilt) -> None:
    spoilt.spoil(on_creates(Fault(cuts_before=True), times=2))
    spoilt.store.create("orders/0/a", b"content")
    assert spoilt.behind.read("orders/0/a") == b"content"
    assert [kind for kind in spoilt.proxy.kinds() if "create" in kind] == ["create segment"] * 3


@pytest.mark.parametrize("fault", [Fault(cuts_before=True), Fault(status=503, code="SlowDown"), Fault(status=500)])
def test_a_create_that_never_arrives_leaves_nothing_and_may_be_tried_later(spoilt: Spoilt, fault: Fault) -> None:
    spoilt.spoil(on_creates(fault))
    with pytest.raises(StoreUnavailableError) as caught:
        spoilt.store.create("orders/0/a", b"content")
    assert f"s3://lake/{spoilt.settings.prefix}/orders/0/a" in str(caught.value)
    assert [info.name for info in spoilt.behind.list("orders/0")] == []
    assert len([kind for kind in spoilt.proxy.kinds() if "create" in kind]) == 4
    spoilt.spoil(lambda request: None)
    spoilt.store.create("orders/0/a", b"content")


@pytest.mark.parametrize("other", [b"another", b"CONTENT", b""])
def test_another_writers_object_behind_a_lost_answer_is_told_from_ours(spoilt: Spoilt, other: bytes) -> None:
    spoilt.behind.create("orders/0/a", other)
    spoilt.spoil(on_creates(Fault(cuts_after=True)))
    with pytest.raises(ObjectExistsError):
        spoilt.store.create("orders/0/a", b"content")
    with pytest.raises(ObjectExistsError):
        publish(spoilt.store, "orders/0/a", b"content")
    assert spoilt.behind.read("orders/0/a") == other


def test_our_own_earlier_create_is_not_taken_for_another_writer(spoilt: Spoilt) -> None:
    """The first attempt is done and its answer lost, the look finds nothing; the second is told that it exists."""
    # Nothing is there yet when it is looked at, as where the first attempt was still under way.
    faults = iter([Fault(cuts_after=True), Fault(status=404, code="NoSuchKey")])
    spoilt.spoil(lambda request: next(faults, None))
    spoilt.store.create("orders/0/a", b"content")
    assert spoilt.proxy.kinds() == ["create segment", "read segment", "create segment", "read segment"]
    assert spoilt.behind.read("orders/0/a") == b"content"


def test_a_conflict_is_looked_at_before_it_counts(spoilt: Spoilt) -> None:
    spoilt.spoil(on_creates(Fault(status=409, code="ConditionalRequestConflict"), times=1))
    spoilt.store.create("orders/0/a", b"content")
    assert spoilt.behind.read("orders/0/a") == b"content"


def test_a_large_create_on_an_existing_key_loses_however_the_store_ends_it(versitygw: ObjectServer) -> None:
    """versitygw breaks the connection of a large create instead of answering 412."""
    store = BucketStore(versitygw.settings())
    publish(store, "orders/0/a", b"x" * 9_000_000)
    for _ in range(5):
        with pytest.raises(ObjectExistsError):
            publish(store, "orders/0/a", b"y" * 9_000_000)
    assert store.read("orders/0/a") == b"x" * 9_000_000


def test_what_one_put_cannot_hold_is_refused_by_name_before_a_byte_is_sent(spoilt: Spoilt) -> None:
    """A snapshot is one object, however many keys it has."""
    with TemporaryFile() as file:
        file.truncate(PUT_BYTES_MAX + 1)
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with pytest.raises(UnsupportedError, match="one put") as caught:
            spoilt.store.create("orders/0/a", content)  # type: ignore[arg-type]
    assert f"s3://lake/{spoilt.settings.prefix}/orders/0/a" in str(caught.value)
    assert spoilt.proxy.kinds() == []


@pytest.mark.parametrize(
    ("status", "code", "kind", "hint"),
    [
        (401, "Unauthorized", PermissionDeniedError, "give these credentials the right"),
        (403, "AccessDenied", PermissionDeniedError, "give these credentials the right"),
        (403, "SignatureDoesNotMatch", PermissionDeniedError, "correct the secret access key"),
        (403, "InvalidAccessKeyId", PermissionDeniedError, "correct the access key id"),
        (403, "RequestTimeTooSkewed", StoreUnavailableError, "set this machine's clock"),
        (400, "ExpiredToken", StoreUnavailableError, "the credentials have expired"),
        (404, "NoSuchBucket", StoreUnusableError, "create it"),
        (400, "KeyTooLongError", ConfigurationError, "choose a shorter name"),
        (400, "AuthorizationHeaderMalformed", StoreUnusableError, "correct `region`"),
        (501, "NotImplemented", StoreUnusableError, "use a store that can do it"),
        (500, "InternalError", StoreUnavailableError, ""),
        (503, "SlowDown", StoreUnavailableError, ""),
        (429, "TooManyRequests", StoreUnavailableError, ""),
    ],
)
def test_every_answer_becomes_an_error_that_says_whether_to_try_again(
    spoilt: Spoilt, status: int, code: str, kind: type[MirrorlakeError], hint: str
) -> None:
    spoilt.spoil(lambda request: Fault(status=status, code=code))
    uses: list[Callable[[], object]] = [
        lambda: spoilt.store.create("orders/0/a", b"x"),
        lambda: spoilt.store.read("orders/0/a"),
        lambda: spoilt.store.open("orders/0/a"),
        lambda: list(spoilt.store.list("orders/0")),
        lambda: list(spoilt.store.folders("orders")),
        lambda: spoilt.store.delete("orders/0/a"),
        lambda: publish(spoilt.store, "orders/0/a", b"x"),
    ]
    for use in uses:
        with pytest.raises(kind) as caught:
            use()
        assert hint in caught.value.hint
        assert code in str(caught.value)


def test_a_bucket_that_does_not_exist_is_refused_by_name(versitygw: ObjectServer) -> None:
    settings = versitygw.settings()
    nowhere = S3Settings(
        bucket="nowhere",
        region=settings.region,
        endpoint=settings.endpoint,
        access_key_id=settings.access_key_id,
        secret_access_key=settings.secret_access_key,
    )
    with pytest.raises(StoreUnusableError, match="s3://nowhere"):
        BucketStore(nowhere).probe()


def test_wrong_credentials_are_refused_and_not_shown(versitygw: ObjectServer) -> None:
    settings = versitygw.settings()
    wrong = S3Settings(
        bucket=settings.bucket,
        region=settings.region,
        endpoint=settings.endpoint,
        access_key_id=settings.access_key_id,
        secret_access_key=Secret("a-wrong-secret"),
    )
    with pytest.raises(PermissionDeniedError) as caught:
        BucketStore(wrong).probe()
    assert "a-wrong-secret" not in str(caught.value)
    assert "a-wrong-secret" not in repr(wrong)
    assert "SignatureDoesNotMatch" in str(caught.value)


def test_nobody_at_the_address_is_passing(moto: ObjectServer) -> None:
    store = BucketStore(moto.settings(endpoint="http://127.0.0.1:1"), pause=lambda seconds: None)
    with pytest.raises(StoreUnavailableError):
        store.create("a", b"x")


def test_a_store_that_ignores_the_condition_is_refused(moto: ObjectServer) -> None:
    """Moto does not look at signatures, of which the condition is a part."""
    with StoreProxy(moto.port) as proxy:
        spoilt = Spoilt(moto, proxy)
        spoilt.spoil(lambda request: Fault(without_headers=("If-None-Match",)) if request.is_create else None)
        with pytest.raises(StoreUnusableError, match="lets a second create of one key win"):
            spoilt.store.probe()
        assert [info.name for info in spoilt.behind.list("")] == []


def test_a_store_that_does_not_list_what_was_written_is_refused(spoilt: Spoilt) -> None:
    empty = (
        "<ListBucketResult><Name>lake</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
    )
    spoilt.spoil(lambda request: Fault(status=200, body=empty) if request.kind == "list" else None)
    with pytest.raises(StoreUnusableError, match="does not list an object that was just written"):
        spoilt.store.probe()


def test_a_store_that_forbids_deletes_is_refused(spoilt: Spoilt) -> None:
    spoilt.spoil(lambda request: Fault(status=403, code="AccessDenied") if request.method == "DELETE" else None)
    with pytest.raises(StoreUnusableError, match="does not let an object be deleted"):
        spoilt.store.probe()


def test_a_file_is_read_with_few_requests(spoilt: Spoilt) -> None:
    content = bytes(range(256)) * 20_000  # 5 MB
    spoilt.behind.create("orders/0/a", content)
    with spoilt.store.open("orders/0/a") as file:
        file.seek(-8, 2)
        assert file.read() == content[-8:]
        file.seek(-60_000, 2)
        assert file.read(50_000) == content[-60_000:-10_000]
        assert len(spoilt.proxy.requests) == 1
        file.seek(1000)
        assert file.read(10) == content[1000:1010]
        assert file.read(1_000_000) == content[1010:1_001_010]
        assert len(spoilt.proxy.requests) == 2
        file.seek(0)
        assert file.read() == content
    with pytest.raises(ObjectMissingError):
        spoilt.store.open("orders/0/nothing")


def on_reads(fault: Fault, *, times: int = 1_000) -> Spoil:
    left = [times]

    def spoil(request: StoreRequest) -> Fault | None:
        if request.method != "GET" or not request.name or not left[0]:
            return None
        left[0] -= 1
        return fault

    return spoil


def test_an_object_that_comes_cut_is_asked_for_once_more(spoilt: Spoilt) -> None:
    spoilt.store.create("orders/_topic.json", b"all of it")
    spoilt.spoil(on_reads(Fault(bytes_max=4), times=1))
    assert spoilt.store.read("orders/_topic.json") == b"all of it"
    spoilt.spoil(on_reads(Fault(bytes_max=4), times=1))
    with spoilt.store.open("orders/_topic.json") as file:
        assert file.read() == b"all of it"


def test_an_object_that_comes_cut_again_and_again_is_not_taken_for_damaged(spoilt: Spoilt) -> None:
    spoilt.store.create("orders/_topic.json", b"all of it")
    spoilt.store.create("orders/empty", b"")
    spoilt.spoil(on_reads(Fault(bytes_max=4)))
    with pytest.raises(StoreUnavailableError, match="has 9 bytes, says the store, and 4 came, twice"):
        spoilt.store.read("orders/_topic.json")
    with spoilt.store.open("orders/_topic.json") as file, pytest.raises(StoreUnavailableError, match="range 4-9 came"):
        file.read()
    assert spoilt.store.read("orders/empty") == b""


def test_our_own_create_whose_answer_is_lost_is_not_taken_for_another_one_where_it_comes_back_cut(
    spoilt: Spoilt,
) -> None:
    def spoil(request: StoreRequest) -> Fault | None:
        if request.is_create:
            return Fault(cuts_after=True)
        return Fault(bytes_max=4) if request.method == "GET" and len(spoilt.proxy.requests) < 3 else None

    spoilt.spoil(spoil)
    with pytest.raises(StoreUnavailableError, match="has 9 bytes, says the store, and 4 came"):
        spoilt.store.create("orders/0/a", b"all of it")


def test_an_object_replaced_while_it_is_read_is_noticed(spoilt: Spoilt) -> None:
    spoilt.behind.create("orders/0/a", b"a" * 3_000_000)
    with spoilt.store.open("orders/0/a") as file:
        spoilt.behind.delete("orders/0/a")
        spoilt.behind.create("orders/0/a", b"b" * 3_000_000)
        with pytest.raises(StoreUnavailableError, match="replaced"):
            file.read(10)


def test_a_folder_below_costs_a_listing_one_more_request(spoilt: Spoilt) -> None:
    for number in range(1_100):
        spoilt.behind.create(f"orders/0/level=1/{number:05}", b"")
    for name in ("0", "level=0", "level=2", "z"):
        spoilt.behind.create(f"orders/0/{name}", b"")
    spoilt.spoil(lambda request: None)
    assert [info.name for info in spoilt.store.list("orders/0")] == ["0", "level=0", "level=2", "z"]
    assert spoilt.proxy.kinds() == ["list", "list"]
