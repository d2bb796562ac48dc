import errno
import fcntl
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.clock import ManualClock
from mirrorlake.errors import (
    ConfigurationError,
    MirrorlakeError,
    StoreUnavailableError,
    StoreUnusableError,
)
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectExistsError
from mirrorlake.stores.os_errors import store_error
from mirrorlake.stores.staged_file import STAGED_MARK

FAR_FUTURE_SECONDS = 4_000_000_000.0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_staged_file_lies_beside_its_target_under_a_name_mirror_v3_skips(tmp_path: Path) -> None:
    staged = FilesystemStore(tmp_path).stage("orders/0", "00000000000000000000")
    (name,) = names(tmp_path / "orders/0")
    assert name.startswith("00000000000000000000.tmp.")
    assert len(name) == len("00000000000000000000.tmp.") + 36
    staged.discard()
    assert names(tmp_path / "orders/0") == []


def test_publishing_links_and_never_renames(tmp_path: Path) -> None:
    steps: list[str] = []
    store = FilesystemStore(tmp_path, crash_point=steps.append)
    staged = store.stage("orders/0", "s")
    staged.file.write(b"x")
    staged.publish("orders/0/final")
    assert steps == [
        "make the staged file",
        "sync the staged file",
        "link the name",
        "unlink the staged name",
        "sync the folder",
    ]
    assert names(tmp_path / "orders/0") == ["final"]
    assert (tmp_path / "orders/0/final").stat().st_nlink == 1


