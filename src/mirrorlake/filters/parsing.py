"""From the text of a condition to the tree that is evaluated; what is not known to be equal to Spark is refused.

sqlglot knows Spark's grammar; what it has no function for, or another one than Spark, does not matter here, as
functions are taken by their names and checked against the few below. Types are checked too, and nothing is cast
silently: where Spark would, it depends on settings of its session.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.condition import Condition, Filter, Kind, Op

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions import Expr
    from sqlglot.parser import Parser

COLUMNS = {
    "key": Kind.BINARY,
    "value": Kind.BINARY,
    "timestamp": Kind.TIMESTAMP,
    "partition": Kind.BIGINT,
    "offset": Kind.BIGINT,
}
"""What a condition may look at, besides ``headers['…']``, which is BINARY."""

CASTS: dict[str, tuple[Kind, dict[Kind, Op]]] = {
    "TEXT": (Kind.STRING, {Kind.BINARY: Op.RETYPED, Kind.STRING: Op.RETYPED}),
    "BINARY": (Kind.BINARY, {Kind.BINARY: Op.RETYPED, Kind.STRING: Op.RETYPED}),
    "BIGINT": (Kind.BIGINT, {Kind.STRING: Op.TO_BIGINT, Kind.BIGINT: Op.RETYPED}),
    "DOUBLE": (Kind.DOUBLE, {Kind.STRING: Op.TO_DOUBLE, Kind.DOUBLE: Op.RETYPED}),
}
"""By sqlglot's name of a type: which it is, and from which it can be had how."""

_KNOWN = (
    "a filter knows the columns key, value, headers['name'], timestamp, partition and offset; "
    "=, <=>, <>, <, <=, >, >=, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL; CAST to STRING, BINARY, BIGINT and DOUBLE; "
    "and the functions get_json_object, length, substring, crc32 and pmod"
)

_BYTES = (Kind.BINARY, Kind.STRING)
_NUMBERS = (Kind.BIGINT, Kind.DOUBLE)
_TEXT_LENGTH_MAX = 10_000
_DEPTH_MAX = 100
"""Nodes above one another; both keep whoever parses and evaluates by recursion within bounds."""
_BIGINT_MAX = 2**63 - 1
_DOUBLE_LENGTH_MAX = 30
"""Without an exponent it is a DECIMAL to Spark, of 38 digits at most."""
_INTEGER = re.compile(r"\d+", re.ASCII)
_DOUBLE = re.compile(r"\d+\.\d*|\.\d+|(\d+\.?\d*|\.\d+)[eE][-+]?\d+", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[-+]\d\d:\d\d)", re.ASCII)
_PATH_STEP = re.compile(r"\.([^.\[\]*?'\"\\\s]+)|\['([^'\[\]*?\\]+)'\]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_filter(text: str) -> Filter:
    """Returns the filter that a condition in Spark SQL is.

    Raises:
        UnsupportedError: it is no condition, or says something that a filter does not know; with what it knows.
    """
    if len(text) > _TEXT_LENGTH_MAX:
        raise _refused(f"it is longer than {_TEXT_LENGTH_MAX} characters")
    if "\\" in text or "\ufffd" in text or any("\ud800" <= each <= "\udfff" for each in text):
        # What a backslash means depends on a setting of Spark's session; the others stand for what is no text.
        raise _refused("it has a backslash, or a character that stands for none", "X'5C' is a backslash, as bytes")
    condition = _condition(_parsed(text), 0)
    if condition.kind is not Kind.BOOLEAN:
        raise _refused(f"it is no condition, it is of type {condition.kind}")
    return Filter(where=text, condition=condition)


def _refused(why: str, hint: str = _KNOWN) -> UnsupportedError:
    return UnsupportedError(why, hint=hint)


@cache
def _spark() -> "tuple[type[Dialect], type[Parser]]":
    # Only where a file has a filter.
    from sqlglot.dialects.spark import Spark

    class FunctionsByName(Spark.parser_class):  # type: ignore[misc, valid-type]
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012  as the class it is derived from has it
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parser for name, parser in Spark.parser_class.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")
        }

    return Spark, FunctionsByName


