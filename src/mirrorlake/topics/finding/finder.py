"""What finds the targets of a destination, whatever its type."""

from pkgutil import resolve_name
from typing import Protocol, cast

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.registry import DESTINATION_TYPES
from mirrorlake.topics.finding.look import SourceLook
from mirrorlake.topics.targets import Target


class Finder(Protocol):
    """A type's own way to find where partitions go; one for all destinations of the type."""

    async def __call__(self, look: SourceLook, destination: Destination) -> list[Target]:
        """Returns a target for each partition of each topic, topics in the order of the look, partitions ascending.

        Reads only. What cannot be found out becomes the target's error.
        """


def finder_of(destination: Destination) -> Finder:
    """Returns the finder that the row of a destination's type names."""
    return cast("Finder", resolve_name(DESTINATION_TYPES[destination.type_in_file].finder))
