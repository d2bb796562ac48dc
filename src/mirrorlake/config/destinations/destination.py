"""What every destination of a mirror is to the rest of the program, whatever its type."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar

from mirrorlake.config.problems import Place
from mirrorlake.config.systems.store import Store
from mirrorlake.config.values.names import path_flaw
from mirrorlake.filters.branch import Branch
from mirrorlake.offsets import StartKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Why a destination cannot do what a mirror asks of it, and what to do about that."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination(ABC):
    """One destination of a mirror. ``label`` is unique within its mirror.

    With a ``branch`` it is one topic or folder of a route, and takes what that gives it.

    What it says of itself is what others ask; nobody asks which type it is. A type that says nothing refuses what its
    sink would have to know of: filters, other starts, copies that are begun anew.
    """

    label: str
    branch: Branch | None = None
    place: Place = field(compare=False)

    type_in_file: ClassVar[str]
    """The ``type`` that selects it, by which the registry of types has its row."""

    is_topic: ClassVar[bool] = False
    """Whether its records lie in topics of a Kafka cluster.

    Such are made and kept in step with the source's, one process owns a mirror there, schema ids are those of a
    registry, and consumer groups and dead letters have a place.
    """

    @property
    def type_name(self) -> str:
        """Returns the type as reports name it."""
        return self.type_in_file

    @property
    def noun(self) -> str:
        """Returns what a name is there, such as a topic."""
        return self.type_in_file

    @property
    def schema_store(self) -> Store | None:
        """Returns where the schemas of its records are kept beside them; None where they are not."""
        return None

    @abstractmethod
    def name_for(self, topic: str) -> str:
        """Returns what a source topic is called there."""

    @abstractmethod
    def place_of(self, name: str) -> PurePosixPath | str:
        """Returns what all who write to a name there have in common, and nobody else: equal, or one inside the other.

        A path begins with what tells this type of place from others. What is no path is the name of a topic.
        """

    def where(self, name: str) -> str:
        """Returns where a name lies, as messages say it."""
        return f"{self.noun} {name} of {self.label}"

    def name_flaw(self, name: str) -> str:
        """Returns why it cannot take a name; "" where it can."""
        return path_flaw(name)

    def start_flaw(self, start: StartKind) -> Flaw | None:
        """Returns why no copy there begins where a mirror says; None where one may. Never asked of `earliest`."""
        return Flaw(
            message=f"`start: {start}` cannot be had at {self.label}, which begins at `earliest` only",
            hint="use `start: earliest`, or a mirror of its own for this one",
        )

    def filter_flaw(self) -> Flaw | None:
        """Returns why no records can be left out; None where they can."""
        return Flaw(
            message=f"a filter cannot be had at {self.label}, which takes every record",
            hint="use a mirror of its own without a filter",
        )

    def select_flaw(self) -> Flaw | None:
        """Returns why no records can be changed; None where they can."""
        return Flaw(
            message=f"`select` cannot be had at {self.label}, which takes records as they are",
            hint="use a mirror of its own without `select`",
        )

    def restart_flaw(self) -> Flaw | None:
        """Returns why no copy is deleted and begun anew when its source was recreated; None where it may be."""
        return Flaw(
            message=f"`on-recreate: restart` deletes the copy, and {self.noun} {self.label} is never deleted",
            hint="use `on-recreate: park`",
        )
