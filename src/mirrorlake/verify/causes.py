"""What may have made a copy differ from its source, and what to do about it. Pure."""

from mirrorlake.config.units import format_duration
from mirrorlake.topics.targets import Target


def cause_of(target: Target, difference: str, *, was_cleaned: bool = False) -> str:
    """Returns why a copy may differ, for people; empty where nothing is known.

    Args:
        target: with the settings of the source topic.
        difference: how its first record that differs does, after all that the log cleaner explains.
        was_cleaned: whether the source's log shows that it was cleaned there.
    """
    if difference != "extra" or not target.is_topic:
        return ""
    kept_seconds = target.source_retention.tombstones_seconds
    if kept_seconds is not None:
        why = (
            "it is compacted, and the copy may have missed the tombstone, as one may that was behind for longer than "
            f"delete.retention.ms of the source ({format_duration(kept_seconds)})"
        )
    elif was_cleaned:
        why = "its log was cleaned there, and the copy may have missed the tombstone"
    else:
        return ""
    return (
        f"the source has no such record any more: {why}. Write a tombstone of the key to the source once more while "
        f"the mirror runs; or {_anew(target)}"
    )


def cause_of_cleaned(target: Target, count: int) -> str:
    """Returns why a copy lacks records that its source keeps, and only these, for people.

    Args:
        target: with the settings of both topics.
        count: how many the cleaner of the destination has taken.
    """
    name = target.destination_topic
    policies = [each.get("cleanup.policy") for each in (target.destination_configs, target.source_configs)]
    is_now = target.destination_is_compacted
    lost = (
        f"the cleaner of destination topic {name} has taken {count} record(s) from the copy that the source keeps: "
        "tombstones, or such as have a later one of their key. Nothing else differs. "
        f"{name} {'is' if is_now else 'was'} compacted: its cleanup.policy is {policies[0]}"
        f"{'' if is_now else ' by now'}, the source's {policies[1]}. "
    )
    back = f"to have them back {_anew(target)}"
    if not is_now:
        return f"{lost}{back[0].upper()}{back[1:]}"
    return (
        f"{lost}`mirrorlake topics apply` with `sync: {{configs: apply}}` gives it the source's, so that no more go; "
        f"{back}. Where the copy is meant to be compacted, `sync: {{override: {{cleanup.policy: compact}}}}` at the "
        "destination says so: they are no difference then"
    )


def _anew(target: Target) -> str:
    if target.is_mapped:
        return "copy by a mirror of another name to another topic"
    return f"delete destination topic {target.destination_topic}, and `run` copies it afresh"
