"""Text in single quotes is JSON to Spark, too; where it ends does not depend on which patch of Python reads it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.filters.json_fields import _STRING, json_field

texts = st.text(alphabet="'\"\\a\n{:", max_size=24)


def strings_of(text: str) -> list[str]:
    """The strings in a text, each with its quotes, character by character: none is looked for within another."""
    found, at = [], 0
    while at < len(text):
        if text[at] not in "'\"":
            at += 1
            continue
        end = at + 1
        while end < len(text) and text[end] != text[at]:
            end += 2 if text[end] == "\\" else 1
        found.append(text[at : end + 1])
        at = end + 1
    return found


@given(texts)
def test_strings_are_found_with_their_own_quotes_and_escapes(text: str) -> None:
    assert [found[0] for found in _STRING.finditer(text)] == strings_of(text)


@given(st.text(alphabet="'\"\\a\n{:é", max_size=12))
def test_text_in_single_quotes_is_the_same_as_in_double_quotes(value: str) -> None:
    document = "{'a':'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'}"
    assert (
        json_field(document.encode(), ("a",)) == json_field(json.dumps({"a": value}).encode(), ("a",)) == value.encode()
    )


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (b"{'a':1}", b"1"),
        (b'{"a":\'x"y\'}', b'x"y'),
        (b"{'a':\"it's\"}", b"it's"),
        (b"{'a':'it\\'s'}", b"it's"),
        (b"{'a':'\\\\'}", b"\\"),
        (b"{'a':'b", None),
        (b"{'a':'b\\", None),
        (b"{'a':'b\\'}", None),
    ],
)
def test_single_quotes_begin_and_end_text(document: bytes, found: bytes | None) -> None:
    assert json_field(document, ("a",)) == found
