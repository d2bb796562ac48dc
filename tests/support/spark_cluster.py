"""A standalone Spark cluster on this machine from PySpark's own jars: a master, and workers to kill one by one.

Where the machine lets it, each worker has namespaces of its own, as a machine would have: another host name and
address, processes that nobody else sees, and a ``/tmp`` that the driver's files are not in. And it has two cables, to
two networks: on one are Spark's master and the driver, on the other the brokers. So one can be cut and not the other.
"""

import contextlib
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from pyspark.find_spark_home import _find_spark_home

import mirrorlake
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.kafka_server import EmbeddedKafka, free_port
from mirrorlake.java import find_java
from mirrorlake.pipeline.settings import SessionSettings, jvm_flags
from support.copies import wait_until

_EXECUTOR = "CoarseGrainedExecutorBackend"
# Not below /tmp, which each worker has for itself: what a test shares with all workers lies here.
_SHARED_PARENT = Path("/var/tmp")

# Waits until somebody has moved both network interfaces in, and becomes the worker.
_ENTER = """
hostname "$1" && ip link set lo up && mount -t tmpfs tmpfs /tmp || exit 1
shift
for cable in 1 2; do
  while ! ip link show "$1" >/dev/null 2>&1; do sleep 0.02; done
  ip address add "$2/24" dev "$1" && ip link set "$1" up || exit 1
  shift 2
done
exec "$@"
"""


@cache
def why_not_isolated() -> str:
    """Returns why workers cannot have namespaces of their own here; empty where they can."""
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no `{tool}`"
    if os.getuid() != 0:
        return "only root may make namespaces and network interfaces"
    name = f"mlt{random.SystemRandom().randrange(10**9)}"
    made = subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"`ip link add` says: {made.stderr.strip()}"
    _ip("link", "delete", name)
    command = ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"`unshare` says: {tried.stderr.strip()}" if tried.returncode != 0 else ""


def hidden_from_workers(paths: Sequence[Path]) -> list[Path]:
    """Those that workers with a ``/tmp`` of their own do not see."""
    return [path for path in paths if path.resolve().is_relative_to("/tmp")]


def _check_that_workers_see_the_package() -> None:
    needed = [Path(mirrorlake.__file__).parent, Path(sys.prefix), Path(sys.base_prefix), Path(_find_spark_home())]
    if hidden := hidden_from_workers(needed):
        raise RuntimeError(
            f"each worker has a /tmp of its own and does not see {', '.join(map(str, hidden))}: "
            "run this from a checkout, with its .venv, that lies elsewhere"
        )


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Cable(StrEnum):
    """What connects a worker, by the first letter of its interface's name."""

    SPARK = "s"
    BROKERS = "b"


