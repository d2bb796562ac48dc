"""Which records of a source are dead letters of a mirror, by what the topic for dead letters holds.

It is asked for the letters themselves: a record that is neither in the copy nor there is missing, whatever the
registries say of it now.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.letters.dead_letters import LetterOrigin, origin_of
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.kafka.schema_ids.unreadable import headers_of
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.status import StatusRow

NO_OFFSETS: npt.NDArray[np.int64] = np.empty(0, np.int64)

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersTask:
    """A topic for dead letters, of which those of one mirror are asked for.

    ``largest_batch_bytes`` is what one record batch may decompress to.
    """

    cluster: ClusterSettings
    topic: str
    mirror: str
    largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX


async def find_letters(task: LettersTask) -> dict[LetterOrigin, Offsets]:
    """Returns the source offsets that have a letter, ascending and each once, by whose they are (at offset 0).

    Raises:
        MirrorlakeError: the topic could not be read; nothing is concluded.
    """
    found: defaultdict[LetterOrigin, set[int]] = defaultdict(set)
    async with ClusterClient(task.cluster) as client:
        there = (await client.metadata([task.topic], refresh=True)).topics.get(task.topic)
        for number in sorted(there.partitions) if there is not None else ():
            where = TopicPartition(task.topic, number)
            offsets = OffsetRange(
                start_offset=await client.offset_at(where, EARLIEST), end_offset=await client.offset_at(where, LATEST)
            )
            async for columns in read_range(client, where, offsets, whose="destination"):
                for origin in filter(None, map(origin_of, headers_of(columns))):
                    if origin.mirror == task.mirror:
                        found[origin._replace(offset=0)].add(origin.offset)
    return {origin: np.array(sorted(held), np.int64) for origin, held in found.items()}


def letters_task(row: StatusRow, *, largest_batch_bytes: int) -> LettersTask | None:
    """Returns what to ask about the dead letters of a row; None where it has none. Rows may share one."""
    target = row.target
    if row.error is not None or not target.letters_topic:
        return None
    return LettersTask(
        cluster=target.destination_cluster,
        topic=target.letters_topic,
        mirror=target.mirror.name,
        largest_batch_bytes=largest_batch_bytes,
    )


class LetteredRows:
    """The dead letters of some rows, or why they could not be read."""

    def __init__(self) -> None:
        self._found: dict[object, Offsets | MirrorlakeError] = {}

    def take(self, row: StatusRow, found: Mapping[LetterOrigin, Offsets] | MirrorlakeError) -> None:
        """Takes what was found in the topic that a row's letters go to."""
        target = row.target
        origin = LetterOrigin.anywhere_in(
            target.source,
            cluster_id=target.source_cluster_id,
            topic_id=target.topic_id,
            mirror=target.mirror.name,
            destination_topic=target.destination_topic,
        )
        key = _key(row)
        self._found[key] = found if isinstance(found, MirrorlakeError) else found.get(origin, NO_OFFSETS)

    def has(self, row: StatusRow) -> bool:
        """Tells whether a row may have dead letters: whether it was asked for them."""
        return _key(row) in self._found

    def of(self, row: StatusRow, offsets: OffsetRange) -> Offsets:
        """Returns the source offsets of a row's dead letters within a range, ascending.

        Raises:
            MirrorlakeError: they could not be read.
        """
        held = self._found.get(_key(row), NO_OFFSETS)
        if isinstance(held, MirrorlakeError):
            raise held
        first, stop = np.searchsorted(held, [offsets.start_offset, offsets.end_offset]).tolist()
        return held[first:stop]


def _key(row: StatusRow) -> object:
    return row.target.mirror.name, row.target.destination.label, row.target.source
