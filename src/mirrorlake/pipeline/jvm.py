"""The JVM under PySpark: started by Spark's own ``spark-submit``, but with its process in our hands.

PySpark's ``launch_gateway`` would start it too. It waits without limit, lets the JVM write to our stdout,
keeps the process to itself, and lets a SIGTERM to the process group kill the JVM in the middle of a flush.
"""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mirrorlake.errors import JavaUnusableError, StartStoppedError
from mirrorlake.pipeline.processes import descendants, kill

OutputLine = Callable[[str], None]
"""Takes one line, without its end, of what the JVM and the Python workers wrote to stdout or stderr."""

_POLL_SECONDS = 0.02
_TAIL_LINES = 12  # Of the output, for the error of a JVM that did not come up.
# What a JVM says about options that Spark gives it on each start, before any logging can be set; the second is
# Java 25's.
_USELESS = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "WARNING: package sun.security.action not in java.base",
)
# A signal that is ignored stays so in a program that is started, and a JVM leaves it ignored (HotSpot's
# os::Posix, as for nohup). Said by a shell in between, because this process itself wants to hear them.
_IGNORE_AND_RUN = 'trap \'\' INT TERM HUP; exec "$0" "$@"'


class Jvm:
    """One running Spark gateway; made by :func:`start_jvm`.

    Attributes:
        port: where its Py4J gateway listens on loopback.
        secret: what a client of the gateway must say.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: "_Output") -> None:
        self._process = process
        self._output = output
        self.port = 0
        self.secret = ""

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Returns whether the JVM runs; takes its exit code once it has ended."""
        return self._process.poll() is None

    def connect(self) -> Any:
        """Returns PySpark's gateway object, connected to this JVM."""
        from pyspark.java_gateway import launch_gateway

        # The two variables are PySpark's way of being told of a gateway that runs already.
        address = {"PYSPARK_GATEWAY_PORT": str(self.port), "PYSPARK_GATEWAY_SECRET": self.secret}
        os.environ.update(address)
        try:
            return launch_gateway()
        finally:
            for name in address:
                del os.environ[name]

    def stop(self, timeout_seconds: float) -> None:
        """Ends the JVM by closing its standard input; kills it after ``timeout_seconds``. Idempotent."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def mute(self) -> None:
        """Drops what JVM and workers write from now on; being ended makes them write of broken pipes."""
        self._output.mute()

    def kill(self) -> None:
        """Kills the JVM and every process below it, at once. Idempotent."""
        if self.is_alive():
            kill([*descendants(self.pid), self.pid])
            self._process.wait()

    def await_address(self, address: Path, timeout_seconds: float, is_stopping: Callable[[], bool] = bool) -> None:
        """Waits until the JVM has written where it listens, and reads it.

        Raises:
            JavaUnusableError: it ended, or wrote nothing in time.
            StartStoppedError: ``is_stopping`` said so.
        """
        give_up_at = time.monotonic() + timeout_seconds
        while not address.exists():
            if not self.is_alive():
                code = self._process.returncode
                raise self._did_not_start(f"ended with exit code {code} while starting")
            if is_stopping():
                raise StartStoppedError("stopped while Spark's JVM started")
            if time.monotonic() > give_up_at:
                raise self._did_not_start(f"did not listen within {timeout_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)
        # Spark renames the file into place, so it is whole: a big-endian port, then a secret with its length.
        content = address.read_bytes()
        self.port, secret_bytes = struct.unpack_from(">ii", content)
        self.secret = content[8 : 8 + secret_bytes].decode()

    def _did_not_start(self, what: str) -> JavaUnusableError:
        said = self._output.tail()
        return JavaUnusableError(f"Spark's JVM {what}; it said: {said or 'nothing'}")


class _Output:
    """Reads the output of the JVM, and of the workers that inherit it, line by line in a thread."""

    def __init__(self, process: subprocess.Popen[bytes], take_line: OutputLine) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._take_line = take_line
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._reader = threading.Thread(target=self._read, name="spark-output", daemon=True)
        self._reader.start()

    def tail(self) -> str:
        """Returns the last lines, once the writer had a moment to end."""
        self._reader.join(0.5)
        return "\n".join(self._tail)

    def mute(self) -> None:
        """Takes no more lines."""
        self._take_line = lambda _line: None

    def close(self) -> None:
        """Waits a moment for the last lines; a worker that outlives its JVM may hold the pipe open."""
        self._reader.join(1.0)
        if not self._reader.is_alive():
            self._stream.close()

    def _read(self) -> None:
        for raw in self._stream:
            line = raw.decode(errors="replace").rstrip()
            if line and line not in _USELESS:
                self._tail.append(line)
                self._take_line(line)


def to_stderr(line: str) -> None:
    """Writes a line to this process's stderr."""
    print(line, file=sys.stderr)


def start_jvm(
    conf: Mapping[str, str],
    *,
    environ: Mapping[str, str],
    folder: Path,
    timeout_seconds: float,
    take_line: OutputLine = to_stderr,
    is_stopping: Callable[[], bool] = bool,
) -> Jvm:
    """Starts Spark's JVM and returns it when its gateway listens.

    The JVM ignores SIGTERM, SIGINT and SIGHUP from its first instruction, and ends when this process ends, however
    that happens.

    Args:
        conf: Spark settings, also those that only count before a JVM starts.
        environ: the whole environment of the JVM and of the Python workers below it.
        folder: of this process alone; the JVM leaves its address there, with the secret of its gateway, until it is
            read.
        timeout_seconds: until the gateway must listen; a cold start on a busy machine takes 20 s.
        take_line: gets what JVM and workers write, in a thread of its own.
        is_stopping: asked again and again; once it says so, the JVM is ended.

    Raises:
        JavaUnusableError: the JVM ended, or did not listen in time.
        StartStoppedError: ``is_stopping`` said so.
    """
    submit = _spark_home() / "bin" / "spark-submit"
    settings = [argument for key, value in conf.items() for argument in ("--conf", f"{key}={value}")]
    address = folder / "address"
    try:
        with _stop_signals_held_back():
            process = subprocess.Popen(
                ["/bin/sh", "-c", _IGNORE_AND_RUN, str(submit), *settings, "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)},
            )
        jvm = Jvm(process, _Output(process, take_line))
        try:
            jvm.await_address(address, timeout_seconds, is_stopping)
        except BaseException:
            process.kill()
            jvm.stop(0.0)
            raise
        return jvm
    finally:
        address.unlink(missing_ok=True)


@contextlib.contextmanager
def _stop_signals_held_back() -> Iterator[None]:
    """Lets a new process start with the stop signals blocked, until its shell has come to ignoring them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())
