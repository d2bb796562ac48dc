import errno
import fcntl
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
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
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError
from mirrorlake.stores.os_errors import store_error, why_not_writable
from mirrorlake.stores.staging import STAGED_MARK, staged_name

FAR_FUTURE_SECONDS = 4_000_000_000.0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_staged_lies_outside_the_partitions_folder_under_a_reserved_name(tmp_path: Path) -> None:
    staged = FilesystemStore(tmp_path).stage("orders/0", "00000000000000000000")
    (name,) = names(tmp_path / "orders/_staged")
    assert name.startswith("_0.00000000000000000000.tmp.")
    assert len(name) == len("_0.00000000000000000000.tmp.") + 36
    assert names(tmp_path / "orders/0") == []
    staged.discard()
    assert names(tmp_path / "orders/_staged") == []


def test_descriptions_are_staged_beside_the_segments_staging(tmp_path: Path) -> None:
    FilesystemStore(tmp_path).stage("orders/_meta/0", "00000000000000000000-00000000000000000002.log.json")
    (name,) = names(tmp_path / "orders/_staged")
    assert name.startswith("__meta.0.00000000000000000000-0000000000000000000.tmp.")


def test_in_the_root_and_a_topics_folder_a_file_is_staged_beside_its_target_under_a_reserved_name(
    tmp_path: Path,
) -> None:
    store = FilesystemStore(tmp_path)
    store.stage("", "_mirrorlake.json")
    store.stage("orders", "plain")
    (at_root,) = [path.name for path in tmp_path.iterdir() if path.is_file()]
    (in_topic,) = names(tmp_path / "orders")
    assert at_root.startswith("_mirrorlake.json.tmp.")
    assert in_topic.startswith("_plain.tmp.")


@pytest.fixture
def other_file_system() -> Iterator[Path]:
    shared_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared_memory) as folder:
        yield Path(folder)


def test_a_partition_on_another_file_system_stages_in_its_own_folder_under_a_reserved_name(
    tmp_path: Path, other_file_system: Path
) -> None:
    assert other_file_system.stat().st_dev != tmp_path.stat().st_dev
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/0").symlink_to(other_file_system)
    store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
    staged = store.stage("orders/0", "00000000000000000000")
    staged.file.write(b"x")
    (name,) = names(other_file_system)
    assert name.startswith("_0.00000000000000000000.tmp.")
    assert list(store.list("orders/0")) == []
    staged.publish("orders/0/final")
    assert names(other_file_system) == ["final"]
    assert store.read("orders/0/final") == b"x"


def test_a_topics_folder_that_is_closed_to_us_leaves_staging_to_the_partitions(tmp_path: Path) -> None:
    (tmp_path / "orders/0").mkdir(parents=True)
    (tmp_path / "orders/_staged").write_bytes(b"a file where the folder should be")
    store = FilesystemStore(tmp_path)
    store.create("orders/0/a", b"x")
    assert names(tmp_path / "orders/0") == ["a"]


def no_links_between_folders(source: Path, target: Path) -> None:
    """As a bind mount of one file system answers, which no look tells from its parent, or a project quota."""
    if Path(source).parent != Path(target).parent:
        raise OSError(errno.EXDEV, "Invalid cross-device link")
    real_link(source, target)


real_link = os.link


def test_where_no_link_leads_into_the_partitions_folder_the_file_is_copied_there_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_links_between_folders)
    steps: list[str] = []
    store = FilesystemStore(tmp_path, crash_point=steps.append)
    staged = store.stage("orders/0", "s")
    staged.file.write(b"x" * 10_000_000)
    staged.publish("orders/0/final")
    assert steps == [
        *("make the staged file", "sync the staged file", "link the name", "copy the staged file"),
        *("unlink the staged name", "sync the folder"),
    ]
    assert store.read("orders/0/final") == b"x" * 10_000_000
    assert names(tmp_path / "orders/0") == ["final"]
    assert names(tmp_path / "orders/_staged") == []
    with pytest.raises(ObjectExistsError):
        store.create("orders/0/final", b"other")
    assert names(tmp_path / "orders/0") == ["final"]


