"""One Kafka broker as a subprocess in a folder, for the demo, the tests and the benchmarks."""

import random
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from mirrorlake import class_archive
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.readiness import NotReadyError, check_ready
from mirrorlake.errors import ServerUnusableError
from mirrorlake.java import find_java

_HOST = "127.0.0.1"
_START_TIMEOUT_SECONDS = 120.0  # 4 s on an idle machine; one that swaps or runs other suites needs much more.
_FORMAT_TIMEOUT_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 30.0
_PROBE_TIMEOUT_SECONDS = 5.0
_PROBE_PAUSE_SECONDS = 0.1
_LOG_TAIL_LINES = 15
# Below the range from which Linux (32768) and macOS (49152) pick ports for outgoing connections: while a
# broker is down, a client that keeps dialling could otherwise be given the very port and keep the broker out.
_PORTS = range(14000, 32000)
_PORT_ATTEMPTS = 200

# Quick to start and small, rather than fast after an hour: no C2 compiler, no parallel collector.
QUICK_START_JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""What an embedded broker's JVM is told unless its user knows better."""
_LOGGER_FLAGS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)

_SMALL_BROKER: Mapping[str, str] = MappingProxyType(
    {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        # Made-up records often carry timestamps of years ago; the default week would delete them half a minute on.
        "log.retention.ms": "-1",
        # After a crash the controller, which crashed too, waits until the broker's old session has ended.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "1000",
        # A record that says nothing, every half a second, is a third of what an idle broker does.
        "metadata.max.idle.interval.ms": "10000",
        # The default of 128 MiB is a third of the heap.
        "log.cleaner.dedupe.buffer.size": "16777216",
    }
)


class EmbeddedKafka:
    """One KRaft node, broker and controller in one JVM, listening on 127.0.0.1 without encryption.

    It runs in a session of its own, so Ctrl-C in the caller's terminal does not reach it, and it is killed
    when the process that started it dies. ``folder`` holds ``server.properties``, ``data/`` and
    ``broker.log``; a later object on the same folder goes on with the data and the ports.

    Args:
        folder: made where it is missing; one node each.
        libs: folder with Kafka's jars, see `mirrorlake.embedded.jars.kafka_libs`.
        port: where clients connect; a free one by default, kept over restarts.
        properties: broker properties that come on top of, or replace, those of a small single node.
        heap_mb: the most the JVM's heap may take.
        jvm_flags: further options of the JVM.
    """

    def __init__(
        self,
        folder: Path,
        *,
        libs: Path,
        port: int | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
        heap_mb: int = 384,
        jvm_flags: Sequence[str] = QUICK_START_JVM_FLAGS,
    ) -> None:
        self.folder = folder
        self._jvm_flags = tuple(jvm_flags)
        self._libs = libs
        self._heap_mb = heap_mb
        self._own_properties = dict(properties)
        earlier_port, controller_port = _earlier_ports(folder / "server.properties")
        self.port = port or earlier_port or free_port()
        # The controller's address is part of the formatted data: another port would be another quorum.
        self._controller_port = controller_port or free_port(besides=self.port)
        self._process: GuardedProcess | None = None

    def __repr__(self) -> str:
        return f"EmbeddedKafka({self.bootstrap_servers}, {self.folder})"

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:PORT``, the same over restarts."""
        return f"{_HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the broker's JVM.

        Raises:
            ServerUnusableError: it was not started, or was stopped.
        """
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._process is not None and self._process.exit_code is None

    @property
    def log_path(self) -> Path:
        """What the broker and the formatting said, over all starts."""
        return self.folder / "broker.log"

    def start(self) -> Self:
        """Formats the folder where it is new, starts the broker and waits until it serves.

        It serves when it answers ApiVersions and its transaction coordinator has loaded. Does nothing where
        it already runs.

        Raises:
            JavaUnusableError: there is no usable Java.
            ServerUnusableError: it died, with the last lines of its log, or did not serve within two minutes.
        """
        if self.is_running:
            return self
        self.stop()
        java = str(find_java().executable)
        self._check_port_is_free()
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text(self._properties_text(), encoding="utf-8")
        self._prepare(java)
        command = self._java_command(java, "kafka.Kafka", str(properties), heap_mb=self._heap_mb)
        self._process = GuardedProcess(command, log_path=self.log_path)
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, *, timeout_seconds: float = _STOP_TIMEOUT_SECONDS) -> None:
        """Ends the broker in good order, by force after half a minute or so long. Does nothing where none runs."""
        if self._process is not None:
            self._process.stop(timeout_seconds=timeout_seconds)
            self._process = None

    def kill(self) -> None:
        """Ends the broker at once (SIGKILL), as a crash would. Does nothing where none runs."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def restart(self) -> Self:
        """Stops, then starts, on the same port with the same data."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freezes the broker (SIGSTOP): connections stay open and nothing answers."""
        self._started().pause()

    def resume(self) -> None:
        """Lets a paused broker go on (SIGCONT)."""
        self._started().resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> GuardedProcess:
        if self._process is None:
            raise ServerUnusableError(f"the embedded Kafka in {self.folder} is not started")
        return self._process

    def _check_port_is_free(self) -> None:
        if not _is_free(self.port):
            raise ServerUnusableError(
                f"port {self.port} is taken by another process, so the embedded Kafka in {self.folder} cannot start",
                hint="end that process, or leave the port to be chosen",
                port=self.port,
            )

    @property
    def _meta_properties(self) -> Path:
        return self.folder / "data" / "meta.properties"

    def _prepare(self, java: str) -> None:
        """Does what the broker's start needs beside ``server.properties``, which is written."""
        if not self._meta_properties.exists():
            self._format(java, self.folder / "server.properties")

    def _cluster_id(self) -> str:
        lines = self._meta_properties.read_text(encoding="utf-8").splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def _properties_text(self) -> str:
        return "".join(f"{name}={value}\n" for name, value in self._properties().items())

    def _properties(self) -> dict[str, str]:
        here = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{_HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers},"
            f"CONTROLLER://{_HOST}:{self._controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{_HOST}:{self._controller_port}",
            "log.dirs": str((self.folder / "data").absolute()),
        }
        return {**_SMALL_BROKER, **here, **self._own_properties}

    def _java_command(self, java: str, main_class: str, *arguments: str, heap_mb: int) -> list[str]:
        # Native parts of the codecs are unpacked to the temporary folder, and a killed JVM leaves them there.
        own_tmp = f"-Djava.io.tmpdir={(self.folder / 'tmp').absolute()}"
        flags = (f"-Xmx{heap_mb}m", *self._jvm_flags, *self._archive_options(java), *_LOGGER_FLAGS, own_tmp)
        return [java, *flags, "-cp", f"{self._libs}/*", main_class, *arguments]

    def _archive_options(self, java: str) -> tuple[str, ...]:
        if self._jvm_flags != QUICK_START_JVM_FLAGS:
            return ()  # the archive is made for those
        return archive_options(Path(java), self._libs)

    def _format(self, java: str, properties: Path) -> None:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # One word: an id may begin with a dash, which the tool would else take for an option.
        storage_tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties))
        command = self._java_command(java, *storage_tool, "--standalone", heap_mb=128)
        try:
            with self.log_path.open("ab") as log:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=_FORMAT_TIMEOUT_SECONDS,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired) as cause:
            raise self._unusable(f"could not be formatted: {cause}") from cause
        if done.returncode != 0:
            raise self._unusable(f"could not be formatted, exit code {done.returncode}")

    def _wait_until_ready(self, process: GuardedProcess) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        reason = "it was not asked"
        while time.monotonic() < deadline:
            if process.exit_code is not None:
                raise self._unusable(f"died while starting, exit code {process.exit_code}")
            try:
                cluster_id = self._cluster_id()
                check_ready(_HOST, self.port, cluster_id=cluster_id, timeout_seconds=_PROBE_TIMEOUT_SECONDS)
            except (FileNotFoundError, StopIteration):
                reason = "it belongs to no cluster yet"
            except NotReadyError as not_ready:
                reason = str(not_ready)
            else:
                return
            time.sleep(_PROBE_PAUSE_SECONDS)
        raise self._unusable(f"does not serve after {_START_TIMEOUT_SECONDS:.0f} s: {reason}")

    def _unusable(self, what: str) -> ServerUnusableError:
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        # Errors first: a broker that gives up says why, and then a page about closing down.
        telling = [line for line in lines if "ERROR" in line or "Exception" in line] or lines
        tail = "\n  ".join(telling[-_LOG_TAIL_LINES:])
        message = f"the embedded Kafka on {self.bootstrap_servers} {what}; its log {self.log_path} says:\n  {tail}"
        return ServerUnusableError(message, folder=str(self.folder), port=self.port)


