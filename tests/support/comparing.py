"""`archive diff` as its verdicts tell it, asked in this process; and archives of records that a test writes down."""

from collections.abc import Mapping, Sequence

from mirrorlake.offsets import Gap, OffsetRange, TopicPartition
from mirrorlake.pipeline.batch_jobs import BatchJobs, all_slots
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.verify.diff.comparison import Comparison, LookAtSides, look_at_sides
from mirrorlake.verify.diff.places import Named, pairs_of
from mirrorlake.verify.diff.ranges import EVERYTHING
from mirrorlake.verify.diff.verdict import Verdict
from support.archived_source import archive
from support.held_source import HeldPartition
from support.records import Record, build_batch, settings_of

ORDERS = TopicPartition("orders", 0)


def held(records: Mapping[int, Record], *, batch_records: int = 3) -> HeldPartition:
    """Records at their offsets, in batches of so many at most, none with a hole in it."""
    content = HeldPartition()
    batch: list[Record] = []
    base = 0
    for offset, record in sorted(records.items()):
        if batch and (offset != base + len(batch) or len(batch) == batch_records):
            content.add(base, build_batch(batch))
            batch = []
        if not batch:
            base = offset
        batch.append(record)
    if batch:
        content.add(base, build_batch(batch))
    return content


def write_orders(
    place: StoreSettings,
    records: Mapping[int, Record],
    ends: Sequence[int],
    *,
    form: str = "parquet",
    batch_records: int = 3,
    gaps: Sequence[Gap] = (),
    configs: Mapping[str, str | None] | None = None,
    start: int = 0,
) -> ArchiveSourceWork:
    """Writes `orders-0` as segments with these ends; what lies below ``start`` the source had lost."""
    content = held(records, batch_records=batch_records)
    content.start = start
    archive(place, ORDERS, content, ends, form=form, gaps=gaps, configs=configs)
    return lake(place)


def lake(place: StoreSettings) -> ArchiveSourceWork:
    """An archive as one side."""
    return ArchiveSourceWork(store_name="lake", store=place)


def cluster(servers: str) -> KafkaSourceWork:
    """A cluster as one side."""
    return KafkaSourceWork(cluster=settings_of(servers, "east"))


def verdicts(
    a: ArchiveSourceWork | KafkaSourceWork,
    b: ArchiveSourceWork | KafkaSourceWork,
    topics: tuple[str, str] = ("orders", "orders"),
    *,
    asked: OffsetRange = EVERYTHING,
    look: LookAtSides = look_at_sides,
) -> list[Verdict]:
    """What a comparison of two topics says, partition by partition."""
    engine = InProcessEngine(SessionSettings(lanes=1, batch_slots=0))
    try:
        found = pairs_of(Named(work=a, topic=topics[0]), Named(work=b, topic=topics[1]))
        jobs = BatchJobs(engine, slots=all_slots(engine))
        return [*Comparison(found.pairs, jobs=jobs, asked=asked, look=look).run(), *found.verdicts]
    finally:
        engine.stop()


def verdict(
    a: ArchiveSourceWork | KafkaSourceWork,
    b: ArchiveSourceWork | KafkaSourceWork,
    topics: tuple[str, str] = ("orders", "orders"),
    *,
    asked: OffsetRange = EVERYTHING,
    look: LookAtSides = look_at_sides,
) -> Verdict:
    """The same of topics with one partition."""
    (found,) = verdicts(a, b, topics, asked=asked, look=look)
    return found


def said(found: Verdict) -> tuple[str, list[str], list[str]]:
    """A verdict as words: the result, what differs, and what is explained."""
    runs = [[words(run.offsets, run.how, run.why) for run in each] for each in (found.differences, found.explained)]
    return found.result.value, runs[0], runs[1]


def words(offsets: OffsetRange, how: str, why: str) -> str:
    """A difference as a line."""
    return f"{how} {offsets.start_offset}-{offsets.end_offset - 1} {why}".strip()
