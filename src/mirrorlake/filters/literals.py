"""What is written down in an expression: texts, bytes, numbers and times."""

import re
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING

from mirrorlake.filters.condition import Condition, Kind, Op
from mirrorlake.filters.refusal import refused, shown

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_BIGINT_MAX = 2**63 - 1
_DOUBLE_LENGTH_MAX = 30
"""Without an exponent it is a DECIMAL to Spark, of 38 digits at most."""
_INTEGER = re.compile(r"\d+", re.ASCII)
_DOUBLE = re.compile(r"\d+\.\d*|\.\d+|(\d+\.?\d*|\.\d+)[eE][-+]?\d+", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[-+]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text_or_number(node: "Expr") -> Condition:
    """Returns a text in quotes, or a number.

    Raises:
        UnsupportedError: it is no number that is known, or a too large one.
    """
    if node.is_string:
        return Condition(op=Op.LITERAL, kind=Kind.STRING, value=str(node.this).encode())
    return _number(str(node.this), node)


def negative(node: "Expr") -> Condition:
    """Returns a number with its sign.

    Raises:
        UnsupportedError: something else than a number that is written down.
    """
    if type(node.this).__name__ != "Literal" or node.this.is_string:
        raise refused(f"`{shown(node)}`: only numbers that are written down can be negative")
    return _number(f"-{node.this.this}", node)


def _number(text: str, node: "Expr") -> Condition:
    if _INTEGER.fullmatch(text.removeprefix("-")):
        if not -_BIGINT_MAX <= int(text) <= _BIGINT_MAX:
            raise refused(f"`{shown(node)}` is no BIGINT")
        return Condition(op=Op.LITERAL, kind=Kind.BIGINT, value=int(text))
    if _DOUBLE.fullmatch(text.removeprefix("-")) and len(text) <= _DOUBLE_LENGTH_MAX and isfinite(float(text)):
        return Condition(op=Op.LITERAL, kind=Kind.DOUBLE, value=float(text))
    raise refused(f"`{shown(node)}` is no number an expression knows")


def in_hexadecimal(node: "Expr") -> Condition:
    """Returns the bytes of ``X'0A'``.

    Raises:
        UnsupportedError: not two digits a byte.
    """
    try:
        return Condition(op=Op.LITERAL, kind=Kind.BINARY, value=bytes.fromhex(str(node.this)))
    except ValueError as error:
        raise refused(f"`X'{node.this}'` is no bytes", "write two hexadecimal digits a byte") from error


def boolean(node: "Expr") -> Condition:
    """Returns true or false."""
    return Condition(op=Op.LITERAL, kind=Kind.BOOLEAN, value=bool(node.this))


def time(text: str, node: "Expr") -> Condition:
    """Returns the time that a text names.

    Raises:
        UnsupportedError: it has no time zone, more than three decimals, or is no time.
    """
    try:
        since = datetime.fromisoformat(text if _TIME.fullmatch(text) else "") - _EPOCH
    except (ValueError, OverflowError) as error:
        hint = "write TIMESTAMP '2026-01-31T00:00:00Z', with a time zone and three decimals at most"
        raise refused(f"`{shown(node)}` is no time an expression knows", hint) from error
    return Condition(op=Op.LITERAL, kind=Kind.TIMESTAMP, value=since // timedelta(milliseconds=1))
