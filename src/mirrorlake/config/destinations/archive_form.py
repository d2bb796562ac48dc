"""An archive as destination, as it stands in the file."""

from typing import ClassVar, Literal

from mirrorlake.config import section as fields
from mirrorlake.config.destinations.archive import (
    DEFAULT_MERGE_STEPS,
    ArchiveDestination,
    ArchiveFormat,
    Compaction,
    Flush,
    MergeSettings,
    RetainSettings,
)
from mirrorlake.config.destinations.destination_form import DestinationForm, SectionContext
from mirrorlake.config.destinations.groups_form import GroupsForm, groups_of
from mirrorlake.config.destinations.route_form import RouteForm, check_beside_route, routed
from mirrorlake.config.section import Section, lasting, option, sized
from mirrorlake.page_compression import Compression
from mirrorlake.schedule import Schedule


class DailyForm(Section):
    """A time of day at which segments are cut whatever they hold."""

    at_utc: fields.AtUtc = option(..., "Time of day in UTC.")


class FlushForm(Section):
    """When a segment is cut: whichever comes first."""

    max_bytes: fields.SegmentSize = sized("128MiB", "Bytes before compression, and 32 for each header.")
    max_records: fields.Count = option(1_000_000, "Records.")
    max_time: fields.FlushTime = lasting(
        "1m", "Age of the oldest record that is not archived yet, also when nothing more arrives."
    )
    daily: DailyForm | None = option(None, "A time of day, beside the other triggers.")


class MergeStepForm(Section):
    """What files of an age become. One step after another by size; the largest goes first."""

    min_age: fields.KeepTime = option(..., "Files published this long ago, or longer.")
    max_bytes: fields.MergedSize = option(..., "Bytes of the files that become one, at most.")


class MergeForm(Section):
    """How many small segments become few large ones: by `run`, where `at` or `every` says when, and `archive merge`."""

    at: fields.CronMoments | None = option(
        None,
        "When `run` does it, as crontab(5) has it, in UTC: `*/15 * * * *` is every quarter of an hour. A sixth field "
        "in front is the second.",
        note="`run` does not",
    )
    every: fields.KeepingTime | None = option(
        None, "In place of `at`: how often, counted from midnight UTC on 1970-01-01.", note="`run` does not"
    )
    steps: list[MergeStepForm] | None = option(
        None,
        "What files of an age become.",
        note="`{min-age: 1h, max-bytes: 64MiB}` and `{min-age: 1d, max-bytes: 1GiB}`",
    )
    min_files: fields.InputCount = option(3, "Fewer adjacent segments are left as they are.")
    max_files: fields.InputCount = option(1000, "More adjacent segments become several.")
    min_bytes: fields.AnySize = sized("1MiB", "Adjacent segments that are together smaller are left.")
    keep_inputs: fields.KeepTime = lasting(
        "0s",
        "How long inputs stay beside what was made of them, by the age of that. Above 0, a reader that knows nothing "
        "of mirrorlake sees their records twice meanwhile.",
    )
    compression: Compression | None = option(
        None,
        "How Parquet is compressed that a merge or an erasure makes: written once, it may take longer than what `run` "
        "writes.",
        note="the destination's `compression`",
    )
    parallelism: fields.LaneCount | None = option(
        None,
        "Segments made at one time, at most.",
        note="the slots of the engine: `engine.lanes`, in `run` `engine.batch-slots`",
    )


class RetainForm(Section):
    """What stays of each topic: by `run`, where `at` or `every` says when, and `archive retain`. At least one bound."""

    at: fields.CronMoments | None = option(None, "When `run` does it, as with `merge`.", note="`run` does not")
    every: fields.KeepingTime | None = option(
        None, "In place of `at`: how often, as with `merge`.", note="`run` does not"
    )
    max_age: fields.KeptAge | None = option(
        None, "Segments whose newest record is older go, as with Kafka's `retention.ms`."
    )
    max_bytes: fields.SegmentSize | None = option(
        None, "Bytes of one topic's segments, all partitions together; the oldest go first."
    )


