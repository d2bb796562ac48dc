"""Which differences between a view and its source count."""

from collections.abc import Mapping

import pytest

from mirrorlake.verify.cleaned import Trace
from mirrorlake.verify.view_verification import differences

A, B = 1, 2  # hashes of two keys


def trace(offset: int, key: int, content: int = 7) -> Trace:
    return Trace(offset=offset, record_hash=content * 1000 + offset, key_hash=key, is_tombstone=False)


@pytest.mark.parametrize(
    ("source", "copy", "later", "expected"),
    [
        ([trace(1, A)], [trace(1, A)], {}, []),
        ([trace(1, A)], [trace(1, A, content=8)], {}, [(1, "different")]),
        ([trace(1, A), trace(2, B)], [trace(2, B)], {}, [(1, "missing")]),
        ([trace(5, A)], [trace(1, A)], {A: 9}, [(5, "missing")]),
        ([], [trace(1, A)], {}, [(1, "extra")]),
        ([], [trace(1, A)], {A: 9}, []),
        ([], [trace(1, A), trace(2, B)], {A: 9}, [(2, "extra")]),
    ],
    ids=["equal", "changed", "missing", "stale", "extra", "cleaned since", "one of two cleaned since"],
)
def test_a_difference_counts_unless_the_cleaner_explains_it(
    source: list[Trace], copy: list[Trace], later: Mapping[int, int], expected: list[tuple[int, str]]
) -> None:
    asked: list[frozenset[int]] = []

    def latest_past(keys: frozenset[int]) -> Mapping[int, int]:
        asked.append(keys)
        return {key: offset for key, offset in later.items() if key in keys}

    assert differences(tuple(source), tuple(copy), latest_past) == expected
    only_in_copy = {t.key_hash for t in copy} - {t.key_hash for t in source}
    assert asked == ([frozenset(only_in_copy)] if only_in_copy else [])