def archive_for(java: Path, libs: Path) -> Path:
    """Returns where the class-data archive of a broker with `QUICK_START_JVM_FLAGS` lies, whether it exists or not.

    Raises:
        ConfigurationError: as `user_cache_folder`.
    """
    folder = class_archive.cache_folder()
    return class_archive.archive_path(folder, java=java, jars=libs, flags=QUICK_START_JVM_FLAGS, program="kafka")


def archive_options(java: Path, libs: Path) -> tuple[str, ...]:
    """Returns the JVM options of a broker to start with that archive; none where there is none to be trusted."""
    options = class_archive.use_options(archive_for(java, libs))
    return (*class_archive.QUIET, *options) if options else ()


def _earlier_ports(properties: Path) -> tuple[int | None, int | None]:
    """Returns the client's and the controller's port of the node this folder had, None without one."""
    try:
        lines = properties.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None, None
    for line in lines:
        if line.startswith("listeners="):
            client, *others = (int(listener.rpartition(":")[2]) for listener in line.split(","))
            return client, others[0] if others else None
    return None, None


def free_port(*, besides: int | None = None) -> int:
    """Returns a port of 127.0.0.1 nobody listens on now, and no outgoing connection will be given.

    Raises:
        ServerUnusableError: none was found.
    """
    for _attempt in range(_PORT_ATTEMPTS):
        # Not the module's own generator: what seeds that, as test tools do, would give processes the same ports.
        port = random.SystemRandom().choice(_PORTS)
        if port != besides and _is_free(port):
            return port
    raise ServerUnusableError(f"no free port between {_PORTS.start} and {_PORTS.stop} after {_PORT_ATTEMPTS} tries")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        # As Java binds its listeners; without it a port in TIME_WAIT would look taken.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((_HOST, port))
        except OSError:
            return False
    return True
