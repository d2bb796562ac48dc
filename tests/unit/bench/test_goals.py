"""Goals are judged by the figures of a run, on the right side of each bound."""

from bench.contender import Kind, Measured
from bench.fills import Fill
from bench.frames import FrameRead
from bench.goals import Bound, Goal, judge
from bench.latency import Latency
from bench.many_mirrors import ManyMirrors
from bench.merges import Merge
from bench.records_path import RecordsPath
from bench.restores import Restore
from bench.results import Results
from bench.schema_copies import SchemaCopies, SchemaFigures
from bench.sql_counts import SqlCount


def copy(
    contender: str,
    *,
    name: str = "k1",
    kind: Kind = Kind.KAFKA,
    megabytes: int = 1000,
    records: int = 1_000_000,
    wall_seconds: float = 10.0,
    cpu_seconds: float = 10.0,
    memory_bytes_max: int = 0,
) -> Measured:
    return Measured(
        contender=contender,
        kind=kind,
        input=name,
        records=records,
        wire_bytes=megabytes * 1_000_000,
        copied_records=records,
        copied_bytes=megabytes * 1_000_000,
        start_wall_seconds=5.0,
        start_cpu_seconds=5.0,
        copy_wall_seconds=wall_seconds,
        copy_cpu_seconds=cpu_seconds,
        source_cpu_seconds=0.0,
        destination_cpu_seconds=0.0,
        memory_bytes_max=memory_bytes_max,
    )


def goals(results: Results) -> dict[str, tuple[float, bool]]:
    return {goal.name: (goal.measured, goal.is_reached) for goal in judge(results)}


def test_cpu_and_wall_are_compared_per_byte_not_per_run() -> None:
    # Five times the bytes in 2.5 times the CPU: twice as good. In twice the time: 2.5 times as fast.
    peer = copy("MirrorMaker 2 4.3.0", megabytes=1000, cpu_seconds=10.0, wall_seconds=10.0)
    ours = copy("mirrorlake 0.1.0", megabytes=5000, cpu_seconds=25.0, wall_seconds=20.0)

    found = goals(Results(copies=[peer, ours]))

    assert found == {
        "k1: bytes per CPU-second, × MirrorMaker 2, in every round": (2.0, False),
        "k1: bytes per second, × MirrorMaker 2": (2.5, True),
        "k1: seconds of steady copying": (10.0, False),  # the peer's, which has to warm up too
    }


def test_of_small_batches_only_cpu_is_judged() -> None:
    peer = copy("MirrorMaker 2 4.3.0", name="s100", cpu_seconds=10.0)
    ours = copy("mirrorlake 0.1.0", name="s100", cpu_seconds=2.5, wall_seconds=5.0)

    assert goals(Results(copies=[peer, ours])) == {
        "s100: bytes per CPU-second, × MirrorMaker 2, in every round": (4.0, True)
    }


def test_the_cpu_of_a_copy_is_judged_in_every_round_beside_that_of_the_peer() -> None:
    peers = [copy("MirrorMaker 2 4.3.0", cpu_seconds=seconds) for seconds in (10.0, 20.0, 12.0)]
    ours = [
        copy("mirrorlake 0.1.0", cpu_seconds=cpu_seconds, wall_seconds=seconds)
        for cpu_seconds, seconds in ((1.0, 5.0), (2.5, 1.0), (0.5, 10.0))
    ]

    found = goals(Results(copies=[each for both in zip(peers, ours, strict=True) for each in both]))

    assert found["k1: bytes per CPU-second, × MirrorMaker 2, in every round"] == (8.0, False)
    # Of the seconds of all rounds the median counts.
    assert found["k1: bytes per second, × MirrorMaker 2"] == (2.0, False)


def test_an_archive_is_judged_by_records_and_never_against_the_peer() -> None:
    peer = copy("MirrorMaker 2 4.3.0", name="b100")
    ours = copy("mirrorlake 0.1.0 to Parquet", name="b100", kind=Kind.PARQUET, records=5_000_000, cpu_seconds=2.5)

    assert goals(Results(copies=[peer, ours])) == {"b100: records per CPU-second to Parquet": (2_000_000.0, True)}


def test_an_archive_of_batches_is_judged_by_bytes() -> None:
    ours = copy("mirrorlake 0.1.0 to log", kind=Kind.LOG, megabytes=1300, cpu_seconds=2.0)

    assert goals(Results(copies=[ours])) == {"k1: MB per CPU-second to an archive of batches": (650.0, True)}


