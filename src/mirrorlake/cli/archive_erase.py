"""``mirrorlake archive erase``."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import structlog

from mirrorlake.cli.archive import Where, survey_of
from mirrorlake.cli.archive_keeping import places_of, print_rows
from mirrorlake.cli.output import print_note
from mirrorlake.cli.progress import bytes_progress
from mirrorlake.cli.start import load, start_logs
from mirrorlake.errors import ConfigurationError

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.archives.erase_rows import EraseRow
    from mirrorlake.service.archives.places import ArchivePlace

_log = structlog.get_logger("mirrorlake")

COLUMNS = ("name", "partition", "inputs", "start", "end", "records", "bytes", "result", "reason", "until")

WAITS_CODE = 3
"""Something is left that can be erased later; `1` is for what failed."""


def erase(
    where: Where,
    keys: "Collection[bytes | None]",
    *,
    is_dry: bool,
    as_json: bool,
    engine: "EngineBuilder | None" = None,
) -> int:
    """Erases the records of some keys and prints a row for each group of segments, and for each that waits.

    Returns:
        1 where something failed; else 3 where something waits, but not of a dry run; else 0, also where there was
        nothing.

    Raises:
        MirrorlakeError: a folder could not be looked into, or a topic has none: nothing is erased by halves.
    """
    start_logs()
    assert where.config is not None
    config = load(where.config)
    places = places_of(where, is_all=True)
    _check_topics(where, places)
    _warn_of_generations(where)
    rows = _run(config, places, keys, engine, is_dry=is_dry)
    print_rows([row.as_json() for row in rows], COLUMNS, as_json=as_json)
    if not as_json:
        _note(rows, places)
    if any(row.result == "failed" for row in rows):
        return 1
    return WAITS_CODE if not is_dry and any(row.result == "waits" for row in rows) else 0


def _check_topics(where: Where, places: "Sequence[ArchivePlace]") -> None:
    """Refuses a topic of which nothing is archived: who misspells one would take "nothing found" for "gone"."""
    missing = sorted(set(where.topics) - {place.name for place in places})
    if missing:
        raise ConfigurationError(
            f"{where.config}: no archive of it has a topic {', '.join(missing)}",
            hint="`mirrorlake archive ls` shows the names that are there",
        )


def _warn_of_generations(where: Where) -> None:
    """Warns of folders of recreated topics, and of snapshots: named differently, they may hold the same keys."""
    from mirrorlake.service.archives.places import SNAPSHOT_SUFFIX

    names = survey_of(Where(config=where.config, root=None, mirrors=where.mirrors)).names
    stems = {f"{topic}." for topic in where.topics}
    for name in sorted(names - set(where.topics)):
        stem, dot, number = name.rpartition(".")
        if stem + dot in stems and number.isdecimal():
            _log.warning("a folder of a recreated topic is not looked through", name=name, remedy=f"--topic {name}")
        elif name.removesuffix(SNAPSHOT_SUFFIX) in where.topics:
            _log.warning("a folder of snapshots is not looked through", name=name, remedy=f"--topic {name}")


def _run(
    config: "Configuration",
    places: "Sequence[ArchivePlace]",
    keys: "Collection[bytes | None]",
    engine: "EngineBuilder | None",
    *,
    is_dry: bool,
) -> "list[EraseRow]":
    from mirrorlake.clock import SystemClock
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.service.archives.erasing import EraseRun
    from mirrorlake.service.archives.merging import keeping_jobs

    with keeping_jobs(config, engine or build_session, at_once=None) as jobs:
        erasing = EraseRun(places, keys, jobs=jobs, clock=SystemClock(), is_dry=is_dry)
        with bytes_progress("looking for keys", erasing.look()) as progressed:
            return erasing.run(progressed=progressed)


def _note(rows: "Sequence[EraseRow]", places: "Sequence[ArchivePlace]") -> None:
    from mirrorlake.service.archives.old_versions import stores_with_old_versions

    if any(row.result == "waits" for row in rows):
        print_note("records that wait are still there: run the same command again when the reason is over")
    if any(row.result == "erased" for row in rows):
        for store in stores_with_old_versions(places):
            print_note(
                f"{store} keeps old versions of objects: the records are in those of the files that were deleted"
            )
