"""Fixtures every test may use: real brokers, unique names; and what CI makes of a skipped test."""

import asyncio
import os
import signal
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
import structlog
from hypothesis import settings

from mirrorlake.embedded import jars
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records import scratch
from support.azurite import Azurite, AzuriteUnusableError
from support.given_gcs import GivenGcs, NoGcsGivenError
from support.go_programs import GoProgramUnusableError
from support.kafka_nodes import KafkaNodes
from support.object_servers import Minio, Moto, ObjectServer, Versitygw
from support.short_form import says_what_is_left_out, short_form

if TYPE_CHECKING:
    from support.apicurio import Apicurio
    from support.scheduling import SharedServerScheduling
    from support.secured_kafka import SecuredKafka
    from support.tiered_kafka import TieredKafka

# A busy machine is no failure: nothing here asserts how long something takes.
settings.register_profile("mirrorlake", deadline=None)
settings.load_profile("mirrorlake")

# `make test &` in a script leaves SIGINT ignored, for this process and all that it starts, which would hear none of the
# interrupts that tests send: what is handled here has its default in a child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as `nohup make test` leaves it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SIGNALS_AT_START = [signal.getsignal(number) for number in STOP_SIGNALS]

Result = TypeVar("Result")
# By default one looks every 15 s whether there is something to clean, every 10 s whether a transaction's time is up.
EAGER = {"log.cleaner.backoff.ms": "500", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
LEFT_OUT = pytest.StashKey[int]()  # how many tests the short form left out
COROUTINE_TIMEOUT_SECONDS = 300.0  # far longer than any test; keeps a hanging one from holding the suite


class NewKafka(Protocol):
    """Starts a broker for one test; it is stopped when the test ends.

    Keyword arguments are broker properties with underscores for the dots:
    ``new_kafka(message_max_bytes=1000, heap_mb=256)``.
    """

    def __call__(self, *, heap_mb: int = 384, **properties: object) -> EmbeddedKafka: ...


class RunAsync(Protocol):
    """Runs a coroutine to its end on an event loop of its own."""

    def __call__(self, coroutine: Coroutine[Any, Any, Result]) -> Result: ...


@pytest.fixture(autouse=True)
def _signals_are_left_as_they_were() -> Iterator[None]:
    """Fails a test that leaves signals ignored: all that this process starts later would hear none of them."""
    yield
    left = [signal.getsignal(number) for number in STOP_SIGNALS]
    for number, before in zip(STOP_SIGNALS, SIGNALS_AT_START, strict=True):
        signal.signal(number, before)
    assert left == SIGNALS_AT_START, "what a test installs to hear signals with it takes away again"


@pytest.fixture(autouse=True)
def _log_is_left_as_it_was() -> Iterator[None]:
    """Commands that run in this process set up its log: where its lines go would depend on which tests came before."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _largest_batch_is_left_as_it_was() -> Iterator[None]:
    """Tasks that run in this process set what one batch of it may come to, for all that follows."""
    before = scratch.allowed()
    yield
    scratch.allow(before)


@pytest.fixture(autouse=True, scope="session")
def _kernels_are_loaded() -> None:
    """As in a worker: the first lease of this process does not stand still in the middle of a transaction for them."""
    from mirrorlake.kafka.records.kernels import load_kernels

    load_kernels()


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The folder with Kafka's jars; without Java or the network the test is skipped."""
    try:
        return jars.kafka_libs()
    except MirrorlakeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def source_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that all tests of the session share: leave it running and as you found it."""
    with EmbeddedKafka(tmp_path_factory.mktemp("source-kafka"), libs=kafka_libs, properties=EAGER) as server:
        yield server


@pytest.fixture(scope="session")
def destination_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """The other broker that all tests of the session share."""
    with EmbeddedKafka(tmp_path_factory.mktemp("destination-kafka"), libs=kafka_libs, properties=EAGER) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_nodes(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNodes]:
    """Three brokers that are one cluster, started for the first test that asks: leave all of them running."""
    with KafkaNodes(tmp_path_factory.mktemp("kafka-nodes"), libs=kafka_libs) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def secured_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SecuredKafka]":
    """A broker with TLS, SASL and access rules that all tests of the session share; leave it running."""
    from support.secured_kafka import SecuredKafka
    from support.token_endpoint import TokenEndpoint

    with (
        TokenEndpoint() as tokens,
        SecuredKafka(tmp_path_factory.mktemp("secured-kafka"), libs=kafka_libs, tokens=tokens) as server,
    ):
        server.add_scram_users()
        yield server


@pytest.fixture(scope="session")
def tiered_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[TieredKafka]":
    """A broker with a remote tier, shared; its pace is a test's own. Without a Java compiler it is skipped."""
    from support.tiered_kafka import NoCompilerError, TieredKafka

    try:
        tiered = TieredKafka(tmp_path_factory.mktemp("tiered-kafka"), libs=kafka_libs)
    except NoCompilerError as error:
        pytest.skip(str(error))
    with tiered:
        yield tiered


@pytest.fixture(scope="session")
def apicurio(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Apicurio]":
    """A schema registry that all tests of the session share: use subjects of your own."""
    from support.apicurio import Apicurio, ApicurioUnusableError

    try:
        with Apicurio(tmp_path_factory.mktemp("apicurio")) as server:
            yield server
    except ApicurioUnusableError as error:
        pytest.skip(str(error))


@pytest.fixture
def new_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewKafka]:
    """A maker of brokers of the test's own, to be stopped, killed, paused or set up differently."""
    servers: list[EmbeddedKafka] = []

    def start(*, heap_mb: int = 384, **properties: object) -> EmbeddedKafka:
        server = EmbeddedKafka(
            tmp_path_factory.mktemp("own-kafka"),
            libs=kafka_libs,
            heap_mb=heap_mb,
            properties={name.replace("_", "."): str(value) for name, value in properties.items()},
        )
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """An S3 store that all tests of the session share, over a folder; without Go, which builds it, it is skipped."""
    try:
        with Versitygw(tmp_path_factory.mktemp("versitygw")) as server:
            yield server
    except GoProgramUnusableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """Another S3 store that all tests of the session share, in memory."""
    with Moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A third one, for the soak: building it takes minutes."""
    try:
        with Minio(tmp_path_factory.mktemp("minio")) as server:
            yield server
    except GoProgramUnusableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """Azure's emulator, for the soak: npm installs it."""
    try:
        with Azurite(tmp_path_factory.mktemp("azurite")) as server:
            yield server
    except AzuriteUnusableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def gcs() -> GivenGcs:
    """Google's store, for the soak, where somebody gives a bucket of it."""
    try:
        return GivenGcs()
    except NoGcsGivenError as error:
        pytest.skip(str(error))


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name no other test has, with the test's name in it for whoever reads a broker's log."""
    readable = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80].strip("-")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def run_async() -> RunAsync:
    """A function that runs a coroutine; one event loop per call."""

    def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(COROUTINE_TIMEOUT_SECONDS):
                return await coroutine

        return asyncio.run(bounded())

    return run


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "SharedServerScheduling | None":
    """Keeps files together that share servers which are long in starting."""
    if config.getoption("dist") != "loadfile":
        return None
    from support.scheduling import SharedServerScheduling

    return SharedServerScheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option with which `make test` chooses."""
    parser.addoption(
        "--short",
        action="store_true",
        help="all unit tests, and of the others those that are not slow, of a table its first case; all with CI=true",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs a broker; leaves out the long hunts unless asked for by name, and what the short form does."""
    for item in items:
        if "kafka_libs" in getattr(item, "fixturenames", ()):
            item.add_marker("kafka")
    if "soak" not in config.getoption("markexpr"):
        hunts = [item for item in items if item.get_closest_marker("soak") is not None]
        _leave_out(config, items, hunts)
    if config.getoption("short") and not _is_ci():
        left_out = short_form(items, Path(__file__).parent).left_out
        _leave_out(config, items, left_out)
        config.stash[LEFT_OUT] = len(left_out)
        if hasattr(config, "workeroutput"):  # of pytest-xdist, who tells it to the process that writes the summary
            config.workeroutput["left_out"] = len(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Each worker has collected all tests, and left out the same ones."""
    left_out = getattr(node, "workeroutput", {}).get("left_out")
    if left_out is not None:
        node.config.stash[LEFT_OUT] = left_out


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: Sequence[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under CI a skipped test fails the run: nobody looks at a yellow dot there."""
    if _is_ci() and _skipped(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says why a run without failures failed all the same, and how much the short form left out."""
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        terminalreporter.section("this is not all")
        terminalreporter.line(says_what_is_left_out(left_out))
    skipped = _skipped(config)
    if _is_ci() and skipped:
        terminalreporter.section("skipped tests fail the run, because CI=true")
        for report in skipped:
            terminalreporter.line(f"SKIPPED {report.nodeid}: {_reason(report)}")


def _is_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")


def _skipped(config: pytest.Config) -> list[Any]:
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    return [] if reporter is None else list(reporter.stats.get("skipped", []))


def _reason(report: Any) -> str:
    longrepr = report.longrepr
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
