"""The speed goals of the first release, and whether the figures of a run reach them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from bench.contender import Kind, Measured
from bench.results import Results, store_cpu_seconds_per_gigabyte
from mirrorlake.offsets import GapFill

CPU_RATIO_MIN = {"k1": 10.0, "b100": 25.0, "s100": 1.0}
CPU_ONLY = frozenset({"s100"})
"""Inputs of which a broker takes minutes to be filled with what copies for long."""
WALL_RATIO_MIN = 2.5
STEADY_SECONDS_MIN = 20.0
ARCHIVE_RECORDS_PER_CPU_SECOND_MIN = {"k1": 400_000.0, "b100": 2_000_000.0}
STORE_CPU_RATIO_MAX = 1.15
MAPPED_CPU_RATIO_MAX = 1.15
TLS_GB_PER_CPU_SECOND_MIN = 0.35
"""Asked of the task processes; all of ours are counted."""
MARKERS_PER_SECOND_MIN = 200.0
TOGETHER_RATIO_MAX = 2.0
"""What "about the time of one" means for partitions whose gaps are filled at once."""
FILLER_SECONDS_MAX = 1.0
RECORDS_PATH_PER_CPU_SECOND_MIN = 300_000.0
LOG_MEGABYTES_PER_CPU_SECOND_MIN = 600.0
SCHEMA_CPU_RATIO_MAX = 1.5
SCHEMA_PYTHON_RATIO_MIN = 20.0
SCHEMA_JVM_RATIO_MIN = 10.0
SCHEMA_RECORDS_PER_SECOND_MIN = 20 * 25_000.0
"""Twenty times what is known of another mirror that translates ids."""
LATENCY_P50_MS_MAX = 5.0
LATENCY_P99_MS_MAX = 300.0
HELP_SECONDS_MAX = 0.3
MEMORY_GIB_MAX = 1.2
SQL_COUNT_SECONDS_MAX = 2.0
"""Of a count over 1 000 segments, from the session's start on."""
SCALE_IDLE_PERCENT_MAX = 5.0
SCALE_PLAN_SECONDS_MAX = 10.0
GROUP_SYNC_SECONDS_MAX = 5.0
RESTORED_LOG_CPU_RATIO_MAX = 1.5
RESTORED_PARQUET_RECORDS_PER_CPU_SECOND_MIN = {"k1": 300_000.0, "b100": 1_000_000.0}
MERGED_MEGABYTES_PER_CPU_SECOND_MIN = 150.0
FRAME_CPU_RATIO_MIN = 2.0
LAG_SECONDS_MAX = 5.0
"""What "bounded" means for two hundred mirrors: a lease's length."""

PEER = "MirrorMaker"
OURS = "mirrorlake"


class Bound(StrEnum):
    """Which side of the wanted figure is good."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One goal and what was measured."""

    name: str
    bound: Bound
    wanted: float
    measured: float

    @property
    def is_reached(self) -> bool:
        """Whether the figure is on the good side; equal is good."""
        return self.measured >= self.wanted if self.bound is Bound.AT_LEAST else self.measured <= self.wanted


def judge(results: Results) -> list[Goal]:
    """Returns the goals for which a run has figures; of several rounds the median counts, where a goal says no more."""
    return [
        *_copies(results),
        *_other_copies(results),
        *_stores(results),
        *_fills(results),
        *_records(results),
        *_schemas(results),
        *_latency(results),
        *_spark(results),
        *_archives(results),
        *_rest(results),
    ]


def _copies(results: Results) -> Iterator[Goal]:
    for name, ratio in CPU_RATIO_MIN.items():
        ours = _runs(results, name, OURS, Kind.KAFKA)
        peers = _runs(results, name, PEER, Kind.KAFKA)
        if ours and peers:
            # Round by round, one right after the other: the machine's pace changes by a fifth within an hour.
            cpu = min(
                our.megabytes_per_cpu_second / peer.megabytes_per_cpu_second
                for our, peer in zip(ours, peers, strict=False)
            )
            yield _at_least(f"{name}: bytes per CPU-second, × MirrorMaker 2, in every round", ratio, cpu)
        if ours and peers and name not in CPU_ONLY:
            wall = median([r.megabytes_per_second for r in ours]) / median([r.megabytes_per_second for r in peers])
            yield _at_least(f"{name}: bytes per second, × MirrorMaker 2", WALL_RATIO_MIN, wall)
        if ours and name not in CPU_ONLY:
            seconds = min(r.copy_wall_seconds for r in [*ours, *peers])
            yield _at_least(f"{name}: seconds of steady copying", STEADY_SECONDS_MIN, seconds)
    for name, rate in ARCHIVE_RECORDS_PER_CPU_SECOND_MIN.items():
        archived = _runs(results, name, OURS, Kind.PARQUET)
        if archived:
            measured = median([r.records_per_cpu_second for r in archived])
            yield _at_least(f"{name}: records per CPU-second to Parquet", rate, measured)
    memory = [r.memory_bytes_max for r in _runs(results, "b100", OURS, Kind.KAFKA)]
    if memory:
        yield _at_most("b100: GiB of memory, all processes", MEMORY_GIB_MAX, max(memory) / (1 << 30))


