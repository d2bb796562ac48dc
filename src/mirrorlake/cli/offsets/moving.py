"""``mirrorlake offsets import`` and ``reset``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mirrorlake.cli.output import Row, print_json, print_note, print_table
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.errors import CommandRefusedError, SupersededError

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.service.positions.files import Fault, FileFormat
    from mirrorlake.service.positions.listing import Wanted
    from mirrorlake.service.positions.moves import Move
    from mirrorlake.service.positions.moving import Moved
    from mirrorlake.service.positions.planning import Planned
    from mirrorlake.service.positions.starts import Goal

COLUMNS = ("name", "topic", "partition", "destination", "before", "after", "action", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a move is made: ``is_dry`` ends after the plan, ``asks`` before anything is changed."""

    is_dry: bool
    asks: bool
    as_json: bool


def import_file(path: Path, file: Path, form: "FileFormat", wanted: "Wanted", manner: Manner) -> int:
    """Moves positions to what a file says; `-` is stdin. Returns 0, or 1 where nothing, or not all, was moved."""
    start_logs()
    config = load(path)
    from mirrorlake.service.positions.planning import plan_of_file

    wanted.check(config)
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    return _move(config, ask(plan_of_file(config, content, form, wanted)), manner, what=str(file))


def reset(path: Path, goal: "Goal", wanted: "Wanted", manner: Manner) -> int:
    """Moves positions to one goal. Returns 0, or 1 where nothing, or not all, was moved."""
    start_logs()
    config = load(path)
    from mirrorlake.service.positions.planning import plan_of_goal

    wanted.check(config)
    return _move(config, ask(plan_of_goal(config, goal, wanted)), manner, what="")


def _move(config: "Configuration", planned: "Planned", manner: Manner, *, what: str) -> int:
    if planned.faults:
        say_faults(planned.faults, what)
        return 1
    moves = planned.moves
    if manner.is_dry or not moves:
        _show(moves, manner, action=None)
        return 0
    if not manner.as_json:
        _show(moves, manner, action=None)
    if manner.asks and not typer.confirm(f"move {len(moves)} position(s)?", err=True):
        return 1
    from mirrorlake.service.positions.planning import carry_out

    moved = ask(carry_out(config, planned))
    if manner.as_json:
        _show(moved.done, manner, action="moved")
    elif moved.done:
        print_note(f"{len(moved.done)} position(s) moved, and read back")
    if moved.error is not None:
        _say_left(moves, moved)
        raise moved.error
    return 0


def _show(moves: "Sequence[Move]", manner: Manner, *, action: str | None) -> None:
    rows: list[Row] = [move.as_json() if action is None else {**move.as_json(), "action": action} for move in moves]
    if manner.as_json:
        print_json(rows)
    elif rows:
        print_table(rows, COLUMNS)
    else:
        print_note("every position stands where it is to be: nothing is moved")


def say_faults(faults: "Sequence[Fault]", what: str) -> None:
    """Says every fault on stderr, by its line; ``what`` is the file that has it, empty for none."""
    for fault in sorted(faults, key=lambda each: each.line):
        print(f"error: {f'{what}, ' if what and fault.line else ''}{fault}", file=sys.stderr)
    print(f"hint: {len(faults)} fault(s); nothing was changed", file=sys.stderr)


def _say_left(moves: "Sequence[Move]", moved: "Moved") -> None:
    if isinstance(moved.error, CommandRefusedError | SupersededError) and not moved.done:
        return
    for move in moves:
        if move not in moved.done:
            where = f"{move.row.target.mirror.name} {move.row.target.source}"
            print(f"error: {where}: not known to be moved to {move.after}", file=sys.stderr)
