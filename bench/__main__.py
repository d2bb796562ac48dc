"""Runs the comparison: for everything that is measured two fresh brokers, filled, copied, looked at."""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import goals, results
from bench.brokers import BenchKafka, create_topics
from bench.contender import Contender, Kind, Measured, measure
from bench.far_clusters import ROUND_TRIPS_MS, Far, FarCopy, measure_far
from bench.fills import PARTITIONS, TOPIC, Fill, measure_fills
from bench.frames import measure_frames
from bench.help_time import measure_help
from bench.idle import FIRST_TOPIC, Idle, measure_idle
from bench.idle import PARTITIONS_PER_TOPIC as IDLE_PARTITIONS_PER_TOPIC
from bench.idle import TOPICS as IDLE_TOPICS
from bench.inputs import INPUTS, Input, fill
from bench.latency import LATENCY_INPUT, Latency, measure_latency
from bench.many_mirrors import PARTITIONS_PER_TOPIC, TOPICS, ManyMirrors, measure_many_mirrors
from bench.many_topics import PARTITIONS_PER_TOPIC as SCALE_PARTITIONS_PER_TOPIC
from bench.many_topics import TOPICS as SCALE_TOPICS
from bench.many_topics import ManyTopics, measure_many_topics
from bench.merges import measure_merges
from bench.mirror_maker import MirrorMaker
from bench.mirrorlake_contender import Mirrorlake, MirrorlakeArchive, MirrorlakeMap, MirrorlakeTls
from bench.records_path import measure_records_path
from bench.restores import FORMATS as RESTORES
from bench.restores import Restore, measure_restore
from bench.scale_out import ScaleOut, measure_scale_out
from bench.schema_copies import measure_schemas
from bench.schema_ids import measure_schema_ids
from bench.sql_counts import measure_sql_counts
from bench.storage import Place, Storage, bytes_of, choose_place
from bench.stores import STORES_INPUT, measure_stores
from mirrorlake.embedded.jars import kafka_libs