def _other_copies(results: Results) -> Iterator[Goal]:
    preserved, mapped = (_runs(results, "k1", OURS, kind) for kind in (Kind.KAFKA, Kind.KAFKA_MAPPED))
    if preserved and mapped:
        ratio = median([r.megabytes_per_cpu_second for r in preserved]) / median(
            [r.megabytes_per_cpu_second for r in mapped]
        )
        yield _at_most("k1: CPU-seconds per byte, offsets mapped × preserved", MAPPED_CPU_RATIO_MAX, ratio)
    if tls := _runs(results, "k1", OURS, Kind.KAFKA_TLS):
        rate = median([r.megabytes_per_cpu_second for r in tls]) / 1000
        yield _at_least("k1: GB per CPU-second, TLS on both sides", TLS_GB_PER_CPU_SECOND_MIN, rate)
    if logs := _runs(results, "k1", OURS, Kind.LOG):
        rate = median([r.megabytes_per_cpu_second for r in logs])
        yield _at_least("k1: MB per CPU-second to an archive of batches", LOG_MEGABYTES_PER_CPU_SECOND_MIN, rate)


def _stores(results: Results) -> Iterator[Goal]:
    kinds = {run.kind for run in results.stores}
    if Kind.PARQUET in kinds:
        folder = store_cpu_seconds_per_gigabyte(results.stores, Kind.PARQUET)
        for kind in sorted(kinds - {Kind.PARQUET}):
            ratio = store_cpu_seconds_per_gigabyte(results.stores, kind) / folder
            yield _at_most(f"k1: CPU-seconds per byte, {kind} × folder", STORE_CPU_RATIO_MAX, ratio)


def _fills(results: Results) -> Iterator[Goal]:
    alone = [f for f in results.fills if f.gap_fill == GapFill.MARKERS and f.partitions == 1]
    together = [f for f in results.fills if f.gap_fill == GapFill.MARKERS and f.partitions > 1]
    fillers = [f for f in results.fills if f.gap_fill == GapFill.FILLER]
    if alone:
        rate = median([f.offsets_per_second for f in alone])
        yield _at_least("markers per second on one partition", MARKERS_PER_SECOND_MIN, rate)
    if alone and together:
        ratio = median([f.wall_seconds for f in together]) / median([f.wall_seconds for f in alone])
        yield _at_most("markers on 20 partitions at once, × the time of one", TOGETHER_RATIO_MAX, ratio)
    if fillers:
        seconds = median([f.wall_seconds * 1e6 / f.offsets for f in fillers])
        yield _at_most("seconds for 1 000 000 offsets by filler", FILLER_SECONDS_MAX, seconds)


def _records(results: Results) -> Iterator[Goal]:
    for run in results.records_paths:
        name = f"compacted source, {run.codec}: records per CPU-second"
        yield _at_least(name, RECORDS_PATH_PER_CPU_SECOND_MIN, run.records_per_cpu_second)


def _schemas(results: Results) -> Iterator[Goal]:
    figures = results.schemas
    if figures is None:
        return
    python, jvm = figures.python_records_per_cpu_second, figures.jvm_records_per_cpu_second
    for run in figures.copies:
        name, rate = f"schema ids, {run.codec}", run.rewriting_records_per_cpu_second
        yield _at_most(f"{name}: CPU-seconds per byte, × a raw copy", SCHEMA_CPU_RATIO_MAX, run.cpu_ratio)
        yield _at_least(f"{name}: rewriting × Confluent's for Python", SCHEMA_PYTHON_RATIO_MIN, rate / python)
        if jvm is not None:
            yield _at_least(f"{name}: rewriting × Apicurio's on a JVM", SCHEMA_JVM_RATIO_MIN, rate / jvm)
    small_rate = figures.small.copied_records / figures.small.copy_wall_seconds
    yield _at_least("schema ids, 100 B, alone: records per second", SCHEMA_RECORDS_PER_SECOND_MIN, small_rate)


