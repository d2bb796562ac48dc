"""DescribeConfigs version 2, written out: a driver asks for the configurations of all its topics, again and again.

Version 2 is the last one without what nobody here reads (types and documentation), and known since Kafka 2.0. An answer
has some forty configurations of each topic. Nearly always they are those of the look before, or of the topic before it:
then their bytes are compared, and nothing is read.

Source: ``DescribeConfigsRequest.json`` and ``DescribeConfigsResponse.json`` of Apache Kafka 4.3.0.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from mirrorlake.kafka.wire.answers import MalformedError, check_count, check_end, not_understood

T = TypeVar("T")

DESCRIBE_CONFIGS_VERSION = 2

TOPIC = 2
"""Kafka's number for topics among the resources with a configuration."""

_ALL_KEYS = struct.pack(">i", -1)
_NO_SYNONYMS = b"\0"
_RESOURCE = struct.Struct(">bh")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_ANSWER = struct.Struct(">ii")
_CONFIG = struct.Struct(">?b?i")
"""What follows a value: whether it is read-only, its source, whether it is secret, and how many synonyms it has."""
_RESULT_BYTES_MIN = 11
_CONFIG_BYTES_MIN = 11
_SYNONYM_BYTES_MIN = 5
_NULL_LIST = -1
"""The count of a list of nothing."""


class DescribedConfig(NamedTuple):
    """One configuration of a topic.

    Attributes:
        name: its name.
        value: None where it is secret or not set.
        is_read_only: whether it cannot be changed.
        source: Kafka's number of the level that sets it.
        is_sensitive: whether the value is kept secret.
    """

    name: str
    value: str | None
    is_read_only: bool
    source: int
    is_sensitive: bool


class RefusedTopic(NamedTuple):
    """Why a topic's configurations are not told: the broker's code, and its own words where it had any."""

    error_code: int
    message: str | None


class _Known(NamedTuple, Generic[T]):
    """The bytes of a topic's configurations, and what was made of them."""

    written: bytes
    made: T


def encode_describe_configs(topics: Sequence[str]) -> bytes:
    """Returns the body of a request for all configurations of topics."""
    pieces = [_INT.pack(len(topics))]
    for topic in topics:
        name = topic.encode()
        pieces += (_RESOURCE.pack(TOPIC, len(name)), name, _ALL_KEYS)
    pieces.append(_NO_SYNONYMS)
    return b"".join(pieces)


class ConfigsReader(Generic[T]):
    """Reads answers, and remembers what was made of the bytes that a topic's configurations were written in.

    The same bytes have the same meaning, so what is returned is what reading all of it would be. Topics with the same
    bytes share one result, which nobody may change.

    Args:
        make: configurations of a topic, in the broker's order → what is returned of them.
        topics_max: how many topics are remembered; those first asked for are forgotten first.
    """

    def __init__(self, make: Callable[[Sequence[DescribedConfig]], T], *, topics_max: int) -> None:
        self._make = make
        self._topics_max = topics_max
        self._known: dict[str, _Known[T]] = {}
        self.read_topics = 0
        """How many topics' configurations have been read, and not only compared."""

    def decode(self, view: memoryview) -> dict[str, T | RefusedTopic]:
        """Returns what an answer says, by topic, in the broker's order.

        Raises:
            CorruptBatchError: not such an answer.
        """
        try:
            return self._decode(bytes(view))
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise not_understood("DescribeConfigs", error) from error

    def _decode(self, data: bytes) -> dict[str, T | RefusedTopic]:
        found: dict[str, T | RefusedTopic] = {}
        seen: dict[bytes, _Known[T]] = {}
        before: _Known[T] | None = None
        _, results = _ANSWER.unpack_from(data)
        at = _ANSWER.size
        check_count(results, _RESULT_BYTES_MIN, len(data) - at, count_min=_NULL_LIST)
        for _ in range(results):
            (code,) = _SHORT.unpack_from(data, at)
            message, at = _text_at(data, at + _SHORT.size)
            name, at = _text_at(data, at + 1)  # past the kind of resource: only topics were asked for
            topic = name or ""
            if code:
                found[topic] = RefusedTopic(code, message)
                at = _after_configs(data, at)
                continue
            known = self._known.get(topic)
            if known is None or not data.startswith(known.written, at):
                known = before
            if known is None or not data.startswith(known.written, at):
                known = self._read(data, at, seen)
            at += len(known.written)
            seen[known.written] = before = known
            found[topic] = known.made
            self._remember(topic, known)
        check_end(data, at)
        return found

    def _read(self, data: bytes, at: int, seen: dict[bytes, _Known[T]]) -> _Known[T]:
        written = data[at : _after_configs(data, at)]
        if (known := seen.get(written)) is not None:
            return known
        self.read_topics += 1
        return _Known(written, self._make(_configs(written)))

    def _remember(self, topic: str, known: _Known[T]) -> None:
        self._known[topic] = known
        if len(self._known) > self._topics_max:
            del self._known[next(iter(self._known))]


def _configs(written: bytes) -> list[DescribedConfig]:
    (count,) = _INT.unpack_from(written)
    found = []
    at = _INT.size
    for _ in range(count):
        name, at = _text_at(written, at)
        value, at = _text_at(written, at)
        is_read_only, source, is_sensitive, synonyms = _CONFIG.unpack_from(written, at)
        at = _after_synonyms(written, at + _CONFIG.size, synonyms)
        found.append(DescribedConfig(name or "", value, is_read_only, source, is_sensitive))
    return found


def _after_configs(data: bytes, at: int) -> int:
    """Returns where a list of configurations ends."""
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    check_count(count, _CONFIG_BYTES_MIN, len(data) - at, count_min=_NULL_LIST)
    for _ in range(count):
        at = _after_text(data, _after_text(data, at))
        synonyms = _CONFIG.unpack_from(data, at)[-1]
        at = _after_synonyms(data, at + _CONFIG.size, synonyms)
    return at


def _after_synonyms(data: bytes, at: int, count: int) -> int:
    # None were asked for; a broker that sends them all the same is understood.
    if not count:
        return at
    check_count(count, _SYNONYM_BYTES_MIN, len(data) - at, count_min=_NULL_LIST)
    for _ in range(count):
        at = _after_text(data, _after_text(data, at)) + 1
    return at


def _text_at(data: bytes, at: int) -> tuple[str | None, int]:
    end = _after_text(data, at)
    start = at + _SHORT.size
    # Null has a length of -1, and ends where an empty one does.
    return (None if data[at] & 0x80 else data[start:end].decode()), end


def _after_text(data: bytes, at: int) -> int:
    (length,) = _SHORT.unpack_from(data, at)
    if length < 0:
        if length != -1:
            raise MalformedError(f"a text of {length} bytes announced")
        return at + _SHORT.size
    end = at + _SHORT.size + int(length)
    if end > len(data):
        raise MalformedError(f"{length} bytes announced, {len(data) - at - _SHORT.size} there")
    return end
