"""`on-truncation: skip` of an archive that has lost its newest segments: the loss is told, and not called a gap."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended
from support.compaction import keyed_records
from support.lossy_archive import LossyArchive
from support.object_servers import ObjectServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FORMS = ["parquet", "ndjson", "log"]
WITH_DESCRIPTIONS = ["ndjson", "log"]

Make = Callable[..., LossyArchive]


@pytest.fixture
def make(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Make:
    def make(
        form: str = "parquet", policy: str = "skip", more: str = "", bucket: ObjectServer | None = None
    ) -> LossyArchive:
        servers = source_kafka.bootstrap_servers
        return LossyArchive(servers, topic_name, tmp_path, form=form, policy=policy, more=more, bucket=bucket)

    return make


@pytest.fixture(params=["disk", "bucket"])
def place(request: pytest.FixtureRequest) -> ObjectServer | None:
    return request.getfixturevalue("versitygw") if request.param == "bucket" else None


def refused(ended: Ended, words: str) -> None:
    assert ended.code == 3, ended.err
    assert "reason=chain-broken" in ended.err
    assert words in ended.err


@pytest.mark.parametrize("form", FORMS)
def test_a_lost_end_that_the_source_has_deleted_too_is_no_gap_until_somebody_says_so(
    form: str, make: Make, place: ObjectServer | None
) -> None:
    """No object says how far a Parquet archive had come but the topic's record, of the end of the last run."""
    archive = make(form, bucket=place)
    archive.archive(10, 10, 10)
    archive.lose(10, 19)
    archive.lose(20, 29)
    archive.truncate(25)
    archive.add(5)

    refused(archive.run(), "had reached offset 30")

    assert archive.segments() == [(0, 9)], "nothing was published"
    archive.put_back()
    assert archive.run().code == 0
    assert archive.segments() == [(0, 9), (10, 19), (20, 29), (30, 34)]
    assert archive.do("archive", "check").code == 0
    archive.lose(30, 34)
    archive.truncate(35)
    for path in archive.records_of_topic:
        path.unlink()
    for path in archive.descriptions.glob(f"{30:020}-*"):
        path.unlink()
    assert archive.run().code == 0, "somebody has said so"
    assert archive.segments() == [(0, 9), (10, 19), (20, 29), (30, 34)]


@pytest.mark.parametrize("form", WITH_DESCRIPTIONS)
def test_descriptions_beside_lost_segments_are_asked_where_no_record_says_how_far_it_had_come(
    form: str, make: Make, place: ObjectServer | None
) -> None:
    archive = make(form, bucket=place)
    archive.archive(10, 10)
    for path in archive.records_of_topic:
        path.unlink()
    archive.lose(10, 19)
    archive.truncate(20)
    archive.add(5)

    ended = archive.run()

    refused(ended, f"_meta/0/{archive.name(10, 19)}.json describes one behind it")
    assert f"delete what {archive.topic}/_meta/0 holds from {10:020} on to continue without it" in ended.err
    assert archive.segments() == [(0, 9)]
    (problem,) = archive.do("archive", "check", "--format", "json").rows()[0]["problems"]
    assert problem["problem"] in ended.err, "a check says the same"

    for path in archive.descriptions.glob(f"{10:020}-*"):
        path.unlink()
    for path in archive.records_of_topic:
        path.unlink()
    assert archive.run().code == 0
    assert archive.segments() == [(0, 9), (10, 24)]


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_lost_all_it_had_and_no_record_says_so_begins_with_no_gap(form: str, make: Make) -> None:
    archive = make(form)
    archive.archive(10)
    for path in archive.records_of_topic:
        path.unlink()
    archive.lose(0, 9)
    archive.truncate(10)
    archive.add(5)

    if form == "parquet":
        assert archive.run().code == 0, "nothing knows of it"
        assert archive.segments() == [(0, 14)]
    else:
        refused(archive.run(), "describes one behind it")
        assert archive.segments() == []


def test_without_skip_the_truncation_is_told_and_nothing_published(make: Make) -> None:
    archive = make(policy="park")
    archive.archive(10, 10)
    archive.lose(10, 19)
    archive.truncate(20)
    archive.add(5)

    ended = archive.run()

    assert ended.code == 3
    assert "reason=truncated" in ended.err
    assert archive.segments() == [(0, 9)]


