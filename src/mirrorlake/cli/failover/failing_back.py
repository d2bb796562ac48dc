"""``mirrorlake failback plan`` and ``run``: what the copies gained goes back to where they were copied from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mirrorlake.cli.failover.report import Section, of_groups, of_verdicts, show
from mirrorlake.cli.groups.sync import GroupsOptions, SyncPlan, planned, said
from mirrorlake.cli.run import copy_once
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.cli.verify import compare

if TYPE_CHECKING:
    from mirrorlake.errors import MirrorlakeError
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.failover.turning import Turned
    from mirrorlake.service.failover.way_back import BackRow
    from mirrorlake.service.failover.writers import Appended
    from mirrorlake.service.status import StatusRow
    from mirrorlake.verify.verdict import Verdict

EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED = 0, 1, 3
COLUMNS = (
    *("name", "topic", "partition", "destination", "to", "source_end", "old_end", "to_copy", "divergence"),
    *("unreplicated", "state"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackOptions:
    """Which mirrors, as given; none are all. ``from_cluster`` is needed where one copies to several clusters.

    ``takes_groups`` is False where no consumer group is to be taken along.
    """

    mirrors: Sequence[str] = ()
    from_cluster: str = ""
    takes_over: bool = False
    takes_groups: bool = True


def plan(path: Path, options: FailbackOptions, *, as_json: bool, engine: "EngineBuilder | None" = None) -> int:
    """Prints what goes back, from where on each partition has diverged, and what must be decided; changes nothing.

    Where the newest records differ, all records that both sides hold are compared, to find the first that does.

    Returns:
        0 all can go back, 1 something is refused or not known, 3 somebody must decide about a partition.
    """
    start_logs()
    rows = _read(_turned(path, options), engine).rows
    _show(rows, None, None, as_json=as_json)
    return _code(rows)


def run(
    path: Path, options: FailbackOptions, *, asks: bool, as_json: bool, engine: "EngineBuilder | None" = None
) -> int:
    """Copies back what can go back, takes groups along, and compares every record; returns the exit code.

    1. Shows the plan, and asks. Who wrote to the old source before is accepted there, where all of it is in the copy.
    2. Copies up to the ends, as by `run --once`, by mirrors named as the file's with ``-back`` behind. A partition that
       has diverged is left as it is.
    3. Consumer groups are taken along, as by `groups sync`; those that stand further at the old source stay there.
    4. Every record of both sides is compared. Where they are equal, who wrote to the copy since is accepted there, so
       that the mirror itself continues.

    Returns:
        0 both sides are equal and every group stands where it should, 1 not, 3 somebody must decide about a partition
        or some groups are left, 4 another process serves a mirror.
    """
    start_logs()
    from mirrorlake.service.failover.way_back import WayBack

    turned = _turned(path, options)
    config = turned.config
    before = _read(turned, engine)
    if asks:
        _show(before.rows, None, None, as_json=False)
        if not typer.confirm("copy this back?", err=True):
            return EXIT_FAILED
    if all(row.way is WayBack.REFUSED for row in before.rows):
        _show(before.rows, None, None, as_json=as_json)
        return EXIT_FAILED
    served = turned.to_serve
    ask(_accept_before(before))
    code = copy_once(served, shown_as="copying back", takes_over=options.takes_over, engine=engine)
    if code not in (EXIT_DONE, EXIT_UNDECIDED):
        return code
    after = _read(turned, engine).rows
    there = {number: row.row for number, row in enumerate(after) if row.row.error is None}
    appended = ask(_appended_at_copies(there))
    groups = planned(served, GroupsOptions(), places=True) if options.takes_groups else None
    verdicts = compare(config, [*there.values()], level="records", engine=engine) if there else []
    equal = {n: there[n] for n, verdict in zip(there, verdicts, strict=True) if _is_equal(verdict)}
    errors = ask(_accept_after(there, equal, appended))
    _show(after, groups, verdicts, as_json=as_json, remarks=[str(each) for each in errors])
    if errors or len(equal) < len(there):
        return EXIT_FAILED
    groups_code = EXIT_DONE if groups is None else groups.exit_code
    return max(_code(after), groups_code, key=(EXIT_DONE, EXIT_UNDECIDED, EXIT_FAILED).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """How every partition stands on its way back.

    ``accepted`` are the rows, by number, that are refused for nothing but producers all of whose records are in the
    copy; ``appended`` is what the leaders at the old source knew of their writers before that was looked at.
    """

    rows: "list[BackRow]"
    accepted: "Mapping[int, StatusRow]"
    appended: "Appended"


def _is_equal(verdict: "Verdict") -> bool:
    return verdict.result not in ("differs", "failed")


async def _accept_before(found: _Found) -> None:
    """Has the mirrors of the way back know who wrote to the old source.

    Raises:
        MirrorlakeError: that could not be written; nothing is copied.
    """
    from mirrorlake.clock import SystemClock
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.service.failover.writers import accept_all, of_destinations

    clients = WorkerCache()
    try:
        accepted = of_destinations(found.accepted, found.appended)
        for error in await accept_all(accepted, clients, clock=SystemClock(), is_begun=False):
            raise error
    finally:
        await clients.close()


async def _appended_at_copies(rows: "Mapping[int, StatusRow]") -> "Appended":
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.service.failover.writers import appended_at_sources

    clients = WorkerCache()
    try:
        return await appended_at_sources(rows, clients)
    finally:
        await clients.close()


async def _accept_after(
    rows: "Mapping[int, StatusRow]", equal: "Mapping[int, StatusRow]", appended: "Appended"
) -> "list[MirrorlakeError]":
    """Has the mirrors themselves know who wrote to their copies, and which topics were made; returns what failed."""
    from mirrorlake.clock import SystemClock
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.errors import MirrorlakeError
    from mirrorlake.service.failover.writers import accept_all, of_sources
    from mirrorlake.topics.clashes import BACK_SUFFIX

    clients = WorkerCache()
    try:
        found = await of_sources(rows, equal, appended, clients)
        named = {name.removesuffix(BACK_SUFFIX): each for name, each in found.items()}
        return await accept_all(named, clients, clock=SystemClock(), is_begun=True)
    except MirrorlakeError as error:
        return [error]
    finally:
        await clients.close()


def _turned(path: Path, options: FailbackOptions) -> "Turned":
    from mirrorlake.config.asked import check_asked
    from mirrorlake.service.failover.copies import between_clusters
    from mirrorlake.service.failover.turning import turn
    from mirrorlake.service.failover.way_back import from_one

    whole = load(path)
    check_asked(whole, mirrors=options.mirrors)
    config = between_clusters(whole, options.mirrors)
    config = from_one(config, options.from_cluster) if options.from_cluster else config
    return ask(turn(config, names=[mirror.name for mirror in whole.mirrors]))


def _read(turned: "Turned", engine: "EngineBuilder | None") -> _Found:
    """Returns how every partition stands on its way back; where it has diverged, from where on."""
    from mirrorlake.service.failover.way_back import (
        WayBack,
        back_row,
        comparable,
        diverged_row,
        has_diverged,
        is_accepted,
    )
    from mirrorlake.service.status import read_compared_status

    rows = ask(read_compared_status(turned.config))
    rows = [
        replace(row, error=turned.refusal_of(row.target.mirror.name, row.target.source.topic) or row.error)
        for row in rows
    ]
    asked: dict[int, StatusRow] = {
        number: whole
        for number, row in enumerate(rows)
        if has_diverged(row.error) and (whole := comparable(row)) is not None
    }
    appended = ask(_appended_at_old_sources(asked)) if asked else {}
    verdicts = compare(turned.config, [*asked.values()], level="records", engine=engine) if asked else []
    compared = dict(zip(asked, verdicts, strict=True))
    found: list[BackRow] = []
    accepted: dict[int, StatusRow] = {}
    for number, row in enumerate(rows):
        verdict = compared.get(number)
        if verdict is None:
            found.append(back_row(row))
        elif verdict.result == "failed":
            unread = replace(row, error=verdict.error or row.error)
            found.append(replace(back_row(unread), way=WayBack.UNKNOWN))
        elif number in appended and is_accepted(row, verdict.first_difference, appended[number]):
            accepted[number] = replace(row, error=None)
            found.append(back_row(accepted[number]))
        else:
            found.append(diverged_row(row, verdict.first_difference))
    return _Found(rows=found, accepted=accepted, appended=appended)


async def _appended_at_old_sources(rows: "Mapping[int, StatusRow]") -> "Appended":
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.service.failover.writers import appended_at_destinations

    clients = WorkerCache()
    try:
        return await appended_at_destinations(rows, clients)
    finally:
        await clients.close()


def _code(rows: "Sequence[BackRow]") -> int:
    from mirrorlake.service.failover.way_back import WayBack

    ways = {row.way for row in rows}
    if ways & {WayBack.REFUSED, WayBack.UNKNOWN}:
        return EXIT_FAILED
    return EXIT_UNDECIDED if WayBack.DIVERGED in ways else EXIT_DONE


def _show(
    rows: "Sequence[BackRow]",
    groups: SyncPlan | None,
    verdicts: "Sequence[Verdict] | None",
    *,
    as_json: bool,
    remarks: Sequence[str] = (),
) -> None:
    from mirrorlake.service.failover.way_back import WayBack

    sections = [Section("partitions", "", COLUMNS, [row.as_json() for row in rows])]
    if verdicts is not None:
        sections += [of_groups(groups), of_verdicts(verdicts)]
    decisions = [row.decision for row in rows if row.way is WayBack.DIVERGED]
    said_of_groups = [] if groups is None else said(groups)
    show(sections, decisions=decisions, remarks=[*said_of_groups, *remarks], as_json=as_json)
