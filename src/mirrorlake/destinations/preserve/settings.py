"""What a preserve-mode sink is told, and the steps between which it may die."""

from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.destinations.letters.settings import LetterSettings
from mirrorlake.destinations.transform import Transform, transform_of
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill, TopicPartition
from mirrorlake.travelling import travelling


class Step(StrEnum):
    """The steps between which a writer may die; the crash point is called with the next one before it happens."""

    READ_CLAIM = "read claim"
    CHECK_TAIL = "check tail"
    SEND_BATCH = "send batch"
    TAKE_ANSWER = "take answer"
    FILL_GAP = "fill gap"
    WRITE_LETTERS = "write letters"
    DELETE_FILLERS = "delete fillers"


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class PreserveSettings:
    """One partition of one mirror, and where it goes.

    ``source`` and ``destination`` have the same partition number. ``batch_bytes_max`` is the destination topic's
    ``max.message.bytes``. ``gap_fill`` says how offsets without a record are closed. The topics' ``cleanup.policy``
    says with ``source_is_compacted`` and ``destination_is_compacted`` where records may vanish at any time.

    ``skips_truncated`` allows ``[position, log start)`` to be filled where the source's log start has moved above a
    position past 0; below the first record of a new copy it always may. ``gap_fill_offsets_max`` is how many offsets
    may be filled for one log start.

    ``keeps_log_append_time`` is False where a record's time at the destination is not the source's, and no part of what
    must be equal: the destination's brokers give every record their own, or, with ``stamps_times``, the copy does.
    ``keeps_compression`` is True where the destination's brokers are known to store batches as they come: one that they
    compress anew may grow above what they take.
    ``schema_ids`` says where records have schema ids that change, and holds no pair: a lease is told those. None where
    they keep theirs.
    ``letters`` says where dead letters go, if they go anywhere, and where it is kept which there are; None where none
    ever were.
    """

    source: TopicPartition
    destination: TopicPartition
    transactional_id: str
    batch_bytes_max: int
    gap_fill: GapFill = GapFill.REFUSE
    gap_fill_offsets_max: int = GAP_FILL_OFFSETS_MAX
    skips_truncated: bool = False
    source_is_compacted: bool = False
    destination_is_compacted: bool = False
    keeps_log_append_time: bool = True
    stamps_times: bool = False
    keeps_compression: bool = False
    schema_ids: SchemaIdMap | None = None
    letters: LetterSettings | None = None

    @property
    def transform(self) -> Transform:
        """What the copy changes of records."""
        return transform_of(
            keeps_log_append_time=self.keeps_log_append_time,
            stamps_times=self.stamps_times,
            schema_ids=self.schema_ids,
        )

    @property
    def keeps_source_time(self) -> bool | None:
        """What the answers to appends must tell of the topic's clock, see `record_clock.is_expected`."""
        return None if self.stamps_times else self.keeps_log_append_time
