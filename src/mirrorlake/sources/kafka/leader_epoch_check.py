"""Whether a source's log below a position still is the one that was copied (KIP-320). Pure.

After an unclean leader election a log may have been cut and written anew, so that offsets below a position hold other
records than those copied, and nothing in the offsets shows it. Leader epochs do: a log's leader tells where the records
of an epoch end in it, and that is below what was copied where they were cut off.
"""

from mirrorlake.errors import SourceDivergedError
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.mark import UNKNOWN_EPOCH, SourceMark


def read_on(mark: SourceMark | None, *, epoch: int, offset: int, leader_epoch: int) -> SourceMark | None:
    """Returns the mark after reading up to ``offset``, where ``epoch`` was the latest of what was read.

    Args:
        mark: before, None where nothing was known.
        epoch: −1 where nothing with an epoch was read.
        offset: exclusive.
        leader_epoch: in which the leader was asked about ``mark``, and read.
    """
    if epoch == UNKNOWN_EPOCH:
        return None if mark is None else SourceMark(epoch=mark.epoch, offset=mark.offset, leader_epoch=leader_epoch)
    if mark is None:
        return SourceMark(epoch=epoch, offset=offset, leader_epoch=leader_epoch)
    return SourceMark(epoch=max(epoch, mark.epoch), offset=max(offset, mark.offset), leader_epoch=leader_epoch)


def divergence(
    source: TopicPartition, mark: SourceMark, end: LogEnd, position: int, *, destination: str
) -> SourceDivergedError | None:
    """Returns what is wrong where the log of ``mark`` ends below what was copied of it, None where it does not.

    Args:
        source: the partition.
        mark: how far it was read.
        end: where the records of ``mark.epoch``, or of the latest one before it, end at the source now; negative
            where the leader does not know, and nothing follows from that.
        position: of the destination; what lies between it and the mark was read and not copied.
        destination: its label.
    """
    copied = min(position, mark.offset)
    if end.end_offset < 0 or end.leader_epoch < 0 or end.end_offset >= copied:
        return None
    return SourceDivergedError(
        f"source {source} was cut at offset {end.end_offset} and rewritten; {destination} was copied up to {copied} "
        f"before, in leader epoch {mark.epoch}: its offsets {end.end_offset}…{copied - 1} are of a log that was lost",
        hint="an unclean leader election at the source does this; to copy its records of now, delete the copy "
        "and restart, or copy to another topic or folder. `verify` names the differences",
        position=copied,
        source_end=end.end_offset,
        leader_epoch=mark.epoch,
    )
