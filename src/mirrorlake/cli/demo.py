"""``mirrorlake demo``: the screen it is told on, its signals, and its end."""

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from mirrorlake.cli.output import Row, console, error_console, print_table
from mirrorlake.errors import ConfigurationError

if TYPE_CHECKING:
    from mirrorlake.demo.clusters import Clusters

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130

SCALE_VARIABLE = "MIRRORLAKE_DEMO_SCALE"
"""Scales the amounts of data; for tests, so no documentation names it."""

PROSE_WIDTH_MAX = 100
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_AGAIN_SECONDS = 0.2
_TRY_AGAIN_SECONDS = 0.05
_COMPILERS = frozenset({"llvmlite", "numba"})
_FOLDER_BYTES_MAX = 4096  # As long as Linux takes: no sockets lie in it.


class TerminalScreen:
    """Tells the demo on stdout, and its progress on stderr."""

    def __init__(self) -> None:
        self._steps = 0

    def step(self, title: str) -> None:
        """Begins a step."""
        self._steps += 1
        self.show("")
        console().print(f"[bold cyan]{self._steps}  {escape(title)}[/]")

    def say(self, text: str) -> None:
        """Shows prose, in lines that can be read."""
        out = console()
        out.print(escape(text), width=min(out.width, PROSE_WIDTH_MAX))

    def show(self, text: str) -> None:
        """Shows text as it is."""
        console().print(text, markup=False, soft_wrap=True)

    def table(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """Shows a table."""
        print_table(rows, columns)

    @contextmanager
    def bars(self, totals: Mapping[str, int]) -> Iterator[Callable[[Mapping[str, int]], None]]:
        """Shows a bar per name on a terminal, and nothing elsewhere; they are gone afterwards."""
        err = error_console()
        look = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.completed:>11,} offsets"))
        with Progress(*look, console=err, transient=True, disable=not err.is_terminal) as progress:
            bars = {name: progress.add_task(name, total=total) for name, total in totals.items()}

            def move(done: Mapping[str, int]) -> None:
                for name, count in done.items():
                    progress.update(bars[name], completed=count)

            yield move


def demo(*, keep: bool, scale: float | None = None) -> int:
    """Shows the whole program at work on two clusters of its own; leaves nothing running.

    Args:
        keep: whether the clusters stay up, with what to try on them, until Ctrl-C.
        scale: of the amounts of data; None for the environment's, else 1.

    Returns:
        0 where every copied record was found equal, 130 where a signal ended it, before or while it was kept, else 1.

    Raises:
        ConfigurationError: the environment's scale is not a number above zero.
        JavaUnusableError: there is no usable Java.
        ServerUnusableError: Kafka could not be downloaded, or does not start.
    """
    scale = _scale(os.environ) if scale is None else scale
    screen = TerminalScreen()
    interrupt_on_signals()
    try:
        return _tell(screen, keep=keep, scale=scale)
    except KeyboardInterrupt:
        ignore_signals()
        screen.say("Interrupted; everything the demo had started is stopped and removed.")
        return EXIT_INTERRUPTED


def _tell(screen: TerminalScreen, *, keep: bool, scale: float) -> int:
    from mirrorlake.demo.clusters import demo_clusters
    from mirrorlake.demo.story import Story, things_to_try
    from mirrorlake.embedded.jars import kafka_libs
    from mirrorlake.pipeline.run_folder import RunFolder

    libs = kafka_libs()
    is_interrupted = False
    # What a demo that was killed left is removed by one that begins a minute later, or more.
    with RunFolder((Path(tempfile.gettempdir()),), name="mirrorlake-demo", bytes_max=_FOLDER_BYTES_MAX) as kept:
        folder = kept.path
        with demo_clusters(folder, libs=libs) as clusters:
            is_equal = Story(screen, folder, clusters, scale=scale).tell()
            if keep:
                screen.step("Yours to try")
                screen.show(things_to_try(folder))
                is_interrupted = _wait_for_interrupt(screen, clusters)
    if is_equal and not keep:
        screen.step("What to try next")
        screen.say(
            "mirrorlake demo --keep leaves the clusters up and says what to type; examples/ has configurations to "
            "start from, docs/quickstart.md the way from there."
        )
    return exit_code(is_equal=is_equal, is_interrupted=is_interrupted)


def exit_code(*, is_equal: bool, is_interrupted: bool) -> int:
    """Returns what a demo ends with that has told its story; a signal is no success, even one that was waited for."""
    if not is_equal:
        return EXIT_FAILED
    return EXIT_INTERRUPTED if is_interrupted else EXIT_DONE


def _wait_for_interrupt(screen: TerminalScreen, clusters: "Clusters") -> bool:
    """Returns True at a signal, False when a cluster is gone."""
    screen.say("west and north stay up until Ctrl-C; then everything is removed.")
    try:
        while clusters.are_running:
            time.sleep(_LOOK_AGAIN_SECONDS)
        screen.say("One of the clusters is gone, so the demo ends.")
    except KeyboardInterrupt:
        ignore_signals()
        screen.say("Stopping.")
        return True
    return False


def interrupt_on_signals() -> None:
    """Makes each signal that asks for an end a KeyboardInterrupt; what cleans up after it is not interrupted again.

    It is raised again until something handles it: where Python calls an object's ``__del__`` or a weak reference's
    callback, it only says that it ignores what is raised there. And it waits for the end of an import or a compilation
    (`may_be_interrupted`). What handles it calls `ignore_signals` first. A signal that is ignored at the start, as
    after ``nohup``, stays so.
    """

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if is_interrupted(sys.exception()):
            return
        signal.setitimer(signal.ITIMER_REAL, _TRY_AGAIN_SECONDS)
        if may_be_interrupted(frame):
            raise KeyboardInterrupt

    for number in (*_SIGNALS, signal.SIGALRM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def ignore_signals() -> None:
    """Lets no further signal change how the demo ends."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def may_be_interrupted(frame: FrameType | None) -> bool:
    """Tells whether an interrupt may be raised in a frame: not within an import, nor while a kernel is compiled.

    After an interrupted import the lock of the import machinery might stay taken for good, and every thread wait for
    ever at its next import (``_get_module_lock`` in CPython's importlib). An object of llvmlite whose constructor was
    interrupted has no attributes yet, and its ``__del__`` prints a traceback.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or not _COMPILERS.isdisjoint(Path(file).parts):
            return False
        frame = frame.f_back
    return True


def is_interrupted(handled: BaseException | None) -> bool:
    """Tells whether an exception that is being handled is an interrupt, or came while one was handled."""
    while handled is not None:
        if isinstance(handled, KeyboardInterrupt):
            return True
        handled = handled.__context__
    return False


def _scale(environ: Mapping[str, str]) -> float:
    text = environ.get(SCALE_VARIABLE, "1")
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not 0 < scale <= 100:
        raise ConfigurationError(f"{SCALE_VARIABLE} is {text!r}, not a number above 0 and up to 100")
    return scale
