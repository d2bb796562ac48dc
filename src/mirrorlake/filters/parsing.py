"""From the text of a condition to the tree that is evaluated; what is not known to be equal to Spark is refused.

sqlglot knows Spark's grammar; what it has no function for, or another one than Spark, does not matter here, as
functions are taken by their names and checked against the few below. Types are checked too, and nothing is cast
silently: where Spark would, it depends on settings of its session.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mirrorlake.filters import literals
from mirrorlake.filters.condition import Condition, Filter, Kind, OnFailure, Op
from mirrorlake.filters.growth import check_size
from mirrorlake.filters.refusal import KNOWN, cast_hint, refused, shown
from mirrorlake.filters.sql_text import parsed

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

COLUMNS = {
    "key": Kind.BINARY,
    "value": Kind.BINARY,
    "timestamp": Kind.TIMESTAMP,
    "partition": Kind.BIGINT,
    "offset": Kind.BIGINT,
}
"""What a condition may look at, besides ``headers['…']``, which is BINARY."""

CASTS: dict[str, tuple[Kind, dict[Kind, Op]]] = {
    "TEXT": (
        Kind.STRING,
        {Kind.BINARY: Op.RETYPED, Kind.STRING: Op.RETYPED, Kind.BIGINT: Op.TO_STRING, Kind.BOOLEAN: Op.TO_STRING},
    ),
    "BINARY": (Kind.BINARY, {Kind.BINARY: Op.RETYPED, Kind.STRING: Op.RETYPED}),
    "BIGINT": (Kind.BIGINT, {Kind.STRING: Op.TO_BIGINT, Kind.BIGINT: Op.RETYPED}),
    "DOUBLE": (Kind.DOUBLE, {Kind.STRING: Op.TO_DOUBLE, Kind.DOUBLE: Op.RETYPED}),
}
"""By sqlglot's name of a type: which it is, and from which it can be had how."""

_BYTES = (Kind.BINARY, Kind.STRING)
_NUMBERS = (Kind.BIGINT, Kind.DOUBLE)
_DEPTH_MAX = 100
"""Nodes above one another; with the length of the text it keeps who parses and evaluates by recursion within bounds."""
_PATH_STEP = re.compile(r"\.([^.\[\]*?'\"\\\s]+)|\['([^'\[\]*?\\]+)'\]")


def parse_filter(text: str) -> Filter:
    """Returns the filter that a condition in Spark SQL is.

    Raises:
        UnsupportedError: it is no condition, or says something that a filter does not know; with what it knows.
    """
    condition = parse_expression(text)
    if condition.kind is not Kind.BOOLEAN:
        raise refused(f"it is no condition, it is of type {condition.kind}")
    for node in nodes_of(condition):
        if node.op is Op.RAISE_ERROR:
            raise refused("`raise_error` is not for a filter", "a record for which it is NULL is left out")
        if node.value is OnFailure.NULL:
            raise refused("TRY_CAST is not for a filter", "write CAST: in a filter it is NULL where it cannot be done")
    return Filter(where=text, condition=condition)


def parse_expression(text: str) -> Condition:
    """Returns the tree of an expression in Spark SQL, of whatever type it is; NULL by itself is BINARY.

    Raises:
        UnsupportedError: it says something that an expression does not know; with what it knows.
    """
    return _alike([parsed(text)], 0, text)[0]


def nodes_of(condition: Condition) -> Iterator[Condition]:
    """Yields a node and all below it."""
    yield condition
    for part in condition.parts:
        yield from nodes_of(part)


def _condition(node: "Expr", depth: int) -> Condition:
    if depth > _DEPTH_MAX:
        raise refused(f"it is nested more than {_DEPTH_MAX} deep")
    known = _HANDLERS.get(type(node).__name__)
    if known is None:
        raise refused(f"`{shown(node)}` is nothing an expression knows")
    handler, takes = known
    if any(value for name, value in node.args.items() if name not in takes):
        raise refused(f"`{shown(node)}` says more than an expression knows")
    return handler(node, depth + 1)