class ArchiveDestinationForm(DestinationForm):
    """Files in a store, one folder per topic and partition."""

    parts: ClassVar[tuple[tuple[str, type[Section]], ...]] = (
        ("`flush`", FlushForm),
        ("`flush.daily`", DailyForm),
        ("`merge`", MergeForm),
        ("`merge.steps[]`", MergeStepForm),
        ("`retain`", RetainForm),
        ("`groups` of a destination", GroupsForm),
    )

    type: Literal["archive"] = option(..., "Selects this kind of destination.")
    store: fields.Name = option(..., "Key of one of `stores`.")
    name: fields.Template = option(
        "{topic}", "Folder below the store's root; knows `{topic}`, `{mirror}` and `{cluster}`."
    )
    route: RouteForm | None = option(
        None,
        "In place of `name`: which of several folders each record goes to, by an expression.",
        note="all go to `name`",
    )
    format: ArchiveFormat = option(ArchiveFormat.PARQUET, "The format of segment files.")
    compression: Compression = option(Compression.ZSTD_1, "How Parquet is compressed.")
    compaction: Compaction = option(Compaction.NONE, "`log`: segments are snapshots of the latest record per key.")
    keep_snapshots: fields.Count = option(
        1,
        "With `compaction: log`: how many snapshots of a partition stay, the newest among them. Older ones go when "
        "one that came after them has been there for ten minutes, and the newest was read back.",
    )
    flush: FlushForm = option(FlushForm(), "When a segment is cut.", note="see below")
    merge: MergeForm | None = option(None, "How segments are merged.", note="nothing is merged")
    retain: RetainForm | None = option(None, "How long segments are kept.", note="everything is kept")
    groups: GroupsForm | None = option(
        None, "Consumer groups, archived beside the records of a cluster.", note="none are archived"
    )

    def resolved(self, context: SectionContext) -> tuple[ArchiveDestination, ...]:
        """Returns a destination, or one for each folder of its route; none where its store could not be read."""
        self._check(context)
        store = context.stores.get(self.store)
        if store is None:
            return ()
        destination = ArchiveDestination(
            label=store.name,
            store=store,
            name_template=context.filled(self.name),
            format=self.format,
            compression=self.compression,
            compaction=self.compaction,
            snapshots_kept=self.keep_snapshots,
            flush=_flush(self.flush),
            merge=_merge(self.merge, context),
            retain=_retain(self.retain, context),
            groups=groups_of(self.groups, context),
            place=context.document.place(context.path),
        )
        return routed(destination, self.route, (*context.path, "route"), context.document)

    def _check(self, context: SectionContext) -> None:
        has_view, hint = self.compaction is Compaction.LOG, "leave it out"
        if self.format is not ArchiveFormat.PARQUET:
            message = f"has no meaning with `format: {self.format}`"
            if "compression" in self.model_fields_set:
                context.note(("compression",), message, hint)
            if self.merge is not None and self.merge.compression:
                context.note(("merge", "compression"), message, hint)
        if "keep_snapshots" in self.model_fields_set and not has_view:
            context.note(("keep-snapshots",), "has no meaning without `compaction: log`", hint)
        for key in ("merge", "retain"):
            if getattr(self, key) is not None and has_view:
                context.note((key,), "has no meaning with `compaction: log`", "use `keep-snapshots`")
        if self.route is not None:
            check_beside_route(self, "name", context)
            if has_view:
                hint = "archive the records by the route, and take snapshots of that by `mirrorlake archive snapshot`"
                context.note(("route",), "cannot be had with `compaction: log`", hint)


def _flush(form: FlushForm) -> Flush:
    return Flush(
        bytes_max=form.max_bytes,
        records_max=form.max_records,
        time_seconds_max=form.max_time,
        daily_at_utc=form.daily.at_utc if form.daily else None,
    )


def _merge(form: MergeForm | None, context: SectionContext) -> MergeSettings | None:
    if form is None:
        return None
    if form.steps == []:
        context.note(("merge", "steps"), "needs at least one step", "leave it out for the default")
    if form.min_files > form.max_files:
        context.note(("merge", "min-files"), "is above `max-files`", "make it smaller, or that larger")
    return MergeSettings(
        steps=tuple((step.min_age, step.max_bytes) for step in form.steps or ()) or DEFAULT_MERGE_STEPS,
        files_min=form.min_files,
        files_max=form.max_files,
        bytes_min=form.min_bytes,
        keep_inputs_seconds=form.keep_inputs,
        parallelism=form.parallelism,
        compression=form.compression,
        schedule=_schedule(form, "merge", context),
    )


def _schedule(form: MergeForm | RetainForm, key: str, context: SectionContext) -> Schedule | None:
    if form.at is None and form.every is None:
        return None
    if form.at is not None and form.every is not None:
        context.note((key, "every"), "has no meaning beside `at`", "leave one of them out")
        return None
    return Schedule(cron=form.at, every_seconds=form.every)


def _retain(form: RetainForm | None, context: SectionContext) -> RetainSettings | None:
    if form is None:
        return None
    if form.max_age is None and form.max_bytes is None:
        context.note(("retain",), "has no bound", "set `max-age` or `max-bytes`, or leave it out")
        return None
    schedule = _schedule(form, "retain", context)
    return RetainSettings(age_seconds_max=form.max_age, bytes_max=form.max_bytes, schedule=schedule)