@dataclass(slots=True)
class SparkWorker:
    """One worker. ``host`` is where it listens; ``name`` its host name, where it has one of its own."""

    number: int
    name: str
    host: str
    folder: Path
    process: GuardedProcess

    @property
    def is_running(self) -> bool:
        return self.process.exit_code is None

    @property
    def log(self) -> str:
        return (self.folder / "worker.log").read_text(errors="replace")

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        found = []
        for process in _below(self.process.pid):
            try:
                if process.name() == "java" and _EXECUTOR in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def python_workers(self) -> list[psutil.Process]:
        """The processes that leases run in: children of the daemon, which is a child of an executor."""
        return [task for executor in self.executors() for daemon in executor.children() for task in daemon.children()]

    def freeze(self) -> None:
        """SIGSTOP to the worker and all that runs below it, as a machine whose hypervisor pauses it."""
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def wake(self, *, leases_first_seconds: float = 0.0) -> None:
        """SIGCONT to all of it; what leases run in gets it so long before the others. Idempotent."""
        leases = self.python_workers()
        for process in leases:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        time.sleep(leases_first_seconds)
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _all(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return [psutil.Process(self.process.pid), *_below(self.process.pid)]
        return []

    def kill(self) -> None:
        """SIGKILL to the worker and all that runs below it, as a machine that loses power; waits for it."""
        for process in reversed(self._all()):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.kill()


class SparkCluster:
    """A master and workers; every connection is authenticated and encrypted.

    Args:
        workers: how many.
        cores: of each worker.
        is_isolated: whether each has namespaces of its own; by default where that can be.
    """

    def __init__(self, *, workers: int = 2, cores: int = 2, is_isolated: bool | None = None) -> None:
        self.is_isolated = not why_not_isolated() if is_isolated is None else is_isolated
        if self.is_isolated:
            _check_that_workers_see_the_package()
        self.folder = Path(tempfile.mkdtemp(prefix="mirrorlake-cluster-", dir=_SHARED_PARENT))
        self.secret = secrets.token_hex(24)
        self.workers: list[SparkWorker] = []
        self._count = workers
        self._cores = cores
        draw = random.SystemRandom()
        number = draw.randrange(10**8)
        self._bridges = {cable: f"ml{cable}{number}" for cable in Cable}
        first, second = draw.randrange(64, 192), 2 * draw.randrange(128)
        self._nets = {Cable.SPARK: f"10.{first}.{second}", Cable.BROKERS: f"10.{first}.{second + 1}"}
        self.host = f"{self._nets[Cable.SPARK]}.1" if self.is_isolated else "127.0.0.1"
        self.broker_host = f"{self._nets[Cable.BROKERS]}.1" if self.is_isolated else "127.0.0.1"
        self._port = free_port()
        self._master: GuardedProcess | None = None

    @property
    def master(self) -> str:
        return f"spark://{self.host}:{self._port}"

    @property
    def secret_file(self) -> Path:
        """Holds the secret that the driver needs."""
        return self.folder / "secret"

    def spark_conf(self) -> dict[str, object]:
        """What ``engine.spark-conf`` needs for this cluster."""
        return {
            "spark.authenticate": True,
            "spark.authenticate.secret": {"file": str(self.secret_file)},
            "spark.network.crypto.enabled": True,
            "spark.io.encryption.enabled": True,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(_jvm_options()),
        }

    def start(self) -> Self:
        """Starts all of it; returns when every worker is registered."""
        self.secret_file.touch(0o600)
        self.secret_file.write_text(f"{self.secret}\n")
        conf = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.io.encryption.enabled": "true",
            "spark.worker.timeout": "10",
        }
        self._properties.touch(0o600)
        self._properties.write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
        if self.is_isolated:
            for cable, bridge in self._bridges.items():
                _ip("link", "add", bridge, "address", _some_address(), "type", "bridge")
                _ip("address", "add", f"{self._nets[cable]}.1/24", "dev", bridge)
                _ip("link", "set", bridge, "up")
        self.start_master()
        for _ in range(self._count):
            self.add_worker()
        self.await_workers(self._count)
        return self

    def start_master(self) -> None:
        """Starts a master that knows of no worker and no program; returns when it serves."""
        arguments = ("--host", self.host, "--port", str(self._port), "--webui-port", "0")
        command = self._java("org.apache.spark.deploy.master.Master", *arguments)
        log = self.folder / "master.log"
        log.unlink(missing_ok=True)
        self._master = GuardedProcess(command, log_path=log, environ=self._environ(self.host))
        wait_until(
            lambda: "I have been elected leader" in self.master_said(), "Spark's master to serve", log=self.master_said
        )

    def kill_master(self) -> None:
        """SIGKILL to it; workers and executors run on."""
        assert self._master is not None
        self._master.kill()

    def add_worker(self, environ: Mapping[str, str] | None = None) -> SparkWorker:
        """Starts one more, with ``environ`` added to its environment; does not wait until it is registered."""
        number = len(self.workers) + 1
        folder = self.folder / f"worker-{number}"
        folder.mkdir()
        name = f"worker-{number}"
        hosts = {cable: f"{net}.{number + 1}" for cable, net in self._nets.items()}
        host = hosts[Cable.SPARK] if self.is_isolated else "127.0.0.1"
        arguments = ("--host", host, "--cores", str(self._cores), "--memory", "2g", "--work-dir", str(folder / "work"))
        command = self._java("org.apache.spark.deploy.worker.Worker", *arguments, "--webui-port", "0", self.master)
        if self.is_isolated:
            interfaces = [argument for cable in Cable for argument in (f"{cable}{number}", hosts[cable])]
            enter = ("sh", "-c", _ENTER, "enter", name, *interfaces)
            spaces = ("--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
            command = ["unshare", *spaces, *enter, *command]
        environ = {**self._environ(host), **(environ or {})}
        process = GuardedProcess(command, log_path=folder / "worker.log", environ=environ)
        if self.is_isolated:
            for cable in Cable:
                self._connect(process.pid, number, cable)
        worker = SparkWorker(number, name, host, folder, process)
        self.workers.append(worker)
        return worker

    def await_workers(self, count: int) -> None:
        """Waits until so many workers have registered since the master began."""
        wait_until(
            lambda: self.master_said().count("Registering worker ") >= count,
            f"{count} workers to register",
            log=self._log,
        )

    def running(self) -> list[SparkWorker]:
        """The workers that run."""
        return [worker for worker in self.workers if worker.is_running]

    def cut(self, worker: SparkWorker, *cables: Cable) -> None:
        """Takes a worker off networks, as a switch that fails; it runs on. Only where workers are isolated."""
        for cable in cables:
            _ip("link", "set", self._link(worker.number, cable), "down")

    def mend(self, worker: SparkWorker) -> None:
        """Gives it back what it was cut off. Idempotent."""
        for cable in Cable:
            _ip("link", "set", self._link(worker.number, cable), "up")

    def address_of(self, worker: SparkWorker, cable: Cable) -> str:
        """Where a worker is on a cable's network. Only where workers are isolated."""
        return f"{self._nets[cable]}.{worker.number + 1}"

    def bytes_sent(self, worker: SparkWorker, cable: Cable) -> int:
        """How much a worker has sent over a cable since it was made."""
        counters = Path("/sys/class/net", self._link(worker.number, cable), "statistics")
        return int((counters / "rx_bytes").read_text())

    def stop(self) -> None:
        """Kills everything and removes what it left. Idempotent."""
        for worker in self.workers:
            if worker.is_running:
                worker.kill()
        if self._master is not None:
            self._master.kill()
            self._master = None
            if self.is_isolated:
                for bridge in self._bridges.values():
                    _ip("link", "delete", bridge)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _properties(self) -> Path:
        return self.folder / "spark.conf"

    def _link(self, number: int, cable: Cable) -> str:
        return f"{self._bridges[cable]}v{number}"

    def _connect(self, pid: int, number: int, cable: Cable) -> None:
        """Puts one end of a cable into the network namespace of a process that has just unshared it."""
        ours = Path("/proc/self/ns/net").readlink()
        give_up_at = time.monotonic() + 30.0
        while Path(f"/proc/{pid}/ns/net").readlink() == ours:
            assert time.monotonic() < give_up_at, "`unshare` does not begin"
            time.sleep(0.01)
        link = self._link(number, cable)
        _ip("link", "add", link, "type", "veth", "peer", "name", f"{cable}{number}", "netns", str(pid))
        _ip("link", "set", link, "master", self._bridges[cable])
        _ip("link", "set", link, "up")

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        options = ("-Xmx256m", *_jvm_options(), "-cp", f"{_find_spark_home()}/jars/*")
        settings = ("--properties-file", str(self._properties))
        return [str(find_java().executable), *options, main_class, *settings, *arguments]

    def _environ(self, host: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
        return {**kept, "SPARK_HOME": _find_spark_home(), "SPARK_LOCAL_IP": host, "SPARK_SCALA_VERSION": "2.13"}

    def master_said(self) -> str:
        """The master's log."""
        return (self.folder / "master.log").read_text(errors="replace")

    def _log(self) -> str:
        return "\n".join([self.master_said(), *(worker.log for worker in self.workers)])

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ReachableKafka(EmbeddedKafka):
    """A broker that workers of a cluster reach at an address of this machine.

    Args:
        folder: as for its parent.
        libs: likewise.
        host: the address.
        properties: further ones of the broker.
    """

    def __init__(self, folder: Path, *, libs: Path, host: str, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, libs=libs, properties=properties or {})
        self._host = host

    @property
    def reachable_servers(self) -> str:
        return f"{self._host}:{self.port}"

    def _properties(self) -> dict[str, str]:
        properties = super()._properties()
        here = f"PLAINTEXT://{self.bootstrap_servers}"
        listeners = properties["listeners"].replace(here, f"PLAINTEXT://0.0.0.0:{self.port}")
        advertised = properties["advertised.listeners"].replace(here, f"PLAINTEXT://{self.reachable_servers}")
        return {**properties, "listeners": listeners, "advertised.listeners": advertised}


def _some_address() -> str:
    """A hardware address to be given to a bridge, of those that are nobody's.

    One that was given none takes the lowest of its ports', and another one when a port comes or goes: whoever is on it
    sends to the one before for as long as that is in its ARP table, half a minute, and is off the network meanwhile. So
    the workers that live would fall silent when another is killed or added.
    """
    draw = random.SystemRandom()
    return ":".join(["02", *(f"{draw.randrange(256):02x}" for _ in range(5))])


def _jvm_options() -> tuple[str, ...]:
    """Those of the driver, which fit its class-data archive: it halves the CPU time of a start, where there is one."""
    return jvm_flags(SessionSettings(lanes=1), find_java().executable)


def _below(pid: int) -> Sequence[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
