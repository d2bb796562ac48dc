"""Consumer groups whose offsets are kept at a destination, as they stand in the file."""

from mirrorlake.config import section as fields
from mirrorlake.config.destinations.destination_form import SectionContext
from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.config.section import Section, lasting, option
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.config.topics.selection import NameSelection
from mirrorlake.config.values.names import selected


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


def groups_of(form: GroupsForm | None, context: SectionContext) -> GroupSettings | None:
    """Returns whose offsets a destination keeps, after noting what is wrong with that; None where it asks for none."""
    if form is None:
        return None
    if isinstance(context.source, ArchiveSource):
        message = "has no meaning where the source is an archive: groups are a cluster's"
        context.note(("groups",), message, "leave it out")
    if not form.include:
        context.note(("groups", "include"), "names no group", "/.*/ is all of them; or leave `groups` out")
    selection = NameSelection(**selected(list(dict.fromkeys(form.include)), form.exclude))
    return GroupSettings(selection=selection, interval_seconds=form.interval)
