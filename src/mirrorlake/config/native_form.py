"""The native form, as it stands in the file. ``resolve_native`` turns it into what the program uses."""

from typing import Annotated, Literal

from pydantic import Field

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.config import section as fields
from mirrorlake.config.resolved import (
    ArchiveFormat,
    Compaction,
    LostTailPolicy,
    OffsetMode,
    OnPark,
    RecreationPolicy,
    Start,
    TimestampMode,
    TruncationPolicy,
)
from mirrorlake.config.section import Section, option
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

    max_bytes: fields.SegmentSize = option(
        128 * 1024**2, "Bytes before compression, and 32 for each header.", shown="128MiB"
    )
    max_records: fields.Count = option(1_000_000, "Records.")
    max_time: fields.FlushTime = option(
        60.0, "Age of the oldest record that is not archived yet, also when nothing more arrives.", shown="1m"
    )
    daily: DailyForm | None = option(None, "A time of day, beside the other triggers.")


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
        "nothing, invisible to every consumer, about 3 ms an offset. `filler`: by aborted records, invisible to "
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
    create_topics: fields.Boolean = option(
        True,
        "Creates a missing destination topic with the source's number of partitions; else it must exist.",
    )
    replication_factor: fields.Replication | None = option(
        None, "Of created topics; left out, the destination cluster decides."
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
    """What a mirror reads."""

    cluster: fields.Name = option(..., "Key of one of `clusters`.")
    topics: list[fields.TopicEntry] = option(
        ..., "Topics by name, or by an expression between slashes that matches the whole name."
    )
    exclude: list[fields.TopicEntry] = option([], "Topics left out though an expression matches.")
    partitions: fields.Partitions = option(None, "Which partitions.", shown="all")
    start: fields.StartPoint = option(Start(), "Where a partition begins that has no position yet.", shown="earliest")


class MirrorHeadForm(Section):
    """A mirror without its destinations, which are read one by one."""

    name: fields.Name = option(..., "Unique. Part of transactional ids: renaming a mirror makes it another writer.")
    source: SourceForm = option(..., "Source cluster and topics.")
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
    enabled: fields.Boolean = option(True, "`false`: checked, but not run.")


class MirrorForm(MirrorHeadForm):
    """Source topics and where they go."""

    destinations: list[DestinationForm] = option(
        ..., "At least one. Each keeps its own position; one read serves those with the same position."
    )


class EngineForm(Section):
    """How much of the machine is used."""

    lanes: fields.LaneCount | None = option(None, "Leases that run at the same time.", note="the number of cores")
    lease: fields.LeaseTime = option(
        5.0, "Longest time one lease runs; four times that while it has so much left to copy.", shown="5s"
    )
    discovery: fields.DiscoveryTime = option(
        30.0, "How often sources are asked for new topics and partitions, and for recreated topics.", shown="30s"
    )
    tail_check: fields.TailCheckTime = option(
        60.0, "How often the last segment of each archived partition is looked at, by one listing.", shown="60s"
    )
    stop_timeout: fields.StopTime = option(
        60.0, "How long a graceful stop may take before it gives up on what does not end.", shown="60s"
    )
    memory: fields.MemorySize = option(2 * 1024**3, "Memory for data in flight, of all lanes.", shown="2GiB")
    largest_batch: fields.BatchSize = option(
        512 * 1024**2,
        "Bytes that one record batch may decompress to; a larger one parks its partition as `batch-too-large`.",
        shown="512MiB",
    )
    batch_slots: fields.SlotCount = option(1, "Slots kept for verification and other batch work.")
    master: fields.Text | None = option(
        None,
        "Spark master: `spark://host:port`, `k8s://…` or `yarn`, with `lanes` and what [a cluster needs](cluster.md) "
        "in `spark-conf`; left out, one machine.",
    )
    spark_conf: fields.SparkConf = option({}, "Further settings under Spark's own names, see below.")
    start_timeout: fields.StartTime = option(
        60.0, "How long the start waits for a cluster's master and executors before it gives up.", shown="60s"
    )
    ui: fields.UiPort = option(
        None, "Port of Spark's own page, on loopback: jobs by mirror and lane, executors, settings.", shown="off"
    )
    event_log: fields.LogFolder | None = option(
        None,
        "Folder for Spark's event logs, which its history server reads; it must exist, nothing is removed from it.",
    )


class ServiceForm(Section):
    """The listeners of `run`, and its heartbeat in the log."""

    metrics: fields.Listen = option(
        None,
        "Where `/metrics`, `/healthz` and `/readyz` are served. In the mirror-v3 form the default is "
        "`0.0.0.0:9090`, its port changed by `MIRROR_V3_METRICS_PORT`.",
        shown="off",
    )
    control: fields.Listen = option(None, "Where the control interface is served.", shown="off")
    heartbeat: fields.Heartbeat = option(30.0, "Time between heartbeat lines in the log.", shown="30s")


class CommonForm(Section):
    """What stands at the root in both forms."""

    engine: EngineForm = option(EngineForm(), "How much of the machine is used.", note="see below")
    service: ServiceForm = option(ServiceForm(), "Listeners.", note="see below")
    on_park: OnPark | None = option(
        None,
        "When a partition is parked: `continue` with the others, or `exit` with code 3 at the first one.",
        note="`continue`; in the mirror-v3 form `exit`",
    )


class NativeForm(CommonForm):
    """The root of a file in the native form."""

    clusters: dict[str, ClusterForm] = option(..., "Kafka clusters by name.")
    stores: dict[str, StoreForm] = option({}, "Stores of archives by name.")
    mirrors: list[MirrorForm] = option(..., "Mirrors, at least one.")
