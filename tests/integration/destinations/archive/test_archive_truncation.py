"""``on-truncation: skip``: an archive goes on behind what its source has deleted, and says what is missing."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.copies import archived_records
from support.leases import archive_work, lease_plan, run_lease
from support.records import consume, settings_of, simple_records
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka


def delete_before(servers: str, topic: str, offset: int) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.delete_records({TopicPartition(topic, 0): offset})

    asyncio.run(delete())


def archive(servers: str, topic: str, root: Path, *, end: int) -> LeaseRow:
    work = archive_work(root, TopicPartition(topic, 0), end=end)
    work = replace(work, settings=replace(work.settings, skips_truncated=True))
    return run_lease(lease_plan(servers, [(TopicPartition(topic, 0), [work])], end=None))[0, "lake"]


def gaps_of(root: Path, topic: str) -> list[tuple[str, tuple[Gap, ...]]]:
    archived = ArchivedPartition(FilesystemStore(root), destination_name=topic, partition=0, extension="parquet")
    found = []
    for path in sorted((root / topic / "0").iterdir()):
        with open_segment(archived.store, f"{topic}/0/{path.name}") as segment:
            assert segment.footer is not None
            found.append((path.name.split(".")[0].lstrip("0") or "0", segment.footer.gaps))
    return found


def truncated(start: int, end: int) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=GapKind.TRUNCATED)


def test_what_the_source_has_deleted_past_the_position_is_a_truncated_gap_of_the_next_segment(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers = source_kafka.bootstrap_servers
    make_topic(servers, topic_name, simple_records(20))
    assert archive(servers, topic_name, tmp_path, end=10).position == 10
    delete_before(servers, topic_name, 15)

    row = archive(servers, topic_name, tmp_path, end=20)

    assert (row.error, row.position) == (None, 20)
    assert row.gap_offsets == {"truncated": 5}
    assert [gaps for _, gaps in gaps_of(tmp_path, topic_name)] == [(), (truncated(10, 15),)]
    held = archived_records(tmp_path, topic_name)
    assert sorted(held) == [*range(10), *range(15, 20)]
    assert {offset: held[offset] for offset in range(15, 20)} == consume(servers, topic_name, 0)


def test_a_source_that_has_deleted_everything_past_the_position_is_archived_as_a_gap(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers = source_kafka.bootstrap_servers
    make_topic(servers, topic_name, simple_records(20))
    assert archive(servers, topic_name, tmp_path, end=10).position == 10
    delete_before(servers, topic_name, 20)

    assert archive(servers, topic_name, tmp_path, end=20).position == 20

    append(servers, topic_name, 0, simple_records(3))
    assert archive(servers, topic_name, tmp_path, end=23).position == 23
    assert [gaps for _, gaps in gaps_of(tmp_path, topic_name)] == [(), (truncated(10, 20),), ()]