@pytest.mark.parametrize("form", FORMS)
def test_a_lost_end_that_the_source_still_has_is_archived_again(form: str, make: Make) -> None:
    archive = make(form)
    archive.archive(10, 10)
    archive.lose(10, 19)

    assert archive.run().code == 0

    assert archive.segments() == [(0, 9), (10, 19)]
    assert archive.do("archive", "check").code == 0


def test_a_lost_newest_snapshot_that_the_source_has_deleted_too_is_no_gap(
    make: Make, place: ObjectServer | None
) -> None:
    archive = make(more=", compaction: log", bucket=place)
    for start in (0, 10):
        archive.add(10, keyed_records(10, 3, start=start))
        assert archive.run().code == 0
    assert archive.segments() == [(0, 9), (10, 19)]
    archive.lose(10, 19)
    archive.truncate(20)
    archive.add(5, keyed_records(5, 3, start=20))

    refused(archive.run(), "had reached offset 20")
    assert archive.segments() == [(0, 9)]

    archive.put_back()
    assert archive.run().code == 0
    assert archive.segments()[-1] == (20, 24)


@pytest.mark.parametrize("more", ["", ", compaction: log"])
def test_verify_and_plan_say_that_the_newest_segment_is_gone(more: str, make: Make) -> None:
    archive = make(more=more)
    archive.archive(10, 10)
    assert archive.do("verify").code == 0
    archive.lose(10, 19)
    for level in ("records", "checksums", "names"):
        ended = archive.do("verify", "--level", level, "--format", "json")
        (row,) = ended.rows()
        assert (ended.code, row["result"]) == (1, "failed"), level
        assert "had reached offset 20" in row["error"]
    assert archive.do("plan").code == 0, "it will be archived again"
    archive.truncate(20)
    archive.add(5, keyed_records(5, 3, start=20))
    ended = archive.do("plan", "--format", "json")
    (row,) = ended.rows()
    assert (ended.code, row["action"]) == (1, "refused")
    assert "had reached offset 20" in row["error"]


def merge(archive: LossyArchive) -> None:
    merged = archive.do("archive", "merge")
    assert merged.code == 0, merged.err
    assert archive.segments() == [(0, 29), (30, 39)]


def retain(archive: LossyArchive) -> None:
    assert archive.do("archive", "retain").code == 0
    assert archive.segments() == [(30, 39)]


def erase(archive: LossyArchive) -> None:
    assert archive.do("archive", "erase", "--topic", archive.topic, "--key", "k3").code == 0


def restore_a_backup(archive: LossyArchive) -> None:
    shutil.copytree(archive.lake, archive.attic / "backup")
    archive.archive(10)
    shutil.rmtree(archive.lake)
    shutil.copytree(archive.attic / "backup", archive.lake)
    shutil.rmtree(archive.attic / "backup")


KEPT: dict[Callable[[LossyArchive], None], str] = {
    merge: ", merge: {steps: [{min-age: 0s, max-bytes: 64MiB}], min-files: 2, min-bytes: 0, keep-inputs: 0s}",
    retain: ", retain: {max-bytes: 1}",
    erase: "",
    restore_a_backup: "",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("act", KEPT)
def test_what_was_never_archived_is_a_gap_of_an_archive_that_was_kept(
    act: Callable[[LossyArchive], None], form: str, make: Make
) -> None:
    archive = make(form, more=KEPT[act])
    archive.archive(10, 10, 10, 10)
    act(archive)
    before, (row,) = archive.segments(), archive.do("archive", "ls", "--format", "json").rows()
    erased = row["gaps"]
    archive.add(20)
    archive.truncate(archive.count - 5)

    ended = archive.run()

    assert ended.code == 0, ended.err
    assert archive.segments() == [*before, (40, archive.count - 1)]
    assert archive.do("archive", "check").code == 0
    (row,) = archive.do("archive", "ls", "--format", "json").rows()
    assert row["gaps"] == erased + archive.count - 5 - 40


def test_how_far_an_archive_has_come_is_said_by_few_small_objects_however_often_it_runs(make: Make) -> None:
    archive = make()
    archive.archive(*[10] * 5)

    assert [path.name for path in archive.records_of_topic] == ["_topic.4.json", "_topic.5.json"]
    assert archive.run().code == 0
    assert [path.name for path in archive.records_of_topic] == ["_topic.4.json", "_topic.5.json"], "nothing was new"