# With how many times the input each is measured by default: as many as about twenty seconds of copying need, the peer's
# too. A JVM that has just started compiles for seconds: MirrorMaker's bytes per CPU-second of k1 are a fifth to a third
# higher over three times the input than over one, and a comparison over one flatters us by as much.
CONTENDERS: dict[str, tuple[Callable[[], Contender], dict[str, int]]] = {
    "mm2": (MirrorMaker, {"k1": 3, "b100": 3, "s100": 12}),
    "mirrorlake": (Mirrorlake, {"k1": 11, "b100": 17, "s100": 12}),
    "mirrorlake-map": (MirrorlakeMap, {"k1": 11}),
    "mirrorlake-tls": (MirrorlakeTls, {"k1": 7}),
    "mirrorlake-archive": (MirrorlakeArchive, {"k1": 5, "b100": 12, "s100": 12}),
    "mirrorlake-ndjson": (partial(MirrorlakeArchive, Kind.NDJSON), {"k1": 5, "b100": 8, "s100": 8}),
    "mirrorlake-log": (partial(MirrorlakeArchive, Kind.LOG), {"k1": 3, "b100": 8, "s100": 12}),
}
FAR_CONTENDERS = ("mm2", "mirrorlake", "mirrorlake-map")
ARCHIVE_INPUTS = {"k1": 3, "b100": 4}
"""What is restored, and read as a DataFrame, and how many times the input that is."""
PARTS = (
    *("help", "sql", "copy", "far", "stores", "fills", "records", "schema-ids", "schemas", "latency", "many", "idle"),
    *("scale", "restore", "merge", "frames"),
)
MORE_PARTS = ("cluster", "scale-out")
"""Measured only where they are named: two workers of a cluster beside two brokers want more than two cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brokers:
    source: BenchKafka
    destination: BenchKafka
    contender_folder: Path


def main() -> None:
    """Measures what the command line names, prints tables and writes the results."""
    arguments = _arguments()
    # Else each process would compile anew what it imports, where the shell asks for no byte code: no user pays that.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # As Ctrl-C does: the brokers are stopped and their folders removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    found = results.Results()
    parts = arguments.part or PARTS
    if "help" in parts:
        found.help_seconds = measure_help()
        print(f"mirrorlake --help: {found.help_seconds:.2f} s\n", flush=True)
    if "sql" in parts:
        found.sql_counts = measure_sql_counts(arguments.sql_rounds)
        print(results.sql_table(found.sql_counts) + "\n", flush=True)
    if "copy" in parts:
        _copy(arguments, found)
    if "far" in parts:
        _far(arguments, found)
    if "cluster" in parts:
        _scale_out(arguments, found, Kind.KAFKA, "mirrorlake")
    if "scale-out" in parts:
        _scale_out(arguments, found, Kind.PARQUET, "mirrorlake-archive")
    if "stores" in parts:
        asyncio.run(_run_stores(arguments.stores_rounds, arguments.storage, found.stores))
    if "fills" in parts:
        found.fills = asyncio.run(_run_fills())
        print(results.fill_table(found.fills) + "\n", flush=True)
    if "records" in parts:
        found.records_paths = measure_records_path()
        print(results.records_table(found.records_paths) + "\n", flush=True)
    if "schema-ids" in parts:
        found.schema_ids = measure_schema_ids()
        print(results.schema_ids_table(found.schema_ids) + "\n", flush=True)
    if "schemas" in parts:
        found.schemas = measure_schemas(arguments.schemas_times, arguments.storage)
        print(results.schemas_table(found.schemas) + "\n", flush=True)
    if "latency" in parts:
        for contender in (Mirrorlake(), MirrorMaker(linger_ms=0)):
            found.latencies.append(asyncio.run(_run_latency(contender, arguments.latency_seconds)))
            print(results.latency_table(found.latencies) + "\n", flush=True)
    if "many" in parts:
        found.many_mirrors = asyncio.run(_run_many(arguments.many_seconds))
        print(results.many_mirrors_table(found.many_mirrors) + "\n", flush=True)
    if "idle" in parts:
        found.idle = asyncio.run(_run_idle(arguments.idle_seconds))
        print(results.idle_table(found.idle) + "\n", flush=True)
    if "scale" in parts:
        found.many_topics = asyncio.run(_run_scale(arguments.scale_seconds))
        print(results.many_topics_table(found.many_topics) + "\n", flush=True)
    if "restore" in parts:
        _restore(arguments, found)
    if "merge" in parts:
        found.merges = measure_merges()
        print(results.merges_table(found.merges) + "\n", flush=True)
    if "frames" in parts:
        _frames(arguments, found)
    print(f"{_summary(found)}\n\nwritten to {results.write(found, arguments.results)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--part",
        action="append",
        choices=[*PARTS, *MORE_PARTS],
        help="again for more; all but `cluster` and `scale-out` by default",
    )
    parser.add_argument("--input", action="append", choices=[*INPUTS], help="of copies; again for more")
    parser.add_argument("--contender", action="append", choices=[*CONTENDERS], help="of copies; again for more")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="one copy over each number of them")
    parser.add_argument(
        "--core-share",
        type=float,
        help="how much of a core each worker gets (needs root and cgroup v1); all of one of its own by default",
    )
    parser.add_argument("--times", type=int, help="how often each input is repeated, instead of each one's own number")
    parser.add_argument("--rounds", type=int, default=1, help="how often each copy is measured")
    parser.add_argument(
        "--storage",
        type=Storage,
        choices=[*Storage],
        help="what keeps the brokers' logs while copies are measured; memory by default where all fits there",
    )
    parser.add_argument(
        "--far", type=Far, action="append", choices=[*Far], help="which side is far away; again for the other"
    )
    parser.add_argument("--far-ms", type=int, action="append", help="round trip to the far side; again for more")
    parser.add_argument("--stores-rounds", type=int, default=3, help="how often each kind of store is measured")
    parser.add_argument("--sql-rounds", type=int, default=3, help="how often each query of `sql` is measured")
    parser.add_argument(
        "--schemas-times", type=int, default=4, help="millions of records that `schemas` copies, by codec"
    )
    parser.add_argument("--latency-seconds", type=float, default=60.0, help="how long latency is measured")
    parser.add_argument("--many-seconds", type=float, default=60.0, help="how long the two hundred mirrors run")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="how long the quiet partitions are looked at")
    parser.add_argument("--scale-seconds", type=float, default=60.0, help="how long the many topics are looked at")
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="folder for the results")
    return parser.parse_args()


def _copy(arguments: argparse.Namespace, found: results.Results) -> None:
    names, contenders = arguments.input or [*INPUTS], arguments.contender or [*CONTENDERS]
    wanted = {
        (name, contender): INPUTS[name].repeated(arguments.times or CONTENDERS[contender][1][name])
        for name in names
        for contender in contenders
        if name in CONTENDERS[contender][1]
    }
    needed_bytes = max((bytes_of(each, CONTENDERS[by][0]().kind) for (_, by), each in wanted.items()), default=0)
    place = choose_place(needed_bytes, wanted=arguments.storage)
    found.copies_storage = place.storage
    print(f"the brokers' logs are kept in {place.storage} ({place.folder})\n", flush=True)
    for name in names:
        # Round by round: what slows the machine for some minutes slows all contenders, and not one of them.
        for _round in range(arguments.rounds):
            for contender in (each for of, each in wanted if of == name):
                run = _run_copy(CONTENDERS[contender][0](), wanted[name, contender], place)
                found.copies.append(asyncio.run(run))
                print(results.copy_table(found.copies[-1:]) + "\n", flush=True)


def _far(arguments: argparse.Namespace, found: results.Results) -> None:
    names, contenders = arguments.input or ["k1", "b100"], arguments.contender or FAR_CONTENDERS
    for name in names:
        wanted = INPUTS[name].repeated(arguments.times or 1)
        place = choose_place(bytes_of(wanted, Kind.KAFKA), wanted=arguments.storage)
        for far in arguments.far or Far:
            for round_trip_ms in arguments.far_ms or ROUND_TRIPS_MS:
                for contender in contenders:
                    run = _run_far(CONTENDERS[contender][0](), wanted, place, far, round_trip_ms)
                    found.far.append(asyncio.run(run))
                    print(results.far_table(found.far[-1:]) + "\n", flush=True)


def _restore(arguments: argparse.Namespace, found: results.Results) -> None:
    for name in arguments.input or ARCHIVE_INPUTS:
        wanted = INPUTS[name].repeated(arguments.times or ARCHIVE_INPUTS.get(name, 1))
        place = choose_place(bytes_of(wanted, Kind.PARQUET), wanted=arguments.storage)
        for _round in range(arguments.rounds):
            found.mirrored.append(asyncio.run(_run_copy(Mirrorlake(), wanted, place)))
            for kind in RESTORES:
                found.restores.append(asyncio.run(_run_restore(kind, wanted, place)))
            print(results.restores_table(found.mirrored, found.restores) + "\n", flush=True)


def _frames(arguments: argparse.Namespace, found: results.Results) -> None:
    for name in arguments.input or ARCHIVE_INPUTS:
        wanted = INPUTS[name].repeated(arguments.times or 1)
        place = choose_place(bytes_of(wanted, Kind.KAFKA), wanted=arguments.storage)
        asyncio.run(_run_frames(wanted, place, found))
        print(results.frames_table(found.frames) + "\n", flush=True)


def _scale_out(arguments: argparse.Namespace, found: results.Results, kind: Kind, contender: str) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in arguments.input or ["k1"]:
        wanted = INPUTS[name].repeated(arguments.times or CONTENDERS[contender][1][name])
        place = choose_place(bytes_of(wanted, kind), wanted=arguments.storage)
        for _round in range(arguments.rounds):
            for count in arguments.workers:
                run = _run_scale_out(count, cores, wanted, place, arguments.core_share, kind)
                found.scale_out.append(asyncio.run(run))
                print(results.scale_out_table(found.scale_out) + "\n", flush=True)


def _summary(found: results.Results) -> str:
    tables = []
    if found.sql_counts:
        tables.append(results.sql_table(found.sql_counts))
    if found.copies:
        tables.append(results.copy_table(found.copies))
    if found.far:
        tables.append(results.far_table(found.far))
    if found.scale_out:
        tables.append(results.scale_out_table(found.scale_out))
    if found.stores:
        tables.append(results.stores_table(found.stores))
    if found.fills:
        tables.append(results.fill_table(found.fills))
    if found.records_paths:
        tables.append(results.records_table(found.records_paths))
    if found.schemas:
        tables.append(results.schemas_table(found.schemas))
    if found.latencies:
        tables.append(results.latency_table(found.latencies))
    if found.many_mirrors:
        tables.append(results.many_mirrors_table(found.many_mirrors))
    if found.idle:
        tables.append(results.idle_table(found.idle))
    if found.many_topics:
        tables.append(results.many_topics_table(found.many_topics))
    if found.restores:
        tables.append(results.restores_table(found.mirrored, found.restores))
    if found.merges:
        tables.append(results.merges_table(found.merges))
    if found.frames:
        tables.append(results.frames_table(found.frames))
    rows = [("goal", "", "wanted", "measured")]
    for goal in goals.judge(found):
        rows.append(
            (
                goal.name,
                "reached" if goal.is_reached else "MISSED",
                f"{goal.bound} {goal.wanted:g}",
                f"{goal.measured:.4g}",
            )
        )
    tables.append(results.text_table(rows, words=2))
    return "\n\n".join(tables)


async def _run_copy(contender: Contender, wanted: Input, place: Place) -> Measured:
    # Made on both sides, so that the watcher has something to ask for and nobody is charged for it.
    async with _brokers({wanted.name: wanted.partitions}, place.folder, forgets=True) as brokers:
        filled = await asyncio.to_thread(fill, brokers.source.port, wanted)
        return await measure(
            contender,
            source=brokers.source,
            destination=brokers.destination,
            wanted=wanted,
            filled=filled,
            folder=brokers.contender_folder,
        )


async def _run_restore(kind: Kind, wanted: Input, place: Place) -> Restore:
    async with _brokers({wanted.name: wanted.partitions}, place.folder, forgets=True) as brokers:
        filled = await asyncio.to_thread(fill, brokers.source.port, wanted)
        return await measure_restore(
            kind,
            source=brokers.source,
            destination=brokers.destination,
            wanted=wanted,
            filled=filled,
            folder=brokers.contender_folder,
        )


async def _run_frames(wanted: Input, place: Place, found: results.Results) -> None:
    async with _brokers({wanted.name: wanted.partitions}, place.folder) as brokers:
        filled = await asyncio.to_thread(fill, brokers.source.port, wanted)
        servers = brokers.source.bootstrap_servers
        found.frames += await asyncio.to_thread(measure_frames, servers, wanted.name, filled.records)


async def _run_far(contender: Contender, wanted: Input, place: Place, far: Far, round_trip_ms: int) -> FarCopy:
    async with _brokers({wanted.name: wanted.partitions}, place.folder, forgets=True) as brokers:
        filled = await asyncio.to_thread(fill, brokers.source.port, wanted)
        return await measure_far(
            contender,
            source=brokers.source,
            destination=brokers.destination,
            wanted=wanted,
            filled=filled,
            folder=brokers.contender_folder,
            far=far,
            round_trip_ms=round_trip_ms,
        )


async def _run_scale_out(
    count: int, cores: int, wanted: Input, place: Place, core_share: float | None, kind: Kind
) -> ScaleOut:
    async with _brokers({wanted.name: wanted.partitions}, place.folder, forgets=True) as brokers:
        filled = await asyncio.to_thread(fill, brokers.source.port, wanted)
        return await measure_scale_out(
            count,
            cores,
            core_share=core_share,
            kind=kind,
            source=brokers.source,
            destination=brokers.destination,
            wanted=wanted,
            filled=filled,
            folder=brokers.contender_folder,
        )


async def _run_stores(rounds: int, storage: Storage | None, found: list[Measured]) -> None:
    place = choose_place(bytes_of(STORES_INPUT, Kind.PARQUET), wanted=storage)
    async with _brokers({STORES_INPUT.name: STORES_INPUT.partitions}, place.folder) as brokers:
        filled = await asyncio.to_thread(fill, brokers.source.port, STORES_INPUT)
        async for run in measure_stores(
            source=brokers.source,
            destination=brokers.destination,
            filled=filled,
            folder=brokers.contender_folder,
            rounds=rounds,
        ):
            found.append(run)
            print(results.stores_table(found) + "\n", flush=True)


async def _run_fills() -> list[Fill]:
    async with _brokers({TOPIC: PARTITIONS}) as brokers:
        return await measure_fills(brokers.destination)


async def _run_latency(contender: Contender, seconds: float) -> Latency:
    async with _brokers({LATENCY_INPUT.name: LATENCY_INPUT.partitions}) as brokers:
        return await measure_latency(
            contender,
            source=brokers.source,
            destination=brokers.destination,
            folder=brokers.contender_folder,
            seconds=seconds,
        )


async def _run_many(seconds: float) -> ManyMirrors:
    async with _brokers(dict.fromkeys(TOPICS, PARTITIONS_PER_TOPIC)) as brokers:
        return await measure_many_mirrors(
            source=brokers.source, destination=brokers.destination, folder=brokers.contender_folder, seconds=seconds
        )


async def _run_idle(seconds: float) -> Idle:
    topics = {FIRST_TOPIC: 1, **dict.fromkeys(IDLE_TOPICS, IDLE_PARTITIONS_PER_TOPIC)}
    async with _brokers(topics) as brokers:
        return await measure_idle(
            source=brokers.source,
            destination=brokers.destination,
            folder=brokers.contender_folder,
            seconds=seconds,
            starts=3,
        )


async def _run_scale(seconds: float) -> ManyTopics:
    async with _brokers(dict.fromkeys(SCALE_TOPICS, SCALE_PARTITIONS_PER_TOPIC)) as brokers:
        return await measure_many_topics(
            source=brokers.source, destination=brokers.destination, folder=brokers.contender_folder, seconds=seconds
        )


@asynccontextmanager
async def _brokers(
    topics: dict[str, int], place: Path | None = None, *, forgets: bool = False
) -> AsyncIterator[_Brokers]:
    """Starts two brokers with these topics (by name, with their partitions) on both; their logs are below ``place``.

    Where ``forgets``, the destination keeps the newest of them only.
    """
    libs = kafka_libs()
    with tempfile.TemporaryDirectory(prefix="mirrorlake-bench-", dir=place) as name:
        folder = Path(name)
        new_broker = partial(BenchKafka, libs=libs)
        own = folder / "contender"
        own.mkdir()
        with (
            new_broker(folder / "source") as source,
            new_broker(folder / "destination", forgets=forgets) as destination,
        ):
            for server in (source, destination):
                await create_topics(server, topics)
            yield _Brokers(source=source, destination=destination, contender_folder=own)


if __name__ == "__main__":
    main()
