"""The native form, as it stands in the file. ``resolve`` turns it into what the program uses."""

from typing import Annotated, Literal

from pydantic import Field

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.config import section as fields
from mirrorlake.config.common_form import CommonForm
from mirrorlake.config.resolved import (
    ArchiveFormat,
    Compaction,
    LostTailPolicy,
    OffsetMode,
    RecreationPolicy,
    Start,
    TimestampMode,
    TruncationPolicy,
)
from mirrorlake.config.schemas.form import RegistryForm, SchemasForm
from mirrorlake.config.section import Section, lasting, option, sized
from mirrorlake.config.topics.form import TopicSyncForm
from mirrorlake.config.topics.heartbeats import HeartbeatsForm
from mirrorlake.config.topics.policy import TopicRules
from mirrorlake.config.topics.select import SelectForm
from mirrorlake.foreign_layout import BeginsAt, EmptyField
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill
from mirrorlake.page_compression import Compression


class ClusterForm(Section):
    """A Kafka cluster; its key is the name that mirrors refer to."""

    bootstrap_servers: fields.Servers = option(..., "Brokers to ask first. One that answers is enough.")
    properties: fields.Properties = option({}, "Client properties under Kafka's own names, see below.")


class StoreFilesystemForm(Section):
    """A folder that holds archives."""

    type: Literal["filesystem"] = option(..., "Selects this kind of store.")
    root: fields.Root = option(..., "The folder. It must exist, on a filesystem with hard links.")


class StoreS3Form(Section):
    """A bucket of S3, or of a store that speaks its protocol and honours `If-None-Match`.

    Credentials are those named here; else those of `profile` or `AWS_PROFILE`; else what the environment gives: `AWS_*`
    variables, a web identity, a container's or an instance's role.
    """

    type: Literal["s3"] = option(..., "Selects this kind of store.")
    bucket: fields.Text = option(..., "The bucket. It must exist.")
    prefix: fields.Prefix = option("", "What all keys begin with.")
    region: fields.Text = option(..., "The bucket's region.")
    endpoint: fields.Endpoint | None = option(
        None, "Address of the store; leave it out for AWS. Over `http://` nothing is encrypted."
    )
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    addressing: Addressing = option(
        Addressing.PATH, "`virtual-hosted`: the bucket's name goes before the host's, in `endpoint` leave it out."
    )
    content_check: ContentCheck | None = option(
        None,
        "What tells the store that content was changed on the way: a digest in the signature (0.5 CPU seconds a GiB), "
        "a checksum (0.04; the store must know CRC-64/NVME), or nothing.",
        note="`sha256` over `http://`, else `none`, as TLS does it",
    )
    profile: fields.Text | None = option(
        None, "A profile of the AWS configuration files (`~/.aws`).", note="`AWS_PROFILE`"
    )
    access_key_id: fields.SecretText | None = option(None, "With the next: the credentials.")
    secret_access_key: fields.SecretText | None = option(None, "See above.")
    session_token: fields.SecretText | None = option(None, "Of temporary credentials.")


class StoreGcsForm(Section):
    """A bucket of Google Cloud Storage.

    Credentials are the key named here; else what the environment gives: `GOOGLE_*` variables, the application default
    credentials, the metadata service.
    """

    type: Literal["gcs"] = option(..., "Selects this kind of store.")
    bucket: fields.Text = option(..., "The bucket. It must exist.")
    prefix: fields.Prefix = option("", "What all keys begin with.")
    endpoint: fields.Endpoint | None = option(None, "Address of the store; leave it out for Google's.")
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    service_account_key: fields.SecretText | None = option(None, "A service account's key, the JSON text.")


class StoreAzureForm(Section):
    """A container of Azure Blob Storage.

    Credentials are those named here; else what the environment gives: `AZURE_*` variables, a workload or managed
    identity.
    """

    type: Literal["azure"] = option(..., "Selects this kind of store.")
    account: fields.Text = option(..., "The storage account.")
    container: fields.Text = option(..., "The container. It must exist.")
    prefix: fields.Prefix = option("", "What all keys begin with.")
    endpoint: fields.Endpoint | None = option(None, "Address of the store; leave it out for Azure's.")
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    account_key: fields.SecretText | None = option(None, "The account's key.")
    sas_token: fields.SecretText | None = option(None, "A shared access signature, instead of the key.")


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


