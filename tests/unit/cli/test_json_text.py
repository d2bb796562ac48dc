"""JSON that is written fast is the JSON that Python's own encoder writes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.cli.output import indented

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=30
)


@given(values)
def test_any_value_is_written_as_pythons_encoder_writes_it(value: object) -> None:
    assert indented(value) == json.dumps(value, indent=2, ensure_ascii=False)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"groups": []},
        {"groups": [{"name": 'a"b', "offset": None, "to": "ä\n, {}"}, {}]},
        [{"a": 1, "b": {"c": [1, 2, {"d": None}]}}],
        ({"a": 1.5, "b": True},),
        [{"a": "},\n      {", "b": 1}, {"a": "},\\n      {"}],
        [{"a": 1}, {}],
        [{"a": [1]}, {"a": 2}],
        {"rows": [{"a": "x"}, {"a": None, "b": 2.5}], "deeper": [{"rows": [{"a": 1}, {"b": "}"}]}]},
    ],
)
def test_rows_nested_values_and_empty_ones_are_written_alike(value: object) -> None:
    assert indented(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        indented({"a": object()})
