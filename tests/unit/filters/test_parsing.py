"""What a filter may say, and how what it may not is refused."""

import pickle

import pytest

from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.condition import Condition, Kind, Op
from mirrorlake.filters.parsing import parse_filter

REFUSED = {
    "": "it is empty, and an expression is expected",
    "key = 'a'; key = 'b'": "it is more than one expression, separated by `;`",
    "SELECT 1": "nothing an expression knows",
    "offset": "no condition",
    "key = ": "cannot be read as Spark SQL",
    "key = 'unfinished": "cannot be read as Spark SQL",
    "lower(key) = 'a'": "no function `lower`",
    "rand() > 0": "no function `rand`",
    "current_timestamp > timestamp": "nothing an expression knows",
    "topic = 'a'": "no column `topic`",
    "a.key = 'b'": "says more",
    "headers = 'a'": "by key only",
    "headers.type = 'a'": "says more",
    "headers['a']['b'] = 'c'": "nothing an expression knows",
    "value['a'] = 'b'": "nothing an expression knows",
    "key = 1": "compares BINARY with BIGINT",
    "timestamp > '2026-01-01'": "compares STRING with TIMESTAMP",
    "timestamp > TIMESTAMP '2026-01-01 00:00:00'": "no time",
    "timestamp > TIMESTAMP '2026-01-01T00:00:00.0001Z'": "no time",
    "timestamp > TIMESTAMP '2026-13-01T00:00:00Z'": "no time",
    "offset > 1.5": "compares DOUBLE with BIGINT",
    "offset > 9223372036854775808": "no BIGINT",
    "CAST(key AS BIGINT) = 1": "casts BINARY",
    "CAST(key AS INT) = 1": "casts to STRING, BINARY",
    "TRY_CAST(CAST(key AS STRING) AS BIGINT) = 1": "TRY_CAST is not for a filter",
    "CAST(key AS STRING COLLATE utf8_lcase) = 'a'": "casts to STRING, BINARY",
    "key LIKE 'a%'": "must be STRING",
    "CAST(key AS STRING) LIKE 'a!%' ESCAPE '!'": "nothing an expression knows",
    "CAST(key AS STRING) LIKE ANY ('a', 'b')": "must be written down",
    "CAST(key AS STRING) RLIKE 'a'": "nothing an expression knows",
    "key IN ('a')": "must be of type BINARY",
    "offset IN (SELECT 1)": "says more",
    "offset BETWEEN SYMMETRIC 2 AND 1": "says more",
    "get_json_object(value, '$.a') = 'b'": "must be STRING",
    "get_json_object(CAST(value AS STRING), '$.a[0]') = 'b'": "no path",
    "get_json_object(CAST(value AS STRING), '$') = 'b'": "no path",
    "get_json_object(CAST(value AS STRING), CAST(key AS STRING)) = 'b'": "no path",
    "substring(CAST(value AS STRING), 1, 2) = 'a'": "takes bytes",
    "substring(value, 0, 2) = X'00'": "begins at 1",
    "pmod(offset, 0) = 1": "1 or more",
    "length(key, 2) = 1": "takes 1 argument",
    "length(DISTINCT key) = 1": "nothing an expression knows",
    "offset % 2 = 0": "nothing an expression knows",
    "key = NULL": "nothing an expression knows",
    "(offset > 1) = (offset > 2)": "BOOLEAN",
    r"key = 'a\'b'": "backslash",
    "NULL": "no condition, it is of type BINARY",
    "coalesce(key = 'a', raise_error('no key'))": "`raise_error` is not for a filter",
    "CASE WHEN key = 'a' THEN true ELSE 1 END": "more than one type",
    "CASE WHEN key THEN true END": "must be BOOLEAN",
    "CASE key WHEN 1 THEN true END": "compares BINARY with BIGINT",
    "coalesce(key, 'a') = 'a'": "more than one type",
    "coalesce() = 'a'": "takes some arguments",
    "concat(key, 'a') = 'a'": "not all that it is joined with",
    "key || offset = 'a'": "must be BINARY or STRING",
    "sha2(key, 224) = 'a'": "256 or 512",
    "unix_millis(offset) = 1": "must be TIMESTAMP",
    "CAST(1.5 AS STRING) = '1.5'": "casts DOUBLE",
    "CAST(timestamp AS STRING) = '1.5'": "casts TIMESTAMP",
    "if(key IS NULL, true, false)": "nothing an expression knows",
    "key = 'it''s'": "nothing an expression knows",
    "key = X'0'": "no bytes",
    "CAST(key AS STRING = 'a'": "not closed",
    "CAST(CAST(key AS STRING) AS BIGINT > 3": "not closed",
    "true" + " AND true" * 2000: "longer than",
    "(" * 300 + "true" + ")" * 300: "nested",
    "NOT " * 150 + "true": "nested",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_known_to_be_equal_to_spark_is_refused_with_what_it_is(text: str) -> None:
    with pytest.raises(UnsupportedError, match=REFUSED[text]) as refused:
        parse_filter(text)
    assert refused.value.hint


UNREADABLE = {
    "key = 'ä' AND": "character 11, at `AND`: a value or a condition is missing there",
    "key == == 'b'": "character 8, at `==`: a value or a condition is missing there",
    "key = 'ä'\nAND\n OR key = 'b'": "line 3, character 2, at `OR`: a value or a condition is missing there",
    "key = 'a' )": "character 11, at `)`: nothing of that kind is expected there",
    "(key = 'a'": "character 8, at `'a'`: a closing parenthesis is expected",
    "headers['a' = 'b'": "character 15, at `'b'`: `]` is expected",
    "key BETWEEN 1": "character 13, at `1`: a bound is missing: BETWEEN … AND …",
    "CAST(key AS nosuch) = 1": "character 13, at `nosuch`: a type is expected in CAST",
    "CASE WHEN key = 'a' THEN 'b'": "character 26, at `'b'`: END is expected in CASE",
    "SELECT FROM": "character 8, at `FROM`: that is not understood there",
    "key = 'a": "character 7: the text that begins with ' is not closed",
    "key = 'a''b''": "character 13: the text that begins with ' is not closed",
    "key = 'a' AND -- it's\n value = \"b": 'line 2, character 10: the text that begins with " is not closed',
    "key = 'a' /* and": "character 11: the comment that begins with /* is not closed",
    "X'ZZ' = key": "a number in it, or bytes as in X'5C', are not written as they should be",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_text_that_is_no_expression_is_refused_with_the_place_and_what_is_expected(text: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        parse_filter(text)
    assert refused.value.message == f"it cannot be read as Spark SQL: {UNREADABLE[text]}"


def test_a_refusal_of_a_function_says_which_functions_there_are() -> None:
    with pytest.raises(UnsupportedError) as refused:
        parse_filter("upper(CAST(key AS STRING)) = 'A'")
    for known in ("get_json_object", "length", "substring", "crc32", "pmod", "headers['name']", "LIKE"):
        assert known in refused.value.hint


def test_a_condition_becomes_a_tree_that_travels() -> None:
    made = parse_filter("headers['type'] = 'order' AND NOT offset >= 5")
    header = Condition(op=Op.HEADER, kind=Kind.BINARY, value="type")
    order = Condition(op=Op.LITERAL, kind=Kind.STRING, value=b"order")
    five = Condition(op=Op.LITERAL, kind=Kind.BIGINT, value=5)
    offset = Condition(op=Op.COLUMN, kind=Kind.BIGINT, value="offset")
    assert made.condition == Condition(
        op=Op.AND,
        kind=Kind.BOOLEAN,
        parts=(
            Condition(op=Op.EQUAL, kind=Kind.BOOLEAN, parts=(header, order)),
            Condition(
                op=Op.NOT,
                kind=Kind.BOOLEAN,
                parts=(Condition(op=Op.LESS_OR_EQUAL, kind=Kind.BOOLEAN, parts=(five, offset)),),
            ),
        ),
    )
    assert pickle.loads(pickle.dumps(made)) == made


def test_as_many_conditions_as_a_text_holds_are_one_node() -> None:
    assert len(parse_filter(" OR ".join(["offset = 1"] * 500)).condition.parts) == 500


def test_a_time_is_milliseconds_whatever_its_zone() -> None:
    made = parse_filter("timestamp < TIMESTAMP '1970-01-01 01:00:00.250+01:00'")
    assert made.condition.parts[1].value == 250