def _parsed(text: str) -> "Expr":
    from sqlglot.errors import SqlglotError

    dialect, parser = _spark()
    try:
        statements = parser(dialect=dialect()).parse(dialect().tokenize(text), text)
    except (SqlglotError, RecursionError) as error:
        told = getattr(error, "errors", None) or [{"description": "it is nested too deeply"}]
        raise _refused(f"it cannot be read as Spark SQL: {str(told[0]['description']).rstrip('.')}") from error
    if len(statements) != 1 or statements[0] is None:
        raise _refused("it is not one expression")
    return statements[0]


def _condition(node: "Expr", depth: int) -> Condition:
    if depth > _DEPTH_MAX:
        raise _refused(f"it is nested more than {_DEPTH_MAX} deep")
    known = _HANDLERS.get(type(node).__name__)
    if known is None:
        raise _refused(f"`{_shown(node)}` is nothing a filter knows")
    handler, takes = known
    if more := [name for name, value in node.args.items() if value and name not in takes]:
        raise _refused(f"`{_shown(node)}` says more than a filter knows ({', '.join(more)})")
    return handler(node, depth + 1)


def _shown(node: "Expr") -> str:
    text = node.sql(dialect="spark")
    return text if len(text) <= 80 else text[:79] + "…"


def _column(node: "Expr", depth: int) -> Condition:
    del depth
    name = node.name.lower()
    if name == "headers":
        raise _refused("`headers` can be looked at by key only", "write headers['name'], of which the last one counts")
    if name not in COLUMNS:
        raise _refused(f"there is no column `{node.name}`")
    return Condition(op=Op.COLUMN, kind=COLUMNS[name], value=name)


def _header(node: "Expr", depth: int) -> Condition:
    del depth
    is_headers = type(node.this).__name__ == "Column" and node.this.name.lower() == "headers" and not node.this.table
    keys = [each for each in node.expressions if type(each).__name__ == "Literal" and each.is_string]
    if not is_headers or len(keys) != 1 or len(node.expressions) != 1:
        raise _refused(f"`{_shown(node)}` is nothing a filter knows", "headers are looked at by headers['name']")
    return Condition(op=Op.HEADER, kind=Kind.BINARY, value=str(keys[0].this))


def _literal(node: "Expr", depth: int) -> Condition:
    del depth
    if node.is_string:
        return Condition(op=Op.LITERAL, kind=Kind.STRING, value=str(node.this).encode())
    return _number(str(node.this), node)


def _number(text: str, node: "Expr") -> Condition:
    if _INTEGER.fullmatch(text.removeprefix("-")):
        if not -_BIGINT_MAX <= int(text) <= _BIGINT_MAX:
            raise _refused(f"`{_shown(node)}` is no BIGINT")
        return Condition(op=Op.LITERAL, kind=Kind.BIGINT, value=int(text))
    if _DOUBLE.fullmatch(text.removeprefix("-")) and len(text) <= _DOUBLE_LENGTH_MAX and isfinite(float(text)):
        return Condition(op=Op.LITERAL, kind=Kind.DOUBLE, value=float(text))
    raise _refused(f"`{_shown(node)}` is no number a filter knows")


def _negative(node: "Expr", depth: int) -> Condition:
    del depth
    if type(node.this).__name__ != "Literal" or node.this.is_string:
        raise _refused(f"`{_shown(node)}`: only numbers that are written down can be negative")
    return _number(f"-{node.this.this}", node)


def _bytes_literal(node: "Expr", depth: int) -> Condition:
    del depth
    try:
        return Condition(op=Op.LITERAL, kind=Kind.BINARY, value=bytes.fromhex(str(node.this)))
    except ValueError as error:
        raise _refused(f"`X'{node.this}'` is no bytes", "write two hexadecimal digits a byte") from error


