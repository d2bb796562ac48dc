"""Tables of a SQL query that are named by store or cluster, as ``lake.orders``: found in its text, given views. Pure.

Spark's catalogs take names of letters and digits, and topics have others; so each such table becomes a temporary view
of one name, with the topic as its alias where the query gives none. The views are numbered, as Spark takes names that
differ in case alone for one, and Kafka, stores and clusters do not.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mirrorlake.errors import QueryError

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<name>`(?:[^`]|``)*`|[A-Za-z_][A-Za-z0-9_]*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_READING = frozenset({"select", "with", "from", "values", "table"})
_EXPLAIN = "explain"
_EXPLANATIONS = frozenset({"extended", "formatted", "codegen", "cost"})
_BEFORE_TABLE = frozenset({"from", "join", "table"})
# What ends the list of tables, at the same depth of parentheses.
_AFTER_TABLES = frozenset(
    [
        *("where", "group", "order", "having", "limit", "offset", "union", "intersect", "except", "minus", "lateral"),
        *("window", "sort", "cluster", "distribute", "select", "qualify", "pivot", "unpivot"),
    ]
)
# What may follow a table and is no alias of it.
_NO_ALIAS = _AFTER_TABLES | frozenset(
    [
        *("join", "inner", "left", "right", "full", "cross", "natural", "semi", "anti", "on", "using", "for"),
        *("version", "timestamp"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a query: a topic of a store or cluster, and the view that stands for it; ``number`` is its own."""

    place: str
    topic: str
    number: int

    @property
    def view(self) -> str:
        """The view's name."""
        return f"{self.number} {self.place}.{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query whose tables are views; ``tables`` in the order in which it names them, each once.

    ``explain`` is what stands before the query where its plan is asked for instead of its rows, else empty.
    """

    text: str
    tables: tuple[Table, ...]
    explain: str = ""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """What it is called: a name without its quotes; a keyword in small letters is compared with `keyword`."""
        return self.text[1:-1].replace("``", "`") if self.text[:1] == "`" else self.text

    @property
    def keyword(self) -> str:
        return self.text.lower() if self.kind == "name" and self.text[:1] != "`" else ""


def read_query(text: str, places: Collection[str]) -> Query:
    """Returns a query as Spark can run it.

    Args:
        text: one statement that reads.
        places: names of stores and clusters.

    Raises:
        QueryError: it is empty, does not only read, or names a table of a place that there is not.
    """
    tokens = [_Token(match.lastgroup or "other", match[0]) for match in _TOKEN.finditer(text.strip().rstrip(";"))]
    explain = _explain(tokens)
    tokens = tokens[len(explain) :]
    first = next((each for each in tokens if each.kind != "space" and each.text != "("), None)
    if first is None or first.keyword not in _READING:
        raise QueryError(
            f"not a query: {text.strip()[:40]!r}", hint="write one that reads, such as select count(*) from lake.orders"
        )
    tables: dict[tuple[str, str], Table] = {}
    pieces: list[str] = []
    spots = dict(_tables_at(tokens))
    at = 0
    while at < len(tokens):
        if at in spots:
            end, parts = spots[at]
            if parts[0] not in places:
                raise _unknown(parts, places)
            place, topic = parts[0], ".".join(parts[1:])
            table = tables.setdefault((place, topic), Table(place=place, topic=topic, number=len(tables) + 1))
            pieces.append(_quoted(table.view) + ("" if _has_alias(tokens, end) else f" AS {_quoted(table.topic)}"))
            at = end
        else:
            pieces.append(tokens[at].text)
            at += 1
    return Query(
        text="".join(pieces), tables=tuple(tables.values()), explain="".join(each.text for each in explain).strip()
    )


def _explain(tokens: list[_Token]) -> list[_Token]:
    """Returns the tokens that ask for the plan of the query behind them; none where nothing does."""
    found: list[_Token] = []
    wanted = frozenset({_EXPLAIN})
    for at, token in enumerate(tokens):
        if token.kind == "space":
            continue
        if token.keyword not in wanted:
            break
        found = tokens[: at + 1]
        wanted = _EXPLANATIONS if token.keyword == _EXPLAIN else frozenset()
    return found


def _tables_at(tokens: list[_Token]) -> Iterator[tuple[int, tuple[int, tuple[str, ...]]]]:
    """Yields where a table with a name of several parts stands: its first token, the one behind it, and the parts."""
    depths = [_Depth()]
    is_next = False  # whether a table may come now
    before = ""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "space":
            at += 1
            continue
        depth = depths[-1]
        if token.keyword == "select":
            depth.is_query, depth.is_listing, is_next = True, False, False
        elif token.keyword in _BEFORE_TABLE:
            # `extract(year from x)` and `is distinct from x` name no table.
            depth.is_query = depth.is_query or before in ("", "(")
            is_next = token.keyword != "from" or (depth.is_query and before != "distinct")
            depth.is_listing = depth.is_listing or is_next
        elif token.text == "(":
            depths.append(_Depth(is_listing=is_next, is_query=is_next))
        elif token.text == ")":
            is_next = False
            if len(depths) > 1:
                depths.pop()
        elif token.keyword in _AFTER_TABLES:
            depth.is_listing = is_next = False
        elif token.text == ",":
            is_next = depth.is_listing
        elif token.kind == "name" and is_next:
            parts, end = _parts(tokens, at)
            if len(parts) > 1:
                yield at, (end, parts)
            is_next, before, at = False, "name", end
            continue
        else:
            is_next = False
        before = token.keyword or token.text
        at += 1


@dataclass(slots=True)
class _Depth:
    """Of one pair of parentheses: whether tables are being listed, and whether a query stands in it."""

    is_listing: bool = False
    is_query: bool = False


def _parts(tokens: list[_Token], at: int) -> tuple[tuple[str, ...], int]:
    parts = [tokens[at].word]
    at += 1
    while at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].kind == "name":
        parts.append(tokens[at + 1].word)
        at += 2
    return tuple(parts), at


def _has_alias(tokens: list[_Token], at: int) -> bool:
    for token in tokens[at:]:
        if token.kind == "space":
            continue
        if token.keyword in ("as", "tablesample"):
            return True
        return token.kind == "name" and token.keyword not in _NO_ALIAS
    return False


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _unknown(parts: tuple[str, ...], places: Collection[str]) -> QueryError:
    return QueryError(
        f"there is no store or cluster {parts[0]!r}, as {'.'.join(parts)} has it",
        hint=f"the configuration names {', '.join(sorted(places)) or 'none'}",
    )
