"""A folder of counts as destination: how it stands in the file, and what it is to the program."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from mirrorlake.config import section as fields
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.destination_form import DestinationForm, SectionContext
from mirrorlake.config.section import option


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyDestination(Destination):
    """A folder, with one file for each partition."""

    type_in_file: ClassVar[str] = "tally"

    folder: Path

    def name_for(self, topic: str) -> str:
        """Returns the topic's own name."""
        return topic

    def place_of(self, name: str) -> PurePosixPath:
        """Returns what two mirrors may not share: the folder, and the name in it."""
        return PurePosixPath("tally", *self.folder.parts[1:], name)


class TallyForm(DestinationForm):
    """How many records each partition has, in files of a folder."""

    type: Literal["tally"] = option(..., "Selects this kind of destination.")
    folder: fields.Root = option(..., "Where the files are written. It has to be there.")

    def resolved(self, context: SectionContext) -> tuple[TallyDestination, ...]:
        """Returns the one destination that the section stands for."""
        place = context.document.place(context.path)
        return (TallyDestination(label=self.folder.name, folder=self.folder, place=place),)
