"""Questions to a store asked side by side: an answer of a bucket takes its time, whoever waits for it."""

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from mirrorlake.errors import QueryError
from mirrorlake.stores.object_store import ObjectStore

BUCKET_AT_ONCE = 16
"""How many a bucket is asked at one time: it answers in 20 to 50 ms, and some hundred a second are no load."""

FOLDER_AT_ONCE = 4
"""The same of a folder, which may lie behind a network. On a disk of this machine more only wait for the interpreter:
of 100 ends of files 0.05 s with one, two and four at a time, and 0.11 s with sixteen (2026-11-23)."""

_POLL_SECONDS = 0.1

T = TypeVar("T")
U = TypeVar("U")


def at_once(store: ObjectStore) -> int:
    """Returns how many questions a store is asked at one time."""
    return FOLDER_AT_ONCE if store.listing_page_objects is None else BUCKET_AT_ONCE


def side_by_side(ask: Callable[[T], U], items: Iterable[T], *, at_once: int) -> list[U]:
    """Returns the answers in the order of the items; the first that failed, in that order, ends the asking.

    Its threads do not keep a process alive, and one that is forked later has none of them.

    Raises:
        Exception: what ``ask`` raised.
    """
    waiting = list(items)
    if len(waiting) <= 1 or at_once <= 1:
        return [ask(item) for item in waiting]
    answers: dict[int, U] = {}
    failures: dict[int, BaseException] = {}
    numbers = itertools.count()  # its `next` is one step, whichever thread takes it

    def work() -> None:
        while not failures and (number := next(numbers)) < len(waiting):
            try:
                answers[number] = ask(waiting[number])
            except BaseException as error:  # noqa: BLE001  It is raised again by who waits.
                failures[number] = error

    threads = [threading.Thread(target=work, name="ask", daemon=True) for _ in range(min(at_once, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[min(failures)]
    return [answers[number] for number in range(len(waiting))]


def until_stopped(work: Callable[[], T], is_stopping: Callable[[], bool]) -> T:
    """Returns what some work brings, or leaves it alone, wherever it is, once it is not wanted any more.

    Args:
        work: must change nothing.
        is_stopping: asked some times a second.

    Raises:
        QueryError: it is not wanted any more.
        Exception: what ``work`` raised.
    """
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001  It is raised again by who waits.
            failures.append(error)

    thread = threading.Thread(target=run, name="look", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if thread.is_alive() and is_stopping():
            raise QueryError("stopped before the store had answered")
    if failures:
        raise failures[0]
    return answers[0]
