"""Results as JSON, one file per run of the comparison, and as tables."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.contender import Kind, Measured
from bench.far_clusters import FarCopy
from bench.fills import Fill
from bench.frames import FrameRead
from bench.idle import Idle
from bench.latency import Latency
from bench.many_mirrors import ManyMirrors
from bench.many_topics import ManyTopics
from bench.merges import Merge
from bench.records_path import RecordsPath
from bench.restores import Restore
from bench.scale_out import ScaleOut
from bench.schema_copies import SchemaFigures
from bench.schema_ids import SchemaIdsPath
from bench.sql_counts import SqlCount
from bench.storage import Storage
from mirrorlake.embedded.jars import KAFKA_VERSION
from mirrorlake.java import find_java

RESULTS = Path(__file__).parent / "results"


@dataclass(slots=True, kw_only=True)
class Results:
    """Everything one run of the comparison has measured so far."""

    copies: list[Measured] = field(default_factory=list)
    copies_storage: Storage | None = None
    far: list[FarCopy] = field(default_factory=list)
    scale_out: list[ScaleOut] = field(default_factory=list)
    stores: list[Measured] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    records_paths: list[RecordsPath] = field(default_factory=list)
    schema_ids: list[SchemaIdsPath] = field(default_factory=list)
    schemas: SchemaFigures | None = None
    latencies: list[Latency] = field(default_factory=list)
    many_mirrors: ManyMirrors | None = None
    idle: Idle | None = None
    many_topics: ManyTopics | None = None
    help_seconds: float | None = None
    sql_counts: list[SqlCount] = field(default_factory=list)
    restores: list[Restore] = field(default_factory=list)
    mirrored: list[Measured] = field(default_factory=list)
    """The same inputs from Kafka to Kafka, in the same run as the restores."""
    merges: list[Merge] = field(default_factory=list)
    frames: list[FrameRead] = field(default_factory=list)
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)


def write(results: Results, folder: Path = RESULTS) -> Path:
    """Writes the figures with the commit and the machine they were seen on, and returns the new file."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    content = {
        "at": moment,
        "commit": _commit(),
        "machine": _machine(),
        "load": {"before": results.load_before, "after": os.getloadavg()},
        "kafka": KAFKA_VERSION,
        "copies_storage": results.copies_storage,
        "runs": [_figures(run) for run in results.copies],
        "far": [{"far": run.far, "round_trip_ms": run.round_trip_ms, **_figures(run.copy)} for run in results.far],
        "scale_out": [
            {
                "workers": run.workers,
                "core_share": run.core_share,
                "workers_cpu_seconds": run.workers_cpu_seconds,
                **_figures(run.copy),
            }
            for run in results.scale_out
        ],
        "stores": [_figures(run) for run in results.stores],
        "fills": [{**asdict(run), "offsets_per_second": round(run.offsets_per_second)} for run in results.fills],
        "records_paths": [
            {**asdict(run), "records_per_cpu_second": round(run.records_per_cpu_second)}
            for run in results.records_paths
        ],
        "schema_ids": [
            {**asdict(run), "records_per_cpu_second": round(run.records_per_cpu_second)} for run in results.schema_ids
        ],
        "schemas": _schema_figures(results.schemas) if results.schemas else None,
        "latencies": [asdict(run) for run in results.latencies],
        "many_mirrors": asdict(results.many_mirrors) if results.many_mirrors else None,
        "idle": asdict(results.idle) if results.idle else None,
        "many_topics": asdict(results.many_topics) if results.many_topics else None,
        "help_seconds": results.help_seconds,
        "sql_counts": [asdict(run) for run in results.sql_counts],
        "restores": [
            {"archived": _figures(run.archived), "restored": _figures(run.restored)} for run in results.restores
        ],
        "mirrored": [_figures(run) for run in results.mirrored],
        "merges": [
            {**asdict(run), "megabytes_per_cpu_second": round(run.megabytes_per_cpu_second, 1)}
            for run in results.merges
        ],
        "frames": [
            {**asdict(run), "records_per_cpu_second": round(run.records_per_cpu_second)} for run in results.frames
        ],
    }
    path = folder / f"{moment}.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def _figures(run: Measured) -> dict[str, Any]:
    return {
        **asdict(run),
        "megabytes_per_cpu_second": round(run.megabytes_per_cpu_second, 1),
        "megabytes_per_cpu_second_overall": round(run.megabytes_per_cpu_second_overall, 1),
        "megabytes_per_second": round(run.megabytes_per_second, 1),
        "records_per_cpu_second": round(run.records_per_cpu_second),
    }


