"""Which topics an archive has: none is left out and none is taken for another, whatever its folder is called.

Crossed: how a topic is selected, whether its name looks like another one's generation, what is wrong with it.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.cli.start import load
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import ChainBrokenError, StoreUnavailableError, TransientError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from mirrorlake.sources.client import SourceTopic, SourceTopics
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings
from support.archived_source import archive, held_records, settings_at, source_at, write_segment
from support.records import build_batch, simple_records

CONTENT = held_records([(0, build_batch(simple_records(10)))])
SELECTIONS = {"by name": '[events, events.2, "/nothing.*/"]', "by an expression": '["/events.*/"]'}


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemSettings:
    (tmp_path / "lake").mkdir()
    (tmp_path / "copy").mkdir()
    return settings_at(tmp_path / "lake")


def put(lake: FilesystemSettings, folder: str, *, topic: str = "", topic_id: str = "", partition: int = 0) -> None:
    """Archives ten records of a topic, its folder's name unless another is given."""
    where = TopicPartition(folder, partition)
    archive(lake, where, CONTENT, [10], form="parquet", topic=topic or folder, topic_id=topic_id or f"id-{folder}")


def put_by_mirror_v3(lake: FilesystemSettings, folder: str, partition: int = 0) -> None:
    write_segment(open_store(lake), TopicPartition(folder, partition), CONTENT, 0, 10, form="mirror-v3")


def found(lake: FilesystemSettings, run_async: RunAsync, names: list[str] | None = None) -> SourceTopics:
    async def body() -> SourceTopics:
        cache = WorkerCache()
        answer = await source_at(lake).client(cache).topics(names)
        await cache.close()
        return answer

    return run_async(body())


def ids(topics: SourceTopics) -> Mapping[str, str]:
    return {name: topic.topic_id for name, topic in topics.topics.items()}


def planned(lake: FilesystemSettings, run_async: RunAsync, topics: str) -> list[PlanRow]:
    path = lake.root.parent / "mirror.yaml"
    path.write_text(
        f"""
stores:
  lake: {{type: filesystem, root: "{lake.root}"}}
  copy: {{type: filesystem, root: "{lake.root.parent / "copy"}"}}
mirrors:
  - {{name: back, source: {{store: lake, topics: {topics}}}, destinations: [{{type: archive, store: copy}}]}}
"""
    )

    async def body() -> list[PlanRow]:
        return await read_plan(load(path))

    return run_async(body())


def actions(rows: list[PlanRow]) -> dict[str, Action]:
    return {row.status.target.source.topic: row.action for row in rows}


# --- generations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [None, ["events", "events.2"]], ids=["all", "by name"])
@pytest.mark.parametrize("writer", ["mirrorlake", "mirror-v3", "both"])
def test_a_topic_whose_name_looks_like_a_generation_of_another_is_a_topic_of_its_own(
    lake: FilesystemSettings, run_async: RunAsync, names: list[str] | None, writer: str
) -> None:
    if writer == "mirrorlake":
        put(lake, "events")
    else:
        put_by_mirror_v3(lake, "events")
    if writer == "mirror-v3":
        put_by_mirror_v3(lake, "events.2")
    else:
        put(lake, "events.2")
    # Without a record of its own `events` is no topic whose records are those of `events.2`.
    of_events = "id-events" if writer == "mirrorlake" else ""
    of_second = "" if writer == "mirror-v3" else "id-events.2"
    topics = found(lake, run_async, names)
    assert (ids(topics), dict(topics.errors)) == ({"events": of_events, "events.2": of_second}, {})


@pytest.mark.parametrize("first", ["with a record", "of mirror-v3", "gone"])
def test_a_generation_is_told_by_its_record_and_is_no_topic_of_its_own(
    lake: FilesystemSettings, run_async: RunAsync, first: str
) -> None:
    if first == "with a record":
        put(lake, "events", topic_id="one")
    elif first == "of mirror-v3":
        put_by_mirror_v3(lake, "events")
    put(lake, "events.2", topic="events", topic_id="two")
    assert ids(found(lake, run_async)) == {"events": "two"}
    assert ids(found(lake, run_async, ["events"])) == {"events": "two"}


