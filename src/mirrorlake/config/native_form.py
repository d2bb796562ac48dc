"""The native form, as it stands in the file. ``resolve`` turns it into what the program uses."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from mirrorlake.config import section as fields
from mirrorlake.config.common_form import CommonForm
from mirrorlake.config.destinations.destination_form import DestinationForm
from mirrorlake.config.destinations.registry import sections
from mirrorlake.config.resolved import LostTailPolicy, RecreationPolicy, TruncationPolicy
from mirrorlake.config.schemas.form import RegistryForm, SchemasForm
from mirrorlake.config.section import Section, option
from mirrorlake.config.sources.forms import ArchiveSourceForm, SourceForm
from mirrorlake.config.systems.forms import ClusterForm, StoreForm
from mirrorlake.config.topics.heartbeats import HeartbeatsForm
from mirrorlake.config.topics.select import SelectForm

if TYPE_CHECKING:
    AnyDestinationForm = DestinationForm
else:
    AnyDestinationForm = Annotated[Union[tuple(sections().values())], Field(discriminator="type")]  # noqa: UP007


class LimitForm(Section):
    """How fast a mirror is, at most."""

    bytes_per_second: fields.SegmentSize = option(
        ...,
        "Bytes read from the source in a second, as they lie there: compressed. One read serves all destinations that "
        "stand at one position. `run` takes another value with a restart.",
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

    destinations: list[AnyDestinationForm] = option(
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