def test_a_bucket_is_judged_by_the_folders_cpu_per_byte() -> None:
    folder = [copy("folder", kind=Kind.PARQUET, megabytes=4000, cpu_seconds=seconds) for seconds in (8.0, 7.0, 20.0)]
    bucket = [copy("bucket", kind=Kind.PARQUET_S3_TLS, megabytes=2000, cpu_seconds=seconds) for seconds in (5.0, 4.6)]

    ((name, (ratio, is_reached)),) = goals(Results(stores=[*folder, *bucket])).items()

    # Medians of 2.0 and 2.4 seconds a gigabyte.
    assert name == "k1: CPU-seconds per byte, parquet in S3 over TLS × folder"
    assert (round(ratio, 6), is_reached) == (1.2, False)


def test_memory_is_the_most_that_any_round_took() -> None:
    rounds = [copy("mirrorlake 0.1.0", name="b100", memory_bytes_max=gib << 29) for gib in (1, 3)]

    assert goals(Results(copies=rounds))["b100: GiB of memory, all processes"] == (1.5, False)


def test_latency_is_judged_for_us_alone() -> None:
    def latency(contender: str, p50_ms: float, p99_ms: float) -> Latency:
        return Latency(
            contender=contender,
            records=100,
            seconds=1.0,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            max_ms=p99_ms,
            floor_p50_ms=0.5,
            floor_p99_ms=1.0,
        )

    found = goals(Results(latencies=[latency("mirrorlake 0.1.0", 5.0, 300.1), latency("MirrorMaker 2", 1.0, 2.0)]))

    assert found == {"latency p50, ms": (5.0, True), "latency p99, ms": (300.1, False)}


def test_the_lag_of_many_mirrors_is_judged_as_time() -> None:
    run = ManyMirrors(
        mirrors=200,
        seconds=60.0,
        records_per_second=2000.0,
        start_seconds=10.0,
        late_mirrors=1,
        lags_records=(3, 20, 0),
        cpu_seconds_per_second=0.5,
        memory_bytes_max=0,
    )

    # Ten records a second for each mirror, so twenty are two seconds.
    assert goals(Results(many_mirrors=run)) == {
        "200 mirrors: those that did not move": (1, False),
        "200 mirrors: largest lag, seconds": (2.0, True),
    }


def test_a_run_without_figures_has_no_goals() -> None:
    assert judge(Results()) == []


def test_a_bound_is_reached_when_it_is_met_exactly() -> None:
    assert Goal(name="x", bound=Bound.AT_MOST, wanted=1.0, measured=1.0).is_reached
    assert Goal(name="x", bound=Bound.AT_LEAST, wanted=1.0, measured=1.0).is_reached
    assert not Goal(name="x", bound=Bound.AT_LEAST, wanted=1.0, measured=0.9).is_reached


def test_mapped_and_encrypted_copies_are_judged_by_themselves_and_not_against_the_peer() -> None:
    peer = copy("MirrorMaker 2 4.3.0")
    ours = copy("mirrorlake 0.1.0", cpu_seconds=1.0)
    mapped = copy("mirrorlake 0.1.0, offsets mapped", kind=Kind.KAFKA_MAPPED, cpu_seconds=1.2)
    tls = copy("mirrorlake 0.1.0 over TLS", kind=Kind.KAFKA_TLS, cpu_seconds=2.5)

    found = goals(Results(copies=[peer, ours, mapped, tls]))

    assert found["k1: bytes per CPU-second, × MirrorMaker 2, in every round"] == (10.0, True)
    ratio, is_reached = found["k1: CPU-seconds per byte, offsets mapped × preserved"]
    assert (round(ratio, 6), is_reached) == (1.2, False)
    assert found["k1: GB per CPU-second, TLS on both sides"] == (0.4, True)


def test_fills_are_judged_by_their_rate_and_by_what_many_at_once_cost() -> None:
    def fill(gap_fill: str, partitions: int, offsets: int, seconds: float) -> Fill:
        return Fill(gap_fill=gap_fill, partitions=partitions, offsets=offsets, wall_seconds=seconds, cpu_seconds=0.0)

    alone, together = fill("markers", 1, 1000, 4.0), fill("markers", 20, 1000, 10.0)
    fillers = [fill("filler", 1, 1_000_000, seconds) for seconds in (0.5, 0.7)]

    assert goals(Results(fills=[alone, together, *fillers])) == {
        "markers per second on one partition": (250.0, True),
        "markers on 20 partitions at once, × the time of one": (2.5, False),
        "seconds for 1 000 000 offsets by filler": (0.6, True),
    }


