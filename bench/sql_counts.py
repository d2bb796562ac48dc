"""How long ``mirrorlake sql`` takes to count an archive of a thousand segments, from the session's start on.

As a module, ``python -m bench.sql_counts CONFIG QUERY`` is one such query: as the command does it, with a look at clock
and CPU before and behind the session's start, and behind the last row.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.process_tree import ProcessTree, used
from bench.segments import TOPIC, write_segment
from mirrorlake.cli.sql import query_settings
from mirrorlake.cli.start import load
from mirrorlake.stores.filesystem import FilesystemStore

PARTITIONS = 4
SEGMENTS = 1000
RECORDS_PER_SEGMENT = 1000
RECORD_BYTES = 100

QUERIES = {
    "count": f"select count(*) as n from lake.{TOPIC}",
    "count by partition": f"select partition, count(*) as n from lake.{TOPIC} group by partition order by partition",
    "count of one partition": f"select count(*) as n from lake.{TOPIC} where partition = 1",
    "last offsets": f"select partition, max(offset) as n from lake.{TOPIC} group by partition order by partition",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCount:
    """One query over ``segments`` files: the session's start, and what came behind it, of all our processes."""

    query: str
    segments: int
    records: int
    session_seconds: float
    session_cpu_seconds: float
    query_seconds: float
    query_cpu_seconds: float


def measure_sql_counts(rounds: int) -> list[SqlCount]:
    """Measures each query ``rounds`` times, each time by a process of its own.

    Raises:
        RuntimeError: a query failed, or its result is wrong.
    """
    found: list[SqlCount] = []
    with tempfile.TemporaryDirectory(prefix="mirrorlake-bench-") as name:
        config = _write_archive(Path(name))
        for _round in range(rounds):
            found += [_run(config, query) for query in QUERIES]
    return found


def _run(config: Path, name: str) -> SqlCount:
    command = [sys.executable, "-m", "bench.sql_counts", str(config), QUERIES[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    told = json.loads(done.stdout.splitlines()[-1])
    rows = [row["n"] for row in told.pop("rows")]
    each = SEGMENTS // PARTITIONS * RECORDS_PER_SEGMENT
    wanted = {
        "count": [SEGMENTS * RECORDS_PER_SEGMENT],
        "count by partition": [each] * PARTITIONS,
        "count of one partition": [each],
        "last offsets": [each - 1] * PARTITIONS,
    }
    if rows != wanted[name]:
        raise RuntimeError(f"{name}: {rows}, and {wanted[name]} should be")
    return SqlCount(query=name, segments=SEGMENTS, records=SEGMENTS * RECORDS_PER_SEGMENT, **told)


def _write_archive(folder: Path) -> Path:
    """Writes the archive, and returns the path of a configuration that names it ``lake``."""
    store = FilesystemStore(folder / "lake")
    store.root.mkdir()
    for partition in range(PARTITIONS):
        for number in range(SEGMENTS // PARTITIONS):
            write_segment(store, partition, number * RECORDS_PER_SEGMENT, _values())
    config = folder / "mirror.yaml"
    config.write_text(
        "clusters: {east: {bootstrap-servers: '127.0.0.1:1'}}\n"
        f"stores: {{lake: {{type: filesystem, root: {store.root}}}}}\n"
        f"mirrors: [{{name: orders, source: {{cluster: east, topics: [{TOPIC}]}}, "
        "destinations: [{type: archive, store: lake}]}]\n",
        encoding="utf-8",
    )
    return config


def _values() -> list[bytes]:
    return [os.urandom(RECORD_BYTES) for _ in range(RECORDS_PER_SEGMENT)]


def main() -> None:
    """Runs one query, and prints its rows and what it took, as JSON."""
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.spark_source.sql import prepare, run_query
    from mirrorlake.spark_source.sql_output import write_rows

    configuration = load(Path(sys.argv[1]))
    query = prepare(configuration, sys.argv[2])
    tree = ProcessTree(os.getpid())
    looks = [tree.moment()]
    with build_session(query_settings(configuration, query, is_stopping=bool)) as session:
        looks.append(tree.moment())
        rows = io.BytesIO()
        write_rows(run_query(session.spark, configuration, query), "json", rows)
        looks.append(tree.moment())
    told = used("session", looks[0], looks[1]) | used("query", looks[1], looks[2])
    print(json.dumps({"rows": [json.loads(line) for line in rows.getvalue().splitlines()], **told}))


if __name__ == "__main__":
    main()
