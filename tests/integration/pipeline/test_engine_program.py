"""The engine as a process: signals, a dead JVM, odd surroundings. Nothing of it may stay behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from integration.pipeline.engine_process import EngineProgram, StartProgram, wait_until
from mirrorlake.java import find_java
from mirrorlake.pipeline.settings import SessionSettings, archive_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def expect_graceful_end(program: EngineProgram, name: str) -> None:
    assert program.exit_code() == 0, program.stderr()
    assert program.said("stop") == [f"stop {name}"]
    assert sorted(program.said("ended flush")) == ["ended flush-0 ok", "ended flush-1 ok"], program.lines
    assert program.lines[-1] == "graceful end"
    assert program.said("failed") == []
    wait_until(lambda: not program.processes(), "every process to be gone")


def command_of(process: psutil.Process) -> str:
    """Its command line, empty where it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


# One handler for all three; SIGTERM in the middle of a lease is below.
@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_signal_to_the_group_while_the_session_starts_ends_it_in_order(
    start_program: StartProgram, number: signal.Signals
) -> None:
    program = start_program()
    program.await_line("installed")
    wait_until(
        lambda: any("SparkSubmit" in command_of(process) for process in program.processes()),
        "the JVM to be started",
    )
    program.signal_group(number)
    expect_graceful_end(program, number.name)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_group_in_the_middle_of_a_lease_ends_it_in_order(
    start_program: StartProgram, number: signal.Signals
) -> None:
    program = start_program(lease_seconds=2.0)
    workers = {program.await_note("lease-0"), program.await_note("lease-1")}
    program.signal_group(number)
    expect_graceful_end(program, number.name)
    assert len(workers) == 2
    assert {"ended lease-0 ok", "ended lease-1 ok"} <= set(program.lines)


def test_sigterm_to_every_process_of_the_service_ends_it_in_order(start_program: StartProgram) -> None:
    program = start_program(lease_seconds=2.0)
    program.await_note("lease-0")
    program.await_note("lease-1")
    program.signal_everyone(signal.SIGTERM)
    expect_graceful_end(program, "SIGTERM")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_the_process_at_once_and_leaves_nothing(
    start_program: StartProgram, number: signal.Signals, code: int
) -> None:
    program = start_program(lease_seconds=600.0)
    program.await_note("lease-0")
    program.await_note("lease-1")
    program.signal_group(number)
    program.await_line("stop")
    program.signal_group(number)

    assert program.exit_code() == code
    assert program.said("graceful") == []
    wait_until(lambda: not program.processes(), "every process to be gone")


def test_a_killed_driver_leaves_nothing(start_program: StartProgram) -> None:
    program = start_program(lease_seconds=600.0)
    program.await_note("lease-0")
    os.kill(program.pid, signal.SIGKILL)

    assert program.exit_code() == -signal.SIGKILL
    wait_until(lambda: not program.processes(), "every process to be gone")


def test_a_killed_jvm_makes_the_process_start_again_and_work_on(start_program: StartProgram) -> None:
    program = start_program(lease_seconds=1.0)
    first_jvm = int(program.await_line("jvm").split()[1])
    first_workers = {program.await_note("lease-0"), program.await_note("lease-1")}
    program.folder.joinpath("lease-0").unlink()
    os.kill(first_jvm, signal.SIGKILL)

    wait_until(lambda: len(program.said("jvm")) == 2, "a second JVM")
    assert program.said("installed")[0].split()[1] == program.said("installed")[1].split()[1]
    wait_until(lambda: len(program.said("ended lease-0 ok")) >= 2, "leases to go on")
    assert not first_workers & {process.pid for process in program.processes()}
    program.signal_group(signal.SIGTERM)
    assert program.exit_code() == 0
    assert program.lines[-1] == "graceful end"
    assert "Spark's JVM died: starting again" in program.stderr()
    wait_until(lambda: not program.processes(), "every process to be gone")


