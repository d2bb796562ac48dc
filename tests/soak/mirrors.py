"""What the service of the soak copies: one row a topic, crossed with the forms and modes a copy may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Mode(StrEnum):
    """How offsets without a record come to be at the destination."""

    MARKERS = "gap-fill: markers"
    FILLER = "gap-fill: filler"
    MAP = "offsets: map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One topic of the service.

    ``is_shared`` gives every partition a mirror of its own, as mirror-v3's form does. ``is_archived`` adds a Parquet
    archive. ``is_taken`` says that the destination topic holds an unknown producer's records: nothing may be copied
    there, and none of theirs touched. ``is_compacted`` says that cleaners work on both sides,
    ``is_dense`` that no offset is without a record; else it is written in transactions.
    ``is_tiered`` says that what the source wrote some seconds ago is in its remote tier only.
    """

    topic: str
    partitions: int = 1
    mode: Mode = Mode.MARKERS
    is_shared: bool = False
    is_archived: bool = False
    is_taken: bool = False
    is_compacted: bool = False
    is_dense: bool = False
    is_tiered: bool = False

    @property
    def mirrors(self) -> list[str]:
        """The names of its mirrors."""
        return [f"{self.topic}-{number}" for number in range(self.partitions)] if self.is_shared else [self.topic]

    def mirror_of(self, partition: int) -> str:
        """The name of the mirror that copies a partition."""
        return self.mirrors[partition] if self.is_shared else self.topic


SERVED: Sequence[Served] = (
    Served(topic="dense", partitions=3, is_dense=True, is_archived=True),
    Served(topic="transactional", partitions=2, is_archived=True),
    Served(topic="filled", mode=Mode.FILLER),
    Served(topic="compacted", mode=Mode.FILLER, is_compacted=True, is_archived=True),
    Served(topic="mapped", partitions=2, mode=Mode.MAP),
    Served(topic="shared", partitions=2, is_shared=True),
    Served(topic="shared-mapped", partitions=2, mode=Mode.MAP, is_shared=True),
    Served(topic="tiered", is_dense=True, is_tiered=True, is_archived=True),
    Served(topic="taken", partitions=2, is_dense=True, is_taken=True),
)


def mirrors_yaml(served: Sequence[Served]) -> str:
    """Returns the list ``mirrors`` of a configuration with the clusters east and west and the store lake."""
    rows = []
    for each in served:
        destinations = [f"{{type: kafka, cluster: west, {each.mode}}}"]
        if each.is_archived:
            destinations.append("{type: archive, store: lake, flush: {max-time: 5s}}")
        for number, name in enumerate(each.mirrors):
            partitions = f", partitions: [{number}]" if each.is_shared else ""
            rows.append(
                f"  - name: {name}\n"
                f"    source: {{cluster: east, topics: [{each.topic}]{partitions}}}\n"
                f"    destinations: [{', '.join(destinations)}]\n"
            )
    return "mirrors:\n" + "".join(rows)


def configuration(served: Sequence[Served], *, source: str, destination: str, lake: Path, timeout_ms: int) -> str:
    """Returns the service's whole configuration; ``source`` and ``destination`` are bootstrap servers."""
    request = f'properties: {{request.timeout.ms: "{timeout_ms}"}}'
    return f"""clusters:
  east: {{bootstrap-servers: "{source}", {request}}}
  west: {{bootstrap-servers: "{destination}", {request}}}
stores:
  lake: {{type: filesystem, root: "{lake}"}}
{mirrors_yaml(served)}service: {{heartbeat: 1s}}
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
"""
