"""``archive retain``: plans each topic from looks at all of its partitions, and retires what the plan names."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirrorlake.archive.maintenance.holds import read_holds
from mirrorlake.archive.maintenance.look import FolderLook, look_at
from mirrorlake.archive.maintenance.retain_plan import Cut, RetainRules, plan_retention
from mirrorlake.archive.maintenance.retiring import has_leftovers, retire, time_of_newest_record
from mirrorlake.archive.newest import newest_footer
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import Clock
from mirrorlake.config.destinations.archive import RetainSettings
from mirrorlake.errors import MirrorlakeError
from mirrorlake.pipeline.batch_jobs import BatchStoppedError
from mirrorlake.service.archives.places import ArchivePlace, doubt_about
from mirrorlake.service.archives.recorded_ends import recorded_ends
from mirrorlake.service.archives.rights import check_rights, folders_changed
from mirrorlake.stores.opening import open_store

Cell = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainRow:
    """One partition: the segments that go, or went, and the offset where the archive begins then.

    ``result`` is `planned`, `deleted`, `nothing` or `failed`. ``is_doubted`` where it is left alone, for ``reason``, as
    it is not certain whose it is.
    """

    place: ArchivePlace
    result: str
    segments: int = 0
    start: int | None = None
    end: int | None = None
    size_bytes: int = 0
    reason: str = ""
    is_doubted: bool = False
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, Cell]:
        """Returns the row of ``archive retain --format json``; ``error`` is present exactly where it failed."""
        row: dict[str, Cell] = {
            "name": self.place.name,
            "partition": self.place.partition,
            "store": self.place.store.where(""),
            "mirror": self.place.mirror,
            "segments": self.segments,
            "start": self.start,
            "end": self.end,
            "bytes": self.size_bytes,
            "result": self.result,
            "reason": self.reason or None,
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


def retain(
    places: Sequence[ArchivePlace], *, clock: Clock, is_dry: bool, is_stopping: Callable[[], bool] = bool
) -> list[RetainRow]:
    """Plans every topic, and unless ``is_dry`` retires what is planned; returns a row for each partition.

    A topic of which one partition cannot be looked at, or ends before where it once did, keeps all of its segments: how
    much it holds is not known, nor which of its segments are the newest. Where several mirrors write partitions of one,
    each has its own bounds.

    Raises:
        BatchStoppedError: ``is_stopping`` said so between two topics.
    """
    rows: list[RetainRow] = []

    def topic_of(place: ArchivePlace) -> tuple[str, str, str]:
        return place.store.where(""), place.name, place.mirror or ""

    for _, topic in itertools.groupby(sorted(places, key=lambda p: (topic_of(p), p.partition)), key=topic_of):
        if is_stopping():
            raise BatchStoppedError("stopped before every topic was looked at")
        rows += _retain_topic(list(topic), clock=clock, is_dry=is_dry)
    return rows


def _retain_topic(places: Sequence[ArchivePlace], *, clock: Clock, is_dry: bool) -> list[RetainRow]:
    settings = places[0].destination.retain if places[0].destination is not None else None
    if settings is None:
        return [_nothing(place, "there is no `retain` at its destination") for place in places]
    archives: dict[int, ArchivedPartition] = {}
    looks: dict[int, FolderLook] = {}
    rows: list[RetainRow] = []
    ends = recorded_ends(places)
    for place in places:
        try:
            # Retention deletes for good, so it takes only what is known to be the mirror's.
            if doubt := doubt_about(place):
                rows.append(RetainRow(place=place, result="nothing", reason=doubt, is_doubted=True))
                continue
            archived = place.open()
            if isinstance(archived, ArchivedPartition):
                look = look_at(archived)
                ends.check(place, look)
                archives[place.partition], looks[place.partition] = archived, look
            else:
                rows.append(_nothing(place, "it holds snapshots: `keep-snapshots` says how many stay"))
        except MirrorlakeError as error:
            rows.append(RetainRow(place=place, result="failed", error=error))
    if any(row.error for row in rows):
        return rows + [
            _nothing(place, "another partition of its topic could not be looked at")
            for place in places
            if place.partition in looks
        ]
    now_seconds = clock.now_seconds()
    try:
        holds = read_holds(open_store(places[0].store), places[0].name)
        held = {n: each for n, look in looks.items() if (each := holds.held_from(n, floor=look.floor)) is not None}
        cuts = plan_retention(
            looks,
            _rules(settings),
            now_seconds=now_seconds,
            time_of=lambda partition, segment: time_of_newest_record(
                archives[partition], segment, now_seconds=now_seconds
            ),
            held=held,
        )
    except MirrorlakeError as error:
        return [RetainRow(place=place, result="failed", error=error) for place in places]
    for place in places:
        if (number := place.partition) in looks:
            rows.append(_row(place, archives[number], looks[number], cuts[number], now_seconds, is_dry=is_dry))
    return rows


def _row(
    place: ArchivePlace, archived: ArchivedPartition, look: FolderLook, cut: Cut, now_seconds: float, *, is_dry: bool
) -> RetainRow:
    gone = (*look.retired, *cut.segments)
    if not gone and (is_dry or not has_leftovers(look, now_seconds=now_seconds)):
        return _nothing(place, cut.reason)
    if is_dry:
        try:
            if cut.segments and look.newest is not None:
                newest_footer(archived, look.newest)  # as `retire` will
        except MirrorlakeError as error:
            return RetainRow(place=place, result="failed", error=error)
        files, size_bytes = len(gone), sum(each.size_bytes for each in gone)
    else:
        try:
            check_rights(place.store, folders_changed(archived))
            cleaned = retire(archived, cut.floor, now_seconds=now_seconds).cleaned
        except MirrorlakeError as error:
            return RetainRow(place=place, result="failed", error=error)
        if not gone:
            return _nothing(place, cut.reason)
        files, size_bytes = cleaned.files, cleaned.size_bytes
    return RetainRow(
        place=place,
        result="planned" if is_dry else "deleted",
        segments=files,
        start=gone[0].name.from_offset,
        end=max(cut.floor, look.floor),
        size_bytes=size_bytes,
        reason=cut.reason if cut.segments or cut.reason.startswith("held") else "",
    )


def _nothing(place: ArchivePlace, reason: str) -> RetainRow:
    return RetainRow(place=place, result="nothing", reason=reason)


def _rules(settings: RetainSettings) -> RetainRules:
    return RetainRules(age_seconds_max=settings.age_seconds_max, bytes_max=settings.bytes_max)
