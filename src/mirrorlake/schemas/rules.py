"""How a subject is mirrored, as the configuration says it."""

from dataclasses import dataclass
from enum import StrEnum

MODE_OF_THE_SOURCE = "mirror"
"""In place of a registry's mode: the one the source's subject has."""


class SubjectMode(StrEnum):
    """What a destination's subject may hold beside the source's versions."""

    STRICT = "strict"
    """Nothing: its list of versions is the source's."""
    LENIENT = "lenient"
    """Others between: the source's come in the source's order, in any order where the level is NONE."""


class DeletedVersions(StrEnum):
    """What becomes of versions that are soft-deleted at the source."""

    KEEP = "keep"
    """They are registered and stay, so that records written with them can be read. Nothing is deleted."""
    MIRROR = "mirror"
    """They are registered, so that their ids can be read, and soft-deleted in their turn."""
    SKIP = "skip"
    """They are not registered; those that are there already are let be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRules:
    """How a subject is mirrored.

    Attributes:
        mode: what may stand beside the source's versions.
        level: the compatibility level to force; None takes over the source's.
        deleted: what becomes of soft-deleted versions.
        keeps_ids: whether versions get the ids they have at the source, which the registry's mode IMPORT allows.
        registry_mode: the mode the destination's subject has in the end: one to force, or `MODE_OF_THE_SOURCE`; None
            leaves it as it is, and at IMPORT where ids are kept.
    """

    mode: SubjectMode = SubjectMode.STRICT
    level: str | None = None
    deleted: DeletedVersions = DeletedVersions.KEEP
    keeps_ids: bool = False
    registry_mode: str | None = None
