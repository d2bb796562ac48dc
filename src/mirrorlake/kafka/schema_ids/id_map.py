"""What schema ids and GUIDs of a source's registry are at a destination's, as arrays. Imports no compiled loop."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import numpy.typing as npt

from mirrorlake.errors import MirrorlakeError, SchemaUnknownError

# Sides of a record, and the bits that say which of them are looked at.
KEY, VALUE, SIDES = range(3)

SchemaName = int | UUID
"""What a record names its schema by: an id, which means something in one registry; or a GUID, made from the schema."""

ABSENT_ID = -1
"""What the map says of an id or GUID that the source's registry does not know: it stays as it is."""

LOST_ID = -2
"""What the map of one who compares says of an id or GUID whose schema the destination does not hold."""

UNNAMED_GUID = -3
"""What the map says of a GUID whose schema the destination holds, in a registry that gives no GUIDs: it stays as it is,
and nobody finds the schema by it."""

UNKNOWN_IDS_MAX = 64
"""Ids that one error names, and as many GUIDs; what is beyond them is told when these are known."""

ID_MIN, ID_MAX = -(2**31), 2**31 - 1

Int64s = npt.NDArray[np.int64]

_GUID_TEXT_LENGTH = 36
_LOST_GUID = UUID(bytes=b"\xff" * 16)
"""Equals the GUID of no schema, as -2 equals no id."""


def guid_rows(guids: Iterable[UUID]) -> Int64s:
    """Returns a row for each GUID: its sixteen bytes as two numbers, big-endian, signed."""
    whole = b"".join(each.bytes for each in guids)
    return np.frombuffer(whole, ">i8").astype(np.int64).reshape(-1, 2)


def guids_in(rows: Int64s) -> tuple[UUID, ...]:
    """Returns the GUIDs of such rows."""
    whole = rows.astype(">i8").tobytes()
    return tuple(UUID(bytes=whole[at : at + 16]) for at in range(0, len(whole), 16))


def _no_guids() -> Int64s:
    return np.empty((0, 2), np.int64)


