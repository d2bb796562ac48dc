"""The mirror-v3 form, as it stands in the file: one shared destination, one partition per mirror.

Fields, defaults and their meaning are those of mirror-v3 itself, so that its files run unmodified; `engine`,
`service` and `on-park` of the native form may stand beside them.
"""

from typing import Annotated, Literal

from pydantic import Field

from mirrorlake.config import section as fields
from mirrorlake.config.common_form import CommonForm
from mirrorlake.config.destinations.archive import ArchiveFormat, Compaction
from mirrorlake.config.destinations.archive_form import DailyForm
from mirrorlake.config.destinations.kafka import TimestampMode
from mirrorlake.config.resolved import RecreationPolicy, TruncationPolicy
from mirrorlake.config.section import Section, option
from mirrorlake.page_compression import Compression


class V3FlushForm(Section):
    """When a file is cut: whichever comes first. A very large number switches a trigger off."""

    max_time_ms: fields.Trigger = option(..., "Milliseconds since the first record that is not archived yet.")
    max_bytes: fields.Trigger = option(..., "Bytes of keys, values and headers, and 32 for each header.")
    max_offsets: fields.Trigger = option(..., "Records.")
    daily: DailyForm | None = option(None, "A time of day, beside the other triggers.")


class V3KafkaForm(Section):
    """Another Kafka cluster."""

    type: Literal["kafka"] = option(..., "Selects this kind of destination.")
    bootstrap_servers: fields.ServersOrHosts = option(..., "Brokers to ask first; port 9092 where none is written.")
    timestamp_mode: TimestampMode = option(
        TimestampMode.SOURCE,
        "Whose timestamp a record carries at the destination. `source`: the one its readers saw at the source; the "
        "topic must have `message.timestamp.type=CreateTime`. `destination`: when it was written "
        "there, by its broker's clock where the topic has `LogAppendTime`, else by the copy's.",
    )


class V3ArchiveForm(Section):
    """What both kinds of archives have."""

    format: ArchiveFormat = option(
        ArchiveFormat.PARQUET, "The format of files. `log` is mirrorlake's, which mirror-v3 does not know."
    )
    compression: Compression = option(Compression.ZSTD_1, "Of Parquet; without effect on `ndjson`.")
    compaction: Compaction | None = option(
        None, "`log`: files are snapshots of the latest record per key.", note="`none`"
    )
    flush: V3FlushForm = option(..., "When a file is cut.")


class V3FilesystemForm(V3ArchiveForm):
    """A folder."""

    type: Literal["filesystem"] = option(..., "Selects this kind of destination.")
    root: fields.Root = option(..., "The folder.")


class V3S3Form(V3ArchiveForm):
    """A bucket of S3, or of a store that speaks its protocol.

    Credentials come from the environment: `AWS_*` variables, `AWS_PROFILE`, a web identity, a role.
    """

    type: Literal["s3"] = option(..., "Selects this kind of destination.")
    endpoint: fields.Endpoint | None = option(None, "Address of the store; leave it out for AWS.")
    region: fields.Text = option(..., "The bucket's region.")
    bucket: fields.Text = option(..., "The bucket.")
    prefix: fields.Prefix | None = option(None, "What all keys begin with.")


V3DestinationForm = Annotated[V3KafkaForm | V3FilesystemForm | V3S3Form, Field(discriminator="type")]
V3_DESTINATION_FORMS: dict[str, type[Section]] = {
    "kafka": V3KafkaForm,
    "filesystem": V3FilesystemForm,
    "s3": V3S3Form,
}


class V3SourceForm(Section):
    """The cluster a mirror reads."""

    bootstrap_servers: fields.ServersOrHosts = option(..., "Brokers to ask first; port 9092 where none is written.")
    group_id: fields.Text | None = option(None, "Informational; nothing is committed.", note="`mirror-v3-{name}`")


class V3MirrorForm(Section):
    """One partition of one topic."""

    name: fields.Name = option(..., "Unique. Part of transactional ids and of log lines.")
    source: V3SourceForm = option(..., "Source topics.")
    topic: fields.Topic = option(..., "Source topic.")
    partition: fields.Partition = option(..., "Source partition, and destination partition.")
    destination_name_override: fields.Override | None = option(
        None, "Destination topic, or folder below the root; left out, the topic's name."
    )
    compaction: Compaction | None = option(None, "As at `destination`, for this mirror.")


class V3PoliciesForm(Section):
    """What stands at the root of this form and is no field of mirror-v3: what errors of it name as remedies."""

    on_truncation: TruncationPolicy | None = option(
        None,
        "For all mirrors: when the source has deleted what comes next, `park`, or `skip` to its log start.",
        note="`park`; with `compaction: log` `skip`",
    )
    on_recreate: RecreationPolicy = option(
        RecreationPolicy.PARK,
        "For all mirrors: when the source topic was deleted and recreated, `park`, copy it to a `new-topic` beside the "
        "copy, or `restart` into the same Kafka topic.",
    )


class MirrorV3Form(CommonForm, V3PoliciesForm):
    """The root of a file in the mirror-v3 form."""

    destination: V3DestinationForm = option(..., "Shared by all mirrors.")
    mirrors: list[V3MirrorForm] = option(..., "Mirrors. `validate` takes an empty list, `run` does not.")