def _column(node: "Expr", depth: int) -> Condition:
    del depth
    name = node.name.lower()
    if name == "headers":
        raise refused("`headers` can be looked at by key only", "write headers['name'], of which the last one counts")
    if name not in COLUMNS:
        raise refused(f"there is no column `{node.name}`")
    return Condition(op=Op.COLUMN, kind=COLUMNS[name], value=name)


def _header(node: "Expr", depth: int) -> Condition:
    del depth
    is_headers = type(node.this).__name__ == "Column" and node.this.name.lower() == "headers" and not node.this.table
    keys = [each for each in node.expressions if type(each).__name__ == "Literal" and each.is_string]
    if not is_headers or len(keys) != 1 or len(node.expressions) != 1:
        raise refused(f"`{shown(node)}` is nothing an expression knows", "headers are looked at by headers['name']")
    return Condition(op=Op.HEADER, kind=Kind.BINARY, value=str(keys[0].this))


def _written(read: "Callable[[Expr], Condition]") -> "Callable[[Expr, int], Condition]":
    return lambda node, _: read(node)


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
        raise refused(f"`{shown(node)}` is of type {found.kind}, and must be {wanted}", cast_hint(found.kind))
    return found


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
        what = f"`{shown(node)}` compares {one.kind} with {other.kind}"
        if Kind.TIMESTAMP in (one.kind, other.kind):
            raise refused(what, "write TIMESTAMP '2026-01-31T00:00:00Z'")
        if one.kind is Kind.BOOLEAN:
            raise refused(what, "use AND, OR and NOT")
        raise refused(what, cast_hint(Kind.BINARY if Kind.BINARY in (one.kind, other.kind) else Kind.STRING))
    return Condition(op=op, kind=Kind.BOOLEAN, parts=(one, other))


def _as_double(one: Condition, other: Condition) -> Condition:
    """Returns a number that is written down as the other side's type."""
    if one.op is Op.LITERAL and one.kind is Kind.BIGINT and other.kind is Kind.DOUBLE:
        assert isinstance(one.value, int)
        return Condition(op=Op.LITERAL, kind=Kind.DOUBLE, value=float(one.value))
    return one


def _in(node: "Expr", depth: int) -> Condition:
    if not node.expressions:
        raise refused(f"`{shown(node)}` names no values")
    tested = _condition(node.this, depth)
    values = [_condition(each, depth) for each in node.expressions]
    if any(value.op is not Op.LITERAL for value in values):
        raise refused(f"`{shown(node)}`: the values must be written down")
    if {value.kind for value in values} != {tested.kind}:
        # Spark compares BINARY with STRING, and does not look for it among STRINGs.
        raise refused(f"`{shown(node)}`: the values must be of type {tested.kind}, as it is", cast_hint(tested.kind))
    equal = tuple(_compared(Op.EQUAL, tested, value, node) for value in values)
    return Condition(op=Op.OR, kind=Kind.BOOLEAN, parts=equal)


def _between(node: "Expr", depth: int) -> Condition:
    tested, low, high = (_condition(node.args[name], depth) for name in ("this", "low", "high"))
    bounds = _compared(Op.LESS_OR_EQUAL, low, tested, node), _compared(Op.LESS_OR_EQUAL, tested, high, node)
    return Condition(op=Op.AND, kind=Kind.BOOLEAN, parts=bounds)


def _is(node: "Expr", depth: int) -> Condition:
    if type(node.expression).__name__ != "Null":
        raise refused(f"`{shown(node)}` is nothing an expression knows", "IS NULL and IS NOT NULL are")
    return Condition(op=Op.IS_NULL, kind=Kind.BOOLEAN, parts=(_condition(node.this, depth),))


def _like(node: "Expr", depth: int) -> Condition:
    pattern = node.expression
    if type(pattern).__name__ != "Literal" or not pattern.is_string:
        raise refused(f"`{shown(node)}`: the pattern must be written down, one and without ESCAPE")
    tested = _of(node.this, depth, Kind.STRING)
    found = Condition(op=Op.LIKE, kind=Kind.BOOLEAN, parts=(tested,), value=str(pattern.this))
    return _negated(found) if node.args.get("negate") else found


