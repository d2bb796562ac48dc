"""``mirrorlake groups plan`` and ``sync``."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mirrorlake.cli.output import print_json, print_table, print_warning
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.errors import ConfigurationError, MirrorlakeError

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.config.topics.selection import NameSelection
    from mirrorlake.groups.placing import GroupRow
    from mirrorlake.groups.restoring import GroupPlan, RestoredPartition
    from mirrorlake.offsets import TopicPartition

EXIT_DONE, EXIT_FAILED, EXIT_LEFT = 0, 1, 3
COLUMNS = ("name", "group", "topic", "partition", "committed", "to", "offset", "had", "action", "note")

Way = tuple[str, str]
"""A mirror and one of its destinations, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOptions:
    """Which groups of which mirrors, as given on the command line; none are all. ``is_forced`` moves them back, too."""

    groups: Sequence[str] = ()
    mirrors: Sequence[str] = ()
    is_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """What is done about groups, by mirror and destination."""

    ways: "dict[Way, GroupPlan]"

    @property
    def exit_code(self) -> int:
        """0 where every group stands, or would stand, where it should; 3 where some do not, 1 where some are unread."""
        if any(each.failures for each in self.ways.values()):
            return EXIT_FAILED
        return EXIT_DONE if all(each.is_whole for each in self.ways.values()) else EXIT_LEFT

    @property
    def commits(self) -> int:
        """How many offsets would be committed."""
        from mirrorlake.groups.placing import GroupAction

        return sum(row.action is GroupAction.COMMIT for each in self.ways.values() for row in each.rows)


def plan(path: Path, options: GroupsOptions, *, as_json: bool) -> int:
    """Prints what `sync` would do now, a row for each group and partition, and changes nothing; returns the exit code.

    Raises:
        MirrorlakeError: no mirror, or no group, is meant; or a cluster could not be asked at all.
    """
    start_logs()
    found = planned(load(path), options)
    _show(found, as_json=as_json)
    return found.exit_code


def sync(path: Path, options: GroupsOptions, *, as_json: bool, asks: bool) -> int:
    """Commits at the destinations what groups have committed at the sources, and reads it back; returns the exit code.

    What is shown is planned anew once it is agreed to: groups may have moved meanwhile.

    Raises:
        MirrorlakeError: as by `plan`.
    """
    start_logs()
    config = load(path)
    if asks:
        before = planned(config, options)
        if not as_json:
            _show(before, as_json=False)
        if before.commits and not typer.confirm(f"commit {before.commits} offset(s)?", err=True):
            return EXIT_FAILED
    done = planned(config, options, places=True)
    _show(done, as_json=as_json)
    return done.exit_code


def planned(config: "Configuration", options: GroupsOptions, *, places: bool = False) -> SyncPlan:
    """Returns what would be done; with ``places`` does it, and returns what became of it.

    Raises:
        MirrorlakeError: as by `plan`.
    """
    from mirrorlake.destinations.connections import WorkerCache
    from mirrorlake.groups.restoring import GroupPlan, place_groups
    from mirrorlake.groups.syncing import plan_sync, read_source, selection_of

    selection = _selection(options.groups)
    ways = _ways(config, options.mirrors)

    async def planned() -> dict[Way, GroupPlan]:
        clients = WorkerCache()
        done: dict[Way, GroupPlan] = {}
        try:
            for way, (partitions, unread) in ways.items():
                done[way] = await one(partitions, unread, clients)
        finally:
            await clients.close()
        return done

    async def one(partitions: "list[RestoredPartition]", unread: list[str], clients: WorkerCache) -> GroupPlan:
        if not partitions:
            return GroupPlan(failures=unread)
        try:
            wanted = selection or selection_of(partitions[0].target)
            source = await read_source(partitions, wanted, clients, now_ms=int(time.time() * 1000))
            found = await plan_sync(partitions, source, clients, is_forced=options.is_forced)
            if places:
                found = await place_groups(found, clients.client(partitions[0].target.destination_cluster))
        except MirrorlakeError as error:
            return GroupPlan(failures=[*unread, str(error)])
        return GroupPlan(rows=found.rows, warnings=found.warnings, failures=[*unread, *found.failures])

    return SyncPlan(ways=ask(planned()))