_COPY_HEAD = (
    *("input", "contender", "GB", "start s", "start CPU s", "copy s", "copy CPU s", "MB/s", "MB/CPU s"),
    *("k records/CPU s", "MB max", "× wall", "× CPU", "× CPU with start"),
)


def copy_table(measured: Sequence[Measured]) -> str:
    """Returns the runs as text, one line each; ratios are to the first contender's round before, of that input."""
    rows: list[Sequence[str]] = [_COPY_HEAD]
    for run in measured:
        alike = [other for other in measured if (other.input, other.kind) == (run.input, run.kind)]
        # Of the first contender the round this one belongs to, not its first one: the machine's pace changes.
        first = [other for other in alike[: alike.index(run) + 1] if other.contender == alike[0].contender][-1]
        rows.append(
            (
                *(run.input, run.contender, f"{run.copied_bytes / 1e9:.2f}", f"{run.start_wall_seconds:.1f}"),
                *(f"{run.start_cpu_seconds:.1f}", f"{run.copy_wall_seconds:.1f}", f"{run.copy_cpu_seconds:.2f}"),
                *(f"{run.megabytes_per_second:.0f}", f"{run.megabytes_per_cpu_second:.0f}"),
                *(f"{run.records_per_cpu_second / 1e3:.0f}", f"{run.memory_bytes_max / 1e6:.0f}"),
                f"{run.megabytes_per_second / first.megabytes_per_second:.1f}",
                f"{run.megabytes_per_cpu_second / first.megabytes_per_cpu_second:.1f}",
                f"{run.megabytes_per_cpu_second_overall / first.megabytes_per_cpu_second_overall:.1f}",
            )
        )
    return text_table(rows, words=2)


def scale_out_table(runs: Sequence[ScaleOut]) -> str:
    """Returns copies over workers as text, one line each; the ratio is to the first of the same input and kind."""
    rows: list[Sequence[str]] = [
        (
            "workers",
            "core each",
            "to",
            "input",
            "GB",
            "start s",
            "copy s",
            "MB/s",
            "driver CPU s",
            "workers CPU s",
            "× first",
        )
    ]
    for run in runs:
        copy = run.copy
        first = next(each.copy for each in runs if (each.copy.input, each.copy.kind) == (copy.input, copy.kind))
        rows.append(
            (
                *(
                    str(run.workers),
                    f"{run.core_share or 1:g}",
                    copy.kind.value,
                    copy.input,
                    f"{copy.copied_bytes / 1e9:.2f}",
                    f"{copy.start_wall_seconds:.1f}",
                ),
                *(f"{copy.copy_wall_seconds:.1f}", f"{copy.megabytes_per_second:.0f}"),
                *(f"{copy.copy_cpu_seconds:.2f}", f"{run.workers_cpu_seconds:.1f}"),
                f"{copy.megabytes_per_second / first.megabytes_per_second:.2f}",
            )
        )
    return text_table(rows, words=2)


def far_table(runs: Sequence[FarCopy]) -> str:
    """Returns the copies with a far cluster as text, one line each."""
    rows: list[Sequence[str]] = [
        ("far", "input", "contender", "round trip ms", "GB", "start s", "copy s", "MB/s", "MB/CPU s", "MB max")
    ]
    for run in runs:
        copy = run.copy
        rows.append(
            (
                *(run.far, copy.input, copy.contender, str(run.round_trip_ms), f"{copy.copied_bytes / 1e9:.2f}"),
                *(
                    f"{copy.start_wall_seconds:.1f}",
                    f"{copy.copy_wall_seconds:.1f}",
                    f"{copy.megabytes_per_second:.0f}",
                ),
                *(f"{copy.megabytes_per_cpu_second:.0f}", f"{copy.memory_bytes_max / 1e6:.0f}"),
            )
        )
    return text_table(rows, words=3)