def test_a_copy_that_finds_no_room_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links_between_folders)
    staged = FilesystemStore(tmp_path).stage("orders/0", "s")
    staged.file.write(b"x")

    def no_room(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", no_room)
    with pytest.raises(StoreUnavailableError, match="No space left"):
        staged.publish("orders/0/final")
    assert names(tmp_path / "orders/0") == []
    assert names(tmp_path / "orders/_staged") == []


def test_staged_files_of_the_version_before_are_swept_where_it_left_them(tmp_path: Path) -> None:
    folder = tmp_path / "orders/0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000003.tmp.0b5a").write_bytes(b"")
    (folder / "00000000000000000000-00000000000000000002.parquet").write_bytes(b"x")
    store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
    assert [info.name for info in store.list("orders/0")] == ["00000000000000000000-00000000000000000002.parquet"]
    assert store.sweep_staged("orders/0") == 1
    assert names(folder) == ["00000000000000000000-00000000000000000002.parquet"]


def test_a_sweep_of_one_partition_leaves_what_is_staged_for_others(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
    folder = tmp_path / "orders/_staged"
    folder.mkdir(parents=True)
    for name in ("_0.s.tmp.x", "_1.s.tmp.x", "_10.s.tmp.x", "__meta.1.s.tmp.x"):
        (folder / name).write_bytes(b"")
    assert store.sweep_staged("orders/1") == 1
    assert store.sweep_staged("orders/_meta/1") == 1
    assert names(folder) == ["_0.s.tmp.x", "_10.s.tmp.x"]


def test_a_sweep_of_a_folder_with_a_long_name_leaves_what_is_staged_for_one_that_differs_at_its_end(
    tmp_path: Path,
) -> None:
    store = FilesystemStore(tmp_path, clock=ManualClock(FAR_FUTURE_SECONDS))
    mine, other = (f"lake/here/{'x' * 200}{last}" for last in "ab")
    for prefix in (mine, other):
        staging = tmp_path / "lake/_staged"
        staging.mkdir(parents=True, exist_ok=True)
        (staging / staged_name(prefix, "s")).write_bytes(b"")
    assert store.sweep_staged(mine) == 1
    assert store.sweep_staged(mine) == 0
    assert store.sweep_staged(other) == 1


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


def test_a_missing_root_that_is_to_be_made_holds_nothing_and_takes_nothing(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path / "lake", missing_is_empty=True)
    assert list(store.list("orders/0")) == []
    assert list(store.folders("")) == []
    with pytest.raises(ObjectMissingError):
        store.read("_mirrorlake.json")
    for write in (lambda: store.create("a", b""), lambda: store.stage("orders/0", "a"), store.probe):
        with pytest.raises(StoreUnusableError, match="does not exist"):
            write()
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("below", ["", "lake", "lake/deep"])
@pytest.mark.parametrize(
    "use",
    [
        lambda store: list(store.list("orders/0")),
        lambda store: list(store.list("")),
        lambda store: list(store.folders("")),
        lambda store: store.read("_mirrorlake.json"),
        lambda store: store.open("orders/0/a"),
        lambda store: store.create("orders/0/a", b""),
        lambda store: store.stage("orders/0", "a"),
        lambda store: store.delete("orders/0/a"),
        lambda store: store.probe(),
    ],
)
def test_a_root_that_is_a_file_or_lies_below_one_is_refused_by_the_name_of_the_file(
    tmp_path: Path, use: Callable[[FilesystemStore], object], below: str
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for missing_is_empty in (False, True):
        with pytest.raises(StoreUnusableError) as refused:
            use(FilesystemStore(file / below, missing_is_empty=missing_is_empty))
        assert refused.value.message == f"{file} is a file, and a folder is needed there"
        assert refused.value.hint == "name another folder, or move it away"


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
    found = list(FilesystemStore(tmp_path).list(""))
    listed = {info.name: info.size_bytes for info in found}
    assert listed == {"file": 3, "to-file": 3, "to-nowhere": 0, "pipe": 0}
    assert [info.name for info in found if info.is_dangling] == ["to-nowhere"]
    assert [info.name for info in found if info.is_special] == ["pipe"]


def test_a_listing_shows_what_came_in_the_place_of_what_went_while_it_was_read(tmp_path: Path) -> None:
    """A folder's names are read at once, and asked about one by one as the listing is: it ends at what is there now."""
    for name in "abcd":
        (tmp_path / name).touch()
    listing = FilesystemStore(tmp_path).list("")
    found = [next(listing).name]
    for name in ("b-d", "e"):
        (tmp_path / name).touch()
    for name in "bcd":
        (tmp_path / name).unlink()
    assert [*found, *(info.name for info in listing)] == ["a", "b-d", "e"]


@pytest.mark.parametrize("target", ["nowhere", "a", "folder"])
def test_a_link_that_is_deleted_while_it_is_listed_is_not_there_and_one_to_nowhere_is_shown(
    tmp_path: Path, target: str
) -> None:
    """A link that is gone, whatever it led to, is as any file that is gone; only one that is there leads nowhere."""
    (tmp_path / "a").touch()
    (tmp_path / "folder").mkdir()
    for name in "bd":
        (tmp_path / name).symlink_to(target)
    (tmp_path / "c").symlink_to("nowhere")
    listing = FilesystemStore(tmp_path).list("")
    found = [next(listing)]
    for name in "bd":
        (tmp_path / name).unlink()
    (tmp_path / "e").touch()
    found += listing
    assert [(info.name, info.is_dangling) for info in found] == [("a", False), ("c", True), ("e", False)]


def test_a_file_in_the_place_of_a_link_to_nowhere_is_listed_as_the_file_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to("nowhere")
    listing = FilesystemStore(tmp_path).list("")
    next(listing)
    (tmp_path / "b").unlink()
    (tmp_path / "b").write_bytes(b"content")
    (info,) = listing
    assert (info.name, info.size_bytes, info.is_dangling, info.is_special) == ("b", 7, False, False)


def test_names_that_a_folder_shows_for_ever_and_that_are_not_there_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a client of NFS that remembers them: each is looked for again once."""
    for name in "abcdef":
        (tmp_path / name).touch()
    with os.scandir(tmp_path) as entries:
        remembered = {entry.name: entry for entry in entries}
    for name in "bce":
        (tmp_path / name).unlink()
    scans: list[bytes] = []

    def scan(self: FilesystemStore, prefix: str, *, after: bytes = b"") -> list[os.DirEntry[str]]:
        scans.append(after)
        return [remembered[name] for name in sorted(remembered) if name.encode() > after]

    monkeypatch.setattr(FilesystemStore, "_scan", scan)
    assert [info.name for info in FilesystemStore(tmp_path).list("")] == ["a", "d", "f"]
    assert scans == [b"", b"a", b"d"]


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "to-pipe"):
        with pytest.raises(StoreUnusableError, match=f"{name} is no file"):
            store.open(name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(StoreUnusableError, match="socket is no file"):
            store.read("socket")


def test_a_name_that_is_not_unicode_is_shown(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).write_bytes(b"")
    (info,) = FilesystemStore(tmp_path).list("")
    assert os.fsencode(info.name) == b"\xff"


def test_a_folder_removed_while_running_is_recreated(tmp_path: Path) -> None:
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
        assert len(names(tmp_path / "orders/_staged")) == 1
        writer.send_signal(signal.SIGKILL)
    assert store.sweep_staged("orders/0") == 1
    assert names(tmp_path / "orders/_staged") == []


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


def test_what_an_nfs_client_keeps_of_a_deleted_file_is_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "orders/0"
    folder.mkdir(parents=True)
    for name in (".nfs000000000000001a00000001", "00000000000000000000-00000000000000000009.parquet"):
        (folder / name).touch()
    listed = [info.name for info in FilesystemStore(tmp_path).list("orders/0")]
    assert listed == ["00000000000000000000-00000000000000000009.parquet"]


def test_a_link_to_a_folder_above_is_no_folder_below(tmp_path: Path) -> None:
    (tmp_path / "team/orders").mkdir(parents=True)
    (tmp_path / "team/up").symlink_to("..")
    (tmp_path / "team/itself").symlink_to(".")
    (tmp_path / "other").symlink_to("team")
    store = FilesystemStore(tmp_path)
    assert list(store.folders("")) == ["other", "team"]
    assert list(store.folders("team")) == list(store.folders("other")) == ["orders"]


def test_a_folder_that_is_still_to_be_made_is_as_writable_as_the_one_above_it(tmp_path: Path) -> None:
    assert why_not_writable(tmp_path / "orders" / "0") is None


def test_what_the_system_says_of_writing_is_said_of_the_folder_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def refuse(path: Path, mode: int) -> bool:
        asked.append(path)
        return not mode & os.W_OK

    monkeypatch.setattr(os, "access", refuse)
    error = why_not_writable(tmp_path / "orders" / "0")
    assert error is not None
    assert error.message == f"{tmp_path}: Permission denied (EACCES)"
    assert asked == [tmp_path]