def _selection(groups: Sequence[str]) -> "NameSelection | None":
    """Returns which groups are meant: names, and expressions between slashes; None where nothing is given.

    Raises:
        ConfigurationError: one is no expression.
    """
    from mirrorlake.config.topics.selection import NameSelection

    names, patterns = [], []
    for each in groups:
        if not (len(each) > 2 and each.startswith("/") and each.endswith("/")):
            names.append(each)
            continue
        try:
            re.compile(each[1:-1])
        except re.error as error:
            raise ConfigurationError(f"--group {each} is no regular expression: {error}") from error
        patterns.append(each[1:-1])
    return NameSelection(names=tuple(names), patterns=tuple(patterns)) if groups else None


def _ways(config: "Configuration", mirrors: Sequence[str]) -> "dict[Way, tuple[list[RestoredPartition], list[str]]]":
    """Returns the partitions that are copied from cluster to cluster, and what could not be looked at, by way.

    Raises:
        ConfigurationError: there is no such mirror, or none from cluster to cluster.
    """
    from mirrorlake.config.asked import check_asked
    from mirrorlake.config.sources.source import KafkaSource
    from mirrorlake.groups.restoring import RestoredPartition
    from mirrorlake.groups.syncing import Writers, not_to_be_trusted
    from mirrorlake.service.status import read_compared_status
    from mirrorlake.topics.targets import UNKNOWN_PARTITION

    check_asked(config, mirrors=mirrors)
    ways: dict[Way, tuple[list[RestoredPartition], list[str]]] = {
        (mirror.name, destination.label): ([], [])
        for mirror in config.enabled_mirrors
        if (not mirrors or mirror.name in mirrors) and isinstance(mirror.source, KafkaSource)
        for destination in mirror.kafka_destinations
    }
    if not ways:
        raise ConfigurationError(
            f"no mirror of {config.file} copies from one cluster to another",
            hint="groups of an archive are brought back by `mirrorlake restore --groups`",
        )
    rows = ask(read_compared_status(config))
    # Of mirrors that are not asked about, too: their records lie there all the same.
    writers = Writers(row.target for row in rows)
    for row in rows:
        way = ways.get((row.target.mirror.name, row.target.destination.label))
        if way is None:
            continue
        if row.target.source.partition == UNKNOWN_PARTITION:
            way[1].append(f"topic {row.target.source.topic} could not be looked at: {row.error}")
        else:
            missing = not_to_be_trusted(row.target, writers, row.error)
            way[0].append(RestoredPartition(target=row.target, missing=missing))
    return ways


def rows_json(found: SyncPlan) -> list[dict[str, str | int | None]]:
    """Returns a row for each group, partition and destination, as both formats have it."""
    places: dict[TopicPartition, str] = {}
    return [_as_json(way, row, places) for way, each in found.ways.items() for row in each.rows]


def said(found: SyncPlan) -> list[str]:
    """Returns what must be said beside the rows, with the mirror's name."""
    return [f"mirror {name}: {text}" for (name, _), each in found.ways.items() for text in _said(each)]


def _said(each: "GroupPlan") -> list[str]:
    return [*each.warnings, *each.failures]


def _show(found: SyncPlan, *, as_json: bool) -> None:
    rows = rows_json(found)
    if as_json:
        texts = [f"{name}: {text}" for (name, _), each in found.ways.items() for text in _said(each)]
        print_json({"groups": rows, **({"warnings": texts} if texts else {})})
        return
    if rows:
        print_table(rows, COLUMNS)
    for text in said(found):
        print_warning(text)
    for (name, _), each in found.ways.items():
        if not each.rows and not _said(each):
            print_warning(f"mirror {name}: no selected group has an offset of what is mirrored")


def _as_json(way: Way, row: "GroupRow", places: "dict[TopicPartition, str]") -> dict[str, str | int | None]:
    """Returns a row as both formats have it; ``offset`` is null where it is unknown, ``had`` where there was none.

    ``places`` are the texts of destination partitions, which are the same for many groups.
    """
    group, (topic, partition), destination, archived, _, standing, action, reason = row
    to = places.get(destination)
    if to is None:
        to = places[destination] = str(destination)
    had = standing.committed
    return {
        "name": way[0],
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed": archived.offset,
        "destination": way[1],
        "to": to,
        "offset": row.offset,
        "had": had.offset if had is not None else None,
        "action": str(action),
        "note": reason or None,
    }
