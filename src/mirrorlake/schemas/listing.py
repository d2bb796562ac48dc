"""All versions of many subjects, as a registry lists them page by page: `GET /schemas`.

Source: `SchemasResource.getSchemas` of Confluent's Schema Registry, from 6.1 on; sorted by subject and version.
Karapace answers with everything, whatever page it is asked for; Apicurio does not know it. A registry may cap its pages
below what it is asked for, and what it lists may change between two pages, so nothing is believed of a listing that is
not proven whole: each page begins with the last item of the one before, until one has nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirrorlake.schemas.answers import RawSchema, UnreadableAnswerError, guid_of, number_in, raw_schema_of, text_in
from mirrorlake.schemas.transport import Json

PAGE_ITEMS: Final = 1000
"""What Confluent's gives out at most by default (``schema.search.max.limit``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVersion:
    """A version as a listing has it; ``subject`` with its context."""

    subject: str
    version: int
    id: int
    guid: str | None
    raw: RawSchema


Ask = Callable[[Mapping[str, str]], Awaitable[Json]]
"""Returns a page's answer; None where the registry has no such listing."""


async def take_listing(ask: Ask, take: Callable[[ListedVersion], None], *, pages_max: int) -> bool:
    """Gives out the items of a whole listing, in order, and returns whether it is proven to be whole.

    Where it is not, nothing that was given out counts.

    Args:
        ask: asks for a page.
        take: is given each item, once.
        pages_max: gives up behind as many.

    Raises:
        UnreadableAnswerError: an answer is no listing.
        MirrorlakeError: the registry's.
    """
    # One item, so that a registry that does not know of pages shows it by answering with more.
    first = await _page(ask, offset=0, limit=1)
    if not first:
        return False  # an empty answer proves nothing
    for each in first:
        take(each)
    taken, last = len(first), first[-1]
    for _ in range(pages_max):
        page = await _page(ask, offset=taken - 1, limit=PAGE_ITEMS)
        if not page or page[0] != last:
            # The same once more, though it was asked for another page: there are none, and that was all.
            return len(first) > 1 and taken == len(first) and page == first
        for each in page[1:]:
            take(each)
        if len(page) == 1:
            return taken > 1  # where no page brought another item, one is all that a page holds
        taken, last = taken + len(page) - 1, page[-1]
    return False


async def _page(ask: Ask, *, offset: int, limit: int) -> Sequence[ListedVersion]:
    answer = await ask({"offset": str(offset), "limit": str(limit)})
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise UnreadableAnswerError
    return [
        ListedVersion(
            subject=text_in(each, "subject"),
            version=number_in(each, "version"),
            id=number_in(each, "id"),
            guid=guid_of(each),
            raw=raw_schema_of(each),
        )
        for each in answer
    ]