class GroupsForm(Section):
    """Whose committed offsets of the mirrored topics are kept at the destination.

    In an archive beside the records, for `restore --groups`; at a Kafka cluster as offsets of the same groups there.
    """

    include: list[fields.GroupEntry] = option(
        ..., "Consumer groups by name, or by an expression between slashes that matches the whole name: `/.*/` is all."
    )
    exclude: list[fields.GroupEntry] = option([], "Groups left out though an expression matches.")
    interval: fields.GroupsTime = lasting(
        "1m", "How often they are looked at; once more at a stop. Only what has changed is written or committed."
    )


class KafkaDestinationForm(Section):
    """Another Kafka cluster, or the same one under other topic names."""

    type: Literal["kafka"] = option(..., "Selects this kind of destination.")
    cluster: fields.Name = option(..., "Key of one of `clusters`.")
    topic: fields.Template = option("{topic}", "Destination topic; knows `{topic}`, `{mirror}` and `{cluster}`.")
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


class ArchiveDestinationForm(Section):
    """Files in a store, one folder per topic and partition."""

    type: Literal["archive"] = option(..., "Selects this kind of destination.")
    store: fields.Name = option(..., "Key of one of `stores`.")
    name: fields.Template = option(
        "{topic}", "Folder below the store's root; knows `{topic}`, `{mirror}` and `{cluster}`."
    )
    format: ArchiveFormat = option(ArchiveFormat.PARQUET, "The format of segment files.")
    compression: Compression = option(Compression.ZSTD_1, "How Parquet is compressed.")
    compaction: Compaction = option(Compaction.NONE, "`log`: segments are snapshots of the latest record per key.")
    keep_snapshots: fields.Count = option(
        1,
        "With `compaction: log`: how many snapshots of a partition stay, the newest among them. Older ones go when the "
        "newest has been there for ten minutes and was read back.",
    )
    flush: FlushForm = option(FlushForm(), "When a segment is cut.", note="see below")
    merge: MergeForm | None = option(None, "How segments are merged.", note="nothing is merged")
    retain: RetainForm | None = option(None, "How long segments are kept.", note="everything is kept")
    groups: GroupsForm | None = option(
        None, "Consumer groups, archived beside the records of a cluster.", note="none are archived"
    )


DestinationForm = Annotated[KafkaDestinationForm | ArchiveDestinationForm, Field(discriminator="type")]
StoreForm = Annotated[StoreFilesystemForm | StoreS3Form | StoreGcsForm | StoreAzureForm, Field(discriminator="type")]
DESTINATION_FORMS: dict[str, type[Section]] = {
    "kafka": KafkaDestinationForm,
    "archive": ArchiveDestinationForm,
}
STORE_FORMS: dict[str, type[Section]] = {
    "filesystem": StoreFilesystemForm,
    "s3": StoreS3Form,
    "gcs": StoreGcsForm,
    "azure": StoreAzureForm,
}


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


class LimitForm(Section):
    """How fast a mirror is, at most."""

    bytes_per_second: fields.SegmentSize = option(
        ...,
        "Bytes read from the source in a second, as they lie there: compressed. One read serves all destinations that "
        "stand at one position. A service takes another value with its `reload` command.",
    )


class FilterForm(Section):
    """Which records are copied."""

    where: fields.Condition = option(
        ...,
        "A condition in Spark SQL over `key`, `value`, `headers['name']`, `timestamp`, `partition` and `offset`: those "
        "records are copied for which it is true. See [filters](filters.md).",
    )