def _boolean_literal(node: "Expr", depth: int) -> Condition:
    del depth
    return Condition(op=Op.LITERAL, kind=Kind.BOOLEAN, value=bool(node.this))


def _in_parentheses(node: "Expr", depth: int) -> Condition:
    return _condition(node.this, depth)


def _junction(op: Op) -> "Callable[[Expr, int], Condition]":
    def junction(node: "Expr", depth: int) -> Condition:
        # `a AND b AND c AND …` leans to the left as far as there are conditions: one node for all of them.
        sides: list[Condition] = []
        rest: Expr = node
        while type(rest) is type(node):
            sides.append(_of(rest.expression, depth, Kind.BOOLEAN))
            rest = rest.this
        sides.append(_of(rest, depth, Kind.BOOLEAN))
        return Condition(op=op, kind=Kind.BOOLEAN, parts=tuple(reversed(sides)))

    return junction


def _of(node: "Expr", depth: int, *kinds: Kind) -> Condition:
    found = _condition(node, depth)
    if found.kind not in kinds:
        wanted = " or ".join(kinds)
        raise _refused(f"`{_shown(node)}` is of type {found.kind}, and must be {wanted}", _cast_hint(found.kind))
    return found


def _cast_hint(kind: Kind) -> str:
    if kind is Kind.BINARY:
        return "write CAST(… AS STRING), or CAST(CAST(… AS STRING) AS BIGINT) for a number in digits"
    return "write CAST(… AS BIGINT) or CAST(… AS DOUBLE) for a number in digits"


def _not(node: "Expr", depth: int) -> Condition:
    return _negated(_of(node.this, depth, Kind.BOOLEAN))


def _negated(condition: Condition) -> Condition:
    return Condition(op=Op.NOT, kind=Kind.BOOLEAN, parts=(condition,))


def _comparison(op: Op, *, swaps: bool = False, negates: bool = False) -> "Callable[[Expr, int], Condition]":
    def comparison(node: "Expr", depth: int) -> Condition:
        one, other = _condition(node.this, depth), _condition(node.expression, depth)
        found = _compared(op, other, one, node) if swaps else _compared(op, one, other, node)
        return _negated(found) if negates else found

    return comparison


def _compared(op: Op, one: Condition, other: Condition, node: "Expr") -> Condition:
    one, other = _as_double(one, other), _as_double(other, one)
    is_alike = one.kind is other.kind or (one.kind in _BYTES and other.kind in _BYTES)
    if not is_alike or one.kind is Kind.BOOLEAN:
        what = f"`{_shown(node)}` compares {one.kind} with {other.kind}"
        if Kind.TIMESTAMP in (one.kind, other.kind):
            raise _refused(what, "write TIMESTAMP '2026-01-31T00:00:00Z'")
        if one.kind is Kind.BOOLEAN:
            raise _refused(what, "use AND, OR and NOT")
        raise _refused(what, _cast_hint(Kind.BINARY if Kind.BINARY in (one.kind, other.kind) else Kind.STRING))
    return Condition(op=op, kind=Kind.BOOLEAN, parts=(one, other))


def _as_double(one: Condition, other: Condition) -> Condition:
    """Returns a number that is written down as the other side's type."""
    if one.op is Op.LITERAL and one.kind is Kind.BIGINT and other.kind is Kind.DOUBLE:
        assert isinstance(one.value, int)
        return Condition(op=Op.LITERAL, kind=Kind.DOUBLE, value=float(one.value))
    return one


