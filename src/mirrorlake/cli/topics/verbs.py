"""``topics plan``, ``diff`` and ``apply``."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mirrorlake.cli.output import print_json, print_note, print_table
from mirrorlake.cli.start import ask, load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.topics.sync.plan import TopicPlan

COLUMNS = ("name", "topic", "destination", "to", "what", "source", "found", "wanted", "action", "note")
DONE_COLUMNS = (*COLUMNS[:-1], "result", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command is about: a file, and some of its mirrors; all where none is named."""

    config: Path
    mirrors: Sequence[str] = ()


def plan(asked: Asked, *, as_json: bool) -> int:
    """Prints everything that would be done, and what differs beside; returns 1 where something is refused or unknown.

    Changes nothing.
    """
    found = _planned(_loaded(asked), asked)
    _show(found, COLUMNS, as_json=as_json)
    return _code(found)


def diff(asked: Asked, *, as_json: bool) -> int:
    """Prints what differs; returns 1 where anything does, or is not known."""
    found = _planned(_loaded(asked), asked)
    _show(found, COLUMNS, as_json=as_json)
    return 1 if found.all_rows else 0


def apply(asked: Asked, *, asks: bool, as_json: bool) -> int:
    """Shows what is to be done, does it, and reads it back; returns 1 where some of it is not done, refused or unknown.

    What was not shown is not done: where somebody has to say yes first, all is read again then.
    """
    config = _loaded(asked)
    found = _planned(config, asked)
    if not found.all_acts:
        _show(found, COLUMNS, as_json=as_json)
        return _code(found)
    if not as_json:
        _show(found, COLUMNS, as_json=False)
    if asks:
        if not typer.confirm(f"do {len(found.all_acts)} of these?", err=True):
            return 1
        found = _planned(config, asked, shown=found)
    from mirrorlake.topics.sync.applying import apply_topics

    done = _run(lambda clients: apply_topics(config, clients, found, _names(asked)))
    _show(done, DONE_COLUMNS, as_json=as_json)
    return 1 if done.undone or done.unseen else _code(done)


def _loaded(asked: Asked) -> "Configuration":
    from mirrorlake.config.asked import check_asked

    start_logs()
    config = load(asked.config)
    check_asked(config, mirrors=asked.mirrors)
    return config


def _names(asked: Asked) -> Sequence[str] | None:
    return asked.mirrors or None


def _planned(config: "Configuration", asked: Asked, *, shown: "TopicPlan | None" = None) -> "TopicPlan":
    from mirrorlake.topics.sync.plan import plan_topics

    found = _run(lambda clients: plan_topics(config, clients, _names(asked)))
    return found if shown is None else found.as_shown(shown)


def _run(work: "Callable[[WorkerCache], Awaitable[TopicPlan]]") -> "TopicPlan":
    from mirrorlake.destinations.connections import WorkerCache

    async def bounded() -> "TopicPlan":
        clients = WorkerCache()
        try:
            return await work(clients)
        finally:
            await clients.close()

    return ask(bounded())


def _code(found: "TopicPlan") -> int:
    return 1 if any(row.is_open for row in found.all_rows) else 0


def _show(found: "TopicPlan", columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json([row.as_json() for row in found.all_rows])
        return
    if found.all_rows:
        print_table([row.as_json() for row in found.all_rows], columns)
    if found.unseen:
        print_note(f"{found.unseen} act(s) are new since you were asked, and were not done: plan again")
    elif not found.all_rows:
        print_note(f"{found.topics} destination topic(s), and nothing differs")
    elif found.are_only_reported:
        print_note("settings, partitions and ACLs with action report are left as they are: `sync` of the destination")
