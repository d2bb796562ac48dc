"""How long work tells how far it is: a bar with rate and time left on a terminal, now and then a line elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from mirrorlake.cli.output import error_console

QUIET_SECONDS = 2.0
"""Work that ends sooner shows nothing."""
LINE_SECONDS = 10.0
"""Between two lines where nobody looks at a screen."""


@contextmanager
def bytes_progress(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of bytes just done; shows progress on stderr."""
    bars = error_console()
    if not bars.is_terminal:
        lines = _Lines(what, total_bytes)
        yield lines.advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=bars, transient=True) as progress:
        bar = progress.add_task(what, total=total_bytes, visible=False)
        started = time.monotonic()

        def advance(done_bytes: int) -> None:
            progress.update(bar, advance=done_bytes, visible=time.monotonic() - started > QUIET_SECONDS)

        yield advance


@contextmanager
def offsets_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with offsets done and offsets to do in all; shows progress on stderr."""
    bars = error_console()
    if not bars.is_terminal:
        yield _OffsetLines(what).reached
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("offsets"))
    with Progress(*columns, TimeRemainingColumn(), console=bars, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total or None)


class _OffsetLines:
    """Prints a line once in a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._next_line = self._started + QUIET_SECONDS

    def reached(self, done: int, total: int) -> None:
        """Takes offsets done and offsets to do in all, both 0 until they are known."""
        now = time.monotonic()
        if now < self._next_line or not total:
            return
        self._next_line = now + LINE_SECONDS
        rate = done / (now - self._started)
        left = f", {(total - done) / rate:.0f} s left" if rate else ""
        error_console().print(f"{self._what}: {done} of {total} offsets, {rate:.0f}/s{left}", soft_wrap=True)


class _Lines:
    """Prints a line once in a while."""

    def __init__(self, what: str, total_bytes: int) -> None:
        self._what = what
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._started = time.monotonic()
        self._next_line = self._started + QUIET_SECONDS

    def advance(self, done_bytes: int) -> None:
        self._done_bytes += done_bytes
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + LINE_SECONDS
        rate = self._done_bytes / (now - self._started)
        left = (self._total_bytes - self._done_bytes) / rate if rate else 0.0
        error_console().print(
            f"{self._what}: {decimal(self._done_bytes)} of {decimal(self._total_bytes)}, {decimal(int(rate))}/s, "
            f"{left:.0f} s left",
            soft_wrap=True,
        )
