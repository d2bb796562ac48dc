"""How the native form says what becomes of topics that are there."""

from mirrorlake.config import section as fields
from mirrorlake.config.section import Section, option
from mirrorlake.config.topics.policy import READING, AclOperation, SyncMode


class TopicSyncForm(Section):
    """What `mirrorlake topics apply`, and `run` with `interval`, do about differences; and which settings a copy has.

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
    acls: SyncMode = option(
        SyncMode.OFF,
        "ACLs of a source topic that its copy lacks. Each copy gets, under its own name, the rules that hold for its "
        "source, by whatever pattern: DENY as it is, ALLOW as far as `acl-operations` says.",
    )
    interval: fields.GroupsTime | None = option(
        None,
        "How often `run` looks, and does what `topics apply` would do here but for making topics; also where new "
        "topics have come. Left out, only `topics apply` does it.",
    )
    acl_operations: list[AclOperation] = option(
        list(READING),
        "Which operations of ALLOW rules are carried; an ALLOW of ALL becomes these. Who may WRITE, DELETE or ALTER "
        "a copy can make it unlike its source: name these only where somebody else is to write there.",
        shown="[READ, DESCRIBE, DESCRIBE_CONFIGS]",
    )
    acl_groups: fields.Boolean = option(
        False, "Also ACLs of consumer groups, under the same names: READ and DESCRIBE, and every DENY."
    )
    acl_removals: fields.Boolean = option(
        False,
        "With `acls: apply`: also removes what the destination alone allows by a copy's own name, of `acl-operations`, "
        "to those who may do nothing else with it. Only while reading is all that `acl-operations` has.",
    )
