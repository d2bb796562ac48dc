"""What the tests about our own sources read, they read also while garbage is collected."""

import ast
from pathlib import Path

from support.python_sources import function_decorators, parsed

PARSES = 10
LINES = 500
"""So many that the collector would set in before a tree is whole."""


class ParsesAtItsEnd:
    """Garbage of the kind that prints a traceback when it is found: that parses, at another depth."""

    def __init__(self) -> None:
        self._itself = self

    def __del__(self) -> None:
        self.parse(depth=5)

    def parse(self, *, depth: int) -> None:
        if depth > 0:
            self.parse(depth=depth - 1)
        else:
            ast.parse("one + two")


def test_a_file_is_parsed_while_garbage_parses_too(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("one = two(three + 4) * five[6]\n" * LINES)
    for _ in range(PARSES):
        for _ in range(3):
            ParsesAtItsEnd()
        assert len(parsed(file).body) == LINES


def test_functions_are_found_with_their_decorators(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text("@one\n@two.three(4)\ndef first(): ...\n\nclass Some:\n    def second(self): ...\n")

    assert function_decorators(file) == {"first": ("one", "two.three(4)"), "second": ()}
