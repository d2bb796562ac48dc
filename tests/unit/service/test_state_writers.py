"""Who writes the states of partitions: the table, and nobody else."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import mirrorlake
from mirrorlake.mirror.flush_clock import FlushClock
from mirrorlake.service.partition_state import PartitionState
from support.python_sources import parsed

PACKAGE = Path(mirrorlake.__file__).parent
WRITER = "service/state_table.py"
FIELDS = {field.name for field in fields(PartitionState)}
READERS = ("service", "verify", "cli")
"""Packages that can know a state; those below the service cannot import it."""


def changing_methods(kind: type) -> set[str]:
    """The public methods that assign to their object's fields, themselves or by a private one."""
    source = ast.parse(inspect.getsource(kind))
    methods = {node.name: node for node in ast.walk(source) if isinstance(node, ast.FunctionDef)}

    def changes(method: ast.FunctionDef) -> bool:
        return any(is_of(target, "self") for node in ast.walk(method) for target in assigned(node)) or any(
            changes(methods[called.attr])
            for node in ast.walk(method)
            if isinstance(node, ast.Call) and isinstance(called := node.func, ast.Attribute)
            if is_of(called, "self") and called.attr in methods and called.attr != method.name
        )

    return {name for name, method in methods.items() if not name.startswith("_") and changes(method)}


def assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement assigns to or deletes, also within tuples."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        yield from (each for each in ast.walk(target) if isinstance(each, ast.Attribute) and not is_read(each))


def is_read(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def is_of(node: ast.Attribute, name: str) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == name


CHANGING = changing_methods(PartitionState)
CHANGING_CLOCK = changing_methods(FlushClock)


def writes(module: Path) -> list[str]:
    found = []
    for node in ast.walk(parsed(module)):
        found += [
            f"line {target.lineno}: {ast.unparse(target)}"
            for target in assigned(node)
            if (target.attr in FIELDS and not is_of(target, "self")) or ".flush_clock." in ast.unparse(target)
        ]
        if isinstance(node, ast.Call) and isinstance(called := node.func, ast.Attribute):
            on_clock = called.attr in CHANGING_CLOCK and ast.unparse(called.value).endswith("flush_clock")
            on_state = called.attr in CHANGING and isinstance(called.value, ast.Name) and called.value.id != "self"
            # Other objects have methods of these names too; a state is always called one.
            if on_clock or (on_state and ast.unparse(called.value).endswith("state")):
                found.append(f"line {called.lineno}: {ast.unparse(called)}()")
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
            found.append(f"line {node.lineno}: setattr")
    return found


def imported(module: Path) -> set[Path]:
    """The modules of ours that a module imports by name, wherever in it."""
    names = [node.module for node in ast.walk(parsed(module)) if isinstance(node, ast.ImportFrom) and node.module]
    return {PACKAGE.parent / f"{name.replace('.', '/')}.py" for name in names}


def readers() -> list[Path]:
    """The modules that may be given a state: they import its class, or a module that may be given one."""
    modules = {module: imported(module) for package in READERS for module in (PACKAGE / package).rglob("*.py")}
    known = {PACKAGE / "service/partition_state.py"}
    while found := {module for module, others in modules.items() if others & known} - known:
        known |= found
    return sorted(known - {PACKAGE / WRITER, PACKAGE / "service/partition_state.py"})


def test_what_changes_a_state_is_known() -> None:
    changing = {
        "doubt_source",
        "failed",
        "lost_lease",
        "lost_source",
        "no_longer_waits",
        "saw_batch_bytes_max",
        "saw_progress",
        "saw_source",
        "saw_tail",
        "took",
    }
    assert changing == CHANGING
    assert {"answered", "moved", "saw_source"} <= CHANGING_CLOCK


def test_the_table_writes_states() -> None:
    assert len(writes(PACKAGE / WRITER)) > 10


@pytest.mark.parametrize("module", readers(), ids=lambda module: str(module.relative_to(PACKAGE)))
def test_nobody_but_the_table_writes_a_state(module: Path) -> None:
    assert writes(module) == []
