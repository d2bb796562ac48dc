"""How often a merge lists a folder: once for each group, for safety, and once for all of them behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content
from mirrorlake.archive.sidecar import sidecar_folder
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import load_configuration
from mirrorlake.pipeline.batch_jobs import BatchJobs
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.service.archives.merging import MergeRow, MergeRun, plan_places
from mirrorlake.service.archives.places import Filters, places_of
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectInfo
from support.archives import mark_archive, write_segment
from support.command import write_yaml

SEGMENTS, OF_A_GROUP = 41, 10
GROUPS = (SEGMENTS - 1) // OF_A_GROUP


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were listed whole, in order."""
    listed: list[str] = []
    listing = FilesystemStore.list

    def counted(self: FilesystemStore, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        if not start_after:
            listed.append(prefix)
        return listing(self, prefix, start_after=start_after)

    monkeypatch.setattr(FilesystemStore, "list", counted)
    return listed


def merged(folder: Path, *, keep_inputs: str) -> list[MergeRow]:
    file = write_yaml(
        folder / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {folder / "lake"}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations:
      - type: archive
        store: lake
        format: ndjson
        merge:
          steps: [{{min-age: 0s, max-bytes: 1GiB}}]
          max-files: {OF_A_GROUP}
          min-bytes: 1
          keep-inputs: {keep_inputs}
""",
    )
    planned = plan_places(places_of(load_configuration(file), Filters()).places, clock=SystemClock())
    engine = InProcessEngine(SessionSettings(lanes=1))
    jobs = BatchJobs(engine, slots=lambda: 1)
    return MergeRun(planned, jobs=jobs, clock=SystemClock()).run()


@pytest.mark.parametrize(("keep_inputs", "left"), [("0s", GROUPS + 1), ("1d", GROUPS + SEGMENTS)])
def test_many_groups_of_a_partition_are_looked_at_once_each_and_once_together(
    tmp_path: Path, looks: list[str], keep_inputs: str, left: int
) -> None:
    (tmp_path / "lake").mkdir()
    for number in range(SEGMENTS):
        write_segment(tmp_path / "lake", "orders", 0, 10 * number, 10 * number + 10, extension="ndjson")
    mark_archive(tmp_path / "lake", {"orders": {0: 10 * SEGMENTS}})
    looks.clear()

    rows = merged(tmp_path, keep_inputs=keep_inputs)

    assert [row.result for row in rows] == ["merged"] * GROUPS
    archived = ArchivedPartition(
        FilesystemStore(tmp_path / "lake"), destination_name="orders", partition=0, extension="ndjson"
    )
    folder = archived.prefix
    at_the_plan = 2  # for what it holds, and for whether it holds snapshots
    assert looks.count(folder) == at_the_plan + GROUPS + 1
    assert looks.count(sidecar_folder(folder)) == 1
    assert len([*archived.store.list(folder)]) == left
    assert len([*archived.store.list(sidecar_folder(folder))]) == left
    assert check_archived_content(archived) == GROUPS + 1
