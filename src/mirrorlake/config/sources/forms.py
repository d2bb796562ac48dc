"""What a mirror reads, as it stands in the file."""

from typing import Literal

from mirrorlake.config import section as fields
from mirrorlake.config.section import Section, option
from mirrorlake.config.sources.source import Start
from mirrorlake.foreign_layout import BeginsAt, EmptyField


class SourceForm(Section):
    """Topics of a cluster."""

    cluster: fields.Name = option(..., "Key of one of `clusters`.")
    topics: list[fields.TopicEntry] = option(
        ..., "Topics by name, or by an expression between slashes that matches the whole name."
    )
    exclude: list[fields.TopicEntry] = option([], "Topics left out though an expression matches.")
    partitions: fields.Partitions = option(None, "Which partitions.", shown="all")
    start: fields.StartPoint = option(
        Start(),
        "Where a partition begins that has no position yet. All but `earliest` need `offsets: map` at every "
        "destination. `{timestamp: 2026-01-31T00:00:00Z}` is the first record of that time or later, "
        "`{max-age: 7d}` the first that is no older than that when the partition begins (markers of transactions and "
        "aborted records count, as brokers look for times), "
        "`{offsets: {orders: {0: 100, 1: 250}}}` an offset for each partition of each topic.",
        shown="earliest",
    )
    until: fields.Moment | None = option(
        None,
        "Each partition ends before its first record later than that; as long as none is later, it has no end.",
        note="no end",
    )
    until_offsets: fields.Offsets = option(
        {}, "Where single partitions end (exclusive); with `until` the earlier of the two."
    )


class KafkaReplicatorForm(Section):
    """kafka-replicator's files, which are only read: `{region}/{topic}/{partition}/{level}/{first}-{last}`."""

    type: Literal["kafka-replicator"] = option(..., "Selects this layout.")
    region: fields.Name = option(
        ..., "Folder below the store's root that holds the topics: the region whose records these are."
    )
    begins_at: BeginsAt = option(
        BeginsAt.OFFSET_0,
        "Where a partition begins. `offset-0`: offsets below its lowest file are waited for, as the files do not say "
        "whether they ever held records. `first-segment`: the log begins with its lowest file.",
    )
    null_for_empty: list[EmptyField] = option(
        [], "Fields that were null wherever they are empty, as the files do not tell the two apart."
    )


class ArchiveSourceForm(Section):
    """Topics of an archive, which a mirror brings back."""

    store: fields.Name = option(..., "Key of one of `stores`.")
    layout: KafkaReplicatorForm | None = option(
        None, "How another program has laid its files.", note="mirrorlake's archives, and mirror-v3's"
    )
    topics: list[fields.TopicEntry] = option(
        ..., "Folders of the archive by name, or by an expression between slashes that matches the whole name."
    )
    exclude: list[fields.TopicEntry] = option([], "Folders left out though an expression matches.")
    partitions: fields.Partitions = option(None, "Which partitions.", shown="all")
    from_: fields.Moment | None = option(
        None, "Each partition begins at its first record of that time or later, whatever follows it.", key="from"
    )
    until: fields.Moment | None = option(
        None, "Each partition ends before its first record later than that; `plan` counts older ones behind it."
    )
    from_offsets: fields.Offsets = option({}, "Where single partitions begin; with `from` the later of the two.")
    until_offsets: fields.Offsets = option(
        {}, "Where single partitions end (exclusive); with `until` the earlier of the two."
    )
    generation: fields.Count | None = option(
        None,
        "Of topics that were recreated: 1 for `{topic}`, 2 for `{topic}.2` and so on.",
        note="the newest",
    )
