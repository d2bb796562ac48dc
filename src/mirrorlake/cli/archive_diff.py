"""``mirrorlake archive diff``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli.output import Row, console, print_json, print_table
from mirrorlake.cli.progress import offsets_progress
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.verify.diff.places import Asked
    from mirrorlake.verify.diff.values import Difference, Unread
    from mirrorlake.verify.diff.verdict import Verdict

COLUMNS = (
    *("a", "b", "partition", "start", "end", "records_a", "records_b", "result", "first_difference", "difference"),
)
GOOD = frozenset({"equal", "explained"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """What to compare, as given on the command line; ``to_offset`` is inclusive, as for holds."""

    a: str
    b: str
    topics: Sequence[str] = ()
    partitions: Sequence[int] = ()
    from_offset: int | None = None
    to_offset: int | None = None
    ignores_times: bool = False


def diff(path: Path, options: DiffOptions, *, as_json: bool, engine: "EngineBuilder | None" = None) -> int:
    """Compares two places and prints a row for each partition; returns 0 where all are equal or explained, else 1.

    Records are compared on ``engine``, by default Spark's, which is started only where there is something to compare.

    Raises:
        MirrorlakeError: a place is none, or could not be asked.
    """
    start_logs()
    config = load(path)
    from mirrorlake.verify.diff.places import pairs_of, read_place

    a, b = read_place(options.a, config), read_place(options.b, config)
    asked = pairs_of(a, b, topics=options.topics, partitions=options.partitions)
    verdicts = [*(_compared(config, asked, options, engine) if asked.pairs else ()), *asked.verdicts]
    verdicts.sort(key=lambda each: (each.a, each.b, -1 if each.partition is None else each.partition))
    if as_json:
        print_json([verdict.as_json() for verdict in verdicts])
    else:
        print_table([_row(verdict) for verdict in verdicts], COLUMNS)
        for line in (line for verdict in verdicts for line in _lines(verdict)):
            console().print(line, soft_wrap=True)
    return 0 if all(verdict.result.value in GOOD for verdict in verdicts) else 1


def _compared(
    config: "Configuration", asked: "Asked", options: DiffOptions, engine: "EngineBuilder | None"
) -> "list[Verdict]":
    from mirrorlake.destinations.transform import AS_IT_IS, Times, Transform
    from mirrorlake.offsets import OffsetRange
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.verify.diff.comparison import Comparison
    from mirrorlake.verify.diff.values import LAST_END
    from mirrorlake.verify.engine import verification_jobs

    end = LAST_END if options.to_offset is None else options.to_offset + 1
    with (
        offsets_progress("comparing records") as progressed,
        verification_jobs(config, engine or build_session) as jobs,
    ):
        return Comparison(
            asked.pairs,
            jobs=jobs,
            progressed=progressed,
            # What a copy's brokers stamp is not compared on either side.
            transform=Transform(times=Times.BROKERS) if options.ignores_times else AS_IT_IS,
            asked=OffsetRange(start_offset=options.from_offset or 0, end_offset=end),
            largest_batch_bytes=config.engine.largest_batch_bytes,
        ).run()


def _row(verdict: "Verdict") -> Row:
    found = verdict.as_json()
    return {column: value for column in COLUMNS if not isinstance(value := found[column], list)}


def _lines(verdict: "Verdict") -> "Iterator[str]":
    """Yields what the row of a verdict has no room for."""
    where = f"{verdict.a} and {verdict.b}" + ("" if verdict.partition is None else f", partition {verdict.partition}")
    where = escape(where)
    for each in verdict.differences:
        yield f"[red]differs[/] {where}: {_text(each, verdict)}"
    if not verdict.is_complete:
        yield f"[red]differs[/] {where}: more may differ behind that, and was not looked at"
    for each in verdict.explained:
        yield f"[dim]explained[/] {where}: {_text(each, verdict)}"
    for side, unread in verdict.unread:
        yield f"[yellow]unknown[/] {where}: {_unread(unread, verdict.a if side == 'a' else verdict.b)}"
    if verdict.error is not None:
        yield f"[yellow]unknown[/] {where}: {escape(str(verdict.error))}"


def _text(each: "Difference", verdict: "Verdict") -> str:
    offsets = f"offsets {each.offsets.start_offset} to {each.offsets.end_offset - 1}"
    if each.how.value == "gap":
        return escape(f"no record at {offsets}: {each.why}")
    if each.how.value == "different":
        return escape(f"{each.records} records are not the same, {offsets}")
    only, other = (verdict.a, verdict.b) if each.how.value == "only-a" else (verdict.b, verdict.a)
    if each.why == "beyond":
        return escape(f"only {only} has records behind the end of {other}, {offsets}")
    why = f", {each.why} in {other}" if each.why else ""
    return escape(f"only {only} has {f'{each.records} records' if each.records else 'offsets'}, {offsets}{why}")


def _unread(unread: "Unread", label: str) -> str:
    return escape(f"{label} could not be read at offsets {unread.offsets}: {unread.error}")
