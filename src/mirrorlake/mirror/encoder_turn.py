"""A partition's turn at the one encoder of a task: taken before archives are read for, given back when they rest."""

from collections.abc import Awaitable, Callable


class EncoderTurn:
    """Holds the encoder for one partition, or does not.

    Args:
        take: waits for the encoder; returns whether it was taken.
        release: lets the next one have it.
    """

    def __init__(self, take: Callable[[], Awaitable[bool]], release: Callable[[], None]) -> None:
        self._take = take
        self._release = release
        self._is_held = False

    async def take(self) -> bool:
        """Waits for the encoder as long as something may be begun; returns whether it is held."""
        if not self._is_held:
            self._is_held = await self._take()
        return self._is_held

    def give_back(self) -> None:
        """Lets the next one have it; without effect where it is not held."""
        if self._is_held:
            self._is_held = False
            self._release()
