"""What schema ids of a source's registry are at a destination's, as numbers in arrays. Imports no compiled loop."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.errors import MirrorlakeError, SchemaUnknownError

# Sides of a record, and the bits that say which of them are looked at.
KEY, VALUE, SIDES = range(3)

ABSENT_ID = -1
"""What the map says of an id that the source's registry does not know: it stays as it is."""

LOST_ID = -2
"""What the map of one who compares says of an id whose schema the destination does not hold."""

UNKNOWN_IDS_MAX = 64
"""Ids that one error names; what is beyond them is told when these are known."""

ID_MIN, ID_MAX = -(2**31), 2**31 - 1

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SchemaIdMap:
    """Ids of the source's registry and what they are at the destination's; travels in plans as two arrays of numbers.

    Attributes:
        source_ids: ascending, each once.
        destination_ids: as many; `ABSENT_ID` where the source's registry does not know the id,
            `LOST_ID` where only the destination's does not.
        sides: bit 0 for keys, bit 1 for values: what has ids.
        passes: bits likewise: where what cannot be read goes on as it is, instead of stopping the partition.
        letters: bits likewise: where the record of what cannot be read becomes a dead letter instead.
        refused: ids that are none of ``source_ids``, each with why its schema does not come to the destination.
    """

    source_ids: Int64s
    destination_ids: Int64s
    sides: int
    passes: int = 0
    refused: tuple[tuple[int, str], ...] = ()
    letters: int = 0

    @classmethod
    def of(
        cls,
        pairs: Mapping[int, int],
        *,
        absent: Iterable[int] = (),
        lost: Iterable[int] = (),
        refused: Mapping[int, str] | None = None,
        keys: bool = False,
        values: bool = True,
        passes_keys: bool = False,
        passes_values: bool = False,
        letters_of_keys: bool = False,
        letters_of_values: bool = False,
    ) -> "SchemaIdMap":
        """Returns the map of some pairs.

        Args:
            pairs: ids of the destination by those of the source.
            absent: ids the source's registry does not know.
            lost: ids it knows and whose schemas the destination does not hold, for those who compare: such an id
                equals none.
            refused: ids whose schemas do not come to the destination, with the reason, for those who copy.
            keys: whether keys have ids.
            values: whether values have.
            passes_keys: whether keys that cannot be read go on as they are.
            passes_values: the same of values.
            letters_of_keys: whether records with keys that cannot be read become dead letters.
            letters_of_values: the same of values.

        Raises:
            ValueError: an id is none, or is known and absent.
        """
        whole = {**dict.fromkeys(absent, ABSENT_ID), **dict.fromkeys(lost, LOST_ID), **pairs}
        told = refused or {}
        if (
            len(whole) != len(pairs) + len(set(absent)) + len(set(lost))
            or whole.keys() & told.keys()
            or not all(ID_MIN <= each <= ID_MAX for each in whole)
            or not all(0 <= each <= ID_MAX for each in pairs.values())
        ):
            raise ValueError("ids are numbers of 32 bits, known or absent; those of the destination are not negative")
        source_ids = np.array(sorted(whole), np.int64)
        return cls(
            source_ids=source_ids,
            destination_ids=np.array([whole[each] for each in source_ids.tolist()], np.int64),
            sides=keys << KEY | values << VALUE,
            passes=passes_keys << KEY | passes_values << VALUE,
            refused=tuple(sorted(told.items())),
            letters=(letters_of_keys << KEY | letters_of_values << VALUE) & (keys << KEY | values << VALUE),
        )

    def reason_of(self, ids: Iterable[int]) -> str:
        """Returns why the schema of one of these ids does not come to the destination; empty where none is refused."""
        told = dict(self.refused)
        return next((f"schema id {each}: {told[each]}" for each in ids if each in told), "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaIdMap) and (
            (self.sides, self.passes, self.letters, self.refused)
            == (other.sides, other.passes, other.letters, other.refused)
            and np.array_equal(self.source_ids, other.source_ids)
            and np.array_equal(self.destination_ids, other.destination_ids)
        )

    def __hash__(self) -> int:
        return hash((self.sides, self.passes, self.source_ids.tobytes(), self.destination_ids.tobytes()))


def unknown_ids(error: MirrorlakeError | None) -> tuple[int, ...]:
    """Returns the ids an error says are not known; none where it is another error, or there is none."""
    told = error.facts.get("ids") if isinstance(error, SchemaUnknownError) else None
    return tuple(map(int, str(told).split(","))) if told else ()