def test_a_generation_that_was_recorded_and_is_gone_is_not_passed_over_for_an_older_one(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    put(lake, "events", topic_id="one")
    put(lake, "events.2", topic="events", topic_id="two")
    put(lake, "events-of-others")
    shutil.rmtree(lake.root / "events.2")
    for names in (None, ["events", "events-of-others"]):
        topics = found(lake, run_async, names)
        assert ids(topics) == {"events-of-others": "id-events-of-others"}
        assert "events.2 is gone" in str(topics.errors["events"])


# --- what is wrong with a topic is said, and hides no other -------------------------------------------------


@pytest.mark.parametrize("topics", list(SELECTIONS.values()), ids=list(SELECTIONS))
def test_a_topic_whose_record_is_damaged_is_refused_and_hides_no_other(
    lake: FilesystemSettings, run_async: RunAsync, topics: str
) -> None:
    put(lake, "events")
    put(lake, "events.2")
    put(lake, "events-of-others")
    (lake.root / "events.2" / "_topic.json").write_bytes(b"{")
    rows = planned(lake, run_async, topics)
    others = {} if "nothing" in topics else {"events-of-others": Action.COPY}
    # Whether `events.2` is the newest generation of `events` is not known either.
    assert actions(rows) == {"events": Action.REFUSE, "events.2": Action.REFUSE} | others
    assert {type(row.error) for row in rows if row.action is Action.REFUSE} == {ChainBrokenError}


@pytest.mark.parametrize("topics", list(SELECTIONS.values()), ids=list(SELECTIONS))
@pytest.mark.parametrize("asked", ["list", "folders"])
def test_a_topic_that_cannot_be_asked_for_is_tried_again_and_hides_no_other(
    lake: FilesystemSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch, topics: str, asked: str
) -> None:
    put(lake, "events")
    put_by_mirror_v3(lake, "events.2")
    answers = getattr(FilesystemStore, asked)

    def fails_or_answers(self: FilesystemStore, prefix: str, **more: str) -> object:
        if prefix == "events.2":
            raise StoreUnavailableError("no answer")
        return answers(self, prefix, **more)

    monkeypatch.setattr(FilesystemStore, asked, fails_or_answers)
    rows = planned(lake, run_async, topics)
    assert actions(rows)["events.2"] is Action.UNREACHABLE
    assert "events" in actions(rows)
    (second,) = [row for row in rows if row.status.target.source.topic == "events.2"]
    assert isinstance(second.error, TransientError)


@pytest.mark.parametrize("topics", list(SELECTIONS.values()), ids=list(SELECTIONS))
def test_a_topic_that_was_recorded_and_whose_folder_is_gone_is_refused_and_hides_no_other(
    lake: FilesystemSettings, run_async: RunAsync, topics: str
) -> None:
    put(lake, "events")
    put(lake, "events-of-others")
    shutil.rmtree(lake.root / "events")
    rows = planned(lake, run_async, topics)
    assert actions(rows)["events"] is Action.REFUSE
    (gone,) = [row.error for row in rows if row.status.target.source.topic == "events"]
    assert isinstance(gone, ChainBrokenError)
    assert "delete _mirrorlake/topics/events" in gone.hint
    if "nothing" not in topics:
        assert actions(rows)["events-of-others"] is Action.COPY


def test_a_topic_of_a_name_that_never_was_is_missing(lake: FilesystemSettings, run_async: RunAsync) -> None:
    put(lake, "events")
    rows = planned(lake, run_async, "[other]")
    assert [row.as_row()["reason"] for row in rows] == ["missing"]


# --- partitions ---------------------------------------------------------------------------------------------


def test_a_topic_is_made_with_as_many_partitions_as_the_highest_number_needs(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    """mirror-v3 makes no folder for a partition without a record, and has no record of how many there are."""
    for number in (0, 4):
        put_by_mirror_v3(lake, "events", number)
    topic: SourceTopic = found(lake, run_async).topics["events"]
    assert (sorted(topic.partitions), topic.partition_count) == ([0, 4], 5)
    rows = planned(lake, run_async, "[events]")
    assert [(row.status.target.source.partition, row.status.target.source_partitions) for row in rows] == [
        (0, 5),
        (4, 5),
    ]
