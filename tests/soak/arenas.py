"""What is under test in the soak: services as a user runs them, and swarms of bare lease processes."""

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from mirrorlake.offsets import GapFill, TopicPartition
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
from soak.mirrors import Served, configuration
from soak.sites import Site
from support.copies import wait_until
from support.lease_processes import LeaseProcesses, run_leases_until
from support.leases import kafka_work, lease_plan
from support.service_process import ServiceProcess

WRITERS = 3
REQUEST_TIMEOUT_MS = 4000


class Services:
    """``mirrorlake run`` with its mirrors, and whoever takes its place when it is killed."""

    def __init__(
        self,
        source: Site,
        destination: Site,
        served: Sequence[Served],
        folder: Path,
    ) -> None:
        self._folder = folder
        self._mirrors = [name for each in served for name in each.mirrors]
        self._taken = {each.topic for each in served if each.is_taken}
        self.lake = folder / "lake"
        self.lake.mkdir()
        self.config = folder / "soak.yaml"
        self.config.write_text(
            configuration(
                served,
                source=source.front,
                destination=destination.front,
                lake=self.lake,
                timeout_ms=REQUEST_TIMEOUT_MS,
            )
        )
        self.current = self._start()
        self.starts = 1
        self.odd_ends: list[str] = []
        self._reported: set[str] = set()

    def _start(self) -> ServiceProcess:
        return ServiceProcess("run", "-c", str(self.config), folder=self._folder)

    def ensure(self) -> None:
        """Starts one where none runs; why the last one ended without being asked is kept."""
        if not self.current.is_running:
            self.odd_ends.append(f"exit code {self.current.exit_code()}: {self.current.said()[-600:]}")
            self._replace(self._start())

    def kill_driver(self) -> bool:
        self.current.kill()
        self._replace(self._start())
        return True

    def _said_since_start(self) -> str:
        """What the service wrote since it began, or began again without its engine."""
        return self.current.said().rpartition("starting mirrorlake")[2]

    def kill_jvm(self) -> bool:
        if "heartbeat" not in self._said_since_start():
            return False  # one that dies while it starts ends the service, which says so
        try:
            self.current.jvm().kill()
        except (ValueError, psutil.Error):  # it is not there yet, or not any more
            return False
        return True

    def kill_worker(self, chance: random.Random) -> bool:
        try:
            workers = self.current.python_workers()
            if workers:
                chance.choice(sorted(workers, key=lambda worker: worker.pid)).kill()
        except (ValueError, psutil.Error):
            return False
        return bool(workers)

    def supersede(self) -> bool:
        """Freezes the service with all it started, starts a second one, and wakes the first: it must end by itself.

        Returns False where the first one does not own all mirrors yet: it would take them over in its turn.
        """
        first = self.current
        if self._said_since_start().count("mirror taken over") < len(self._mirrors):
            return False
        frozen = first.processes()
        for process in frozen:
            with contextlib.suppress(psutil.Error):
                process.suspend()
        second = self._start()
        wait_until(
            lambda: second.said().count("mirror taken over") >= len(self._mirrors) or not second.is_running,
            "the second to take over",
            log=second.said,
        )
        for process in frozen:
            with contextlib.suppress(psutil.Error):
                process.resume()
        try:
            code = first.exit_code()
        except AssertionError as error:
            self.odd_ends.append(f"the zombie: {error}"[-2000:])
        else:
            if code != EXIT_SUPERSEDED:
                self.odd_ends.append(f"the zombie ended with {code}: {first.said()[-600:]}")
        self._replace(second)
        return True

    def stop(self) -> int:
        """A graceful stop; returns the exit code."""
        self.current.stop()
        code = self.current.exit_code()
        self.current.__exit__(None, None, None)
        return code

    def restart(self) -> None:
        self._replace(self._start())

    def _replace(self, successor: ServiceProcess) -> None:
        former, self.current = self.current, successor
        self.starts += 1
        former.__exit__(None, None, None)

    def newly_parked(self) -> dict[str, str]:
        """Log lines of partitions that stopped since the last call, by topic; those that must stand still left out."""
        found = {}
        for line in re.findall(r".*partition parked.*", self.current.said()):
            topic = re.search(r"\btopic=(\S+)", line)
            if line not in self._reported and topic is not None and topic[1] not in self._taken:
                self._reported.add(line)
                found[topic[1]] = line
        return found


class Swarm:
    """Three writers of every partition, each a process that runs one lease after another, without Spark."""

    def __init__(self, source: Site, destination: Site, partitions: list[TopicPartition]) -> None:
        self.partitions = partitions
        self._processes = LeaseProcesses()
        self._plan = lease_plan(
            source.front,
            [
                (where, [kafka_work(destination.front, where, mirror="swarm", gap_fill=GapFill.MARKERS)])
                for where in partitions
            ],
            end=None,
            seconds=1.0,
        )
        self._writers: list[BaseProcess] = []
        self._frozen: dict[int, float] = {}
        self.refill()

    def refill(self) -> None:
        """Wakes whose time has come, and starts as many as are missing."""
        now = time.monotonic()
        for pid, until in list(self._frozen.items()):
            if now >= until:
                del self._frozen[pid]
                _send(pid, signal.SIGCONT)
        self._writers = [writer for writer in self._writers if writer.is_alive()]
        while len(self._writers) < WRITERS:
            self._writers.append(self._processes.start(run_leases_until, self._plan, time.time() + 86_400))

    def kill(self, chance: random.Random) -> None:
        victim = chance.choice(self._writers)
        victim.kill()
        victim.join()
        self._frozen.pop(victim.pid or 0, None)
        self.refill()

    def freeze(self, chance: random.Random) -> None:
        pid = chance.choice(self._writers).pid
        assert pid is not None
        _send(pid, signal.SIGSTOP)
        self._frozen[pid] = time.monotonic() + chance.choice((0.05, 0.3, 1.0, 4.0))

    def end(self) -> None:
        """Kills them all: what they left is for the judge."""
        for writer in self._writers:
            writer.kill()
            writer.join()
        self._writers = []
        self._frozen = {}


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
