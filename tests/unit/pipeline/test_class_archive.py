import os
import shutil
import stat
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from mirrorlake import class_archive
from mirrorlake.class_archive import (
    archive_path,
    cache_folder,
    is_trusted,
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


def being_made(archive: Path) -> AbstractContextManager[Path | None]:
    return class_archive.being_made(archive, java=Path("/no/java"), jars=Path("/no/jars"), flags=["-a"])


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
    assert use_options(archive)[:2] == (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto")
    assert "-XX:ArchiveRelocationMode=0" in use_options(archive), "mapped where it was made for, it stays the file's"


def test_what_was_written_is_put_in_place(tmp_path: Path) -> None:
    archive = tmp_path / "new" / "spark-1.jsa"
    with being_made(archive) as being_written:
        assert being_written is not None
        assert make_options(being_written) == (f"-XX:ArchiveClassesAtExit={being_written}",)
        being_written.write_bytes(b"classes")
        assert not archive.exists()
    assert archive.read_bytes() == b"classes"
    assert sorted(path.name for path in archive.parent.iterdir()) == ["spark-1.for", "spark-1.jsa"]
    assert stat.S_IMODE(archive.parent.stat().st_mode) == 0o700


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


def test_archives_that_do_not_say_what_they_were_made_for_go_a_week_after_their_last_use(tmp_path: Path) -> None:
    old, recent = tmp_path / "spark-old.jsa", tmp_path / "spark-recent.jsa"
    for other, days in ((old, 10), (recent, 5)):
        other.touch()
        os.utime(other, (time.time() - days * 86_400,) * 2)
    with being_made(tmp_path / "spark-1.jsa"):
        pass
    assert not old.exists()
    assert recent.exists()


def make(folder: Path, java: Path, jars: Path, flag: str) -> Path:
    archive = archive_path(folder, java=java, jars=jars, flags=[flag])
    with class_archive.being_made(archive, java=java, jars=jars, flags=[flag]) as being_written:
        if being_written is not None:
            being_written.write_bytes(b"classes")
    return archive


def test_archives_of_virtual_environments_that_are_gone_or_have_changed_go_at_once(
    tmp_path: Path, java: Path, jars: Path
) -> None:
    folder = tmp_path / "cache"
    gone, changed, kept = (tmp_path / name for name in ("gone", "changed", "kept"))
    for other in (gone, changed, kept):
        shutil.copytree(jars, other)
    archives = {other: make(folder, java, other, "-a") for other in (gone, changed, kept)}
    unused = make(folder, java, kept, "-old")
    os.utime(unused, (time.time() - 40 * 86_400,) * 2)

    shutil.rmtree(gone)
    (changed / "spark-core.jar").write_bytes(b"a newer core")
    mine = make(folder, java, jars, "-a")
    assert set(folder.glob("*.jsa")) == {archives[kept], mine}
    assert set(folder.glob("*.for")) == {archives[kept].with_suffix(".for"), mine.with_suffix(".for")}

    shutil.rmtree(kept)
    make(folder, java, jars, "-a")
    assert set(folder.glob("*.jsa")) == {mine}, "also where there is nothing to make"


def test_an_archive_that_somebody_else_could_have_put_there_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    archive = folder / "spark-1.jsa"
    archive.touch()
    assert is_trusted(archive)
    for path, mode in ((archive, 0o666), (folder, 0o777)):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        assert use_options(archive) == (), oct(mode)
        with being_made(folder / "spark-2.jsa") as being_written:
            assert (being_written is None) == (path == folder)
        path.chmod(before)
    folder.chmod(0o1777)
    assert use_options(archive) != (), "as in /tmp: nobody else can exchange a file of ours"


def test_an_archive_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:  # Only root can make files of others: everybody else becomes another.
        (tmp_path / "spark-1.jsa").touch()
        monkeypatch.setattr(os, "getuid", lambda: 65534)
        assert use_options(tmp_path / "spark-1.jsa") == ()
        return
    folder, mine = tmp_path / "mirrorlake", tmp_path / "mine"
    for each in (folder, mine):
        each.mkdir()
        (each / "spark-1.jsa").touch()
    os.chown(folder / "spark-1.jsa", 65534, 65534)
    assert use_options(folder / "spark-1.jsa") == ()

    os.chown(folder / "spark-1.jsa", 0, 0)
    os.chown(folder, 65534, 65534)
    assert use_options(folder / "spark-1.jsa") == (), "its folder is another's"
    with being_made(folder / "spark-2.jsa") as being_written:
        assert being_written is None

    link = tmp_path / "link"
    link.symlink_to(mine)
    assert use_options(link / "spark-1.jsa") != ()
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert use_options(link / "spark-1.jsa") == (), "another may let the link lead elsewhere"


def test_a_user_without_a_home_has_a_folder_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(environ: object) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(class_archive, "user_cache_folder", no_home)
    assert cache_folder() == Path(tempfile.gettempdir()) / f"mirrorlake-cache-{os.getuid()}" / "class-archive"


def test_programs_have_archives_of_their_own_and_leave_those_of_others(tmp_path: Path, java: Path, jars: Path) -> None:
    folder, brokers = tmp_path / "cache", tmp_path / "brokers"
    shutil.copytree(jars, brokers)
    spark = make(folder, java, jars, "-a")
    kafka = archive_path(folder, java=java, jars=jars, flags=["-a"], program="kafka")
    assert kafka.name == spark.name.replace("spark-", "kafka-")

    shutil.rmtree(jars)  # nobody takes Spark's any more, which is for its own maker to see
    with class_archive.being_made(kafka, java=java, jars=brokers, flags=["-a"]) as being_written:
        assert being_written is not None
        being_written.write_bytes(b"classes")
    assert set(folder.glob("*.jsa")) == {spark, kafka}
