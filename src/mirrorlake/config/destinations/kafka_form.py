"""A Kafka cluster as destination, as it stands in the file."""

from typing import ClassVar, Literal

from mirrorlake.config import section as fields
from mirrorlake.config.destinations.destination_form import DestinationForm, SectionContext
from mirrorlake.config.destinations.groups_form import GroupsForm, groups_of
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode, TimestampMode
from mirrorlake.config.destinations.route_form import RouteForm, check_beside_route, routed
from mirrorlake.config.section import Section, option
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.config.topics.form import TopicSyncForm
from mirrorlake.config.topics.policy import AS_THE_SOURCE, READING, CountRule, SyncMode, TopicRules, TopicSync
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill


class KafkaDestinationForm(DestinationForm):
    """Another Kafka cluster, or the same one under other topic names."""

    parts: ClassVar[tuple[tuple[str, type[Section]], ...]] = (("`route`", RouteForm), ("`sync`", TopicSyncForm))

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

    def resolved(self, context: SectionContext) -> tuple[KafkaDestination, ...]:
        """Returns a destination, or one for each topic of its route; none where its cluster could not be read."""
        self._check(context)
        cluster = context.clusters.get(self.cluster)
        if cluster is None:
            return ()
        rules = self.create_topics
        destination = KafkaDestination(
            label=cluster.name,
            cluster=cluster,
            topic_template=context.filled(self.topic),
            offsets=self.offsets,
            gap_fill=self.gap_fill or GapFill.MARKERS,
            gap_fill_offsets_max=self.gap_fill_max_offsets,
            timestamp_mode=self.timestamp_mode,
            creates_topics=rules is not None,
            partition_rule=rules.partitions if rules is not None else AS_THE_SOURCE,
            replication_rule=self._replication_rule(context),
            sync=_sync_of(self.sync),
            groups=groups_of(self.groups, context),
            stamps_provenance=self.provenance_headers,
            place=context.document.place(context.path),
        )
        return routed(destination, self.route, (*context.path, "route"), context.document)

    def _check(self, context: SectionContext) -> None:
        is_mapped = self.offsets is OffsetMode.MAP
        if self.gap_fill is not None and is_mapped:
            context.note(("gap-fill",), "has no meaning with `offsets: map`", "leave it out")
        if self.provenance_headers and not is_mapped:
            context.note(
                ("provenance-headers",),
                "needs `offsets: map`: with equal offsets they are the source's, and so are a record's bytes",
                "leave it out, or set `offsets: map`",
            )
        if self.route is not None:
            check_beside_route(self, "topic", context)
            if not is_mapped:
                message = "leaves offsets out of each topic, and with `offsets: preserve` every offset has its record"
                context.note(("route",), message, "use `offsets: map`")
        if self.sync.acls is not SyncMode.OFF and isinstance(context.source, ArchiveSource):
            context.note(("sync", "acls"), "has no meaning: an archive keeps no ACLs", "leave it out")
        if self.sync.acl_removals and not set(self.sync.acl_operations) <= set(READING):
            message = "is not possible where `acl-operations` has more than reading: mirrorlake's own user has such "
            context.note(("sync", "acl-removals"), f"{message}rights, too", "leave one of them out")

    def _replication_rule(self, context: SectionContext) -> CountRule | None:
        rule = self.create_topics.replication if self.create_topics is not None else None
        if rule is not None and rule.fixed is None and isinstance(context.source, ArchiveSource):
            hint = "use `{fixed: …}`, or leave it out"
            context.note(("create-topics",), "`replication: mirror-source`: an archive has no replicas", hint)
        if self.replication_factor is None:
            return rule
        if rule is not None:
            hint = "leave one of them out"
            context.note(("replication-factor",), "has no meaning beside `replication` of `create-topics`", hint)
        if self.create_topics is None:
            context.note(("replication-factor",), "has no meaning with `create-topics: false`")
        return CountRule(fixed=self.replication_factor)


def _sync_of(form: TopicSyncForm) -> TopicSync:
    return TopicSync(
        configs=form.configs,
        partitions=form.partitions,
        include=tuple(form.include),
        exclude=tuple(form.exclude),
        override=form.override,
        acls=form.acls,
        acl_operations=tuple(form.acl_operations),
        acl_groups=form.acl_groups,
        acl_removals=form.acl_removals,
        interval_seconds=form.interval,
    )
