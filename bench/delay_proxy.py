"""Connections to one broker with a wire of so many milliseconds in between, as a process of its own.

Everything that comes is passed on after the delay, in both directions and without a bound on the bytes on their way
but ``BYTES_UNDER_WAY_MAX``: a long wire, not a narrow one. What a real one adds is not there: windows of TCP that grow
slowly, and lost packets.
"""

import argparse
import socket
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrorlake.embedded.guarded_process import GuardedProcess

BYTES_UNDER_WAY_MAX = 256 << 20
"""Of one direction of one connection; 1.2 GB/s over 200 ms."""

_SLICE_BYTES = 1 << 20


class DelayProxy:
    """The proxy's process. Use as a context manager; it listens when entered.

    Args:
        port: where it listens, on 127.0.0.1.
        target_port: the broker's.
        round_trip_seconds: half of it in each direction.
        log_path: of its standard error.
    """

    def __init__(self, port: int, target_port: int, *, round_trip_seconds: float, log_path: Path) -> None:
        self._port = port
        self._command = [
            *(sys.executable, "-m", "bench.delay_proxy", str(port), str(target_port)),
            str(round_trip_seconds / 2),
        ]
        self._log_path = log_path
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self._process = GuardedProcess(self._command, log_path=self._log_path)
        until = time.monotonic() + 30.0
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1.0).close()
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()


class _Wire:
    """One direction of one connection: two threads, one that takes and one that gives when it is time."""

    def __init__(self, taken: socket.socket, given: socket.socket, delay_seconds: float) -> None:
        self._taken, self._given, self._delay_seconds = taken, given, delay_seconds
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        for work in (self._take, self._give):
            threading.Thread(target=work, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                data = self._taken.recv(_SLICE_BYTES)
            except OSError:
                data = b""
            with self._changed:
                self._changed.wait_for(lambda: self._bytes < BYTES_UNDER_WAY_MAX)
                self._under_way.append((time.monotonic() + self._delay_seconds, data))
                self._bytes += len(data)
                self._changed.notify_all()
            if not data:
                return

    def _give(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._under_way)
                due, data = self._under_way[0]
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if data:
                    self._given.sendall(data)
                else:
                    self._given.shutdown(socket.SHUT_WR)
            except OSError:
                data = b""
            with self._changed:
                self._under_way.popleft()
                self._bytes -= len(data)
                self._changed.notify_all()
            if not data:
                return


def main() -> None:
    """Listens until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("target_port", type=int)
    parser.add_argument("delay_seconds", type=float)
    arguments = parser.parse_args()
    server = socket.create_server(("127.0.0.1", arguments.port), backlog=128)
    while True:
        near, _ = server.accept()
        far = socket.create_connection(("127.0.0.1", arguments.target_port))
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Wire(near, far, arguments.delay_seconds)
        _Wire(far, near, arguments.delay_seconds)


if __name__ == "__main__":
    main()
