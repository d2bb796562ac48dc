"""What a copy changes of records on purpose: the one hook for it, as bytes change only where a feature says so (law 5).

A destination's route applies it to what is copied (`route.py`), the tail check and `verify` to what they compare. A
further change is a further field of ``Transform``, and holds for all of them. Filter, route and projection come first
(``selected``), asked by the sink, which has to record what is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.destinations.filtering import (
    PartitionBranch,
    PartitionFilter,
    PartitionProjection,
    Selected,
    Selection,
    selected,
)
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.destinations.provenance import Provenance
from mirrorlake.destinations.stamping import stamped
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.columns import columns_with_ids, columns_without_ids
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap


class Times(StrEnum):
    """Whose time a record has at the destination."""

    SOURCE = "source"
    """The source's, whoever set it there."""
    BROKERS = "brokers"
    """The destination's brokers give every record their own."""
    COPY = "copy"
    """That of the copying, as the destination's brokers keep what a producer gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """What a copy does to records beside moving them. A value that travels in plans; pure."""

    times: Times = Times.SOURCE
    schema_ids: SchemaIdMap | None = None
    """What schema ids become; None where records keep theirs."""
    compares_ids: bool = False
    """True where schema ids are compared too. The tail check sets them aside: which id a schema has is the registry's
    affair, and may not be known when a lease begins."""
    keeps: PartitionFilter | None = None
    """Which records of the source partition are copied; None for all."""
    takes: PartitionBranch | None = None
    """Which of those a route gives to this copy; None for all."""
    projects: PartitionProjection | None = None
    """What they become; None where keys, values and headers stay."""
    provenance: Provenance | None = None
    """Where records come from, whose headers are not compared; None where no copy has them."""
    stamps_provenance: bool = False
    """True where records are given those headers."""
    sets_content_aside: bool = False
    """True where keys, values and headers are not compared: another projection made those of the copy."""

    @property
    def fingerprint(self) -> str:
        """That of the projection, empty where there is none."""
        return self.projects.wanted.fingerprint if self.projects is not None else ""

    @property
    def sets_times(self) -> bool:
        """True where the batches that are sent must say the records' times, as no broker of the destination will."""
        return self.times is not Times.BROKERS

    @property
    def changes_batches(self) -> bool:
        """True where ``batches`` does anything at all."""
        return self.times is Times.COPY or self.stamps_provenance

    def batches(self, items: Sequence[ClassifiedBatch], *, now_ms: int) -> Sequence[ClassifiedBatch]:
        """Returns the items of a delivery in order, those with records as they are to be copied.

        There are two ways to change a batch. It may be patched: another of the same length and the same offsets, its
        checksum right, ``raw`` as it was, goes on as it is. Or it is called ``records``: then its records go on in new
        batches, as its header and bytes have them now. No item goes, and none comes: what a batch loses is a hole in
        it. The bytes that were given stay as they are, as another destination may be given the same.

        Args:
            items: as they were classified.
            now_ms: Unix milliseconds.
        """
        if self.stamps_provenance and self.provenance is not None:
            items = self.provenance.stamped(items)
        return stamped(items, now_ms) if self.times is Times.COPY else items

    def selected(self, delivery: Delivery, *, position: int) -> Selected:
        """Returns what of a delivery is to be copied, as it is where there is no filter, route or projection.

        To be asked before ``batches``: all see records as the source has them. Offsets that filter and route leave out
        are gaps of the delivery.

        Args:
            delivery: as it was read.
            position: where the copy stands; what is before it needs nothing made of it.
        """
        if self.keeps is None and self.projects is None and self.takes is None:
            return Selected(delivery=delivery)
        return selected(
            delivery, Selection(keeps=self.keeps, projects=self.projects, position=position, takes=self.takes)
        )

    def source_side(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the source as they must be found in the copy, without what cannot be compared.

        One for which the projection has no value was copied by nobody who has it: it becomes one that no copy holds.

        Raises:
            SchemaUnknownError: a schema id that is to be compared is not in the map.
        """
        if self.keeps is not None:
            records = self.keeps.kept(records)
        if self.takes is not None:
            records = self.takes.taken(records)
        if self.projects is not None:
            records = self.projects.compared(records)
        if self.schema_ids is not None and self.compares_ids:
            records = columns_with_ids(records, self.schema_ids)
        return self._compared(records)

    def copy_side(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the copy, at the source's offsets, without what cannot be compared."""
        return self._compared(records)

    def _compared(self, records: RecordColumns) -> RecordColumns:
        if self.sets_content_aside:
            records = records.without_content()
        if self.provenance is not None:
            records = self.provenance.set_aside(records)
        if self.schema_ids is not None and not self.compares_ids and not self.sets_content_aside:
            records = columns_without_ids(records, self.schema_ids.sides)
        return records if self.times is Times.SOURCE else records.without_timestamps()


AS_IT_IS = Transform()
"""Nothing changes."""


def transform_of(
    *,
    keeps_log_append_time: bool,
    stamps_times: bool,
    schema_ids: SchemaIdMap | None = None,
    keeps: PartitionFilter | None = None,
    takes: PartitionBranch | None = None,
    projects: PartitionProjection | None = None,
    provenance: Provenance | None = None,
    stamps_provenance: bool = False,
) -> Transform:
    """Returns the transform of a Kafka destination's settings, see ``PreserveSettings`` for what they mean."""
    given = Times.SOURCE if keeps_log_append_time else Times.BROKERS
    return Transform(
        times=Times.COPY if stamps_times else given,
        schema_ids=schema_ids,
        keeps=keeps,
        takes=takes,
        projects=projects,
        provenance=provenance,
        stamps_provenance=stamps_provenance,
    )
