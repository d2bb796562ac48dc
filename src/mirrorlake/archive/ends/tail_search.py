"""Finding the last segment of a long folder in a store that lists page by page, without listing all of it.

Only one question is asked: which names follow this offset? Its answers grow with the offset whatever the chain looks
like, so the search finds the last name even where the chain has holes; that the chain holds is for others to check.
"""

from collections.abc import Callable, Sequence

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import LAST_OFFSET_MAX

PageAfter = Callable[[int], tuple[Sequence[Segment], bool]]
"""Returns the segments that begin at an offset or later, as far as one page goes, and whether no more follow."""


def find_last_page(first_page: Sequence[Segment], page_after: PageAfter) -> Sequence[Segment]:
    """Returns the last segments of a folder: a page that no other segment follows.

    Doubles its steps until it is past the end, then halves what is between; once that is a page by its look, it reads
    on from the last segment known. 100 000 segments of one length take some 15 pages.

    Args:
        first_page: the first segments of the folder, one at least; more follow.
        page_after: reads a page.
    """
    page, is_last = first_page, False
    step = page[-1].name.end_offset - page[0].name.from_offset
    bound: int | None = None
    while not is_last:
        low = page[-1].name.end_offset
        target = _target(page, bound, step)
        if bound is None:
            step *= 2
        found, found_last = page_after(target)
        if found:
            page, is_last = found, found_last
        elif target == low:
            break  # nothing follows after all
        else:
            bound = target
    return page


def _target(page: Sequence[Segment], bound: int | None, step: int) -> int:
    low = page[-1].name.end_offset
    if bound is None:
        # The last offset there can be is behind every segment but one that no step is needed for.
        return min(low + step, LAST_OFFSET_MAX) if low < LAST_OFFSET_MAX else low
    page_span = low - page[0].name.from_offset
    return low if bound - low <= page_span else low + (bound - low) // 2