def stores_table(measured: Sequence[Measured]) -> str:
    """Returns one line per kind of store, with the medians of its rounds; the ratio is to the folder's CPU."""
    rows: list[Sequence[str]] = [("store", "rounds", "GB", "copy CPU s/GB", "× folder", "copy s/GB", "MB max")]
    costs = {kind: store_cpu_seconds_per_gigabyte(measured, kind) for kind in {run.kind for run in measured}}
    for kind in dict.fromkeys(run.kind for run in measured):
        runs = [run for run in measured if run.kind is kind]
        wall = median([run.copy_wall_seconds * 1e9 / run.copied_bytes for run in runs])
        rows.append(
            (
                *(kind, str(len(runs)), f"{median([run.copied_bytes for run in runs]) / 1e9:.2f}"),
                *(f"{costs[kind]:.3f}", f"{costs[kind] / costs[Kind.PARQUET]:.3f}" if Kind.PARQUET in costs else ""),
                *(f"{wall:.2f}", f"{max(run.memory_bytes_max for run in runs) / 1e6:.0f}"),
            )
        )
    return text_table(rows, words=1)


def store_cpu_seconds_per_gigabyte(measured: Sequence[Measured], kind: Kind) -> float:
    """Returns the median over the rounds of one kind: CPU-seconds of all our processes per 10⁹ bytes on the wire."""
    return median([run.copy_cpu_seconds * 1e9 / run.copied_bytes for run in measured if run.kind is kind])


def fill_table(fills: Sequence[Fill]) -> str:
    """Returns the fills as text, one line each."""
    rows: list[Sequence[str]] = [("gaps filled by", "partitions", "offsets each", "s", "CPU s", "offsets/s each")]
    for run in fills:
        figures = (f"{run.wall_seconds:.2f}", f"{run.cpu_seconds:.2f}", f"{run.offsets_per_second:.0f}")
        rows.append((run.gap_fill, str(run.partitions), str(run.offsets), *figures))
    return text_table(rows, words=1)


def records_table(runs: Sequence[RecordsPath]) -> str:
    """Returns the runs of the records path as text, one line each."""
    rows: list[Sequence[str]] = [("compacted batches, codec", "records left", "CPU s", "k records/CPU s")]
    for run in runs:
        rate = f"{run.records_per_cpu_second / 1e3:.0f}"
        rows.append((run.codec, str(run.records), f"{run.cpu_seconds:.4f}", rate))
    return text_table(rows, words=1)


def schema_ids_table(runs: Sequence[SchemaIdsPath]) -> str:
    """Returns what schema ids cost as text, one line each; the last column is × the last row's rate."""
    rows: list[Sequence[str]] = [("1 KiB of Avro", "k records/CPU s", "CPU s × checksums alone", "× Confluent's")]
    for run in runs:
        over_reading = "" if run.read_cpu_seconds is None else f"{run.cpu_seconds / run.read_cpu_seconds:.1f}"
        over_stock = f"{run.records_per_cpu_second / runs[-1].records_per_cpu_second:.1f}"
        rows.append((run.what, f"{run.records_per_cpu_second / 1e3:.0f}", over_reading, over_stock))
    return text_table(rows, words=1)


def _schema_figures(figures: SchemaFigures) -> dict[str, Any]:
    return {
        "copies": [
            {
                "codec": run.codec,
                "raw": _figures(run.raw),
                "rewritten": _figures(run.rewritten),
                "cpu_ratio": round(run.cpu_ratio, 3),
                "records_per_second": round(run.records_per_second),
            }
            for run in figures.copies
        ],
        "small": _figures(figures.small),
        "python_records_per_cpu_second": round(figures.python_records_per_cpu_second),
        "jvm_records_per_cpu_second": figures.jvm_records_per_cpu_second and round(figures.jvm_records_per_cpu_second),
    }


