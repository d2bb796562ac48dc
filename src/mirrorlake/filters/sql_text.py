"""From a text in Spark SQL to sqlglot's tree of it, functions by their names. sqlglot is imported when this is used."""

from functools import cache
from typing import TYPE_CHECKING, Any

from mirrorlake.filters.refusal import refused
from mirrorlake.filters.syntax_errors import unreadable

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions import Expr
    from sqlglot.parser import Parser

TEXT_LENGTH_MAX = 10_000
"""Characters; with the depth of the tree it keeps whoever parses and evaluates by recursion within bounds."""


def parsed(text: str) -> "Expr":
    """Returns the tree of one expression.

    Raises:
        UnsupportedError: it is too long, has a character whose meaning depends on settings, or is no expression.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise refused(f"it is longer than {TEXT_LENGTH_MAX} characters")
    if "\\" in text or "\ufffd" in text or any("\ud800" <= each <= "\udfff" for each in text):
        # What a backslash means depends on a setting of Spark's session; the others stand for what is no text.
        raise refused("it has a backslash, or a character that stands for none", "X'5C' is a backslash, as bytes")
    return _parsed(text)


@cache
def _spark() -> "tuple[type[Dialect], type[Parser]]":
    # Only where a file has an expression.
    from sqlglot.dialects.spark import Spark

    class FunctionsByName(Spark.parser_class):  # type: ignore[misc, valid-type]
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012  as the class it is derived from has it
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parser for name, parser in Spark.parser_class.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")
        }

    return Spark, FunctionsByName


def _parsed(text: str) -> "Expr":
    from sqlglot import TokenType
    from sqlglot.errors import SqlglotError

    dialect, parser = _spark()
    try:
        tokens = dialect().tokenize(text)
        statements = parser(dialect=dialect()).parse(tokens, text)
    except (SqlglotError, RecursionError) as error:
        raise unreadable(text, error) from error
    if len(statements) != 1:
        raise refused("it is more than one expression, separated by `;`")
    if statements[0] is None:
        raise refused("it is empty, and an expression is expected")
    kinds = [token.token_type for token in tokens]
    if kinds.count(TokenType.L_PAREN) != kinds.count(TokenType.R_PAREN):
        raise refused("it cannot be read as Spark SQL: a parenthesis is not closed")  # sqlglot forgives CAST
    return statements[0]