def _in(node: "Expr", depth: int) -> Condition:
    if not node.expressions:
        raise _refused(f"`{_shown(node)}` names no values")
    tested = _condition(node.this, depth)
    values = [_condition(each, depth) for each in node.expressions]
    if any(value.op is not Op.LITERAL for value in values):
        raise _refused(f"`{_shown(node)}`: the values must be written down")
    if {value.kind for value in values} != {tested.kind}:
        # Spark compares BINARY with STRING, and does not look for it among STRINGs.
        raise _refused(f"`{_shown(node)}`: the values must be of type {tested.kind}, as it is", _cast_hint(tested.kind))
    equal = tuple(_compared(Op.EQUAL, tested, value, node) for value in values)
    return Condition(op=Op.OR, kind=Kind.BOOLEAN, parts=equal)


def _between(node: "Expr", depth: int) -> Condition:
    tested, low, high = (_condition(node.args[name], depth) for name in ("this", "low", "high"))
    bounds = _compared(Op.LESS_OR_EQUAL, low, tested, node), _compared(Op.LESS_OR_EQUAL, tested, high, node)
    return Condition(op=Op.AND, kind=Kind.BOOLEAN, parts=bounds)


def _is(node: "Expr", depth: int) -> Condition:
    if type(node.expression).__name__ != "Null":
        raise _refused(f"`{_shown(node)}` is nothing a filter knows", "IS NULL and IS NOT NULL are")
    return Condition(op=Op.IS_NULL, kind=Kind.BOOLEAN, parts=(_condition(node.this, depth),))


def _like(node: "Expr", depth: int) -> Condition:
    pattern = node.expression
    if type(pattern).__name__ != "Literal" or not pattern.is_string:
        raise _refused(f"`{_shown(node)}`: the pattern must be written down, one and without ESCAPE")
    tested = _of(node.this, depth, Kind.STRING)
    found = Condition(op=Op.LIKE, kind=Kind.BOOLEAN, parts=(tested,), value=str(pattern.this))
    return _negated(found) if node.args.get("negate") else found


def _cast(node: "Expr", depth: int) -> Condition:
    to = node.args["to"]
    wanted = "" if any(value for name, value in to.args.items() if name != "this") else str(to.this.name)
    if wanted in ("TIMESTAMPTZ", "TIMESTAMP") and type(node.this).__name__ == "Literal" and node.this.is_string:
        return _time(str(node.this.this), node)
    if wanted not in CASTS:
        raise _refused(f"`{_shown(node)}`: a filter casts to STRING, BINARY, BIGINT and DOUBLE only")
    kind, ways = CASTS[wanted]
    given = _condition(node.this, depth)
    if given.kind not in ways:
        hint = _cast_hint(given.kind) if given.kind is Kind.BINARY else _KNOWN
        raise _refused(f"`{_shown(node)}` casts {given.kind}, which a filter does not cast to {kind}", hint)
    return Condition(op=ways[given.kind], kind=kind, parts=(given,))


def _time(text: str, node: "Expr") -> Condition:
    try:
        since = datetime.fromisoformat(text if _TIME.fullmatch(text) else "") - _EPOCH
    except (ValueError, OverflowError) as error:
        hint = "write TIMESTAMP '2026-01-31T00:00:00Z', with a time zone and three decimals at most"
        raise _refused(f"`{_shown(node)}` is no time a filter knows", hint) from error
    return Condition(op=Op.LITERAL, kind=Kind.TIMESTAMP, value=since // timedelta(milliseconds=1))


def _function(node: "Expr", depth: int) -> Condition:
    name = str(node.this).lower()
    if name not in _FUNCTIONS:
        raise _refused(f"there is no function `{name}` in a filter")
    take, count = _FUNCTIONS[name]
    if len(node.expressions) != count:
        raise _refused(f"`{name}` takes {count} argument{'s' if count > 1 else ''} in a filter")
    return take(node.expressions, depth)


Arguments = Sequence["Expr"]


def _get_json_object(arguments: Arguments, depth: int) -> Condition:
    path = arguments[1]
    text = str(path.this) if type(path).__name__ == "Literal" and path.is_string else ""
    names, at = [], 1
    while (step := _PATH_STEP.match(text, at)) is not None:
        names.append(step[1] or step[2])
        at = step.end()
    if not text.startswith("$") or not names or at < len(text):
        raise _refused(f"`{_shown(path)}` is no path a filter knows", "a path is '$.a.b', of fields' names only")
    document = _of(arguments[0], depth, Kind.STRING)
    return Condition(op=Op.JSON_FIELD, kind=Kind.STRING, parts=(document,), value=tuple(names))


def _length(arguments: Arguments, depth: int) -> Condition:
    return Condition(op=Op.LENGTH, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, *_BYTES),))


