"""Which records of a batch name no schema that is known, one by one: of a batch of which some become dead letters.

What the compiled search (``id_kernels.py``) says of a batch as a whole, in plain Python: such batches are few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import unpack_from
from uuid import UUID

from mirrorlake.errors import SchemaUnreadableError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.framing import HEADER_NAMES, SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import SIDES, UNNAMED_GUID, SchemaIdMap, SchemaName
from mirrorlake.kafka.schema_ids.rewriting import unknown_error, unreadable_error

REFUSED = "refused"
"""Why a record is unreadable whose id or GUID is known, and whose schema does not come to the destination."""

_FRAMED_BYTES_MIN = 5
_GUID_BYTES_MIN = 17
_NAMED = (Framing.KNOWN, Framing.GUID)

Headers = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A record that becomes a dead letter: its row, and the first side (``key`` or ``value``) that cannot be read.

    ``reason`` is that side's `Framing`, or `REFUSED`.
    """

    row: int
    side: str
    reason: str


def dead_letters_of(records: RecordColumns, ids: SchemaIdMap) -> list[Unreadable]:
    """Returns the records of a batch that become dead letters, ascending.

    Args:
        records: of one batch, as the source has them.
        ids: the map, which says on which sides records become dead letters.

    Raises:
        SchemaUnknownError: an id is not in the map; nothing is concluded of the batch.
        SchemaUnreadableError: a record cannot be read on a side where it neither passes nor becomes a dead letter.
    """
    return _Search(records, ids).run()


class _Search:
    """The search through one batch."""

    def __init__(self, records: RecordColumns, ids: SchemaIdMap) -> None:
        self._records = records
        self._ids = ids
        self._states: dict[SchemaName, int] = {each: state for each, (state, _) in ids.guids.items()}
        self._states |= zip(ids.source_ids.tolist(), ids.destination_ids.tolist(), strict=True)
        self._refused = dict(ids.refused)
        self._unknown: dict[SchemaName, int] = {}
        self._stops: SchemaUnreadableError | None = None

    def run(self) -> list[Unreadable]:
        found: list[Unreadable] = []
        payloads = [self._records.keys.to_pylist(), self._records.values.to_pylist()]
        for row, headers in enumerate(headers_of(self._records)):
            reasons = [self._reason(row, side, payloads[side][row], headers) for side in range(SIDES)]
            letters = [
                (side, reason) for side, reason in enumerate(reasons) if reason and self._ids.letters >> side & 1
            ]
            if letters:
                side, reason = letters[0]
                found.append(Unreadable(row=row, side=SIDE_NAMES[side], reason=reason))
        if self._unknown:
            raise unknown_error(self._unknown, self._ids, offset=min(self._unknown.values()))
        if self._stops is not None:
            raise self._stops
        return found

    def _reason(self, row: int, side: int, payload: bytes | None, headers: Headers) -> str:
        """Returns why one side cannot be read, empty where it can; notes what the whole batch stops for."""
        if not self._ids.sides >> side & 1 or payload is None:
            return ""
        own = [value for name, value in headers if name == HEADER_NAMES[side]]
        held = own[-1] if own and own[-1] is not None else payload
        framing = _framing_of(held)
        offset = int(self._records.offsets[row])
        reason = framing.value
        if framing in _NAMED:
            named = _name_in(held)
            if named in self._refused:
                reason = REFUSED
            elif named not in self._states:
                self._unknown.setdefault(named, offset)
                return ""
            elif self._states[named] >= 0:
                return ""
            else:
                reason = (Framing.GUID if self._states[named] == UNNAMED_GUID else Framing.ABSENT).value
        if self._ids.letters >> side & 1 or (self._ids.passes >> side & 1 and reason != REFUSED):
            return reason
        if self._stops is None:
            self._stops = self._error(side, held, reason, offset)
        return reason

    def _error(self, side: int, held: bytes, reason: str, offset: int) -> SchemaUnreadableError:
        if reason == REFUSED:
            found = unknown_error([_name_in(held)], self._ids, offset=offset)
            assert isinstance(found, SchemaUnreadableError)
            return found
        return unreadable_error(SIDE_NAMES[side], Framing(reason), offset=offset)


def headers_of(records: RecordColumns) -> list[Headers]:
    """Returns the headers of each record, key and value each."""
    items = records.headers.values
    names, values = items.field(0).to_pylist(), items.field(1).to_pylist()
    pairs = list(zip(names, values, strict=True))
    bounds = records.headers.offsets.to_pylist()
    return [pairs[start:end] for start, end in pairwise(bounds)]


def _name_in(payload: bytes) -> SchemaName:
    """Returns the id or GUID of a payload that has one."""
    if payload[0] == 0:
        (id_,) = unpack_from(">i", payload, 1)
        return int(id_)
    return UUID(bytes=payload[1:_GUID_BYTES_MIN])


def _framing_of(payload: bytes) -> Framing:
    """Returns what a payload is as far as its framing says; ``KNOWN`` where it has an id, ``GUID`` where it has one."""
    if not payload:
        return Framing.SHORT
    if payload[0] == 0:
        return Framing.KNOWN if len(payload) >= _FRAMED_BYTES_MIN else Framing.SHORT
    if payload[0] == 1:
        return Framing.GUID if len(payload) >= _GUID_BYTES_MIN else Framing.SHORT
    return Framing.NOT_FRAMED
