"""``mirrorlake failover plan`` and ``run``: what the sources still hold goes to their copies; what cannot is named."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mirrorlake.cli.failover.report import Section, of_groups, of_verdicts, show
from mirrorlake.cli.groups.sync import GroupsOptions, SyncPlan, planned, said
from mirrorlake.cli.run import copy_once
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.cli.verify import compare

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.failover.copies import CopyRow
    from mirrorlake.verify.verdict import Verdict

EXIT_DONE, EXIT_FAILED, EXIT_INCOMPLETE = 0, 1, 3
COLUMNS = (
    "name",
    "topic",
    "partition",
    "destination",
    "to",
    "source_end",
    "copied",
    "to_end",
    "missing",
    "newest",
    "state",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """Which mirrors, as given; none are all. ``level`` is how the copies are verified at the end.

    ``takes_groups`` is False where no consumer group is to be taken along.
    """

    mirrors: Sequence[str] = ()
    takes_over: bool = False
    takes_groups: bool = True
    level: str = "names"


def plan(path: Path, options: FailoverOptions, *, as_json: bool) -> int:
    """Prints how every copy stands, and every group; changes nothing.

    Returns:
        0 everything can be brought over, 1 something is not known or not to be trusted, 3 something cannot be had, or a
        copy is written to by others.
    """
    start_logs()
    whole = load(path)
    config = _between_clusters(whole, options.mirrors)
    rows = _read(config)
    groups = _groups(whole, config, rows, options, places=False)
    _show(_with_lives(rows), groups, None, as_json=as_json)
    return _code_of_plan(rows, groups)


def run(
    path: Path, options: FailoverOptions, *, asks: bool, as_json: bool, engine: "EngineBuilder | None" = None
) -> int:
    """Copies what the sources still hold, takes groups along, verifies, and says what is not there.

    1. Shows the plan, and asks.
    2. Mirrors whose source can be asked are copied up to its end, as by `run --once`; their ownership is released.
    3. Consumer groups are taken along, as by `groups sync`.
    4. The copies are verified, and everything is looked at once more.

    Returns:
        0 all is there and every group stands where it should, 1 not, 3 something cannot be had, a copy is written to by
        others or some groups are left, 4 another process serves a mirror.
    """
    start_logs()
    whole = load(path)
    config = _between_clusters(whole, options.mirrors)
    before = _read(config)
    if asks:
        groups = _groups(whole, config, before, options, places=False)
        _show(_with_lives(before), groups, None, as_json=False)
        if not typer.confirm("copy what is left, and take the groups along?", err=True):
            return EXIT_FAILED
    if (to_copy := _to_copy(config, before)) is not None:
        code = copy_once(to_copy, shown_as="copying", takes_over=options.takes_over, engine=engine)
        if code not in (EXIT_DONE, EXIT_INCOMPLETE):
            return code
    after = _read(config)
    groups = _groups(whole, config, after, options, places=True)
    verdicts = _verify(config, after, options, engine)
    _show(after, groups, verdicts, as_json=as_json)
    if any(each.result in ("differs", "failed") for each in verdicts):
        return EXIT_FAILED
    return _code_of_plan(after, groups, behind=EXIT_INCOMPLETE)


def _between_clusters(config: "Configuration", mirrors: Sequence[str]) -> "Configuration":
    from mirrorlake.config.asked import check_asked
    from mirrorlake.service.failover.copies import between_clusters

    check_asked(config, mirrors=mirrors)
    return between_clusters(config, mirrors)


def _read(config: "Configuration") -> "list[CopyRow]":
    from mirrorlake.service.failover.reading import read_copies

    return ask(read_copies(config))


def _with_lives(rows: "Sequence[CopyRow]") -> "list[CopyRow]":
    from mirrorlake.clock import SystemClock
    from mirrorlake.service.failover.reading import with_lives

    return ask(with_lives(rows, clock=SystemClock()))


def _reachable(config: "Configuration", rows: "Sequence[CopyRow]") -> "Configuration | None":
    """Returns the configuration with mirrors of which something can still be read; None where there are none."""
    from mirrorlake.service.failover.copies import CopyState, with_mirrors

    of_source = {row.row.target.mirror.name for row in rows if row.state in (CopyState.COMPLETE, CopyState.BEHIND)}
    mirrors = [mirror for mirror in config.enabled_mirrors if mirror.name in of_source]
    return with_mirrors(config, mirrors) if mirrors else None


def _to_copy(config: "Configuration", rows: "Sequence[CopyRow]") -> "Configuration | None":
    """Returns the configuration with mirrors that are to run; None where there are none.

    One that was failed over to, as its copies are written to, would only park those; it runs where others are behind.
    """
    from mirrorlake.service.failover.copies import CopyState, with_mirrors

    states: dict[str, set[CopyState]] = {}
    for row in rows:
        states.setdefault(row.row.target.mirror.name, set()).add(row.state)
    left = {n for n, each in states.items() if CopyState.WRITTEN_TO in each and CopyState.BEHIND not in each}
    reachable = _reachable(config, rows)
    mirrors = [] if reachable is None else [each for each in reachable.mirrors if each.name not in left]
    return with_mirrors(config, mirrors) if mirrors else None


def _groups(
    whole: "Configuration",
    config: "Configuration",
    rows: "Sequence[CopyRow]",
    options: FailoverOptions,
    *,
    places: bool,
) -> SyncPlan | None:
    """Returns what is done about groups of sources that can be asked; None where there are none, or none is meant.

    All mirrors of the file are looked at, as others of them may copy to the same partitions.
    """
    reachable = _reachable(config, rows) if options.takes_groups else None
    if reachable is None:
        return None
    names = [mirror.name for mirror in reachable.enabled_mirrors]
    return planned(whole, GroupsOptions(mirrors=names), places=places)


def _verify(
    config: "Configuration", rows: "Sequence[CopyRow]", options: FailoverOptions, engine: "EngineBuilder | None"
) -> "list[Verdict]":
    from mirrorlake.service.failover.copies import CopyState

    there = [row.row for row in rows if row.state in (CopyState.COMPLETE, CopyState.BEHIND)]
    return compare(config, there, level=options.level, engine=engine) if there else []


def _code_of_plan(rows: "Sequence[CopyRow]", groups: SyncPlan | None, *, behind: int = EXIT_DONE) -> int:
    """Returns the exit code of how copies and groups stand; ``behind`` is that of a copy which is behind."""
    from mirrorlake.service.failover.copies import CopyState

    by_state = {
        CopyState.COMPLETE: EXIT_DONE,
        CopyState.BEHIND: behind,
        CopyState.SOURCE_GONE: EXIT_INCOMPLETE,
        CopyState.WRITTEN_TO: EXIT_INCOMPLETE,
        CopyState.PARKED: EXIT_FAILED,
        CopyState.UNKNOWN: EXIT_FAILED,
    }
    codes = {by_state[row.state] for row in rows}
    if groups is not None:
        codes.add(groups.exit_code)
    return next((code for code in (EXIT_FAILED, EXIT_INCOMPLETE) if code in codes), EXIT_DONE)


def remarks(rows: "Sequence[CopyRow]", *, is_after: bool) -> list[str]:
    """Returns what must be said beside the table, each once."""
    from mirrorlake.service.failover.copies import CopyState

    found: dict[str, None] = {}
    written_to = Counter(row.row.target.mirror.name for row in rows if row.is_others)
    for name, count in written_to.items():
        found[
            f"mirror {name}: other producers have written to {count} of its copies since; keep them: `mirrorlake "
            "failback plan` says how what they wrote goes back"
        ] = None
    for row in rows:
        name = row.row.target.mirror.name
        if row.state is CopyState.SOURCE_GONE:
            found[
                f"mirror {name}: its source cannot be asked, so what it held beyond `copied` cannot be had, nor is it "
                "known how much that is; groups stand where they were taken along last"
            ] = None
        if row.state is CopyState.BEHIND and is_after:
            found[f"mirror {name}: its source has more by now: something still writes there"] = None
        if row.owner and not is_after:
            found[_of_owner(row)] = None
    return list(found)


def _of_owner(row: "CopyRow") -> str:
    """Returns what must be said of a mirror that its owner has not given back."""
    from mirrorlake.service.failover.copies import Life

    mirror = f"mirror {row.row.target.mirror.name}"
    if row.life is Life.ANSWERS:
        return f"{mirror} is served by {row.owner}: end that process first; `failover run --take-over` ends it as well"
    kept = f"{mirror} was not given back by {row.owner}"
    if row.life is Life.SILENT:
        return f"{kept}, which gives no sign of life: `failover run` takes it over"
    return f"{kept}, and whether that process is alive is not known: end it first"


def _show(
    rows: "Sequence[CopyRow]", groups: SyncPlan | None, verdicts: "Sequence[Verdict] | None", *, as_json: bool
) -> None:
    sections = [Section("copies", "copies", COLUMNS, [row.as_json() for row in rows]), of_groups(groups)]
    if verdicts is not None:
        sections.append(of_verdicts(verdicts))
    notes = remarks(rows, is_after=verdicts is not None) + ([] if groups is None else said(groups))
    show(sections, remarks=notes, as_json=as_json)
