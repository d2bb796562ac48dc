"""Scale-out: the same copy over one Spark worker and over more, each held to a core of its own, or to part of one."""

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from pyspark.find_spark_home import _find_spark_home

from bench.brokers import BenchKafka
from bench.contender import Contender, Kind, Measured, measure
from bench.core_share import CoreShare
from bench.inputs import Filled, Input
from bench.mirrorlake_contender import Mirrorlake, MirrorlakeArchive
from bench.process_tree import ProcessTree
from bench.watches import Watch
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.kafka_server import free_port
from mirrorlake.java import find_java

_HOST = "127.0.0.1"
_START_SECONDS_MAX = 60.0
_SWITCHES = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
_BUSY_CPU_SECONDS = 0.2
"""So much processor time of its Python tells that a worker copies: an executor that waits for a lease uses none."""

_READY = re.compile(r"\bexecutors ready\b.*\bexecutors=(\d+)|\bexecutor ready\b")
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOut:
    """One copy over so many workers. CPU of ``copy`` is the driver's, ``workers_cpu_seconds`` theirs while they copy.

    The copying begins when each of them copies: what the first one does while another starts is the start's.
    ``core_share`` is how much of a core each worker got, None for all of one.
    """

    workers: int
    core_share: float | None
    copy: Measured
    workers_cpu_seconds: float


class PinnedWorkers:
    """A standalone master, and workers of one slot each of which number n runs on core n alone.

    Where there are more workers than cores, or no ``taskset``, they share. ``of_copy`` is what they have used for the
    copy that is watched.

    Args:
        folder: for logs and what Spark writes.
        count: of the workers.
        cores: of this machine.
        core_share: how much of a core each gets, on whichever core; None for one of its own.
    """

    def __init__(self, folder: Path, *, count: int, cores: int, core_share: float | None) -> None:
        self._folder = folder
        self._count = count
        self._cores = cores
        self._core_share = core_share
        self._port = free_port()
        self._secret = folder / "spark-secret"
        self._held = ExitStack()
        self.processes: list[GuardedProcess] = []
        self.of_copy = CopyCpu()
        self._trees: list[ProcessTree] = []

    def engine(self) -> str:
        """Returns the section of a configuration that runs leases on them."""
        conf = {**dict.fromkeys(_SWITCHES, True), "spark.authenticate.secret": {"file": str(self._secret)}}
        section = {"master": self._master, "lanes": self._count, "batch-slots": 0, "spark-conf": conf}
        return f"engine: {json.dumps(section)}\n"

    @property
    def cpu_seconds(self) -> float:
        """What all workers and everything below them have used so far; look often, see `ProcessTree`.

        The Python below an executor belongs to nobody once that has ended, so a last look comes before the stop.
        """
        return sum(tree.use().cpu_seconds for tree in self._trees)

    def python_cpu_seconds(self) -> list[float]:
        """Returns what the Python below each worker has used so far, in their order: leases, and the looks before."""
        return [_python_cpu_seconds(process.pid) for process in self.processes]

    def watch(self, watch: Watch, folder: Path) -> Watch:
        """Returns what sees a copy by them, whose log is in ``folder``, and its CPU time."""
        return AllCopyWatch(watch, self, folder / "mirrorlake.log")

    @property
    def _master(self) -> str:
        return f"spark://{_HOST}:{self._port}"

    def __enter__(self) -> Self:
        secret = secrets.token_hex(24)
        self._secret.touch(0o600)
        self._secret.write_text(secret)
        settings = {**dict.fromkeys(_SWITCHES, "true"), "spark.authenticate.secret": secret}
        properties = self._folder / "spark.conf"
        properties.touch(0o600)
        properties.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        with ExitStack() as held:
            log = self._folder / "master.log"
            self._start(held, log, "master.Master", "--port", str(self._port))
            _await(log, "I have been elected leader", 1)
            for number in range(self._count):
                work = self._folder / f"worker-{number}"
                name = self._folder / f"worker-{number}.log"
                arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(work), self._master)
                bound = self._bound(held, number)
                self.processes.append(self._start(held, name, "worker.Worker", *arguments, bound=bound))
                self._trees.append(ProcessTree(self.processes[-1].pid))
            _await(log, "Registering worker ", self._count)
            self._held = held.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def _bound(self, held: ExitStack, number: int) -> Sequence[str]:
        """Returns what a worker's command begins with."""
        if self._core_share is not None:
            return held.enter_context(CoreShare(self._core_share)).command()
        return ("taskset", "-c", str(number % self._cores)) if shutil.which("taskset") else ()

    def _start(
        self, held: ExitStack, log: Path, main_class: str, *arguments: str, bound: Sequence[str] = ()
    ) -> GuardedProcess:
        java = (str(find_java().executable), *_JVM_OPTIONS, "-cp", f"{_find_spark_home()}/jars/*")
        common = ("--properties-file", str(self._folder / "spark.conf"), "--host", _HOST, "--webui-port", "0")
        command = (*bound, *java, f"org.apache.spark.deploy.{main_class}", *common, *arguments)
        environ = {"SPARK_HOME": _find_spark_home(), "SPARK_LOCAL_IP": _HOST, "SPARK_SCALA_VERSION": "2.13"}
        process = GuardedProcess(command, log_path=log, environ={**_inherited(), **environ})
        held.callback(process.stop, timeout_seconds=10.0)
        return process


