"""EDN as configurations use it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config.imports.draft import ImportRefusedError
from mirrorlake.config.imports.edn import DEPTH_MAX, Node, read_edn

TEXT = """; a comment with a } in it
{:groups [{:enabled true, :name "a \\"b\\" \\u00e9\\n"} nil]
 ; another
 :server {:port 9090} #_ {:gone [1 2]} :ratio -1.5 :big 12N
 "text key" :word/with-space
 :set #{1} :list (x y) :when #inst "2026-01-01" :letter \\a}
"""


def plain(node: Node) -> object:
    """Returns a value without its lines."""
    if isinstance(node.value, dict):
        return {key: plain(each) for key, each in node.value.items()}
    return [plain(each) for each in node.value] if isinstance(node.value, list) else node.value


def test_values_of_every_kind_are_read() -> None:
    assert plain(read_edn(TEXT)) == {
        "groups": [{"enabled": True, "name": 'a "b" é\n'}, None],
        "server": {"port": 9090},
        "ratio": -1.5,
        "big": 12,
        "text key": "word/with-space",
        "set": [1],
        "list": ["x", "y"],
        "when": "2026-01-01",
        "letter": "a",
    }


def test_a_setting_has_the_line_of_its_key() -> None:
    root = read_edn("{:a\n 1\n :b [\n2]}").value
    assert isinstance(root, dict)
    assert (root["a"].line, root["b"].line) == (1, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it holds no value"),
        ("; nothing", "it holds no value"),
        ("#_ 1", "it holds no value"),
        ("{:a 1", "line 1: what begins here does not end"),
        ("{:a\n[1 }", "line 2: `}` closes `[` of line 2"),
        ("]", "line 1: `]` closes nothing"),
        ("{:a}", "line 1: the mapping that begins here has a key without a value"),
        ("{:a 1\n:a 2}", "line 2: `a` is there twice"),
        ("{[1] 2}", "line 1: a key must be a keyword or a text"),
        ('{:a\n"b}', "line 2: no EDN: a text without its closing quote"),
        ('{:a "\\x"}', "line 1: no EDN: `\\x` in a text"),
        ("1\n2", "line 2: something follows the configuration"),
        ("#_", "line 1: what begins here does not end"),
        ("[" * 100, f"line 1: nested deeper than {DEPTH_MAX} levels"),
    ],
)
def test_what_is_no_edn_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(ImportRefusedError) as caught:
        read_edn(text)
    assert str(caught.value).startswith(reason)


LEAVES = st.none() | st.booleans() | st.integers(-999, 999) | st.text('ab"\\\n;{', max_size=4)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
)


def written(value: object, blank: str) -> str:
    """Returns a value as EDN, with any text between its parts that means nothing."""
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case list():
            return f"[{blank}{blank.join(written(each, blank) for each in value)}{blank}]"
        case dict():
            pairs = (f":{key}{blank}{written(each, blank)}" for key, each in value.items())
            return f"{{{blank}{blank.join(pairs)}{blank}}}"
    raise AssertionError(value)


@given(value=VALUES, blank=st.sampled_from([" ", ", ", "\n", " ; c }\n", " #_ [1 {}] "]))
def test_what_is_written_is_read(value: object, blank: str) -> None:
    assert plain(read_edn(written(value, blank))) == value


@given(st.text('{}[]()#_:"\\ab1 ;\n', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ImportRefusedError):
        read_edn(text)