def schemas_table(figures: SchemaFigures) -> str:
    """Returns mirrors that rewrite schema ids as text, a line each: × a raw copy; and what that adds × others' work."""
    rows: list[Sequence[str]] = [
        (
            *("1 KiB of Avro", "k records/CPU s", "k records/s", "raw k records/CPU s", "CPU × raw"),
            *("rewriting alone k records/CPU s", "× Python", "× JVM"),
        )
    ]
    for run in figures.copies:
        rate, alone = run.rewritten.records_per_cpu_second, run.rewriting_records_per_cpu_second
        jvm = figures.jvm_records_per_cpu_second
        rows.append(
            (
                *(f"mirrored, {run.codec}", f"{rate / 1e3:.0f}", f"{run.records_per_second / 1e3:.0f}"),
                *(f"{run.raw.records_per_cpu_second / 1e3:.0f}", f"{run.cpu_ratio:.2f}"),
                f"{alone / 1e3:.0f}",
                *(f"{alone / figures.python_records_per_cpu_second:.1f}", "" if jvm is None else f"{alone / jvm:.1f}"),
            )
        )
    small = figures.small
    small_rate = small.copied_records / small.copy_wall_seconds
    small_cpu_rate = f"{small.records_per_cpu_second / 1e3:.0f}"
    rows.append(("100 B, none, nothing beside it", small_cpu_rate, f"{small_rate / 1e3:.0f}", "", "", "", "", ""))
    others = (
        ("Confluent's Python client, a thread", figures.python_records_per_cpu_second),
        ("Apicurio's JVM serde, a thread", figures.jvm_records_per_cpu_second),
    )
    rows.extend((name, f"{rate / 1e3:.0f}", "", "", "", "", "", "") for name, rate in others if rate is not None)
    return text_table(rows, words=1)


def latency_table(latencies: Sequence[Latency]) -> str:
    """Returns the latencies as text; the last two columns are the same records consumed at the source."""
    rows: list[Sequence[str]] = [
        ("latency at 200 records/s", "records", "p50 ms", "p99 ms", "max ms", "floor p50", "floor p99")
    ]
    for run in latencies:
        figures = (run.p50_ms, run.p99_ms, run.max_ms, run.floor_p50_ms, run.floor_p99_ms)
        rows.append((run.contender, str(run.records), *(f"{figure:.1f}" for figure in figures)))
    return text_table(rows, words=1)


def many_mirrors_table(run: ManyMirrors) -> str:
    """Returns one line of text about the many mirrors."""
    head = ("mirrors", "not moved", "records/s", "start s", "lag median", "lag max", "lag max s", "CPU s/s", "MB max")
    row = (
        *(str(run.mirrors), str(run.late_mirrors), f"{run.records_per_second:.0f}", f"{run.start_seconds:.1f}"),
        *(f"{median(run.lags_records):g}", str(run.lag_records_max), f"{run.lag_seconds_max:.2f}"),
        *(f"{run.cpu_seconds_per_second:.2f}", f"{run.memory_bytes_max / 1e6:.0f}"),
    )
    return text_table([head, row], words=0)


def idle_table(run: Idle) -> str:
    """Returns one line of text about the quiet partitions, and one for each process, in order of their memory."""
    head = ("quiet partitions", "CPU % of a core", "MB PSS", "first record s")
    first = f"{median(run.first_record_seconds):.1f}" if run.first_record_seconds else ""
    rows = [head, (str(run.partitions), f"{run.cpu_percent:.1f}", f"{run.memory_bytes / 1e6:.0f}", first)]
    rows.extend((name, "", f"{size / 1e6:.0f}", "") for name, size in run.memory_by_process)
    return text_table(rows, words=1)


def many_topics_table(run: ManyTopics) -> str:
    """Returns the figures of many topics, one line each."""
    rows = [
        (f"{run.topics} topics, {run.partitions} partitions", ""),
        ("start-up, until all is copied, s", f"{run.start_seconds:.1f}"),
        ("CPU while nothing happens, % of a core", f"{run.idle_cpu_percent:.1f}"),
        (f"CPU at {run.busy_records_per_second:.0f} records/s in 20 topics, %", f"{run.busy_cpu_percent:.1f}"),
        ("memory, MB PSS", f"{run.memory_bytes / 1e6:.0f}"),
        ("latency of these, p50 ms", f"{run.p50_ms:.1f}"),
        ("latency of these, p99 ms", f"{run.p99_ms:.1f}"),
        ("a new topic's first record, s", f"{run.new_topic_seconds:.1f}"),
        ("stop, s", f"{run.stop_seconds:.1f}"),
        ("plan, s", f"{run.plan_seconds:.1f}"),
        ("topics plan, s", f"{run.topics_plan_seconds:.1f}"),
        (f"groups sync, {run.groups} × {run.group_partitions} partitions, s", f"{run.group_sync_seconds:.1f}"),
    ]
    return text_table(rows, words=1)


