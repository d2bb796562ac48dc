"""What a plan carries to the lease for a counted partition."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mirrorlake.destinations.work import DestinationWork, SinkContext
from support.tally.sink import TallySink


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyWork(DestinationWork):
    """A file that counts one source partition."""

    is_live: ClassVar[bool] = True

    file: Path

    @property
    def skips_truncated(self) -> bool:
        """Returns True: what the source has deleted is not counted, and stops nothing."""
        return True

    def make_sink(self, context: SinkContext) -> TallySink:
        """Returns the sink, which shares nothing with others of its lease."""
        del context
        return TallySink(self.file)