def _cast(node: "Expr", depth: int) -> Condition:
    to = node.args["to"]
    wanted = "" if any(value for name, value in to.args.items() if name != "this") else str(to.this.name)
    if wanted in ("TIMESTAMPTZ", "TIMESTAMP") and type(node.this).__name__ == "Literal" and node.this.is_string:
        return literals.time(str(node.this.this), node)
    if wanted not in CASTS:
        raise refused(f"`{shown(node)}`: an expression casts to STRING, BINARY, BIGINT and DOUBLE only")
    kind, ways = CASTS[wanted]
    given = _condition(node.this, depth)
    if given.kind not in ways:
        hint = cast_hint(given.kind) if given.kind is Kind.BINARY else KNOWN
        raise refused(f"`{shown(node)}` casts {given.kind}, which an expression does not cast to {kind}", hint)
    op = ways[given.kind]
    tries = OnFailure.NULL if node.args.get("safe") and op in (Op.TO_BIGINT, Op.TO_DOUBLE) else None
    return Condition(op=op, kind=kind, parts=(given,), value=tries)


def _function(node: "Expr", depth: int) -> Condition:
    name = str(node.this).lower()
    if name not in _FUNCTIONS:
        raise refused(f"there is no function `{name}` in an expression")
    take, count = _FUNCTIONS[name]
    if not node.expressions or (count and len(node.expressions) != count):
        raise refused(f"`{name}` takes {count or 'some'} argument{'' if count == 1 else 's'} in an expression")
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
        raise refused(f"`{shown(path)}` is no path an expression knows", "a path is '$.a.b', of fields' names only")
    document = _of(arguments[0], depth, Kind.STRING)
    return Condition(op=Op.JSON_FIELD, kind=Kind.STRING, parts=(document,), value=tuple(names))


def _length(arguments: Arguments, depth: int) -> Condition:
    return Condition(op=Op.LENGTH, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, *_BYTES),))


def _crc32(arguments: Arguments, depth: int) -> Condition:
    return Condition(op=Op.CRC32, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, *_BYTES),))


def _substring(arguments: Arguments, depth: int) -> Condition:
    first, count = (_written_integer(each, depth) for each in arguments[1:])
    if not 1 <= first < 2**31 or not 0 <= count < 2**31:
        raise refused("`substring` begins at 1 or later, and takes no negative count of bytes")
    taken = _condition(arguments[0], depth)
    if taken.kind is not Kind.BINARY:
        raise refused("`substring` takes bytes in an expression, and not characters", "use LIKE 'abc%' for text")
    return Condition(op=Op.SUBSTRING, kind=Kind.BINARY, parts=(taken,), value=(first - 1, count))


def _pmod(arguments: Arguments, depth: int) -> Condition:
    divisor = _written_integer(arguments[1], depth)
    if divisor < 1:
        raise refused("`pmod` divides by 1 or more")
    return Condition(op=Op.PMOD, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, Kind.BIGINT),), value=divisor)


def _written_integer(node: "Expr", depth: int) -> int:
    found = _condition(node, depth)
    if found.op is not Op.LITERAL or not isinstance(found.value, int) or found.kind is not Kind.BIGINT:
        raise refused(f"`{shown(node)}` must be an integer that is written down")
    return found.value


def _pipes(node: "Expr", depth: int) -> Condition:
    # `a || b || c` leans to the left: one node for all of them.
    sides: list[Expr] = []
    rest: Expr = node
    while type(rest) is type(node):
        sides.append(rest.expression)
        rest = rest.this
    return _concat([rest, *reversed(sides)], depth)


def _concat(arguments: Arguments, depth: int) -> Condition:
    parts = [_of(each, depth, *_BYTES) for each in arguments]
    if len({part.kind for part in parts}) > 1:
        what = f"`{shown(arguments[0])}` is of type {parts[0].kind}, and not all that it is joined with"
        raise refused(what, "write CAST(… AS STRING) or CAST(… AS BINARY)")
    joined = Condition(op=Op.CONCAT, kind=parts[0].kind, parts=tuple(parts))
    check_size([joined])  # of every one, as it is held while it is looked at
    return joined


def _coalesce(arguments: Arguments, depth: int) -> Condition:
    parts = _alike(arguments, depth, "coalesce")
    return Condition(op=Op.COALESCE, kind=parts[0].kind, parts=tuple(parts))


