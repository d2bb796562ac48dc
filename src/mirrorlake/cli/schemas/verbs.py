"""``schemas plan``, ``diff``, ``apply``, ``ls`` and ``check``."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.markup import escape

from mirrorlake.cli.output import error_console, print_json, print_note, print_table
from mirrorlake.cli.start import ask, load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.schemas.plan import SubjectPlan
    from mirrorlake.service.subjects.finding import RegistryClients, SubjectWay
    from mirrorlake.service.subjects.planning import WayPlan
    from mirrorlake.service.subjects.record_ids import WayIds
    from mirrorlake.service.subjects.rows import Row

ACTION_COLUMNS = ("name", "destination", "registry", "subject", "action", "version", "id", "schema", "value", "note")
HISTORY_COLUMNS = ("subject", "source", "source_id", "schema", "destination", "destination_id", "to", "deleted")
SUBJECT_COLUMNS = (
    *("name", "destination", "subject", "to", "versions", "versions_there"),
    *("level", "level_there", "mode_there", "state"),
)
RECORD_COLUMNS = ("name", "destination", "topic", "side", "known", "null", "short", "not-framed", "guid", "absent")
UNREADABLE_COLUMNS = ("unreadable_partition", "unreadable_offset")
ID_COLUMNS = ("name", "destination", "id", "subjects", "destination_id", "state")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command is about: a file, some of its mirrors and some of their subjects; all where none is named."""

    config: Path
    mirrors: Sequence[str] = ()
    subjects: Sequence[str] = ()


def plan(asked: Asked, *, as_json: bool) -> int:
    """Prints every change of a registry in order; returns 1 where something is refused or unknown. Changes nothing."""
    found = _planned(_loaded(asked), asked)
    _show(found, as_json=as_json)
    return _code(found)


def diff(asked: Asked, *, as_json: bool) -> int:
    """Prints both histories of all subjects that differ; returns 1 where any does, or is not known."""
    from mirrorlake.service.subjects.rows import history_rows, open_rows

    found = _planned(_loaded(asked), asked)
    differing = [each for way in found for each in _plans(way) if each.actions or each.refusal]
    rows, unread = history_rows(differing), [row for way in found for row in open_rows(way)]
    if as_json:
        print_json([*rows, *unread])
    else:
        _print_rows(rows, HISTORY_COLUMNS)
        _print_rows(unread, ACTION_COLUMNS)
        if not rows and not unread:
            _print_equal(found)
        levels = [each for each in differing if each.source.level != each.destination.level]
        for each in levels:
            print_note(f"{each.destination.subject}: level {each.source.level} / {each.destination.level}")
    return 1 if differing or any(way.failures for way in found) else 0


def ls(asked: Asked, *, as_json: bool) -> int:
    """Prints the subjects of mirrors, and how both sides stand; returns 1 where something could not be found out."""
    from mirrorlake.service.subjects.rows import open_rows, subject_rows

    found = _planned(_loaded(asked), asked)
    rows = [row for way in found for row in subject_rows(way)]
    unread = [row for way in found if way.failures for row in open_rows(way) if row["action"] == "unknown"]
    if as_json:
        print_json([*rows, *unread])
    else:
        _print_rows([*rows, *unread], SUBJECT_COLUMNS)
        _print_notes(found)
    return 1 if unread or any(each.is_open for way in found for each in way.damage) else 0


def apply(asked: Asked, *, asks: bool, as_json: bool) -> int:
    """Makes the changes that `plan` shows, and reads them back; returns 1 where some are not made, or refused.

    Of what is refused nothing is changed. What was not shown is not done: all is read again before the first change.
    """
    config = _loaded(asked)
    found = _planned(config, asked)
    if not _actions(found):
        _show(found, as_json=as_json)
        return _code(found)
    if not as_json:
        _show(found, as_json=False)
    if asks and not typer.confirm(f"make {len(_actions(found))} change(s)?", err=True):
        return 1
    done = _run(lambda registries: _applied(config, asked, found, registries))
    if done is None:
        print_note("the registries have changed since you were asked, and nothing was done: plan again")
        return 1
    _show_done(found, done, as_json=as_json)
    return _code(done)


def _show_done(found: "Sequence[WayPlan]", done: "Sequence[WayPlan]", *, as_json: bool) -> None:
    """Prints what was done; where something went wrong, that, and not how many changes were made."""
    from mirrorlake.service.subjects.rows import action_rows, open_json, open_rows

    if as_json:
        print_json([row for way in found for row in action_rows(way)] + [row for way in done for row in open_json(way)])
    elif any(way.failures for way in done):
        _print_rows([row for way in done for row in open_rows(way)], ACTION_COLUMNS)
        print_note("some changes may have been made: `schemas plan` shows what is left")
    else:
        print_note(f"{len(_actions(found))} change(s) made and read back")


