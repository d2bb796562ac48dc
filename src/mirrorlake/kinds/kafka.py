"""What the two kinds of Kafka destination have in common."""

from mirrorlake.config.resolved import TimestampMode
from mirrorlake.destinations.record_clock import CREATE_TIME, TIMESTAMP_TYPE
from mirrorlake.topics.targets import Target

WRITING = ("READ", "WRITE")
DELETING = "DELETE"
GROWING = "ALTER"


def topic_place(target: Target) -> str:
    """Returns cluster and topic of a Kafka destination."""
    return f"{target.kafka.cluster.name}/{target.destination_topic}"


def keeps_log_append_time(target: Target) -> bool:
    """Returns whether records keep the source's times at the destination."""
    return target.kafka.timestamp_mode is TimestampMode.SOURCE


def stamps_times(target: Target) -> bool:
    """Returns whether records get the time of their copying from us, because their topic keeps what it is given."""
    is_asked = target.kafka.timestamp_mode is TimestampMode.DESTINATION
    return is_asked and (target.destination_configs.get(TIMESTAMP_TYPE) or CREATE_TIME) == CREATE_TIME


def rights_on_topic(target: Target, *more: str) -> tuple[str, ...]:
    """Returns the operations needed on the destination topic, ``more`` among them."""
    needed = [*WRITING, *more]
    if target.replaces and DELETING not in needed:
        needed.append(DELETING)
    if target.growth is not None and target.is_to_be_made:
        needed.append(GROWING)
    return tuple(needed)
