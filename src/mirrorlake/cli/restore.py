"""``mirrorlake restore``: an archive brought back to a cluster, once, and proved."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import typer

from mirrorlake.cli.output import print_json, print_table, print_warning
from mirrorlake.cli.plan import COLUMNS as PLAN_COLUMNS
from mirrorlake.cli.run import copy_once
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.cli.verify import columns_of, compare, print_causes
from mirrorlake.errors import MirrorlakeError
from mirrorlake.topics.restoring import RestoreOptions, restore_configuration

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.groups.restoring import GroupPlan, RestoredPartition
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.plan.planning import Plan, PlanRow
    from mirrorlake.service.status import StatusRow
    from mirrorlake.verify.verdict import Verdict

GROUP_COLUMNS = ("group", "topic", "partition", "archived", "archived_at", "to", "offset", "had", "action", "note")

EXIT_RESTORED = 0
EXIT_FAILED = 1
EXIT_PARKED = 3

_log = structlog.get_logger("mirrorlake")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """That consumer groups are asked for, and whether those that stand elsewhere at the destination are moved."""

    is_forced: bool = False


def restore(
    path: Path,
    options: RestoreOptions,
    *,
    is_dry: bool,
    asks: bool,
    as_json: bool,
    groups: GroupOptions | None = None,
    engine: "EngineBuilder | None" = None,
) -> int:
    """Shows the plan, asks, restores what there is, and compares every record; returns the exit code.

    Consumer groups are placed last, those of partitions that are there and equal.

    Args:
        path: the file with the clusters and stores.
        options: what to restore.
        is_dry: ends after the plan.
        asks: whether to ask before something is changed.
        as_json: one object on stdout, with ``plan`` and, unless dry, ``restored``; with ``groups`` where asked for.
        groups: asks for consumer groups too.
        engine: what runs the leases and compares; Spark's where it is left out.

    Returns:
        0 restored and equal, 1 not, or nothing is known of some topic's groups, 3 restored but for parked partitions or
        for groups that could not be placed, 4 another process restores.
    """
    start_logs()
    config = restore_configuration(load(path), options)
    from mirrorlake.service.plan.planning import read_whole_plan

    plan = ask(read_whole_plan(config))
    planned = _plan_groups([_to_be(row) for row in plan.rows if row.error is None], groups) if groups else None
    shown = {"plan": _plan_json(plan), **_groups_json(planned)}
    if not as_json:
        _show(plan)
        _show_groups(planned)
    is_refused = [row.error is not None for row in plan.rows]
    if is_dry or all(is_refused):
        if as_json:
            print_json(shown)
        if any(is_refused) or not is_refused:
            return EXIT_FAILED
        return _with_groups(EXIT_RESTORED, planned)
    if as_json:
        unplaced = [*planned.absent, *planned.failures] if planned is not None else []
        for text in dict.fromkeys([*_warnings_of(plan), *unplaced]):
            _log.warning(text)
    if asks and not typer.confirm(f"restore to {options.to}?", err=True):
        return EXIT_FAILED
    return _restore(config, plan, shown, groups=groups, as_json=as_json, engine=engine)


def _restore(
    config: "Configuration",
    plan: "Plan",
    shown: dict[str, object],
    *,
    groups: GroupOptions | None,
    as_json: bool,
    engine: "EngineBuilder | None",
) -> int:
    from mirrorlake.service.status import read_status

    code = copy_once(config, shown_as="restoring", engine=engine)
    if code not in (EXIT_RESTORED, EXIT_PARKED):
        if as_json:
            print_json(shown)
        return code
    verdicts = compare(config, ask(read_status(config)), level="records", engine=engine)
    placed = _plan_groups(_as_they_are(plan, verdicts), groups, places=True) if groups else None
    rows = [verdict.as_json() for verdict in verdicts]
    if as_json:
        print_json({"plan": shown["plan"], "restored": rows, **_groups_json(placed)})
    else:
        print_table(rows, columns_of(rows))
        print_causes(rows)
        _show_groups(placed)
    if code != EXIT_PARKED and not are_restored(plan, verdicts):
        return EXIT_FAILED
    return _with_groups(code, placed)


def _with_groups(code: int, groups: "GroupPlan | None") -> int:
    """Returns the exit code of records that are restored, or stand parked, and of groups."""
    if groups is None or groups.is_whole:
        return code
    return EXIT_FAILED if groups.failures else EXIT_PARKED


def _to_be(row: "PlanRow") -> "RestoredPartition":
    """Returns a partition as it will be once all of the plan is done."""
    from mirrorlake.groups.restoring import RestoredPartition
    from mirrorlake.offsets import OffsetRange

    start, end = row.status.source_start or 0, max(row.status.source_end or 0, row.status.position or 0)
    planned = OffsetRange(start_offset=min(start, end), end_offset=end)
    return RestoredPartition(target=row.status.target, planned=planned)


def _as_they_are(plan: "Plan", verdicts: Sequence["Verdict"]) -> list["RestoredPartition"]:
    """Returns the partitions with what each lacks of what it had when the plan was made."""
    from mirrorlake.groups.restoring import RestoredPartition

    planned = {_place(row.status): row for row in plan.rows}

    def missing(verdict: "Verdict") -> str:
        if verdict.error is None and _is_restored(planned.get(_place(verdict.row)), verdict):
            return ""
        return f"its records are not all restored: {verdict.error or verdict.result.value}"

    return [RestoredPartition(target=verdict.row.target, missing=missing(verdict)) for verdict in verdicts]


def _plan_groups(
    partitions: "Sequence[RestoredPartition]", options: GroupOptions, *, places: bool = False
) -> "GroupPlan":
    """Returns what would be done about groups; with ``places`` does it, and returns what became of it."""
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.groups.restoring import GroupPlan, place_groups, plan_groups

    async def planned() -> GroupPlan:
        clients = WorkerCache()
        try:
            plan = await plan_groups(partitions, clients, is_forced=options.is_forced)
            return (
                await place_groups(plan, clients.client(partitions[0].target.destination_cluster)) if places else plan
            )
        except MirrorlakeError as error:
            return GroupPlan(failures=[f"the groups could not be placed: {error}"])
        finally:
            await clients.close()

    return ask(planned()) if partitions else GroupPlan()


def _groups_json(groups: "GroupPlan | None") -> dict[str, object]:
    if groups is None:
        return {}
    found: dict[str, object] = {"groups": [row.as_json() for row in groups.rows]}
    return {**found, "group_warnings": groups.remarks} if groups.remarks else found


def _show_groups(groups: "GroupPlan | None") -> None:
    if groups is None:
        return
    if groups.rows:
        print_table([row.as_json() for row in groups.rows], GROUP_COLUMNS, title="consumer groups")
    for warning in groups.remarks:
        print_warning(warning)


def are_restored(plan: "Plan", verdicts: Sequence["Verdict"]) -> bool:
    """Tells whether every partition is equal, and there to the end that it had when the plan was made.

    An archive that is still written has more by now, new partitions and topics included. What of that was restored
    must be equal too.
    """
    planned = {_place(row.status): row for row in plan.rows}
    return all(_is_restored(planned.get(_place(verdict.row)), verdict) for verdict in verdicts)


def _is_restored(planned: "PlanRow | None", verdict: "Verdict") -> bool:
    if planned is None:
        return verdict.result != "differs"
    if (verdict.row.position or 0) < (planned.end or 0):
        return False
    had_records = planned.status.source_start != planned.status.source_end
    return verdict.result == "equal" or (verdict.result == "empty" and not had_records)


def _place(row: "StatusRow") -> tuple[str, int, str]:
    return row.target.source.topic, row.target.source.partition, row.target.destination.label


def _plan_json(plan: "Plan") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [{**row.as_json()} for row in plan.rows]
    return rows + [{**row, "action": "nothing to do"} for each in plan.idle for row in each.as_json()]


def _show(plan: "Plan") -> None:
    print_table([row.as_row() for row in plan.rows], PLAN_COLUMNS)
    for warning in dict.fromkeys([*_warnings_of(plan), *(each.message for each in plan.idle)]):
        print_warning(warning)


def _warnings_of(plan: "Plan") -> list[str]:
    return [warning for row in plan.rows for warning in row.warnings]
