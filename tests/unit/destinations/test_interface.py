"""Callers know sinks by their protocol alone."""

import ast
from pathlib import Path

import mirrorlake
from support.python_sources import parsed

PACKAGE = Path(mirrorlake.__file__).parent


def test_nobody_asks_what_kind_of_sink_it_is() -> None:
    asked = [
        f"{module.relative_to(PACKAGE)}:{node.lineno}"
        for module in PACKAGE.rglob("*.py")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and any(isinstance(kind, ast.Name) and kind.id.endswith("Sink") for kind in ast.walk(node.args[1]))
    ]
    assert asked == []