def _crc32(arguments: Arguments, depth: int) -> Condition:
    return Condition(op=Op.CRC32, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, *_BYTES),))


def _substring(arguments: Arguments, depth: int) -> Condition:
    first, count = (_written_integer(each, depth) for each in arguments[1:])
    if not 1 <= first < 2**31 or not 0 <= count < 2**31:
        raise _refused("`substring` begins at 1 or later, and takes no negative count of bytes")
    taken = _condition(arguments[0], depth)
    if taken.kind is not Kind.BINARY:
        raise _refused("`substring` takes bytes in a filter, and not characters", "use LIKE 'abc%' for text")
    return Condition(op=Op.SUBSTRING, kind=Kind.BINARY, parts=(taken,), value=(first - 1, count))


def _pmod(arguments: Arguments, depth: int) -> Condition:
    divisor = _written_integer(arguments[1], depth)
    if divisor < 1:
        raise _refused("`pmod` divides by 1 or more")
    return Condition(op=Op.PMOD, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, Kind.BIGINT),), value=divisor)


def _written_integer(node: "Expr", depth: int) -> int:
    found = _condition(node, depth)
    if found.op is not Op.LITERAL or not isinstance(found.value, int) or found.kind is not Kind.BIGINT:
        raise _refused(f"`{_shown(node)}` must be an integer that is written down")
    return found.value


_FUNCTIONS: dict[str, tuple[Callable[[Arguments, int], Condition], int]] = {
    "get_json_object": (_get_json_object, 2),
    "length": (_length, 1),
    "substring": (_substring, 3),
    "substr": (_substring, 3),
    "crc32": (_crc32, 1),
    "pmod": (_pmod, 2),
}

_TWO = ("this", "expression")
_HANDLERS: dict[str, "tuple[Callable[[Expr, int], Condition], tuple[str, ...]]"] = {
    "Column": (_column, ("this",)),
    "Bracket": (_header, ("this", "expressions")),
    "Literal": (_literal, ("this", "is_string")),
    "Neg": (_negative, ("this",)),
    "HexString": (_bytes_literal, ("this",)),
    "Boolean": (_boolean_literal, ("this",)),
    "Paren": (_in_parentheses, ("this",)),
    "And": (_junction(Op.AND), _TWO),
    "Or": (_junction(Op.OR), _TWO),
    "Not": (_not, ("this",)),
    "EQ": (_comparison(Op.EQUAL), _TWO),
    "NEQ": (_comparison(Op.EQUAL, negates=True), _TWO),
    "LT": (_comparison(Op.LESS), _TWO),
    "LTE": (_comparison(Op.LESS_OR_EQUAL), _TWO),
    "GT": (_comparison(Op.LESS, swaps=True), _TWO),
    "GTE": (_comparison(Op.LESS_OR_EQUAL, swaps=True), _TWO),
    "NullSafeEQ": (_comparison(Op.SAME), _TWO),
    "In": (_in, ("this", "expressions")),
    "Between": (_between, ("this", "low", "high")),
    "Is": (_is, _TWO),
    "Like": (_like, (*_TWO, "negate")),
    "Cast": (_cast, ("this", "to", "_type")),
    "TryCast": (_cast, ("this", "to", "_type")),
    "Anonymous": (_function, ("this", "expressions")),
}
"""By sqlglot's name of a node: who reads it, and which of its arguments he looks at."""
