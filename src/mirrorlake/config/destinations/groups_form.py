"""Consumer groups whose offsets are kept at a destination, as they stand in the file."""

from mirrorlake.config import section as fields
from mirrorlake.config.section import Section, lasting, option


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