class MirrorHeadForm(Section):
    """A mirror without its source and destinations, which are read one by one."""

    name: fields.Name = option(..., "Unique. Part of transactional ids: renaming a mirror makes it another writer.")
    on_truncation: TruncationPolicy = option(
        TruncationPolicy.PARK,
        "When the source no longer has what a destination needs next: `park` stops the partition, `skip` "
        "continues at the log start; archives record the gap, equal offsets are kept by filling it.",
    )
    on_recreate: RecreationPolicy = option(
        RecreationPolicy.PARK,
        "When a source topic was deleted and recreated: `park` stops its partitions; `restart` deletes the "
        "destination topic and copies the new one in its place (with `offsets: map`: behind the records there); "
        "`new-topic` keeps the copy and copies the new one to a topic or folder of its own, `{topic}.2`, "
        "`{topic}.3`, …",
    )
    on_lost_tail: LostTailPolicy = option(
        LostTailPolicy.PARK,
        "When a destination with `offsets: map` no longer holds the newest records that were copied to it, as after an "
        "unclean election: `park` stops its partitions, `copy-again` copies the lost records once more, behind the "
        "newest. With `offsets: preserve` they are always copied again, to their own offsets.",
    )
    on_missing_segment: fields.MissingSegment = option(
        None,
        "When a segment of an archive that is read is missing: `wait` for it; `skip-after` passes over it after that "
        "time, and records the gap.",
        shown="wait",
    )
    limit: LimitForm | None = option(None, "How fast the mirror is, at most.", note="as fast as can be")
    stale_after: fields.KeepingTime | None = option(
        None,
        "A warning and a metric where records have waited longer than this to be copied, or the source could not be "
        "asked for so long. Of an archive, longer than its `flush` takes.",
        note="none",
    )
    filter: FilterForm | None = option(
        None,
        "Which records are copied, to archives and with `offsets: map`; offsets of the others are gaps.",
        note="all of them",
    )
    select: SelectForm | None = option(
        None,
        "What records become on their way, to archives and with `offsets: map`: an expression for each column that "
        "changes.",
        note="they stay",
    )
    heartbeats: HeartbeatsForm | None = option(
        None,
        "A record every few seconds that `run` writes to a topic of the source cluster and copies with the others. "
        "Nothing else is ever written to a source.",
        note="none are written",
    )
    enabled: fields.Boolean = option(True, "`false`: checked, but not run.")


class MirrorForm(MirrorHeadForm):
    """Source topics and where they go."""

    source: SourceForm | ArchiveSourceForm = option(..., "Source topics: with `cluster` or with `store`, see below.")

    destinations: list[DestinationForm] = option(
        ..., "At least one. Each keeps its own position; one read serves those with the same position."
    )
    schemas: SchemasForm | None = option(
        None,
        "How the schemas of its topics come to another registry, and its records to the ids they have there.",
        note="they do not",
    )


class MirrorGroupHeadForm(Section):
    """A group of mirrors without its mirrors, which are read one by one."""

    name: fields.Name = option(..., "Unique among the groups. Names of its mirrors do not contain it.")
    enabled: fields.Boolean = option(
        True, "`false`: its mirrors are checked, but not run, except those that say `enabled: true` themselves."
    )
    defaults: fields.MirrorSettings = option({}, "Settings of its mirrors; they go before the file's `defaults`.")


class MirrorGroupForm(MirrorGroupHeadForm):
    """Mirrors that share settings."""

    mirrors: list[MirrorForm] = option(..., "Mirrors, as at the root.")


class NativeForm(CommonForm):
    """The root of a file in the native form."""

    clusters: dict[str, ClusterForm] = option(..., "Kafka clusters by name.")
    stores: dict[str, StoreForm] = option({}, "Stores of archives by name.")
    registries: dict[str, RegistryForm] = option({}, "Schema registries by name.")
    defaults: fields.MirrorSettings = option(
        {},
        "Settings of every mirror, all but `name`. A mirror's own go first: mappings are merged key by key, lists and "
        "single values are replaced.",
    )
    mirrors: list[MirrorForm] = option(..., "Mirrors, at least one; not required where `groups` has some.")
    groups: list[MirrorGroupForm] = option([], "Mirrors that share settings, beside those of `mirrors`.")
    overlays: fields.Overlays = option(
        {},
        "Settings of this root by the name of an environment: those that `MIRRORLAKE_OVERLAY` names are laid over the "
        "file, merged as `defaults` are. Others are not looked at, and their variables need not be set.",
    )
