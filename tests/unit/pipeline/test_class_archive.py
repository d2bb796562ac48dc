import os
import time
from pathlib import Path

import pytest

from mirrorlake.pipeline.class_archive import (
    archive_path,
    being_made,
    cache_folder,
    make_options,
    use_options,
)


@pytest.fixture
def java(tmp_path: Path) -> Path:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "modules").write_bytes(b"modules")
    executable = home / "bin" / "java"
    executable.touch()
    return executable


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "spark-core.jar").write_bytes(b"core")
    return folder


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MIRRORLAKE_CACHE": "/m", "XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/m/class-archive"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/mirrorlake/class-archive"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/mirrorlake/class-archive"),
        ({"HOME": "/h"}, "/h/.cache/mirrorlake/class-archive"),
    ],
)
def test_archives_lie_in_the_users_cache_folder(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == Path(expected)


def test_the_name_stays_while_nothing_changes(tmp_path: Path, java: Path, jars: Path) -> None:
    first = archive_path(tmp_path, java=java, jars=jars, flags=["-a"])
    assert archive_path(tmp_path, java=java, jars=jars, flags=["-a"]) == first
    assert first.parent == tmp_path


def test_the_name_changes_with_java_jars_and_flags(tmp_path: Path, java: Path, jars: Path) -> None:
    names = {archive_path(tmp_path, java=java, jars=jars, flags=["-a"])}
    names.add(archive_path(tmp_path, java=java, jars=jars, flags=["-b"]))
    (jars / "extra.jar").touch()
    names.add(archive_path(tmp_path, java=java, jars=jars, flags=["-a"]))
    (java.parent.parent / "lib" / "modules").write_bytes(b"another build")
    names.add(archive_path(tmp_path, java=java, jars=jars, flags=["-a"]))
    assert len(names) == 4


def test_an_archive_is_used_only_where_it_exists(tmp_path: Path) -> None:
    archive = tmp_path / "spark-1.jsa"
    assert use_options(archive) == ()
    archive.touch()
    assert use_options(archive) == (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto")


def test_what_was_written_is_put_in_place(tmp_path: Path) -> None:
    archive = tmp_path / "new" / "spark-1.jsa"
    with being_made(archive) as being_written:
        assert being_written is not None
        assert make_options(being_written) == (f"-XX:ArchiveClassesAtExit={being_written}",)
        being_written.write_bytes(b"classes")
        assert not archive.exists()
    assert archive.read_bytes() == b"classes"
    assert [path.name for path in archive.parent.iterdir()] == ["spark-1.jsa"]


def test_an_archive_that_exists_is_not_made_again(tmp_path: Path) -> None:
    archive = tmp_path / "spark-1.jsa"
    archive.write_bytes(b"classes")
    with being_made(archive) as being_written:
        assert being_written is None
    assert archive.read_bytes() == b"classes"


def test_only_one_process_makes_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "spark-1.jsa"
    with being_made(archive) as first, being_made(archive) as second:
        assert first is not None
        assert second is None


def test_a_jvm_that_wrote_nothing_is_asked_again_only_after_a_day(tmp_path: Path) -> None:
    archive = tmp_path / "spark-1.jsa"
    with being_made(archive) as being_written:
        assert being_written is not None
    assert not archive.exists()
    with being_made(archive) as being_written:
        assert being_written is None

    two_days_ago = time.time() - 2 * 86_400
    os.utime(tmp_path / "spark-1.tried", (two_days_ago, two_days_ago))
    with being_made(archive) as being_written:
        assert being_written is not None


def test_a_failure_while_making_leaves_no_archive(tmp_path: Path) -> None:
    archive = tmp_path / "spark-1.jsa"

    def make() -> None:
        with being_made(archive) as being_written:
            assert being_written is not None
            being_written.write_bytes(b"half")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        make()
    assert [path.name for path in tmp_path.iterdir()] == ["spark-1.tried"]


def test_a_folder_that_cannot_be_written_gives_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with being_made(tmp_path / "file" / "spark-1.jsa") as being_written:
        assert being_written is None


def test_archives_for_other_versions_go_a_month_after_their_last_use(tmp_path: Path) -> None:
    old, recent = tmp_path / "spark-old.jsa", tmp_path / "spark-recent.jsa"
    for other, days in ((old, 40), (recent, 20)):
        other.touch()
        os.utime(other, (time.time() - days * 86_400,) * 2)
    with being_made(tmp_path / "spark-1.jsa"):
        pass
    assert not old.exists()
    assert recent.exists()
