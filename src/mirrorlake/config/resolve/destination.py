"""From a destination of the native form to the value the program uses; what has no meaning in it is noted."""

from mirrorlake.config.destinations.archive import (
    DEFAULT_MERGE_STEPS,
    ArchiveDestination,
    ArchiveFormat,
    Compaction,
    Flush,
    MergeSettings,
    RetainSettings,
)
from mirrorlake.config.destinations.archive_form import ArchiveDestinationForm, FlushForm, MergeForm, RetainForm
from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.config.destinations.groups_form import GroupsForm
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.destinations.kafka_form import KafkaDestinationForm
from mirrorlake.config.document import Document
from mirrorlake.config.problems import FieldPath
from mirrorlake.config.sources.source import ArchiveSource, Source
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store
from mirrorlake.config.topics.policy import AS_THE_SOURCE, READING, CountRule, SyncMode, TopicSync
from mirrorlake.config.topics.selection import NameSelection
from mirrorlake.config.values.names import selected
from mirrorlake.offsets import GapFill
from mirrorlake.schedule import Schedule


def kafka_destination(
    form: KafkaDestinationForm,
    path: FieldPath,
    document: Document,
    *,
    cluster: Cluster | None,
    template: str,
    source: Source | None,
) -> KafkaDestination | None:
    """Returns a Kafka destination; None where its cluster could not be read.

    Args:
        form: as it stands in the file.
        path: where.
        document: takes what is wrong.
        cluster: the one it names.
        template: of its topics, of which mirror and source are filled in.
        source: what the mirror reads, None where that could not be read.
    """
    if form.gap_fill is not None and form.offsets is OffsetMode.MAP:
        document.note((*path, "gap-fill"), "has no meaning with `offsets: map`", "leave it out")
    if form.provenance_headers and form.offsets is OffsetMode.PRESERVE:
        document.note(
            (*path, "provenance-headers"),
            "needs `offsets: map`: with equal offsets they are the source's, and so are a record's bytes",
            "leave it out, or set `offsets: map`",
        )
    if form.route is not None:
        _check_route(form, form.offsets is OffsetMode.MAP, (*path, "route"), document)
    _check_acls(form, (*path, "sync"), document, source)
    rules = form.create_topics
    if cluster is None:
        return None
    return KafkaDestination(
        label=cluster.name,
        cluster=cluster,
        topic_template=template,
        offsets=form.offsets,
        gap_fill=form.gap_fill or GapFill.MARKERS,
        gap_fill_offsets_max=form.gap_fill_max_offsets,
        timestamp_mode=form.timestamp_mode,
        creates_topics=rules is not None,
        partition_rule=rules.partitions if rules is not None else AS_THE_SOURCE,
        replication_rule=_replication_rule(form, path, document, source),
        sync=TopicSync(
            configs=form.sync.configs,
            partitions=form.sync.partitions,
            include=tuple(form.sync.include),
            exclude=tuple(form.sync.exclude),
            override=form.sync.override,
            acls=form.sync.acls,
            acl_operations=tuple(form.sync.acl_operations),
            acl_groups=form.sync.acl_groups,
            acl_removals=form.sync.acl_removals,
            interval_seconds=form.sync.interval,
        ),
        groups=_groups(form.groups, (*path, "groups"), document, source),
        stamps_provenance=form.provenance_headers,
        place=document.place(path),
    )


def _check_route(
    form: KafkaDestinationForm | ArchiveDestinationForm, can_leave_out: bool, path: FieldPath, document: Document
) -> None:
    """Notes what a route has no meaning beside; ``can_leave_out`` is False where every offset needs its record."""
    name = "topic" if isinstance(form, KafkaDestinationForm) else "name"
    if name in form.model_fields_set:
        document.note((*path[:-1], name), "has no meaning beside `route`", "leave it out: `topics` names them")
    if can_leave_out:
        return
    if isinstance(form, KafkaDestinationForm):
        message = "leaves offsets out of each topic, and with `offsets: preserve` every offset has its record"
        document.note(path, message, "use `offsets: map`")
    else:
        hint = "archive the records by the route, and take snapshots of that by `mirrorlake archive snapshot`"
        document.note(path, "cannot be had with `compaction: log`", hint)


def _check_acls(form: KafkaDestinationForm, path: FieldPath, document: Document, source: Source | None) -> None:
    sync = form.sync
    if sync.acls is not SyncMode.OFF and isinstance(source, ArchiveSource):
        document.note((*path, "acls"), "has no meaning: an archive keeps no ACLs", "leave it out")
    if sync.acl_removals and not set(sync.acl_operations) <= set(READING):
        document.note(
            (*path, "acl-removals"),
            "is not possible where `acl-operations` has more than reading: mirrorlake's own user has such rights, too",
            "leave one of them out",
        )


