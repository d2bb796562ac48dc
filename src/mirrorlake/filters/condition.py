"""A checked expression: a small tree of the few things that may be said of a record. Values only; no heavy imports."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Of what type an expression is; Spark's names."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BINARY = "BINARY"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    TIMESTAMP = "TIMESTAMP"


class Op(StrEnum):
    """What a node does with its parts."""

    COLUMN = "column"
    """``value`` is the column's name."""
    HEADER = "header"
    """``value`` is the header's key; of repeated keys the last one counts."""
    LITERAL = "literal"
    """``value``: bytes of a STRING or BINARY, Unix milliseconds of a TIMESTAMP; None is NULL."""
    AND = "and"
    OR = "or"
    NOT = "not"
    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    SAME = "<=>"
    """Equal, or both NULL: never NULL itself."""
    IS_NULL = "is null"
    LIKE = "like"
    """``value`` is the pattern: ``%`` and ``_``, no escapes."""
    TO_BIGINT = "cast as bigint"
    """``value`` is what becomes of a text that is no such number, as with ``TO_DOUBLE``: an `OnFailure`, or None."""
    TO_DOUBLE = "cast as double"
    TO_STRING = "cast as string"
    """Of a BIGINT or BOOLEAN."""
    RETYPED = "cast"
    """Another type, the same bytes."""
    JSON_FIELD = "get_json_object"
    """``value`` are the names on the path, outermost first."""
    LENGTH = "length"
    SUBSTRING = "substring"
    """``value``: the first byte, from 0, and how many."""
    CRC32 = "crc32"
    PMOD = "pmod"
    """``value`` is the divisor, above 0."""
    CONCAT = "concat"
    """NULL where a part is."""
    COALESCE = "coalesce"
    """The first part that is not NULL; those behind it are not evaluated."""
    CASE = "case"
    """Parts are pairs: a condition, and the value where it is the first that is true; NULL where none is."""
    SHA2 = "sha2"
    """``value`` is the number of bits; lower-case hexadecimal digits."""
    RAISE_ERROR = "raise_error"
    """There is no value where this is evaluated; ``value`` says why."""


class OnFailure(StrEnum):
    """What becomes of a text that is not the number it is cast to.

    As Spark has it with ``spark.sql.ansi.enabled`` true: only digits and a sign are a BIGINT then. None in the place of
    one is what Spark does with it false: NULL, and a fraction is cut off.
    """

    ERROR = "error"
    NULL = "null"


Value = OnFailure | str | bytes | bool | int | float | tuple[str, ...] | tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A node: what is done with the parts, of which type that is, and what else it takes."""

    op: Op
    kind: Kind
    parts: tuple["Condition", ...] = ()
    value: Value = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Records are copied for which the condition is true; one for which it is false or NULL is left out.

    ``where`` is the text it was made of. A value that travels in plans; made by `parsing.parse_filter`.
    """

    where: str
    condition: Condition