def test_an_engine_that_lives_and_loses_every_lease_is_started_again_and_its_cause_is_said(
    start_program: StartProgram,
) -> None:
    """What cleans temporary folders takes the sockets of a session away: no worker can be started from then on."""
    program = start_program(lease_seconds=0.2)
    folder = Path(program.await_line("folder").split()[1])
    program.await_line("ended lease-0 ok")
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    for process in program.processes():
        if " -m mirrorlake.pipeline.daemon" in command_of(process):  # the workers and their parent
            with contextlib.suppress(psutil.NoSuchProcess):  # a worker ends with its parent
                process.kill()

    wait_until(lambda: len(program.said("jvm")) == 2, "a second JVM")
    wait_until(
        lambda: "ended lease-0 ok" in program.lines[program.lines.index(program.said("jvm")[1]) :], "leases again"
    )
    assert "Spark lost every lease: starting again" in program.stderr()
    assert any("caused by" in line or "Exception" in line for line in program.said("failed")), program.lines
    program.signal_group(signal.SIGTERM)
    assert program.exit_code() == 0
    wait_until(lambda: not program.processes(), "every process to be gone")


def test_a_jvm_that_dies_too_often_ends_the_process_with_an_error(start_program: StartProgram) -> None:
    program = start_program(lease_seconds=1.0, restarts_max=0)
    jvm = int(program.await_line("jvm").split()[1])
    program.await_note("lease-0")
    os.kill(jvm, signal.SIGKILL)

    assert program.exit_code() == 1
    assert "Spark's JVM died 1 times in 600 s: giving up" in program.stderr()
    wait_until(lambda: not program.processes(), "every process to be gone")


def test_a_long_temporary_folder_and_an_unusable_cache_do_no_harm(start_program: StartProgram, tmp_path: Path) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    not_a_folder = tmp_path / "cache"
    not_a_folder.touch()
    program = start_program(TMPDIR=str(long), ENGINE_CACHE_FOLDER=str(not_a_folder / "below"))
    program.await_line("ended lease-0 ok")
    program.signal_group(signal.SIGTERM)
    expect_graceful_end(program, "SIGTERM")
    assert list(long.iterdir()) == []
    assert program.stderr() == ""


def test_an_archive_that_is_none_is_passed_over_in_silence(start_program: StartProgram, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    settings = SessionSettings(lanes=2, cache_folder=cache)
    archive_for(settings, find_java().executable).write_bytes(b"\0" * 100_000)
    program = start_program(ENGINE_CACHE_FOLDER=str(cache))
    program.await_line("ended lease-0 ok")
    program.signal_group(signal.SIGTERM)
    expect_graceful_end(program, "SIGTERM")
    assert program.stderr() == ""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "flags", "expected"),
    [
        ("lanes=1", "'-Xss1'", "Spark's JVM ended with exit code 1 while starting"),
        ("lanes=1, driver_heap_mb=64", "", "Spark did not start: "),
    ],
)
def test_a_session_that_cannot_start_says_why_and_leaves_nothing(
    java: None, tmp_path: Path, settings: str, flags: str, expected: str
) -> None:
    script = (
        "from mirrorlake.errors import JavaUnusableError\n"
        "from mirrorlake.pipeline.session_start import build_session\n"
        "from mirrorlake.pipeline.settings import SessionSettings\n"
        f"build_session(SessionSettings({settings}), more_jvm_flags=({flags}{',' if flags else ''}))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert ended.returncode == 1
    assert f"mirrorlake.errors.JavaUnusableError: {expected}" in ended.stderr
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_who_runs_leases_imports_neither_pandas_nor_numba_itself(start_program: StartProgram) -> None:
    program = start_program()
    program.await_line("ended lease-0 ok")
    program.signal_group(signal.SIGTERM)
    assert program.await_line("imported") == "imported pyspark"


def test_archives_are_made_once_and_then_used(start_program: StartProgram, tmp_path: Path) -> None:
    def make() -> list[str]:
        said = subprocess.run(
            [sys.executable, "-m", "mirrorlake.pipeline.archive_maker"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        )
        return said.stdout.splitlines()

    archive, with_sql = (Path(line) for line in make())
    made_at = archive.stat().st_mtime_ns
    assert set(archive.parent.iterdir()) == {
        each.with_suffix(end) for each in (archive, with_sql) for end in (".jsa", ".for")
    }
    assert archive.parent == tmp_path / "mirrorlake" / "class-archive"
    assert archive.stat().st_size < with_sql.stat().st_size
    assert make() == [str(archive), str(with_sql)]
    assert archive.stat().st_mtime_ns == made_at

    program = start_program(XDG_CACHE_HOME=str(tmp_path))
    jvm = program.await_line("jvm").split()[1]
    assert str(archive) in Path(f"/proc/{jvm}/maps").read_text()
    program.await_line("ended lease-0 ok")
    program.signal_group(signal.SIGTERM)
    expect_graceful_end(program, "SIGTERM")
    assert program.stderr() == ""
