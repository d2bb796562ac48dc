"""Keeping an archive in a bucket whose rights are missing, or are lost while it is kept: real store, real refusals.

What fails early changes nothing and names the right; what fails half-way leaves an archive that every reader reads, and
the next run finishes it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.pipeline.batch_jobs import BatchJobs
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.service.archives.erasing import EraseRun
from mirrorlake.service.archives.merging import MergeRun, plan_places, refuse_without_rights
from mirrorlake.service.archives.places import Filters, places_of
from mirrorlake.service.archives.retention import retain
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.archives.snapshotting import SnapshotRun, plan_snapshots, planned_row, with_rights
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.object_store import PROBE_NAME
from support.archived_source import archive, held_records
from support.object_servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectServer
from support.records import Record, build_batch
from support.store_proxy import Fault, StoreProxy, StoreRequest

ENDS = (10, 20, 30, 40)
RECORDS = [Record(1_700_000_000_000 + n, b"key %d" % (n % 5), b"value %d" % n, ()) for n in range(ENDS[-1])]
DENIED = Fault(status=403, code="AccessDenied")
RIGHTS: dict[str, Callable[[StoreRequest], bool]] = {
    "create": lambda request: request.method == "PUT",
    "read": lambda request: request.method in ("GET", "HEAD") and request.kind != "list",
    "list": lambda request: request.kind == "list",
    "delete": lambda request: request.method == "DELETE",
}
FORMS = ("parquet", "log")


@dataclass
class Lake:
    """An archive of one partition in a bucket, told of by a configuration, through a proxy that refuses what it may."""

    server: ObjectServer
    proxy: StoreProxy
    form: str
    prefix: str

    def __post_init__(self) -> None:
        content = held_records((start, build_batch(RECORDS[start : start + 10])) for start in range(0, ENDS[-1], 10))
        settings = self.server.settings(prefix=self.prefix)
        archive(settings, TopicPartition("orders", 0), content, ENDS, form=self.form)
        self.behind = BucketStore(settings)

    @property
    def config(self) -> Configuration:
        place = f"bucket: {BUCKET}, prefix: {self.prefix}, region: {REGION}, endpoint: '{self.proxy.endpoint}'"
        keys = "access-key-id: '${LAKE_KEY}', secret-access-key: '${LAKE_SECRET}', addressing: path"
        text = f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: s3, {place}, {keys}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations:
      - type: archive
        store: lake
        format: {self.form}
        merge: {{steps: [{{min-age: 0s, max-bytes: 64MiB}}], min-files: 2, min-bytes: 0}}
        retain: {{max-bytes: 1}}
"""
        environ = {"LAKE_KEY": ACCESS_KEY, "LAKE_SECRET": SECRET_KEY}
        return parse_configuration(text.encode(), file="mirror.yaml", environ=environ)

    @property
    def archived(self) -> ArchivedPartition:
        return ArchivedPartition(self.behind, destination_name="orders", partition=0, extension=self.form)

    def names(self) -> set[str]:
        """Every object of the archive but those a refused right was tried with."""
        folders = ["orders/0", *(f"orders/{folder}/0" for folder in ("_meta", "_erased")), "orders.snapshot/0"]
        names = {info.key for folder in folders for info in self.behind.list(folder)}
        return {name for name in names if PROBE_NAME not in name}

    def values(self, start: int = 0) -> dict[int, bytes | None]:
        """What a reader reads from an offset on, every file compared with what it says of itself."""
        check_archived_content(self.archived)
        held = OffsetRange(start_offset=start, end_offset=ENDS[-1])
        return {
            int(offset): columns.values[row].as_py()
            for columns in read_archived_range(self.archived, held)
            for row, offset in enumerate(columns.offsets)
        }


def jobs(engine: InProcessEngine) -> BatchJobs:
    return BatchJobs(engine, slots=lambda: 1)


def merge(config: Configuration, engine: InProcessEngine) -> Sequence[MirrorlakeError | None]:
    planned = plan_places(places_of(config, Filters()).places, clock=SystemClock())
    refuse_without_rights(planned)
    return [row.error for row in MergeRun(planned, jobs=jobs(engine), clock=SystemClock()).run()]


def retire(config: Configuration, engine: InProcessEngine) -> Sequence[MirrorlakeError | None]:
    del engine
    return [row.error for row in retain(places_of(config, Filters()).places, clock=SystemClock(), is_dry=False)]


def erase(config: Configuration, engine: InProcessEngine) -> Sequence[MirrorlakeError | None]:
    run = EraseRun(
        places_of(config, Filters(names=frozenset({"orders"}))).places,
        [b"key 3"],
        jobs=jobs(engine),
        clock=SystemClock(),
        is_dry=False,
    )
    run.look()
    return [row.error for row in run.run()]


def snapshot(config: Configuration, engine: InProcessEngine) -> Sequence[MirrorlakeError | None]:
    options, clock = SnapshotOptions(writer="test"), SystemClock()
    planned = with_rights(plan_snapshots(places_of(config, Filters()).places, options, clock=clock))
    if all(each.plan is None for each in planned):
        return [planned_row(each).error for each in planned]
    return [row.error for row in SnapshotRun(planned, options=options, engine=engine, clock=clock).run()]