def _latency(results: Results) -> Iterator[Goal]:
    ours = [latency for latency in results.latencies if latency.contender.startswith(OURS)]
    if ours:
        yield _at_most("latency p50, ms", LATENCY_P50_MS_MAX, median([run.p50_ms for run in ours]))
        yield _at_most("latency p99, ms", LATENCY_P99_MS_MAX, median([run.p99_ms for run in ours]))


def _spark(results: Results) -> Iterator[Goal]:
    if counts := [run.query_seconds for run in results.sql_counts if run.query == "count"]:
        yield _at_most("sql: seconds for a count over 1000 segments", SQL_COUNT_SECONDS_MAX, median(counts))


def _archives(results: Results) -> Iterator[Goal]:
    restored = [run.restored for run in results.restores]
    for name in dict.fromkeys(run.input for run in restored):
        if logs := _of(restored, name, Kind.RESTORED_LOG):
            mirrored = _of(results.mirrored, name, Kind.KAFKA)
            ratio = median([r.megabytes_per_cpu_second for r in mirrored]) / median(
                [r.megabytes_per_cpu_second for r in logs]
            )
            yield _at_most(
                f"{name}: CPU-seconds per byte, restored from log × mirrored", RESTORED_LOG_CPU_RATIO_MAX, ratio
            )
        parquet = _of(restored, name, Kind.RESTORED_PARQUET)
        if parquet and (wanted := RESTORED_PARQUET_RECORDS_PER_CPU_SECOND_MIN.get(name)):
            rate = median([r.records_per_cpu_second for r in parquet])
            yield _at_least(f"{name}: records per CPU-second restored from Parquet", wanted, rate)
    for merge in results.merges:
        name = f"merge, {merge.records}: MB of Parquet per CPU-second"
        yield _at_least(name, MERGED_MEGABYTES_PER_CPU_SECOND_MIN, merge.megabytes_per_cpu_second)
    for ours in results.frames:
        peers = [each for each in results.frames if each.reader != OURS and each.input == ours.input]
        if ours.reader == OURS and peers:
            ratio = ours.records_per_cpu_second / median([each.records_per_cpu_second for each in peers])
            yield _at_least(f"{ours.input}: live topic as a DataFrame, × Spark's connector", FRAME_CPU_RATIO_MIN, ratio)


def _of(runs: list[Measured], name: str, kind: Kind) -> list[Measured]:
    return [run for run in runs if run.input == name and run.kind is kind]


def _rest(results: Results) -> Iterator[Goal]:
    if results.help_seconds is not None:
        yield _at_most("seconds for --help", HELP_SECONDS_MAX, results.help_seconds)
    if results.many_mirrors is not None:
        yield _at_most("200 mirrors: those that did not move", 0.0, results.many_mirrors.late_mirrors)
        yield _at_most("200 mirrors: largest lag, seconds", LAG_SECONDS_MAX, results.many_mirrors.lag_seconds_max)
    if (run := results.many_topics) is not None:
        yield _at_most("2000 partitions: CPU while nothing happens, %", SCALE_IDLE_PERCENT_MAX, run.idle_cpu_percent)
        yield _at_most("2000 partitions: p99 of 20 busy topics, ms", LATENCY_P99_MS_MAX, run.p99_ms)
        yield _at_most("2000 partitions: plan, seconds", SCALE_PLAN_SECONDS_MAX, run.plan_seconds)
        yield _at_most("1000 groups × 50: sync, seconds", GROUP_SYNC_SECONDS_MAX, run.group_sync_seconds)


def _runs(results: Results, name: str, contender: str, kind: Kind) -> list[Measured]:
    return [r for r in results.copies if r.input == name and r.kind is kind and r.contender.startswith(contender)]


def _at_least(name: str, wanted: float, measured: float) -> Goal:
    return Goal(name=name, bound=Bound.AT_LEAST, wanted=wanted, measured=measured)


def _at_most(name: str, wanted: float, measured: float) -> Goal:
    return Goal(name=name, bound=Bound.AT_MOST, wanted=wanted, measured=measured)