def check(asked: Asked, *, as_json: bool) -> int:
    """Prints what the records of topics carry, and who can read it; returns 1 where somebody cannot."""
    from mirrorlake.service.subjects.rows import failure_rows, id_rows, record_rows

    found = _checked(_loaded(asked), asked)
    records, ids, failures = (
        [row for way in found for row in rows_of(way)] for rows_of in (record_rows, id_rows, failure_rows)
    )
    if as_json:
        print_json([*records, *ids, *failures])
    else:
        if records:
            print_table(records, (*RECORD_COLUMNS, *UNREADABLE_COLUMNS), title="records by what names their schema")
        if ids:
            print_table(ids, ID_COLUMNS, title="schema ids of the records")
        _print_rows(failures, ("name", "destination", "error"))
        if not (records or failures):
            print_note("there are no records")
    return 1 if any(way.is_open for way in found) else 0


def _checked(config: "Configuration", asked: Asked) -> "list[WayIds]":
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.service.subjects.record_ids import find_record_ids

    async def checked(registries: "RegistryClients") -> "list[WayIds]":
        ways = await _ways(config, asked, registries)
        clients = WorkerCache()
        try:
            return await find_record_ids(config, clients, registries, ways)
        finally:
            await clients.close()

    return _run(checked)


async def _applied(
    config: "Configuration", asked: Asked, shown: "Sequence[WayPlan]", registries: "RegistryClients"
) -> "list[WayPlan] | None":
    """Makes the changes; returns None, having made none, where they are no longer those that were shown."""
    from mirrorlake.service.subjects.planning import apply_way, plan_ways

    found = await plan_ways(await _ways(config, asked, registries), registries)
    if _actions(found) != _actions(shown):
        return None
    return [await apply_way(way, registries) for way in found]


def _loaded(asked: Asked) -> "Configuration":
    from mirrorlake.config.asked import check_asked

    start_logs()
    config = load(asked.config)
    check_asked(config, mirrors=asked.mirrors)
    return config


async def _ways(config: "Configuration", asked: Asked, registries: "RegistryClients") -> "list[SubjectWay]":
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.service.subjects.finding import find_subjects

    clients = WorkerCache()
    try:
        return await find_subjects(
            config, clients, registries, mirrors=asked.mirrors or None, subjects=asked.subjects or None
        )
    finally:
        await clients.close()


def _planned(config: "Configuration", asked: Asked) -> "list[WayPlan]":
    from mirrorlake.service.subjects.planning import plan_ways

    async def planned(registries: "RegistryClients") -> "list[WayPlan]":
        return await plan_ways(await _ways(config, asked, registries), registries)

    found = _run(planned)
    for damage in dict.fromkeys(each for way in found for each in way.damage):
        error_console().print(f"[yellow]warning[/] archived schemas are damaged: {escape(damage.text)}")
    return found


def _run(work: "Callable[[RegistryClients], Awaitable[T]]") -> T:
    from mirrorlake.service.subjects.finding import RegistryClients

    async def bounded() -> T:
        registries = RegistryClients()
        try:
            return await work(registries)
        finally:
            await registries.close()

    return ask(bounded())


def _plans(way: "WayPlan") -> "Sequence[SubjectPlan]":
    return way.plan.plans if way.plan else ()


def _actions(found: "Sequence[WayPlan]") -> "list[object]":
    return [(way.way.mirror, way.way.destination, action) for way in found for action in way.actions]


def _code(found: "Sequence[WayPlan]") -> int:
    return 1 if any(way.is_open for way in found) else 0


def _show(found: "Sequence[WayPlan]", *, as_json: bool) -> None:
    from mirrorlake.service.subjects.rows import action_rows, history_rows, open_json, open_rows

    if as_json:
        print_json([row for way in found for row in (*action_rows(way), *open_json(way))])
        return
    rows = [row for way in found for row in (*action_rows(way), *open_rows(way))]
    histories = history_rows([each for way in found for each in _plans(way) if each.refusal])
    _print_rows(rows, ACTION_COLUMNS)
    if histories:
        print_table(histories, HISTORY_COLUMNS, title="histories side by side")
    if not rows:
        _print_equal(found)
    else:
        _print_notes(found)


def _print_rows(rows: "Sequence[Row]", columns: Sequence[str]) -> None:
    if rows:
        print_table(rows, columns)


def _print_equal(found: "Sequence[WayPlan]") -> None:
    subjects = sum(len(_plans(way)) for way in found)
    print_note(f"{subjects} subject(s), and nothing differs")
    _print_notes(found)


def _print_notes(found: "Sequence[WayPlan]") -> None:
    for way in found:
        for each in _plans(way):
            if not each.source.versions:
                print_note(f"subject {each.source.subject} is not at registry {way.way.schemas.source.name}")
        for note in way.way.notes:
            print_note(f"mirror {way.way.mirror}: {note}")
