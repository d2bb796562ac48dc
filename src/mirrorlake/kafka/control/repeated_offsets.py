"""Where logs begin and end, asked again and again: what a look costs of two thousand partitions that rest.

A question that is the last one is not written anew, and an answer in the bytes of the last one is not read anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirrorlake.kafka.control.control_requests import ControlRequest, Refused, WrittenRequest, list_offsets_request
from mirrorlake.offsets import TopicPartition

PARTITIONS_MIN = 64
"""A question about fewer costs less than to remember it."""

OTHERS_MAX = 100
"""After so many questions about fewer partitions the one that is remembered is given up: it does not come again."""

_THROTTLE_BYTES = 4
"""What an answer begins with says how long the broker holds the client back, and nothing of partitions."""

Offsets = dict[TopicPartition, int | Refused]
Asked = tuple[int, int, int]
"""A broker's id, a timestamp and an isolation level."""


@dataclass(slots=True, kw_only=True)
class _Question:
    """What is remembered: the partitions with the epochs they are asked in, and what asks for them."""

    epochs: Mapping[TopicPartition, int]
    request: ControlRequest[Offsets]
    others: int = 0


class RepeatedOffsets:
    """Remembers, for one cluster, the last large question to each broker, and its answer.

    Nothing is concluded from having asked before: each look asks the broker, and equal bytes mean what they meant.
    """

    def __init__(self) -> None:
        self._questions: dict[Asked, _Question] = {}

    def request(
        self, broker_id: int, epochs: Mapping[TopicPartition, int], *, timestamp: int, isolation_level: int
    ) -> ControlRequest[Offsets]:
        """Returns what asks a broker, as `list_offsets_request` does; nobody may change what it answers."""
        key = broker_id, timestamp, isolation_level
        last = self._questions.get(key)
        if last is not None and last.epochs == epochs:
            last.others = 0
            return last.request
        request = list_offsets_request(epochs, timestamp=timestamp, isolation_level=isolation_level)
        if last is not None and len(epochs) * 2 < len(last.epochs):
            last.others += 1
            if last.others >= OTHERS_MAX:
                del self._questions[key]
        elif len(epochs) >= PARTITIONS_MIN and request.written is not None:
            request = replace(request, written=_remembering(request.written))
            self._questions[key] = _Question(epochs=dict(epochs), request=request)
        return request


def _remembering(written: WrittenRequest[Offsets]) -> WrittenRequest[Offsets]:
    """Returns a question that is written once, and read where its answer is in other bytes than the last one."""
    bodies: list[bytes] = []
    known: tuple[bytes, Offsets] | None = None

    def body() -> bytes:
        if not bodies:
            bodies.append(written.body())
        return bodies[0]

    def read(view: memoryview) -> Offsets:
        nonlocal known
        told = bytes(view[_THROTTLE_BYTES:])  # a view would be compared number by number
        if known is None or told != known[0]:
            known = told, written.read(view)
        return known[1]

    return WrittenRequest(version=written.version, body=body, read=read)
