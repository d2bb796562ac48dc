"""The names of the topics that mirrorlake keeps its own records in, at destination clusters."""

STATE_TOPIC = "mirrorlake.state"
PROGRESS_PREFIX = "mirrorlake.progress."
OFFSET_MAP_PREFIX = "mirrorlake.offset-map."
LETTER_PROGRESS_PREFIX = "mirrorlake.letter-progress."


def is_own_topic(name: str) -> bool:
    """Tells whether a topic holds mirrorlake's own records, which are about one cluster and of no use at another."""
    return name == STATE_TOPIC or name.startswith((PROGRESS_PREFIX, OFFSET_MAP_PREFIX, LETTER_PROGRESS_PREFIX))
