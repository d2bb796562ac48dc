"""A destination of mapped offsets that no longer holds what its progress says: told, named, and made good.

An unclean election, or a disk that lied, cuts a log. What the progress says was written is then gone from the cut on,
and others may have written there since. So at a take-over the log's end is compared with the progress, and the batch
that should hold our last record is looked at. Nothing is appended to such a partition: every append would bring its
end nearer to where the loss is not seen any more.

With ``on-lost-tail: copy-again`` the progress of every source of the shard that goes there returns to the first source
offset whose record is gone. Pure; ``tail_look`` reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.destinations.map.offset_map import FullPage, MappedRun, OpenPage, add_runs, decode_runs
from mirrorlake.destinations.map.progress import MapPage, MapProgress, PageKey, ProgressKey
from mirrorlake.errors import LostTailError
from mirrorlake.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """What the progress of one source partition becomes without what the destination has lost.

    ``pages`` are to be written again, shorter than they were; ``forgotten`` speak of lost records only.
    """

    key: ProgressKey
    progress: MapProgress
    pages: tuple[tuple[PageKey, MapPage], ...]
    forgotten: tuple[PageKey, ...]


def progress_at(
    known: Mapping[ProgressKey, MapProgress], destination: TopicPartition, topic_id: str
) -> dict[ProgressKey, MapProgress]:
    """Returns the progress of every source that has records in a destination partition of that very topic. Pure."""
    return {
        key: each
        for key, each in known.items()
        if TopicPartition(key.destination_topic, each.destination_partition) == destination
        and each.destination_end
        and each.destination_topic_id in ("", topic_id)
    }


def cut_short(key: ProgressKey, progress: MapProgress, end_offset: int) -> LostTailError | None:
    """Returns the error for a destination partition that ends below what was written there; None where it does not.

    The caller knows that the destination topic is the one the progress speaks of. Pure.
    """
    if end_offset >= progress.destination_end:
        return None
    where = TopicPartition(key.destination_topic, progress.destination_partition)
    what = (
        f"destination {where} ends at offset {end_offset}, and records of source {key.source} were written there up "
        f"to offset {progress.destination_end}"
    )
    return _lost(progress, what, end_offset)


def overwritten(key: ProgressKey, progress: MapProgress, end_offset: int) -> LostTailError:
    """Returns the error for a destination partition that was cut, and has grown again since. Pure."""
    where = TopicPartition(key.destination_topic, progress.destination_partition)
    what = (
        f"offset {progress.destination_end - 1} of destination {where}, the last one written there of source "
        f"{key.source}, holds something else now: the log was cut, and has grown again since"
    )
    return _lost(progress, what, end_offset)


def _lost(progress: MapProgress, what: str, end_offset: int) -> LostTailError:
    return LostTailError(
        f"{what}; of the source's offsets below {progress.position} the newest are lost there",
        hint="nothing more is written there; `on-lost-tail: copy-again` copies the lost records once more, behind "
        "the newest; or bring the lost records back from another replica; or give the mirror another name, and as "
        "`start` the `offsets` to copy from, or another topic",
        position=progress.position,
        destination_end=progress.destination_end,
        end_offset=end_offset,
    )


def runs_of(progress: MapProgress, pages: Sequence[tuple[PageKey, MapPage]]) -> list[MappedRun]:
    """Returns the runs of an offset map: its full pages, ascending, and the open one. Pure."""
    runs = [run for key, page in pages for run in decode_runs(key.start_offset, page.page.encoded)]
    return [*runs, *decode_runs(progress.page.start_offset, progress.page.encoded)]


def _kept(runs: Iterable[MappedRun], cut: int) -> tuple[list[MappedRun], int | None]:
    """Returns the runs below a destination offset, and the first source offset that is not; None where all are."""
    kept: list[MappedRun] = []
    for run in runs:
        if run.destination_end <= cut:
            kept.append(run)
            continue
        length = max(0, cut - run.destination_offset)
        if length:
            kept.append(replace(run, length=length))
        return kept, run.start_offset + length
    return kept, None


def trimmed(key: ProgressKey, progress: MapProgress, pages: Sequence[tuple[PageKey, MapPage]], cut: int) -> Trim:
    """Returns what the progress becomes where the destination has lost everything from offset ``cut`` on. Pure.

    Args:
        key: whose progress.
        progress: as it was; its destination end is past ``cut``.
        pages: the full pages of its offset map, ascending.
        cut: destination offset.
    """
    whole = [pair for pair in pages if _last_end(pair[1].page) <= cut]
    again = pages[len(whole) :]
    start = whole[-1][1].page.offsets.end_offset if whole else progress.start_offset
    kept, lost = _kept(runs_of(progress, again), cut)
    full, page = add_runs(OpenPage.at(start), kept)
    # One that was moved back, or whose copy after that had not caught up, stays where it is.
    position = progress.position if lost is None else min(progress.position, lost)
    ends = [run.destination_end for run in kept[-1:]] or [_last_end(page.page) for _, page in whole[-1:]]
    topic_ids = {page_key.start_offset: page_key.source_topic_id for page_key, _ in again}
    return Trim(
        key=key,
        progress=replace(
            progress,
            leader_epoch=-1,
            offsets=OffsetRange(start_offset=position, end_offset=position),
            destination_offset=None,
            destination_end=ends[0] if ends else 0,
            page=page,
            empty_from=None,
        ),
        pages=tuple(
            (
                PageKey(
                    progress=key,
                    source_topic_id=topic_ids[each.offsets.start_offset],
                    start_offset=each.offsets.start_offset,
                ),
                MapPage(page=each, destination_partition=progress.destination_partition),
            )
            for each in full
        ),
        forgotten=tuple(page_key for page_key, _ in again[len(full) :]),
    )


def _last_end(page: FullPage) -> int:
    return max(run.destination_end for run in decode_runs(page.offsets.start_offset, page.encoded))