def test_a_lost_race_leaves_the_winner_and_no_staged_file(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.create("orders/0/a", b"first")
    before = (tmp_path / "orders/0/a").stat()
    with pytest.raises(ObjectExistsError):
        store.create("orders/0/a", b"second")
    after = (tmp_path / "orders/0/a").stat()
    assert names(tmp_path / "orders/0") == ["a"]
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_link_that_was_made_though_the_answer_said_exists_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network file system does when it repeats a request whose answer was lost."""
    make_link = os.link

    def link_twice(source: Path, target: Path) -> None:
        make_link(source, target)
        make_link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    FilesystemStore(tmp_path).create("orders/0/a", b"x")
    assert (tmp_path / "orders/0/a").read_bytes() == b"x"


def test_looking_creates_nothing(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    assert list(store.list("orders/0")) == []
    assert list(store.folders("orders")) == []
    store.sweep_staged("orders/0")
    store.delete("orders/0/a")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda store: list(store.list("orders/0")),
        lambda store: list(store.folders("")),
        lambda store: store.read("orders/0/a"),
        lambda store: store.create("orders/0/a", b""),
        lambda store: store.stage("orders/0", "a"),
        lambda store: store.sweep_staged("orders/0"),
        lambda store: store.probe(),
    ],
)
def test_a_missing_root_is_refused_by_name_and_never_made(
    tmp_path: Path, use: Callable[[FilesystemStore], object]
) -> None:
    root = tmp_path / "not-mounted"
    with pytest.raises(StoreUnusableError, match="not-mounted does not exist") as refused:
        use(FilesystemStore(root))
    assert "create it, or mount" in refused.value.hint
    assert not root.exists()


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusableError, match="is not a folder"):
        FilesystemStore(tmp_path / "file").probe()


def test_a_file_where_a_folder_is_needed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("")
    store = FilesystemStore(tmp_path)
    with pytest.raises(StoreUnusableError, match="orders"):
        store.create("orders/0/a", b"")
    with pytest.raises(StoreUnusableError, match="orders"):
        list(store.list("orders/0"))


def test_a_listing_shows_everything_that_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to(tmp_path / "folder")
    (tmp_path / "to-file").symlink_to(tmp_path / "file")
    (tmp_path / "to-nowhere").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "x.tmp.y").write_bytes(b"")
    listed = {info.name: info.size_bytes for info in FilesystemStore(tmp_path).list("")}
    assert listed == {"file": 3, "to-file": 3, "to-nowhere": 0, "pipe": 0}


def test_a_name_that_is_not_unicode_is_shown(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).write_bytes(b"")
    (info,) = FilesystemStore(tmp_path).list("")
    assert os.fsencode(info.name) == b"\xff"


def test_a_folder_removed_while_running_is_made_again(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.create("orders/0/a", b"")
    shutil.rmtree(tmp_path / "orders")
    store.create("orders/0/a", b"")
    assert names(tmp_path / "orders/0") == ["a"]


def test_a_store_travels_to_another_process(tmp_path: Path) -> None:
    FilesystemStore(tmp_path).create("a", b"x")
    assert pickle.loads(pickle.dumps(FilesystemStore(tmp_path))).read("a") == b"x"


def test_a_full_disk_while_writing_is_a_passing_error(tmp_path: Path) -> None:
    staged = FilesystemStore(tmp_path).stage("", "s")
    monkey = os.write

    def no_room(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    os.write = no_room
    try:
        with pytest.raises(StoreUnavailableError, match="No space left") as full:
            staged.file.write(b"x")
    finally:
        os.write = monkey
    assert full.value.hint == "free some space"
    staged.discard()
    assert names(tmp_path) == []


def test_a_file_system_without_hard_links_fails_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreUnusableError, match="Operation not supported") as refused:
        FilesystemStore(tmp_path).probe()
    assert "hard links" in refused.value.hint
    assert names(tmp_path) == []


def test_a_file_system_that_lets_a_second_create_win_fails_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", shutil.copyfile)
    with pytest.raises(StoreUnusableError, match="second create"):
        FilesystemStore(tmp_path).probe()


def test_a_read_only_file_system_fails_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(StoreUnusableError, match="Read-only file system") as refused:
        FilesystemStore(tmp_path).probe()
    assert refused.value.hint == "mount it writable"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StoreUnavailableError),
        (errno.EDQUOT, StoreUnavailableError),
        (errno.EIO, StoreUnavailableError),
        (errno.ESTALE, StoreUnavailableError),
        (errno.EMFILE, StoreUnavailableError),
        (errno.EACCES, StoreUnusableError),
        (errno.EPERM, StoreUnusableError),
        (errno.EROFS, StoreUnusableError),
        (errno.ENOTDIR, StoreUnusableError),
        (errno.EXDEV, StoreUnusableError),
        (errno.ENAMETOOLONG, ConfigurationError),
        (None, StoreUnavailableError),
    ],
)
def test_an_error_of_the_system_says_whether_to_try_again(code: int | None, kind: type[MirrorlakeError]) -> None:
    error = store_error(OSError(code, "text") if code else OSError("odd"), Path("/data/orders"))
    assert type(error) is kind
    assert "/data/orders" in error.message


def test_an_old_staged_file_of_a_dead_writer_is_swept(tmp_path: Path) -> None:
    """Its writer is a real process that is killed; only then is the file nobody's."""
    script = (
        "import sys, time; from pathlib import Path; from mirrorlake.stores.filesystem import FilesystemStore\n"
        "staged = FilesystemStore(Path(sys.argv[1])).stage('orders/0', 's'); staged.file.write(b'x')\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        assert store.sweep_staged("orders/0") == 0
        assert len(names(tmp_path / "orders/0")) == 1
        writer.send_signal(signal.SIGKILL)
    assert store.sweep_staged("orders/0") == 1
    assert names(tmp_path / "orders/0") == []


def test_a_young_staged_file_is_not_swept_even_if_nobody_holds_it(tmp_path: Path) -> None:
    (tmp_path / "a.tmp.b").write_bytes(b"")
    assert FilesystemStore(tmp_path).sweep_staged("") == 0
    assert names(tmp_path) == ["a.tmp.b"]


def test_what_a_probe_that_died_at_any_step_left_is_swept_by_a_later_one(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from mirrorlake.stores.filesystem import FilesystemStore\n"
        "steps = []\n"
        "def crash_point(step):\n"
        "    steps.append(step)\n"
        "    if len(steps) == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "FilesystemStore(Path(sys.argv[1]), crash_point=crash_point).probe()"
    )
    for step in range(1, 50):
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path), str(step)], check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    left = names(tmp_path)
    assert {STAGED_MARK in name for name in left} == {True, False}, "neither staged files alone nor published ones"
    (tmp_path / "_other").write_bytes(b"")
    FilesystemStore(tmp_path).probe()
    assert names(tmp_path) == sorted([*left, "_other"]), "they may be those of a probe that lives"
    FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS)).probe()
    assert names(tmp_path) == ["_other"]


def test_only_files_with_the_mark_are_swept(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    (tmp_path / "folder.tmp.x").mkdir()
    (tmp_path / "link.tmp.x").symlink_to(tmp_path / "a.parquet")
    os.mkfifo(tmp_path / "pipe.tmp.x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.tmp.x"))
        store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
        assert store.sweep_staged("") == 0
    assert len(names(tmp_path)) == 5


def test_a_leftover_of_a_crash_after_the_link_is_swept_and_the_object_stays(tmp_path: Path) -> None:
    (tmp_path / "a.tmp.b").write_bytes(b"x")
    (tmp_path / "a").hardlink_to(tmp_path / "a.tmp.b")
    assert FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS)).sweep_staged("") == 1
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_writer_whose_staged_file_was_removed_learns_it(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    staged = store.stage("", "s")
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(StoreUnavailableError):
        staged.publish("a")
    assert names(tmp_path) == []


def test_a_file_system_without_locks_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    FilesystemStore(tmp_path).create("a", b"x")
    (tmp_path / "a.tmp.b").write_bytes(b"")
    store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
    assert store.sweep_staged("") == 0  # without a lock nobody can tell, so it stays