def _case(node: "Expr", depth: int) -> Condition:
    tests = [_when(node.this, each, depth) for each in node.args["ifs"]]
    last = node.args.get("default")
    results = [each.args["true"] for each in node.args["ifs"]] + ([last] if last is not None else [])
    branches = _alike(results, depth, shown(node))
    if last is not None:
        tests.append(Condition(op=Op.LITERAL, kind=Kind.BOOLEAN, value=True))
    pairs = zip(tests, branches, strict=True)
    return Condition(op=Op.CASE, kind=branches[0].kind, parts=tuple(part for pair in pairs for part in pair))


def _when(tested: "Expr | None", branch: "Expr", depth: int) -> Condition:
    if tested is None:
        return _of(branch.this, depth, Kind.BOOLEAN)
    return _compared(Op.EQUAL, _condition(tested, depth), _condition(branch.this, depth), branch.this)


def _alike(nodes: Arguments, depth: int, what: str) -> list[Condition]:
    """Returns values of one type, of which some may be NULL, or no value but an error: they take the others' type."""
    found = [None if _is_untyped(node) else _condition(node, depth) for node in nodes]
    kinds = {each.kind for each in found if each is not None}
    if len(kinds) > 1:
        raise refused(f"`{what}` is of more than one type: {' and '.join(sorted(kinds))}", cast_hint(min(kinds)))
    kind = next(iter(kinds), Kind.BINARY)
    return [_untyped(node, kind) if each is None else each for node, each in zip(nodes, found, strict=True)]


def _is_untyped(node: "Expr") -> bool:
    is_error = type(node).__name__ == "Anonymous" and str(node.this).lower() == "raise_error"
    return is_error or type(node).__name__ == "Null"


def _untyped(node: "Expr", kind: Kind) -> Condition:
    if type(node).__name__ == "Null":
        return Condition(op=Op.LITERAL, kind=kind, value=None)
    told = node.expressions
    if len(told) != 1 or type(told[0]).__name__ != "Literal" or not told[0].is_string:
        raise refused(f"`{shown(node)}`: its text must be written down")
    return Condition(op=Op.RAISE_ERROR, kind=kind, value=str(told[0].this))


def _sha2(arguments: Arguments, depth: int) -> Condition:
    bits = _written_integer(arguments[1], depth)
    if bits not in (256, 512):
        raise refused("`sha2` is of 256 or 512 bits in an expression")
    return Condition(op=Op.SHA2, kind=Kind.STRING, parts=(_of(arguments[0], depth, *_BYTES),), value=bits)


def _unix_millis(arguments: Arguments, depth: int) -> Condition:
    return Condition(op=Op.RETYPED, kind=Kind.BIGINT, parts=(_of(arguments[0], depth, Kind.TIMESTAMP),))


_FUNCTIONS: dict[str, tuple[Callable[[Arguments, int], Condition], int]] = {
    "get_json_object": (_get_json_object, 2),
    "length": (_length, 1),
    "substring": (_substring, 3),
    "substr": (_substring, 3),
    "crc32": (_crc32, 1),
    "pmod": (_pmod, 2),
    "concat": (_concat, 0),
    "coalesce": (_coalesce, 0),
    "sha2": (_sha2, 2),
    "unix_millis": (_unix_millis, 1),
}
"""By name: who reads it, and how many arguments it has; 0 for one at least."""

_TWO = ("this", "expression")
_HANDLERS: dict[str, "tuple[Callable[[Expr, int], Condition], tuple[str, ...]]"] = {
    "Column": (_column, ("this",)),
    "Bracket": (_header, ("this", "expressions")),
    "Literal": (_written(literals.text_or_number), ("this", "is_string")),
    "Neg": (_written(literals.negative), ("this",)),
    "HexString": (_written(literals.in_hexadecimal), ("this",)),
    "Boolean": (_written(literals.boolean), ("this",)),
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
    "TryCast": (_cast, ("this", "to", "_type", "safe")),
    "DPipe": (_pipes, (*_TWO, "safe")),
    "Case": (_case, ("this", "ifs", "default")),
    "Anonymous": (_function, ("this", "expressions")),
}
"""By sqlglot's name of a node: who reads it, and which of its arguments he looks at."""
