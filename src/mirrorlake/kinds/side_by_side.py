"""Many partitions looked at side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.standing import Standing
from mirrorlake.together import all_of


async def errors_of(
    rows: Mapping[int, Standing], look: Callable[[Standing], Awaitable[None]], *, at_once: int
) -> Mapping[int, MirrorlakeError]:
    """Looks at rows, ``at_once`` of them side by side, and returns by number what the looks that failed raised."""
    limit = asyncio.Semaphore(at_once)

    async def one(row: Standing) -> MirrorlakeError | None:
        async with limit:
            try:
                await look(row)
            except MirrorlakeError as error:
                return error
        return None

    errors = await all_of(one(row) for row in rows.values())
    return {number: error for number, error in zip(rows, errors, strict=True) if error is not None}
