"""What Spark starts instead of ``pyspark.daemon``: the same, with its modules imported once before it forks.

PySpark's daemon forks a worker per task slot, and every worker imports numpy, pyarrow and our own code for
itself: seconds per worker, and again for each one that was killed. Here the parent imports them once, so a
new worker is there at once and shares their memory. ``gc.freeze()`` keeps the full collection, which a worker
runs after each task, off those objects (30 ms a task). What imports and the loading of compiled loops have read of
libraries, up to 90 MB, is unmapped before the first fork.
"""

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from io import BufferedReader, BufferedWriter
from pathlib import Path
from types import ModuleType

from mirrorlake.freed_memory import forget_library_pages

PRELOAD_VARIABLE = "MIRRORLAKE_WORKER_PRELOAD"
"""Comma-separated ``module`` or ``module:function``; functions are called without arguments."""

WorkerMain = Callable[[BufferedReader, BufferedWriter], None]
"""What PySpark calls in a worker for each task, with what comes from the JVM and what goes there."""

_ALWAYS = ("numpy", "pyarrow", "pyspark.worker", "mirrorlake.pipeline.lease_job")


def preload(entries: Sequence[str]) -> None:
    """Imports modules and calls functions; one that fails is told on stderr and left to the leases."""
    for entry in entries:
        module, _, function = entry.partition(":")
        try:
            loaded = importlib.import_module(module)
            if function:
                getattr(loaded, function)()
        except Exception:  # noqa: BLE001  A lease must report this as its own error, not a daemon that dies.
            print(f"mirrorlake: preloading {entry} failed", file=sys.stderr)
            traceback.print_exc()


def leave_out_archives(path: list[str]) -> list[str]:
    """Returns an import path without Spark's archives, where the same PySpark is installed as plain files.

    Spark puts two zip files and a jar on the path, and makes Python read their tables of contents again for
    each task: 15 ms. On a cluster whose PySpark is only in the zip file, or is another, the path stays.
    """
    plain = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    found = [PathFinder.find_spec(name, plain) for name in ("pyspark", "py4j")]
    if not all(spec is not None and spec.origin is not None for spec in found):
        return path
    assert found[0] is not None
    home = Path(str(found[0].origin)).parent
    archives = [entry for entry in path if entry not in plain]
    return [entry for entry in path if entry not in archives or home not in Path(entry).parents]


class WithoutPandas(MetaPathFinder):
    """Lets pandas look as if it were not installed: pyarrow imports it on the first Python list it is given.

    That is 0.4 s and 33 MB in a worker, and none of our tasks has a use for it.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raises what an import of something that is not installed raises, for pandas; None for all else."""
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("workers go without pandas", name=fullname)


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Keeps standard output clean: the first bytes there tell the JVM where this daemon listens."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def ending_quietly(worker: WorkerMain) -> WorkerMain:
    """Returns what a worker does for each task, which ends it without a word where the JVM has let it go.

    Spark closes the sockets of workers that have had nothing to do for a minute, such as those of lanes at rest.
    PySpark takes that for an error, cannot send it to anybody, and writes the traceback of that to stderr.
    """

    def run(infile: BufferedReader, outfile: BufferedWriter) -> None:
        if not infile.peek(1):
            raise SystemExit(1)  # with 0 PySpark would wait for the next task
        worker(infile, outfile)

    return run


def main() -> None:
    """Preloads, then becomes PySpark's daemon."""
    # systemd and others send SIGTERM to every process of a service. A worker's end in the middle of a lease
    # is no graceful stop. The JVM ends this daemon, and it its workers, by closing standard input (EOF).
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # That by which PySpark's daemon ends its workers then; the JVM was started with it blocked, and hands that on.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    sys.path[:] = leave_out_archives(sys.path)
    sys.path_importer_cache.clear()
    sys.meta_path.insert(0, WithoutPandas())
    with _stdout_to_stderr():
        configured = os.environ.get(PRELOAD_VARIABLE, "")
        preload([*_ALWAYS, *(entry for entry in configured.split(",") if entry)])
    from pyspark import worker

    worker.main = ending_quietly(worker.main)
    gc.collect()
    gc.freeze()
    forget_library_pages()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