class MirrorlakeOverWorkers(Mirrorlake):
    """Kafka to Kafka with equal offsets, with leases on workers of Spark's.

    Args:
        workers: they run.
    """

    def __init__(self, workers: PinnedWorkers) -> None:
        super().__init__()
        self._workers = workers

    def _configuration(self, source: BenchKafka, destination: BenchKafka, topic: str) -> str:
        return super()._configuration(source, destination, topic) + self._workers.engine()

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        return self._workers.watch(super().watch(destination, wanted, folder), folder)


class ArchiveOverWorkers(MirrorlakeArchive):
    """Kafka to a Parquet archive, with leases on workers of Spark's; one end is encoded there, and no broker's.

    Args:
        workers: they run.
    """

    def __init__(self, workers: PinnedWorkers) -> None:
        super().__init__(Kind.PARQUET)
        self._workers = workers

    def _configuration(self, source: BenchKafka, topic: str, store: str) -> str:
        return super()._configuration(source, topic, store) + self._workers.engine()

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        return self._workers.watch(super().watch(destination, wanted, folder), folder)


class AllCopy:
    """Whether every worker copies: each has an executor that is ready, and its Python has worked since all had.

    Args:
        count: of the workers.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._when_ready: Sequence[float] | None = None

    def look(self, ready: int, python_cpu_seconds: Sequence[float]) -> bool:
        """Takes how many executors are ready, and what each worker's Python has used by now; returns whether."""
        if ready < self._count:
            return False
        if self._when_ready is None:
            self._when_ready = tuple(python_cpu_seconds)
        used = zip(python_cpu_seconds, self._when_ready, strict=True)
        return all(now - before >= _BUSY_CPU_SECONDS for now, before in used)


class CopyCpu:
    """CPU-seconds of a copy, ``seconds``: from the look at which it had begun to the last one."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._before = 0.0

    def look(self, used_seconds: float, *, has_begun: bool) -> None:
        """Takes what its processes have used since they began, and whether the copying had begun before this look."""
        if has_begun:
            self.seconds = used_seconds - self._before
        else:
            self._before = used_seconds


class AllCopyWatch:
    """What another watch sees; the copying has begun when every worker copies.

    Args:
        watch: of the destination.
        workers: that copy.
        log: mirrorlake's, which tells which executors are ready.
    """

    def __init__(self, watch: Watch, workers: PinnedWorkers, log: Path) -> None:
        self._watch = watch
        self._workers = workers
        self._log = log
        self._all = AllCopy(len(workers.processes))
        self._has_begun = False

    async def __aenter__(self) -> Self:
        await self._watch.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.__aexit__(kind, error, trace)

    async def copied(self) -> int:
        """Returns what the other one does, and looks at what the workers have used."""
        self._workers.of_copy.look(self._workers.cpu_seconds, has_begun=self._has_begun)
        return await self._watch.copied()

    def has_begun(self, copied: int) -> bool:
        """When the other one says so and all workers copy."""
        ready = executors_ready(self._log.read_text(errors="replace"))
        # Asked each time, as it looks from when all were ready on.
        all_copy = self._all.look(ready, self._workers.python_cpu_seconds())
        self._has_begun = all_copy and self._watch.has_begun(copied)
        return self._has_begun


def executors_ready(log: str) -> int:
    """Returns how many executors have become ready, by mirrorlake's log: those of the start, and those that joined."""
    return sum(int(found[1] or 1) for found in _READY.finditer(log))


async def measure_scale_out(
    count: int,
    cores: int,
    *,
    core_share: float | None,
    kind: Kind,
    source: BenchKafka,
    destination: BenchKafka,
    wanted: Input,
    filled: Filled,
    folder: Path,
) -> ScaleOut:
    """Measures one copy over ``count`` workers, to Kafka or to a Parquet archive."""
    with PinnedWorkers(folder, count=count, cores=cores, core_share=core_share) as workers:
        watched: Contender = MirrorlakeOverWorkers(workers) if kind is Kind.KAFKA else ArchiveOverWorkers(workers)
        copy = await measure(
            watched, source=source, destination=destination, wanted=wanted, filled=filled, folder=folder
        )
        used = workers.of_copy.seconds
        return ScaleOut(workers=count, core_share=core_share, copy=copy, workers_cpu_seconds=used)


def _await(log: Path, words: str, times: int) -> None:
    give_up_at = time.monotonic() + _START_SECONDS_MAX
    while log.read_text(errors="replace").count(words) < times:
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"Spark does not start; see {log}")
        time.sleep(0.1)


def _python_cpu_seconds(pid: int) -> float:
    used = 0.0
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if process.name().startswith("python"):
                times = process.cpu_times()
                used += times.user + times.system
        except psutil.Error:  # it has ended
            continue
    return used


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