VERBS = {"merge": merge, "retain": retire, "erase": erase, "snapshot": snapshot}
Run = Callable[[Lake, str], Sequence[MirrorlakeError | None]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    engine = InProcessEngine(SessionSettings(lanes=1, batch_slots=1))

    def run(lake: Lake, verb: str) -> Sequence[MirrorlakeError | None]:
        try:
            return VERBS[verb](lake.config, engine)
        except MirrorlakeError as error:
            return [error]

    yield run
    engine.stop()


@pytest.fixture
def proxy(versitygw: ObjectServer) -> Iterator[StoreProxy]:
    with StoreProxy(versitygw.port) as proxy:
        yield proxy


NEW = {n: each.value for n, each in enumerate(RECORDS)}
AFTER: dict[str, tuple[int, dict[int, bytes | None]]] = {
    "merge": (0, NEW),
    "retain": (30, {n: value for n, value in NEW.items() if n >= 30}),
    "erase": (0, {n: value for n, value in NEW.items() if n >= 30 or n % 5 != 3}),
    "snapshot": (0, NEW),
}
"""Where what is read begins, and what that is, once a run is through; the newest segment is never touched."""


def assert_done(lake: Lake, verb: str) -> None:
    start, expected = AFTER[verb]
    assert lake.values(start) == expected
    look = look_at(lake.archived)
    assert (look.covered, look.retired, look.merges, look.retiring) == ((), (), (), ())
    if verb == "merge":
        assert [each.name.from_offset for each in look.chain] == [0, 30]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_right_that_is_missing_is_named_before_anything_is_begun(
    versitygw: ObjectServer, proxy: StoreProxy, run: Run, tmp_path_factory: pytest.TempPathFactory, verb: str, form: str
) -> None:
    lake = Lake(versitygw, proxy, form, tmp_path_factory.mktemp("early").name)
    before = lake.names()
    for right, needs in RIGHTS.items():
        proxy.spoil = lambda request, needs=needs: DENIED if needs(request) else None  # type: ignore[misc]
        errors = [error for error in run(lake, verb) if error is not None]
        assert errors, (verb, right)
        assert all("AccessDenied" in str(error) for error in errors)
        if right in ("create", "delete"):  # what is listed and read first is refused as it is
            assert [error.facts["right"] for error in errors] == [right]
            assert f"the right to {right} objects there is missing" in str(errors[0])
            assert "nothing was begun in s3://" in str(errors[0])
        assert lake.names() == before, (verb, right)
    proxy.spoil = lambda request: None
    assert not any(run(lake, verb))
    assert_done(lake, verb)


def spoilt_positions(count: int, sample: int | None) -> Sequence[int]:
    if sample is None or count <= sample:
        return range(count)
    return sorted({round(number * (count - 1) / (sample - 1)) for number in range(sample)})


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verb", VERBS)
def test_rights_that_are_lost_half_way_leave_an_archive_that_is_read_and_the_next_run_finishes(
    versitygw: ObjectServer, proxy: StoreProxy, run: Run, tmp_path_factory: pytest.TempPathFactory, verb: str, form: str
) -> None:
    """Listing and reading stay allowed; from some request that changes something on, none is."""
    lose_rights(versitygw, proxy, run, tmp_path_factory, verb, form, sample=4)


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verb", VERBS)
def test_rights_may_be_lost_at_every_request(
    versitygw: ObjectServer, proxy: StoreProxy, run: Run, tmp_path_factory: pytest.TempPathFactory, verb: str, form: str
) -> None:
    lose_rights(versitygw, proxy, run, tmp_path_factory, verb, form, sample=None)


def lose_rights(
    versitygw: ObjectServer,
    proxy: StoreProxy,
    run: Run,
    tmp_path_factory: pytest.TempPathFactory,
    verb: str,
    form: str,
    *,
    sample: int | None,
) -> None:
    lake = Lake(versitygw, proxy, form, tmp_path_factory.mktemp("whole").name)
    proxy.requests.clear()
    assert not any(run(lake, verb))
    changes = sum(request.method in ("PUT", "DELETE") for request in proxy.requests)
    assert changes > 4, "the rights are tried out, and then something is done"
    for lost_from in spoilt_positions(changes, sample):
        lake = Lake(versitygw, proxy, form, tmp_path_factory.mktemp("lost").name)
        seen = 0

        def deny(request: StoreRequest, lost_from: int = lost_from) -> Fault | None:
            nonlocal seen
            if request.method not in ("PUT", "DELETE"):
                return None
            seen += 1
            return DENIED if seen > lost_from else None

        proxy.spoil = deny
        run(lake, verb)
        start, expected = AFTER[verb]
        look = look_at(lake.archived)
        read = lake.values(look.chain[0].name.from_offset)
        assert {n: value for n, value in read.items() if n in expected} == expected
        assert {n: value for n, value in NEW.items() if n in read} == read
        proxy.spoil = lambda request: None
        assert not any(run(lake, verb)), lost_from
        run(lake, verb)  # what another run had announced is finished, then what is covered goes
        assert_done(lake, verb)
        assert start >= look.floor
