"""Which of a route's topics a record goes to: a checked expression, and one branch for each topic. Values only."""

from dataclasses import dataclass

from mirrorlake.filters.condition import Kind
from mirrorlake.filters.projection import Expression, looks_at_key_alone, parse_value
from mirrorlake.filters.refusal import refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What one topic of a route takes: the records that the expression gives it. A value that travels in plans.

    ``topics`` are all of the route's, ``topic`` is one of them. A record whose expression is NULL, or another text, is
    one that no topic is named for: it goes to ``fallback``, which is one of the topics too, or empty; then ``parks``
    tells whether the partition stops there, or the record is in no topic.
    """

    to: Expression
    topics: tuple[str, ...]
    topic: str
    fallback: str = ""
    parks: bool = True

    @property
    def keys_stay(self) -> bool:
        """True where the topic is told by the key alone: records of one key all go to one."""
        return looks_at_key_alone(self.to)


def parse_route(text: str) -> Expression:
    """Returns the expression that gives a record's topic, by ANSI rules as `parse_value` has them.

    Raises:
        UnsupportedError: it is no STRING, or says something that is not known.
    """
    made = parse_value(text)
    if made.condition.kind is not Kind.STRING:
        raise refused(f"it is of type {made.condition.kind}, and a topic's name is a STRING", "write CAST(… AS STRING)")
    return made
