"""Keys as people write them: text, bytes in two forms, empty, and null."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.cli.key_texts import parse_key, read_keys
from mirrorlake.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("c-4711", b"c-4711"),
        ("ключ", "ключ".encode()),
        ("", b""),
        ("text:", b""),
        ("hex:", b""),
        ("hex:00ff", b"\x00\xff"),
        ("base64:AP8=", b"\x00\xff"),
        ("null:", None),
        ("text:null:", b"null:"),
        ("text:hex:00", b"hex:00"),
        ("urn:isbn:1", b"urn:isbn:1"),
        (" k ", b" k "),
    ],
)
def test_a_key_is_text_or_bytes_or_null(text: str, key: bytes | None) -> None:
    assert parse_key(text) == key


@given(st.binary())
def test_any_bytes_can_be_written(key: bytes) -> None:
    assert parse_key(f"hex:{key.hex()}") == key


@pytest.mark.parametrize("text", ["base64:?", "base64:AP8", "hex:0", "hex:zz", "null:x", "\ud800"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a key"):
        parse_key(text)


def test_a_file_has_one_key_a_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"a\r\n b\ntext:\nnull:\nhex:0d")
    assert read_keys(file) == [b"a", b" b", b"", None, b"\r"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no line"),
        (b"a\n\nb\n", "line 2: empty"),
        (b"a\n\xff\n", "line 2: not UTF-8"),
        (b"hex:z\n", "line 1"),
        ("\ufeffa\nb\n".encode(), "line 1: begins with a byte order mark"),
        ("\ufeff".encode(), "line 1: begins with a byte order mark"),
        (b"a\rb\r", "line 1: holds a carriage return or a NUL"),
        ("a\nb\n".encode("utf-16-le"), "line 1: holds a carriage return or a NUL"),
    ],
)
def test_a_file_that_says_something_else_is_refused_with_its_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        read_keys(file)


def test_marks_that_a_program_leaves_are_keys_where_they_are_meant(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes("text:\ufeffa\n\ufeffb\ntext:c\rd\nhex:00\n".encode())
    assert read_keys(file) == ["\ufeffa".encode(), "\ufeffb".encode(), b"c\rd", b"\0"]
