"""What the section of every destination is, whatever its type."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.document import Document
from mirrorlake.config.problems import FieldPath
from mirrorlake.config.section import Section
from mirrorlake.config.sources.source import Source
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionContext:
    """What a section is resolved with: where it stands, and what the rest of the file says.

    ``clusters`` and ``stores`` are by name, None for those that could not be read. ``source`` is what the mirror reads,
    None where that could not be read. ``filled`` returns a template with mirror and source filled in.
    """

    path: FieldPath
    document: Document
    clusters: Mapping[str, Cluster | None]
    stores: Mapping[str, Store | None]
    source: Source | None
    filled: Callable[[str], str]

    def note(self, field: FieldPath, message: str, hint: str = "") -> None:
        """Takes what is wrong with a field of the section."""
        self.document.note((*self.path, *field), message, hint)


class DestinationForm(Section):
    """A destination, as it stands in the file. Each type has its own, with a field ``type`` of one value.

    A field ``cluster`` or ``store`` is the key of one of the file's; that there is none is noted before.
    """

    parts: ClassVar[tuple[tuple[str, type[Section]], ...]] = ()
    """Sections inside of it, with their titles in the reference."""

    @abstractmethod
    def resolved(self, context: SectionContext) -> tuple[Destination, ...]:
        """Returns what the section is to the program, after noting all that is wrong with it.

        One destination, or one for each topic of a route; none where there can be none.
        """