def _no_states() -> Int64s:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SchemaIdMap:
    """Ids and GUIDs of the source's registry and what they are at the destination's; travels in plans as arrays.

    Attributes:
        source_ids: ascending, each once.
        destination_ids: as many; `ABSENT_ID` where the source's registry does not know the id,
            `LOST_ID` where only the destination's does not.
        sides: bit 0 for keys, bit 1 for values: what has ids.
        passes: bits likewise: where what cannot be read goes on as it is, instead of stopping the partition.
        letters: bits likewise: where the record of what cannot be read becomes a dead letter instead.
        refused: ids and GUIDs that are none of the map's, each with why its schema does not come to the destination.
        source_guids: a row of two numbers each (`guid_rows`), ascending, each once.
        destination_guids: as many; without meaning where the state is below zero.
        guid_states: as many; 0, or `ABSENT_ID`, `LOST_ID` or `UNNAMED_GUID`.
    """

    source_ids: Int64s
    destination_ids: Int64s
    sides: int
    passes: int = 0
    refused: tuple[tuple[SchemaName, str], ...] = ()
    letters: int = 0
    source_guids: Int64s = field(default_factory=_no_guids)
    destination_guids: Int64s = field(default_factory=_no_guids)
    guid_states: Int64s = field(default_factory=_no_states)

    @classmethod
    def of(
        cls,
        pairs: Mapping[SchemaName, SchemaName],
        *,
        absent: Iterable[SchemaName] = (),
        lost: Iterable[SchemaName] = (),
        unnamed: Iterable[UUID] = (),
        refused: Mapping[SchemaName, str] | None = None,
        keys: bool = False,
        values: bool = True,
        passes_keys: bool = False,
        passes_values: bool = False,
        letters_of_keys: bool = False,
        letters_of_values: bool = False,
    ) -> "SchemaIdMap":
        """Returns the map of some pairs.

        Args:
            pairs: ids of the destination by those of the source, and GUIDs likewise.
            absent: ids and GUIDs the source's registry does not know.
            lost: those it knows and whose schemas the destination does not hold, for those who compare: such an id
                equals none.
            unnamed: GUIDs whose schemas are in a registry of the destination that gives no GUIDs.
            refused: ids and GUIDs whose schemas do not come to the destination, with the reason, for those who copy.
            keys: whether keys have ids.
            values: whether values have.
            passes_keys: whether keys that cannot be read go on as they are.
            passes_values: the same of values.
            letters_of_keys: whether records with keys that cannot be read become dead letters.
            letters_of_values: the same of values.

        Raises:
            ValueError: an id is none, or is known and absent.
        """
        states: dict[SchemaName, int] = {
            **dict.fromkeys(absent, ABSENT_ID),
            **dict.fromkeys(lost, LOST_ID),
            **dict.fromkeys(unnamed, UNNAMED_GUID),
        }
        told = refused or {}
        ids = {**_ids_of(states), **_ids_of(pairs)}
        given: list[set[SchemaName]] = [set(absent), set(lost), set(unnamed), set(pairs), set(told)]
        if (
            len(set[SchemaName]().union(*given)) != sum(map(len, given))
            or not all(ID_MIN <= each <= ID_MAX for each in ids)
            or not all(0 <= each <= ID_MAX for each in _ids_of(pairs).values())
            or len(_guids_of(pairs)) + len(_ids_of(pairs)) != len(pairs)
        ):
            raise ValueError("ids are numbers of 32 bits, known or absent; those of the destination are not negative")
        source_ids = np.array(sorted(ids), np.int64)
        guids = {each: each for each in states if isinstance(each, UUID)} | _guids_of(pairs)
        source_guids = sorted(guids, key=lambda each: tuple(guid_rows([each])[0].tolist()))
        return cls(
            source_ids=source_ids,
            destination_ids=np.array([ids[each] for each in source_ids.tolist()], np.int64),
            source_guids=guid_rows(source_guids),
            destination_guids=guid_rows(guids[each] for each in source_guids),
            guid_states=np.array([states.get(each, 0) for each in source_guids], np.int64),
            sides=keys << KEY | values << VALUE,
            passes=passes_keys << KEY | passes_values << VALUE,
            refused=tuple(sorted(told.items(), key=lambda item: (isinstance(item[0], UUID), item[0]))),
            letters=(letters_of_keys << KEY | letters_of_values << VALUE) & (keys << KEY | values << VALUE),
        )

    @property
    def guids(self) -> dict[UUID, tuple[int, UUID]]:
        """By GUIDs of the source, the state of each and what it is at the destination."""
        there = zip(self.guid_states.tolist(), guids_in(self.destination_guids), strict=True)
        return dict(zip(guids_in(self.source_guids), there, strict=True))

    def guid_there(self, guid: UUID, *, known: Mapping[UUID, tuple[int, UUID]]) -> UUID | None:
        """Returns what a GUID becomes for those who compare: itself where no reader knows it; None where it is unknown.

        Args:
            guid: of the source.
            known: `guids`, which the caller reads once.
        """
        if guid not in known:
            return None
        state, there = known[guid]
        if state == LOST_ID:
            return _LOST_GUID
        return guid if state < 0 else there

    def reason_of(self, ids: Iterable[SchemaName]) -> str:
        """Returns why the schema of one of these does not come to the destination; empty where none is refused."""
        told = dict(self.refused)
        return next((f"{shown_name(each)}: {told[each]}" for each in ids if each in told), "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaIdMap) and (
            (self.sides, self.passes, self.letters, self.refused)
            == (other.sides, other.passes, other.letters, other.refused)
            and np.array_equal(self.source_ids, other.source_ids)
            and np.array_equal(self.destination_ids, other.destination_ids)
            and np.array_equal(self.source_guids, other.source_guids)
            and np.array_equal(self.destination_guids, other.destination_guids)
            and np.array_equal(self.guid_states, other.guid_states)
        )

    def __hash__(self) -> int:
        arrays = (self.source_ids, self.destination_ids, self.source_guids, self.destination_guids, self.guid_states)
        return hash((self.sides, self.passes, *(each.tobytes() for each in arrays)))


def unknown_ids(error: MirrorlakeError | None) -> tuple[SchemaName, ...]:
    """Returns the ids and GUIDs an error says are not known; none where it is another error, or there is none."""
    told = error.facts.get("ids") if isinstance(error, SchemaUnknownError) else None
    return tuple(_name_of(each) for each in str(told).split(",")) if told else ()


def shown_name(name: SchemaName) -> str:
    """Returns how messages call an id or GUID."""
    return f"schema GUID {name}" if isinstance(name, UUID) else f"schema id {name}"


def _name_of(text: str) -> SchemaName:
    return UUID(text) if len(text) == _GUID_TEXT_LENGTH else int(text)


def _ids_of(pairs: Mapping[SchemaName, SchemaName] | Mapping[SchemaName, int]) -> dict[int, int]:
    return {each: there for each, there in pairs.items() if isinstance(each, int) and isinstance(there, int)}


def _guids_of(pairs: Mapping[SchemaName, SchemaName]) -> dict[UUID, UUID]:
    return {each: there for each, there in pairs.items() if isinstance(each, UUID) and isinstance(there, UUID)}
