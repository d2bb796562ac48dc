"""All types of destination there are: one row each.

A row names what belongs to a type, in packages above this one too: it is imported when it is first asked for. So
`validate` loads no kind, and a new type needs its row here and nothing else that is there already.
"""

from dataclasses import dataclass
from pkgutil import resolve_name

from mirrorlake.config.destinations.destination_form import DestinationForm

FINDS_BY_NAME = "mirrorlake.topics.finding.by_name:targets_by_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationType:
    """A ``type`` of destination: ``module:Name`` of what it is made of.

    ``section`` is how it stands in the file, and makes what it is to the program. ``kinds`` are what the driver asks,
    of which the first has a destination that takes it. ``finder`` tells where the partitions of a mirror go; by default
    the configuration alone says it, and nobody is asked.
    """

    section: str
    kinds: tuple[str, ...]
    finder: str = FINDS_BY_NAME


DESTINATION_TYPES: dict[str, DestinationType] = {
    "kafka": DestinationType(
        section="mirrorlake.config.destinations.kafka_form:KafkaDestinationForm",
        kinds=("mirrorlake.kinds.preserve:PreserveKind", "mirrorlake.kinds.mapped:MapKind"),
        finder="mirrorlake.topics.finding.at_clusters:targets_at_cluster",
    ),
    "archive": DestinationType(
        section="mirrorlake.config.destinations.archive_form:ArchiveDestinationForm",
        kinds=("mirrorlake.kinds.archive:ArchiveKind", "mirrorlake.kinds.snapshots:SnapshotKind"),
        finder="mirrorlake.topics.finding.in_archives:targets_in_archive",
    ),
}


def sections() -> dict[str, type[DestinationForm]]:
    """Returns the section of each type, by the name it has in a file."""
    found = {name: resolve_name(row.section) for name, row in DESTINATION_TYPES.items()}
    for name, section in found.items():
        if not issubclass(section, DestinationForm):
            raise TypeError(f"the section of `type: {name}` is no section of a destination")
    return found
