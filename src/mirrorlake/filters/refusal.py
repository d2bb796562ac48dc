"""How an expression that is not known to be equal to Spark's is refused, and the words for its parts."""

from typing import TYPE_CHECKING

from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.condition import Kind

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

KNOWN = (
    "an expression knows the columns key, value, headers['name'], timestamp, partition and offset; "
    "=, <=>, <>, <, <=, >, >=, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, || and CASE; CAST to STRING, BINARY, BIGINT "
    "and DOUBLE; and the functions get_json_object, length, substring, crc32, pmod, concat, coalesce, sha2 and "
    "unix_millis"
)

_SHOWN_LENGTH_MAX = 80


def refused(why: str, hint: str = KNOWN) -> UnsupportedError:
    """Returns the error that says why an expression is refused; its hint says what there is instead."""
    return UnsupportedError(why, hint=hint)


def shown(node: "Expr") -> str:
    """Returns the text of a part of an expression, cut where it is long."""
    text = node.sql(dialect="spark")
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[: _SHOWN_LENGTH_MAX - 1] + "…"


def cast_hint(kind: Kind) -> str:
    """Returns which CAST makes something else of a value of this type."""
    if kind is Kind.BINARY:
        return "write CAST(… AS STRING), or CAST(CAST(… AS STRING) AS BIGINT) for a number in digits"
    return "write CAST(… AS BIGINT) or CAST(… AS DOUBLE) for a number in digits"
