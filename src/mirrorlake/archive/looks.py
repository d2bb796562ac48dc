"""Looking twice: a listing taken while others write may show what never was.

A folder is not read in one instant. Of two files that are published one after the other while it is read, the listing
may hold the second and not the first: a hole that nobody made. But whatever a listing shows was there before the next
one begins, and so was all that had been published before it. So a complaint that two looks in a row make is true, and
one that the second does not make was never true or is over.
"""

from collections.abc import Callable
from typing import TypeVar

from mirrorlake.errors import ChainBrokenError, MirrorlakeError, PositionMovedError
from mirrorlake.stores.object_store import ObjectMissingError

T = TypeVar("T")

LOOKS_MAX = 12
"""How often an archive may look broken in another way each time before whoever looks gives up for now."""


def settled(look: Callable[[], T], *, where: str) -> T:
    """Returns what a look finds, taken again while it finds something wrong that the one before did not.

    Args:
        look: lists anew each time, and refuses what is wrong.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: two looks in a row have found the same.
        PositionMovedError: each of many looks has found something else; try again later.
        MirrorlakeError: any other error of a look, at once.
    """
    before: ChainBrokenError | None = None
    for _ in range(LOOKS_MAX):
        try:
            return look()
        except ChainBrokenError as error:
            if same_complaint(before, error):
                raise
            before = error
    raise moved(where)


def same_complaint(before: MirrorlakeError | None, now: MirrorlakeError) -> bool:
    """Tells whether two looks in a row have found the same wrong."""
    return before is not None and (type(before), before.message) == (type(now), now.message)


def why_moved(error: PositionMovedError) -> str:
    """Returns why nothing was done to segments that others have changed meanwhile, in words for people."""
    if isinstance(error, ObjectMissingError):
        return f"{error.message}: it was merged, rewritten or retired meanwhile: run again"
    return error.message


def moved(where: str) -> PositionMovedError:
    """Returns the error for an archive that changes faster than it can be looked at."""
    return PositionMovedError(f"{where}: the archive changed {LOOKS_MAX} times while it was looked at")
