"""What leases need of a host, and what is said of one that lacks it."""

import pickle
from pathlib import Path

import pytest

import mirrorlake
from mirrorlake.archive.root_marker import ROOT_MARKER
from mirrorlake.config.loading import parse_configuration
from mirrorlake.pipeline.cluster.check import check, clock, unreadable_here, wrong_here
from mirrorlake.pipeline.cluster.needs import Needs, RootSeen, needs_of

CONFIGURATION = """
clusters:
  east:
    bootstrap-servers: "east:9092"
    properties:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: me
      sasl.password: {{file: /run/secrets/east}}
      ssl.truststore.location: /etc/east.pem
  west:
    bootstrap-servers: "west:9092"
    properties:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: me
      sasl.password: ${{WEST}}
  unused:
    bootstrap-servers: "unused:9092"
    properties: {{security.protocol: SSL, ssl.truststore.location: /etc/unused.pem}}
stores:
  lake: {{type: filesystem, root: {root}}}
  bucket: {{type: s3, bucket: b, region: r, ca-file: /etc/bucket.pem, endpoint: "https://s3", access-key-id: "${{KEY}}",
            secret-access-key: {{file: /run/secrets/bucket}}}}
mirrors:
  - name: m
    source: {{cluster: east, topics: [t]}}
    destinations:
      - {{type: kafka, cluster: west}}
      - {{type: archive, store: lake}}
      - {{type: archive, store: bucket}}
  - name: off
    enabled: false
    source: {{cluster: unused, topics: [t]}}
    destinations: [{{type: kafka, cluster: west, topic: elsewhere}}]
"""


def needs(root: Path, monkeypatch: pytest.MonkeyPatch) -> Needs:
    environ = {"WEST": "hunter2", "KEY": "key"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return needs_of(parse_configuration(CONFIGURATION.format(root=root).encode(), file="c.yaml", environ=environ))


def test_all_that_enabled_mirrors_read_on_a_host_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = needs(tmp_path, monkeypatch)
    assert [root.path for root in found.roots] == [str(tmp_path)]
    assert found.files == ("/etc/bucket.pem", "/etc/east.pem", "/run/secrets/bucket", "/run/secrets/east")
    assert found.variables == ("KEY", "WEST")
    assert found.version == mirrorlake.__version__
    assert b"hunter2" not in pickle.dumps(found)


def test_a_host_that_has_everything_has_nothing_wrong(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    (row,) = check(pickle.dumps(Needs(roots=(RootSeen.look(str(tmp_path)),), files=(str(file),), variables=("HOME",))))
    assert row["wrong"] == []
    assert row["version"] == mirrorlake.__version__
    assert isinstance(clock(b"")[0]["now_seconds"], float)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    wanted = Needs(
        version="9.9", roots=(RootSeen.look(str(root)),), files=(f"{tmp_path}/no.pem",), variables=("NO_SUCH_VARIABLE",)
    )
    root.rmdir()
    assert wrong_here(wanted) == [
        f"it has mirrorlake {mirrorlake.__version__}, the driver has 9.9",
        f"there is no folder {root}, the root of an archive",
        f"there is no file {tmp_path}/no.pem",
        "the environment variable NO_SUCH_VARIABLE is not set",
    ]


def test_a_folder_of_the_same_name_that_is_another_one_is_told_from_it(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()

    def trouble() -> list[str]:
        seen = RootSeen.look(str(there))
        return wrong_here(Needs(roots=(RootSeen(str(here), seen.inode, seen.marker),)))

    (line,) = trouble()
    assert line == f"{here} is not the folder that the driver has there: all hosts must share it"
    (there / ROOT_MARKER).write_bytes(b"one")
    assert trouble(), "one archive has a marker, the other folder has none and another number"
    (here / ROOT_MARKER).write_bytes(b"another")
    assert trouble()
    (here / ROOT_MARKER).write_bytes(b"one")
    assert trouble() == [], "one archive seen through two mounts"


def test_a_marker_that_was_made_a_moment_ago_may_be_seen_later_elsewhere(tmp_path: Path) -> None:
    seen = RootSeen.look(str(tmp_path))
    assert seen.inode is not None
    assert wrong_here(Needs(roots=(RootSeen(str(tmp_path), (seen.inode[0], 0), b"made by the driver"),))) == []


def test_a_root_that_the_driver_misses_too_is_left_to_who_opens_the_archive() -> None:
    assert wrong_here(Needs(roots=(RootSeen.look("/no/such/folder"),))) == []


def test_the_clock_that_is_told_is_the_wall_clock() -> None:
    now = clock(b"")[0]["now_seconds"]
    assert isinstance(now, float)
    assert now > 1.7e9


def test_what_reads_alone_asks_for_the_same_archive_and_not_that_it_can_be_written(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("lake", "copy", "bare")]
    for root in roots:
        root.mkdir()
    lake, copy, bare = roots
    (lake / ROOT_MARKER).write_bytes(b"one")
    (copy / ROOT_MARKER).write_bytes(b"another")
    (tmp_path / "link").symlink_to(lake)

    def trouble(there: Path, here: Path) -> list[str]:
        seen = RootSeen.look(str(there))
        return unreadable_here(Needs(roots=(RootSeen(str(here), seen.inode, seen.marker),)))

    assert trouble(lake, tmp_path / "link") == []
    assert trouble(lake, copy) == [f"{copy} is not the folder that the driver has there: all hosts must share it"]
    assert trouble(lake, bare) == [f"{bare} is not the folder that the driver has there: all hosts must share it"]
    assert trouble(bare, lake) == [], "of an archive without a marker nobody can tell"
    (missing,) = trouble(lake, tmp_path / "none")
    assert f"there is no folder {tmp_path / 'none'}" in missing
    lake.chmod(0o500)
    assert trouble(lake, lake) == []
    wrong = unreadable_here(Needs(version="9.9", files=("/no/such/ca.pem",)))
    assert wrong == [
        f"it has mirrorlake {mirrorlake.__version__}, the driver has 9.9",
        "there is no file /no/such/ca.pem",
    ]