def _replication_rule(
    form: KafkaDestinationForm, path: FieldPath, document: Document, source: Source | None
) -> CountRule | None:
    rule = form.create_topics.replication if form.create_topics is not None else None
    if rule is not None and rule.fixed is None and isinstance(source, ArchiveSource):
        hint = "use `{fixed: …}`, or leave it out"
        document.note((*path, "create-topics"), "`replication: mirror-source`: an archive has no replicas", hint)
    if form.replication_factor is None:
        return rule
    if rule is not None:
        hint = "leave one of them out"
        document.note((*path, "replication-factor"), "has no meaning beside `replication` of `create-topics`", hint)
    if form.create_topics is None:
        document.note((*path, "replication-factor"), "has no meaning with `create-topics: false`")
    return CountRule(fixed=form.replication_factor)


def archive_destination(
    form: ArchiveDestinationForm,
    path: FieldPath,
    document: Document,
    *,
    store: Store | None,
    template: str,
    source: Source | None,
) -> ArchiveDestination | None:
    """Returns an archive as destination; None where its store could not be read. See `kafka_destination`.

    ``source`` is what the mirror reads, None where that could not be read.
    """
    if "compression" in form.model_fields_set and form.format is not ArchiveFormat.PARQUET:
        document.note((*path, "compression"), f"has no meaning with `format: {form.format}`", "leave it out")
    if form.merge is not None and form.merge.compression and form.format is not ArchiveFormat.PARQUET:
        document.note((*path, "merge", "compression"), f"has no meaning with `format: {form.format}`", "leave it out")
    if "keep_snapshots" in form.model_fields_set and form.compaction is not Compaction.LOG:
        document.note((*path, "keep-snapshots"), "has no meaning without `compaction: log`", "leave it out")
    for key in ("merge", "retain"):
        if getattr(form, key) is not None and form.compaction is Compaction.LOG:
            document.note((*path, key), "has no meaning with `compaction: log`", "use `keep-snapshots`")
    if form.route is not None:
        _check_route(form, form.compaction is not Compaction.LOG, (*path, "route"), document)
    if store is None:
        return None
    return ArchiveDestination(
        label=store.name,
        store=store,
        name_template=template,
        format=form.format,
        compression=form.compression,
        compaction=form.compaction,
        snapshots_kept=form.keep_snapshots,
        flush=_flush(form.flush),
        merge=_merge(form.merge, (*path, "merge"), document),
        retain=_retain(form.retain, (*path, "retain"), document),
        groups=_groups(form.groups, (*path, "groups"), document, source),
        place=document.place(path),
    )


def _flush(form: FlushForm) -> Flush:
    return Flush(
        bytes_max=form.max_bytes,
        records_max=form.max_records,
        time_seconds_max=form.max_time,
        daily_at_utc=form.daily.at_utc if form.daily else None,
    )


def _merge(form: MergeForm | None, path: FieldPath, document: Document) -> MergeSettings | None:
    if form is None:
        return None
    if form.steps == []:
        document.note((*path, "steps"), "needs at least one step", "leave it out for the default")
    if form.min_files > form.max_files:
        document.note((*path, "min-files"), "is above `max-files`", "make it smaller, or that larger")
    return MergeSettings(
        steps=tuple((step.min_age, step.max_bytes) for step in form.steps or ()) or DEFAULT_MERGE_STEPS,
        files_min=form.min_files,
        files_max=form.max_files,
        bytes_min=form.min_bytes,
        keep_inputs_seconds=form.keep_inputs,
        parallelism=form.parallelism,
        compression=form.compression,
        schedule=_schedule(form, path, document),
    )


def _schedule(form: MergeForm | RetainForm, path: FieldPath, document: Document) -> Schedule | None:
    if form.at is None and form.every is None:
        return None
    if form.at is not None and form.every is not None:
        document.note((*path, "every"), "has no meaning beside `at`", "leave one of them out")
        return None
    return Schedule(cron=form.at, every_seconds=form.every)


def _retain(form: RetainForm | None, path: FieldPath, document: Document) -> RetainSettings | None:
    if form is None:
        return None
    if form.max_age is None and form.max_bytes is None:
        document.note(path, "has no bound", "set `max-age` or `max-bytes`, or leave it out")
        return None
    schedule = _schedule(form, path, document)
    return RetainSettings(age_seconds_max=form.max_age, bytes_max=form.max_bytes, schedule=schedule)


def _groups(
    form: GroupsForm | None, path: FieldPath, document: Document, source: Source | None
) -> GroupSettings | None:
    if form is None:
        return None
    if isinstance(source, ArchiveSource):
        hint = "leave it out"
        document.note(path, "has no meaning where the source is an archive: groups are a cluster's", hint)
    if not form.include:
        document.note((*path, "include"), "names no group", "/.*/ is all of them; or leave `groups` out")
    selection = NameSelection(**selected(list(dict.fromkeys(form.include)), form.exclude))
    return GroupSettings(selection=selection, interval_seconds=form.interval)
