"""An archive as destination, as it stands in the file."""

from typing import Literal

from mirrorlake.config import section as fields
from mirrorlake.config.destinations.archive import ArchiveFormat, Compaction
from mirrorlake.config.destinations.groups_form import GroupsForm
from mirrorlake.config.destinations.route_form import RouteForm
from mirrorlake.config.section import Section, lasting, option, sized
from mirrorlake.page_compression import Compression


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


class ArchiveDestinationForm(Section):
    """Files in a store, one folder per topic and partition."""

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
