"""A Kafka cluster as destination, as it stands in the file."""

from typing import Literal

from mirrorlake.config import section as fields
from mirrorlake.config.destinations.groups_form import GroupsForm
from mirrorlake.config.destinations.kafka import OffsetMode, TimestampMode
from mirrorlake.config.destinations.route_form import RouteForm
from mirrorlake.config.section import Section, option
from mirrorlake.config.topics.form import TopicSyncForm
from mirrorlake.config.topics.policy import TopicRules
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill


class KafkaDestinationForm(Section):
    """Another Kafka cluster, or the same one under other topic names."""

    type: Literal["kafka"] = option(..., "Selects this kind of destination.")
    cluster: fields.Name = option(..., "Key of one of `clusters`.")
    topic: fields.Template = option("{topic}", "Destination topic; knows `{topic}`, `{mirror}` and `{cluster}`.")
    route: RouteForm | None = option(
        None,
        "In place of `topic`, with `offsets: map`: which of several topics each record goes to, by an expression.",
        note="all go to `topic`",
    )
    offsets: OffsetMode = option(
        OffsetMode.PRESERVE,
        "`preserve`: every record keeps its offset, and this mirror alone writes the destination partition. "
        "`map`: other writers are allowed, an offset map is kept.",
    )
    gap_fill: GapFill | None = option(
        None,
        "How offsets without a record are closed with `offsets: preserve`. `markers`: by transactions that write "
        "nothing, invisible to every consumer, about 4 ms an offset. `filler`: by aborted records, invisible to "
        "`read_committed` consumers only, a million offsets in 0.2 s. `refuse`: the partition is parked at the first "
        "one.",
        shown="markers",
    )
    gap_fill_max_offsets: fields.Count = option(
        GAP_FILL_OFFSETS_MAX,
        "Offsets below the source's log start that are filled at most; beyond it the partition is parked. `plan` shows "
        "what filling them costs.",
    )
    timestamp_mode: TimestampMode = option(
        TimestampMode.SOURCE,
        "Whose timestamp a record carries at the destination. `source`: the one its readers saw at the source; the "
        "topic must have `message.timestamp.type=CreateTime`. `destination`: when it was written "
        "there, by its broker's clock where the topic has `LogAppendTime`, as it is created, else by the copy's.",
    )
    create_topics: fields.TopicCreation = option(
        TopicRules(),
        "How a missing destination topic is made. `never` or `false`: it must exist. `like-source` or `true`: with the "
        "source's partitions and settings. Or by rules: `{partitions: {mirror-source: {min: 3, max: 12}}, replication: "
        "{fixed: 3}}`; with `offsets: preserve` the rule for partitions must give as many as the source has.",
        shown="like-source",
    )
    replication_factor: fields.Replication | None = option(
        None, "Of created topics, short for `{replication: {fixed: …}}`; left out, the destination cluster decides."
    )
    sync: TopicSyncForm = option(
        TopicSyncForm(), "How topics that are there are kept in step.", note="differences are shown"
    )
    provenance_headers: bool = option(
        False,
        "With `offsets: map`: each record gets four headers more, behind its own, that say which record of the source "
        "it is: `__mirrorlake.source.cluster.id`, `.topic`, `.partition` and `.offset`.",
    )
    groups: GroupsForm | None = option(
        None,
        "Consumer groups of the source that `run` takes along, as `mirrorlake groups sync` does.",
        note="none are taken along",
    )
