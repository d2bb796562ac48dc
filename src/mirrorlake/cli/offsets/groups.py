"""``mirrorlake offsets … --groups``: what consumer groups of one cluster have committed."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from mirrorlake.cli.offsets.listing import unmet, write_whole
from mirrorlake.cli.offsets.moving import Manner, say_faults
from mirrorlake.cli.output import Row, print_json, print_note, print_table
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.errors import ConfigurationError

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.kafka.control.cluster import ClusterClient
    from mirrorlake.service.positions.files import Fault, FileFormat, PositionLine
    from mirrorlake.service.positions.group_offsets import GroupMove, WantedOffsets
    from mirrorlake.service.positions.starts import Goal

T = TypeVar("T")

LIST_COLUMNS = ("group", "topic", "partition", "offset", "metadata")
MOVE_COLUMNS = ("group", "topic", "partition", "before", "after", "action")


def show_groups(
    path: Path, cluster: str | None, wanted: "WantedOffsets", form: "FileFormat | None", file: Path | None
) -> int:
    """Shows what groups have committed, or writes it to a file.

    Args:
        path: of the configuration.
        cluster: by its name there; None where there is one.
        wanted: which of them.
        form: of a file; None shows a table.
        file: is there once it is whole; None is stdout. What could not be read has no line, and is said on stderr.

    Returns:
        0, or 1 where something could not be read, or something that was asked for is not there.
    """
    start_logs()
    config = load(path)
    from mirrorlake.service.positions.files import write_lines
    from mirrorlake.service.positions.group_offsets import find_groups, lines_of_groups

    found = ask(_at(config, cluster, lambda client: find_groups(client, wanted)))
    lines, unread = lines_of_groups(found, wanted)
    if not lines and not unread and (wanted.groups or wanted.topics or wanted.partitions):
        print("error: no offset is committed of what was asked for", file=sys.stderr)
        return 1
    missing = (
        []
        if unread
        else [
            *unmet("group", wanted.groups, (line.name for line in lines)),
            *unmet("topic", wanted.topics, (line.topic for line in lines)),
            *unmet("partition", wanted.partitions, (line.partition for line in lines)),
        ]
    )
    for each in missing:
        print(f"error: no offset is committed of {each}, of what was asked for", file=sys.stderr)
    if form is None:
        print_table([_list_row(each) for each in lines], LIST_COLUMNS)
    elif file is None:
        sys.stdout.write(write_lines(lines, form))
    else:
        write_whole(file, write_lines(lines, form))
    for each in unread:
        print(f"error: {each}", file=sys.stderr)
    return 1 if unread or missing else 0


def import_groups(
    path: Path,
    cluster: str | None,
    file: Path,
    form: "FileFormat",
    wanted: "WantedOffsets",
    manner: Manner,
    *,
    is_forced: bool,
) -> int:
    """Commits what a file says; `-` is stdin. Returns 0, or 1 where nothing, or not all, was committed."""
    start_logs()
    config = load(path)
    from mirrorlake.offsets import TopicPartition
    from mirrorlake.service.positions.files import Fault, read_lines

    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    lines, faults = read_lines(content, form, of_groups=True)
    if not lines and not faults:
        faults = [Fault(line=0, text="the file has no line that says a position")]

    async def asked(_: "ClusterClient") -> "tuple[list[PositionLine], list[Fault]]":
        return [
            each for each in lines if wanted.includes(each.name, TopicPartition(each.topic, each.partition))
        ], faults

    return ask(_at(config, cluster, lambda client: _move(client, asked, manner, str(file), is_forced)))


def reset_groups(
    path: Path, cluster: str | None, goal: "Goal", wanted: "WantedOffsets", manner: Manner, *, is_forced: bool
) -> int:
    """Commits one goal for all offsets that groups have. Returns 0, or 1 where nothing, or not all, was committed."""
    start_logs()
    config = load(path)
    from mirrorlake.service.positions.files import Fault
    from mirrorlake.service.positions.group_offsets import find_groups, lines_for

    async def asked(client: "ClusterClient") -> "tuple[list[PositionLine], list[Fault]]":
        found = await find_groups(client, wanted)
        lines, faults = await lines_for(client, found, wanted, goal)
        if not lines and not faults:
            faults = [Fault(line=0, text="no offset is committed of what was asked for")]
        return lines, faults

    return ask(_at(config, cluster, lambda client: _move(client, asked, manner, "", is_forced)))


async def _at(config: "Configuration", name: str | None, ask: "Callable[[ClusterClient], Awaitable[T]]") -> T:
    """Asks one cluster of the configuration.

    Raises:
        ConfigurationError: there is none of that name, or none was named and there are several.
    """
    from mirrorlake.kafka.control.cluster import ClusterClient

    clusters = {each.name: each for each in config.clusters}
    if name is None and len(clusters) != 1:
        known = ", ".join(sorted(clusters))
        raise ConfigurationError(f"{config.file} has several clusters", hint=f"give --cluster, one of {known}")
    chosen = next(iter(clusters)) if name is None else name
    if chosen not in clusters:
        raise ConfigurationError(
            f"there is no cluster {chosen} in {config.file}", hint=f"there are {', '.join(sorted(clusters))}"
        )
    async with ClusterClient(clusters[chosen].settings) as client:
        return await ask(client)


async def _move(
    client: "ClusterClient",
    asked: "Callable[[ClusterClient], Awaitable[tuple[list[PositionLine], list[Fault]]]]",
    manner: Manner,
    what: str,
    is_forced: bool,
) -> int:
    from mirrorlake.service.positions.group_offsets import commit_moves, judged_lines, look_at

    lines, faults = await asked(client)
    moves, more = judged_lines(lines, await look_at(client, lines), is_forced=is_forced) if lines else ([], [])
    if faults or more:
        say_faults([*faults, *more], what)
        return 1
    if manner.is_dry or not moves:
        _show(moves, manner, action=None)
        return 0
    if not manner.as_json:
        _show(moves, manner, action=None)
    if manner.asks:
        if not typer.confirm(f"commit {len(moves)} offset(s)?", err=True):
            return 1
        # Minutes may lie between: a group that has moved meanwhile is another question.
        again, more = judged_lines(lines, await look_at(client, lines), is_forced=is_forced)
        if again != moves:
            say_faults(more, what)
            print("error: groups have moved meanwhile: nothing was changed", file=sys.stderr)
            return 1
    done, left = await commit_moves(client, moves)
    if manner.as_json:
        _show(done, manner, action="committed")
    elif done:
        print_note(f"{len(done)} offset(s) committed, and read back")
    for move, why in left:
        print(f"error: group {move.group}, {move.partition}: {why}", file=sys.stderr)
    return 1 if left else 0


def _list_row(line: "PositionLine") -> Row:
    return {
        "group": line.name,
        "topic": line.topic,
        "partition": line.partition,
        "offset": line.offset,
        "metadata": line.metadata,
    }


def _show(moves: "Sequence[GroupMove]", manner: Manner, *, action: str | None) -> None:
    rows: list[Row] = [{**move.as_json(), "action": action or "commit"} for move in moves]
    if manner.as_json:
        print_json(rows)
    elif rows:
        print_table(rows, MOVE_COLUMNS)
    else:
        print_note("every group stands where it is to be: nothing is committed")
