"""What a mirror makes of the records it copies: a checked expression for each column that changes. Values only."""

import json
from dataclasses import dataclass, field
from hashlib import sha256

from mirrorlake.filters.condition import Condition, Kind, OnFailure, Op
from mirrorlake.filters.growth import check_size
from mirrorlake.filters.parsing import nodes_of, parse_expression
from mirrorlake.filters.refusal import refused

HEADERS_MAX = 16
"""How many headers may be set, and how many dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """The value of a column: STRING or BINARY. A value that travels in plans; made by `parse_value`."""

    text: str
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What records become. A column without an expression stays as it is, so do all headers that are not named.

    ``headers`` are set: all of that name make way for one, behind those that stay, in this order. ``dropped`` headers
    are taken away. Offset, partition and timestamp always stay.
    """

    key: Expression | None = None
    value: Expression | None = None
    headers: tuple[tuple[str, Expression], ...] = ()
    dropped: tuple[str, ...] = ()
    fingerprint: str = field(init=False)
    """Tells one projection from another: 32 hexadecimal digits, equal where all texts are."""

    def __post_init__(self) -> None:
        texts = [each and each.text for each in (self.key, self.value)]
        said = [*texts, [(name, each.text) for name, each in self.headers], list(self.dropped)]
        object.__setattr__(self, "fingerprint", sha256(json.dumps(said).encode()).hexdigest()[:32])

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All of them."""
        return tuple(each for each in (self.key, self.value, *(made for _, made in self.headers)) if each is not None)

    def check_size(self) -> None:
        """Checks how large records may become by all expressions together.

        Raises:
            UnsupportedError: too large; see `growth.check_size`.
        """
        check_size([each.condition for each in self.expressions])

    @property
    def sides(self) -> tuple[str, ...]:
        """Which of ``key`` and ``value`` change."""
        return tuple(name for name, each in (("key", self.key), ("value", self.value)) if each is not None)

    @property
    def of_keys(self) -> "Projection":
        """What becomes of keys, and nothing of the rest."""
        return Projection(key=self.key)

    @property
    def keys_follow_keys(self) -> bool:
        """True where records of one key have one key afterwards: it stays, or is made of the old one alone."""
        if self.key is None:
            return True
        return looks_at_key_alone(self.key)


def looks_at_key_alone(expression: Expression) -> bool:
    """Tells whether a value is made of a record's key, and of nothing else that the record has."""
    looks = [each for each in nodes_of(expression.condition) if each.op in (Op.COLUMN, Op.HEADER)]
    return all(each.op is Op.COLUMN and each.value == "key" for each in looks)


def parse_value(text: str) -> Expression:
    """Returns the expression of a column's value in Spark SQL. Casts of no numbers are errors in it, by ANSI rules.

    Raises:
        UnsupportedError: it is neither STRING nor BINARY, may become too large, or says something that is not known.
    """
    condition = parse_expression(text)
    if condition.kind not in (Kind.STRING, Kind.BINARY):
        hint = "write CAST(… AS STRING)" if condition.kind in (Kind.BIGINT, Kind.BOOLEAN) else "make a STRING of it"
        raise refused(f"it is of type {condition.kind}, and must be STRING or BINARY", hint)
    if all(node.op is Op.RAISE_ERROR for node in nodes_of(condition)):
        raise refused("it is nothing but an error", "write it behind a condition: coalesce(…, raise_error('…'))")
    check_size([condition])
    return Expression(text=text, condition=_by_ansi_rules(condition))


def _by_ansi_rules(condition: Condition) -> Condition:
    parts = tuple(map(_by_ansi_rules, condition.parts))
    is_cast = condition.op in (Op.TO_BIGINT, Op.TO_DOUBLE) and condition.value is None
    value = OnFailure.ERROR if is_cast else condition.value
    return Condition(op=condition.op, kind=condition.kind, parts=parts, value=value)
