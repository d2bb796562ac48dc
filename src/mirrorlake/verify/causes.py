"""What may have made a copy differ from its source, and what to do about it. Pure."""

from mirrorlake.config.units import format_duration
from mirrorlake.topics.targets import Target


def cause_of(target: Target, difference: str) -> str:
    """Returns why a copy may differ, for people; empty where nothing is known.

    Args:
        target: with the settings of the source topic.
        difference: how its first record that differs does, after all that the log cleaner explains.
    """
    kept_seconds = target.source_retention.tombstones_seconds
    if difference != "extra" or not target.is_topic or kept_seconds is None:
        return ""
    anew = (
        "copy by a mirror of another name to another topic"
        if target.is_mapped
        else f"delete destination topic {target.destination_topic}, and `run` copies it afresh"
    )
    kept = format_duration(kept_seconds)
    return (
        "the source has no such record any more: it is compacted, and the copy may have missed the tombstone, as one "
        f"may that was behind for longer than delete.retention.ms of the source ({kept}). Write a tombstone of the key "
        f"to the source once more while the mirror runs; or {anew}"
    )
