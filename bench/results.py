"""Results as JSON, one file per run of the comparison, and as a table."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from bench.contender import Measured
from mirrorlake.embedded.jars import KAFKA_VERSION
from mirrorlake.java import find_java

RESULTS = Path(__file__).parent / "results"


def write(measured: Sequence[Measured], folder: Path = RESULTS) -> Path:
    """Writes the figures with the commit and the machine they were seen on, and returns the new file."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    content = {
        "at": moment,
        "commit": _commit(),
        "machine": _machine(),
        "kafka": KAFKA_VERSION,
        "runs": [
            {**asdict(run), "megabytes_per_cpu_second": round(run.megabytes_per_cpu_second, 1)} for run in measured
        ],
    }
    path = folder / f"{moment}.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def table(measured: Sequence[Measured]) -> str:
    """Returns the runs as text, one line each; ratios are to the first contender of the same input."""
    head = (
        "input",
        "contender",
        "start s",
        "start CPU s",
        "copy s",
        "copy CPU s",
        "MB/CPU s",
        "MB max",
        "× CPU",
    )
    rows = [head]
    for run in measured:
        first = next(other for other in measured if other.input == run.input)
        rows.append(
            (
                *(run.input, run.contender, f"{run.start_wall_seconds:.1f}", f"{run.start_cpu_seconds:.1f}"),
                *(f"{run.copy_wall_seconds:.1f}", f"{run.copy_cpu_seconds:.2f}"),
                *(f"{run.megabytes_per_cpu_second:.0f}", f"{run.memory_bytes_max / 1e6:.0f}"),
                f"{run.megabytes_per_cpu_second / first.megabytes_per_cpu_second:.1f}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for row in rows:
        texts = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
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