def test_the_records_path_is_judged_by_codec() -> None:
    runs = [
        RecordsPath(codec="none", records=600_000, cpu_seconds=1.0),
        RecordsPath(codec="lz4", records=1, cpu_seconds=1),
    ]

    assert goals(Results(records_paths=runs)) == {
        "compacted source, none: records per CPU-second": (600_000.0, True),
        "compacted source, lz4: records per CPU-second": (1.0, False),
    }


def test_counting_by_sql_is_judged_from_the_sessions_start_on_and_other_queries_are_not() -> None:
    def run(query: str, seconds: float) -> SqlCount:
        return SqlCount(
            query=query,
            segments=1000,
            records=1_000_000,
            session_seconds=9.0,
            session_cpu_seconds=9.0,
            query_seconds=seconds,
            query_cpu_seconds=1.0,
        )

    runs = [run("count", 1.5), run("last offsets", 30.0), run("count", 2.5), run("count", 2.0)]

    assert goals(Results(sql_counts=runs)) == {"sql: seconds for a count over 1000 segments": (2.0, True)}


def restore(kind: Kind, *, cpu_seconds: float, name: str = "k1") -> Restore:
    archived = copy("mirrorlake 0.1.0 to an archive", name=name, kind=Kind.LOG)
    return Restore(archived=archived, restored=copy("mirrorlake 0.1.0", name=name, kind=kind, cpu_seconds=cpu_seconds))


def test_a_restore_of_batches_is_judged_beside_mirroring_in_the_same_run() -> None:
    mirrored = copy("mirrorlake 0.1.0", cpu_seconds=2.0)
    other = copy("mirrorlake 0.1.0", name="b100", cpu_seconds=100.0)

    found = goals(Results(mirrored=[mirrored, other], restores=[restore(Kind.RESTORED_LOG, cpu_seconds=3.0)]))

    assert found == {"k1: CPU-seconds per byte, restored from log × mirrored": (1.5, True)}


def test_a_restore_of_decoded_records_is_judged_by_records() -> None:
    # A million records in four CPU-seconds, and in one.
    runs = [
        restore(Kind.RESTORED_PARQUET, cpu_seconds=4.0),
        restore(Kind.RESTORED_PARQUET, cpu_seconds=1.0, name="b100"),
        restore(Kind.RESTORED_PARQUET, cpu_seconds=1.0, name="s100"),
    ]

    assert goals(Results(restores=runs)) == {
        "k1: records per CPU-second restored from Parquet": (250_000.0, False),
        "b100: records per CPU-second restored from Parquet": (1_000_000.0, True),
    }


def test_merging_is_judged_by_bytes_of_parquet_and_reading_by_sparks_connector() -> None:
    merge = Merge(
        records="1 KiB, text",
        segments=10,
        input_bytes=300_000_000,
        record_bytes=1_000_000_000,
        start_cpu_seconds=9.0,
        merge_seconds=1.0,
        merge_cpu_seconds=2.0,
    )
    reads = [
        FrameRead(reader=reader, input="k1", records=1_000_000, read_seconds=1.0, read_cpu_seconds=seconds)
        for reader, seconds in (("mirrorlake", 2.0), ("kafka", 3.0))
    ]

    assert goals(Results(merges=[merge], frames=reads)) == {
        "merge, 1 KiB, text: MB of Parquet per CPU-second": (150.0, True),
        "k1: live topic as a DataFrame, × Spark's connector": (1.5, False),
    }


def test_rewritten_schema_ids_are_judged_beside_a_raw_copy_and_by_what_they_add_to_it() -> None:
    # Two seconds more for a million records: half a million of them a second.
    raw = copy("mirrorlake 0.1.0", cpu_seconds=4.0)
    rewritten = copy("mirrorlake 0.1.0, schema ids rewritten", cpu_seconds=6.0, wall_seconds=4.0)
    figures = SchemaFigures(
        copies=[SchemaCopies(codec="lz4", raw=raw, rewritten=rewritten)],
        small=rewritten,
        python_records_per_cpu_second=20_000.0,
        jvm_records_per_cpu_second=100_000.0,
    )
    found = goals(Results(schemas=figures))
    assert {name: (round(ratio, 6), is_reached) for name, (ratio, is_reached) in found.items()} == {
        "schema ids, lz4: CPU-seconds per byte, × a raw copy": (1.5, True),
        "schema ids, lz4: rewriting × Confluent's for Python": (25.0, True),
        "schema ids, lz4: rewriting × Apicurio's on a JVM": (5.0, False),
        "schema ids, 100 B, alone: records per second": (250_000.0, False),
    }
