"""How the native form says what becomes of topics that are there."""

from mirrorlake.config import section as fields
from mirrorlake.config.section import Section, option
from mirrorlake.config.topics.policy import SyncMode


class TopicSyncForm(Section):
    """What `mirrorlake topics apply` does about differences, and which settings a copy has.

    `apply`: does away with it. `report`: shows it. `off`: does not look. Settings are never deleted, and partitions
    never taken away.
    """

    configs: SyncMode = option(SyncMode.REPORT, "Settings of a destination topic that are not the source's.")
    partitions: SyncMode | None = option(
        None,
        "Partitions a destination topic lacks.",
        note="`apply` with `offsets: preserve` where topics are created, also in `run`; else `report`",
    )
    include: list[fields.SettingEntry] = option(
        [],
        "Only these settings, by name or by an expression between slashes; left out, all but those that speak of a "
        "cluster's brokers. One of these is copied where its name is written out here.",
    )
    exclude: list[fields.SettingEntry] = option([], "Settings left out, also where `include` has them.")
    override: fields.Settings = option(
        {}, "Settings by name that every destination topic has, whatever the source has: `{retention.ms: -1}`."
    )