def sql_table(runs: Sequence[SqlCount]) -> str:
    """Returns the queries as text, one line each, with the medians of their rounds."""
    rows: list[Sequence[str]] = [("sql over segments", "segments", "session s", "CPU s", "then s", "CPU s")]
    for name in dict.fromkeys(run.query for run in runs):
        of_one = [run for run in runs if run.query == name]
        figures = (
            [run.session_seconds for run in of_one],
            [run.session_cpu_seconds for run in of_one],
            [run.query_seconds for run in of_one],
            [run.query_cpu_seconds for run in of_one],
        )
        rows.append((name, str(of_one[0].segments), *(f"{median(each):.2f}" for each in figures)))
    return text_table(rows, words=1)


def restores_table(mirrored: Sequence[Measured], restores: Sequence[Restore]) -> str:
    """Returns the restores as text, one line each; the ratio is to the CPU of mirroring the same input."""
    rows: list[Sequence[str]] = [
        (
            "input",
            "from",
            "GB",
            "start s",
            "copy s",
            "copy CPU s",
            "MB/CPU s",
            "k records/CPU s",
            "MB max",
            "× mirrored",
        )
    ]
    for run in [*mirrored, *(each.restored for each in restores)]:
        peer = next((each for each in mirrored if each.input == run.input), None)
        ratio = f"{run.megabytes_per_cpu_second / peer.megabytes_per_cpu_second:.2f}" if peer else ""
        rows.append(
            (
                *(run.input, run.kind, f"{run.copied_bytes / 1e9:.2f}", f"{run.start_wall_seconds:.1f}"),
                *(f"{run.copy_wall_seconds:.1f}", f"{run.copy_cpu_seconds:.2f}", f"{run.megabytes_per_cpu_second:.0f}"),
                *(f"{run.records_per_cpu_second / 1e3:.0f}", f"{run.memory_bytes_max / 1e6:.0f}", ratio),
            )
        )
    return text_table(rows, words=2)


def merges_table(merges: Sequence[Merge]) -> str:
    """Returns the merges as text, one line each; MB are those of the inputs, as they lie in the folder."""
    rows: list[Sequence[str]] = [
        ("segments merged", "files", "MB", "MB of values", "start CPU s", "merge s", "merge CPU s", "MB/CPU s")
    ]
    for run in merges:
        rows.append(
            (
                *(run.records, str(run.segments), f"{run.input_bytes / 1e6:.0f}", f"{run.record_bytes / 1e6:.0f}"),
                *(f"{run.start_cpu_seconds:.1f}", f"{run.merge_seconds:.1f}", f"{run.merge_cpu_seconds:.2f}"),
                f"{run.megabytes_per_cpu_second:.0f}",
            )
        )
    return text_table(rows, words=1)


def frames_table(frames: Sequence[FrameRead]) -> str:
    """Returns the reads of live topics as text, one line each; the ratio is to Spark's own connector."""
    rows: list[Sequence[str]] = [("live topic read by", "input", "records", "s", "CPU s", "k records/CPU s", "× kafka")]
    for run in frames:
        peer = next((each for each in frames if (each.reader, each.input) == ("kafka", run.input)), None)
        ratio = f"{run.records_per_cpu_second / peer.records_per_cpu_second:.2f}" if peer else ""
        figures = (f"{run.read_seconds:.2f}", f"{run.read_cpu_seconds:.2f}", f"{run.records_per_cpu_second / 1e3:.0f}")
        rows.append((run.reader, run.input, str(run.records), *figures, ratio))
    return text_table(rows, words=2)


def text_table(rows: Sequence[Sequence[str]], *, words: int) -> str:
    """Returns rows as aligned text: the first ``words`` columns to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        texts = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return "\n".join(lines)


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or "unknown"


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "java": find_java().version,
    }
