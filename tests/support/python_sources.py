"""Python files as trees, and what tests want to know of them."""

import ast
import gc
from functools import cache
from pathlib import Path


def parsed(path: Path) -> ast.Module:
    """The file's tree, built while the garbage collector holds still.

    CPython 3.11 counts the depth of a tree under construction in one place for the whole interpreter. Where a
    collection in the middle runs a finalizer that parses too, as a traceback does that somebody prints, the count
    is off in the end: "SystemError: AST constructor recursion depth mismatch" (CPython issue 106905).
    """
    text = path.read_text(encoding="utf-8")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()


@cache
def function_decorators(path: Path) -> dict[str, tuple[str, ...]]:
    """Every function of the file by name, with its decorators as text."""
    functions = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef))
    return {each.name: tuple(ast.unparse(decorator) for decorator in each.decorator_list) for each in functions}
