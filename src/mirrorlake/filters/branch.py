"""Which of a route's topics a record goes to: a checked expression, and one branch for each topic. Values only."""

from dataclasses import dataclass
from hashlib import sha256

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
    def fingerprint(self) -> str:
        """Tells by which route a record was taken, in ASCII without spaces; see `decides_alike`.

        The list of topics is not in it: with another topic in it the others take what they took, but for the fallback,
        which no longer takes what the new one, from its own start on, has anyway.
        """
        return f"{sha256(self.to.text.encode()).hexdigest()[:32]}:{self.fallback}"

    @property
    def keys_stay(self) -> bool:
        """True where the topic is told by the key alone: records of one key all go to one."""
        return looks_at_key_alone(self.to)


def decides_alike(one: str, other: str) -> bool:
    """Tells whether two routes give no record to two topics, or to none that either gives one, wherever each is asked.

    So do those of one expression, unless both have a fallback and it is not the same: a record that one of them stops
    at, or leaves out, was in no topic.

    Args:
        one: a fingerprint; an empty one is of no route, and like no other.
        other: likewise.
    """
    (to, _, fallback), (other_to, _, other_fallback) = one.partition(":"), other.partition(":")
    return bool(to) and to == other_to and (fallback == other_fallback or not fallback or not other_fallback)


def parse_route(text: str) -> Expression:
    """Returns the expression that gives a record's topic, by ANSI rules as `parse_value` has them.

    Raises:
        UnsupportedError: it is no STRING, or says something that is not known.
    """
    made = parse_value(text)
    if made.condition.kind is not Kind.STRING:
        raise refused(f"it is of type {made.condition.kind}, and a topic's name is a STRING", "write CAST(… AS STRING)")
    return made
