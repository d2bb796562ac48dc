"""Who can read what a lease was told: nobody but the driver and its workers, on no port and in no file."""

import contextlib
import os
import random
import socket
import stat
import subprocess
from pathlib import Path

import psutil
import pytest
from pyspark.find_spark_home import _find_spark_home

from integration.pipeline.engine_process import HERE, StartProgram
from mirrorlake.java import find_java
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.pipeline.lease_job import run_lease
from mirrorlake.pipeline.session import EngineSession
from mirrorlake.secret import Secret
from support.large_plans import large_plan

pytestmark = pytest.mark.spark

PASSWORD = b"correct-horse-battery-staple"
NOBODY = 65534
DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"


def answer(engine: EngineSession, plan: bytes) -> None:
    (row,) = run_lease(engine.jobs, "engine_works:answer", plan, description="a plan with a password")
    assert row["plan"] == plan


def listening(pid: int) -> set[tuple[str, int]]:
    """Returns address and port of each TCP socket that a process listens on."""
    found = psutil.Process(pid).net_connections("tcp")
    return {(c.laddr[0].removeprefix("::ffff:"), c.laddr[1]) for c in found if c.status == psutil.CONN_LISTEN}


def workers(engine: EngineSession) -> list[psutil.Process]:
    """Returns the living processes below the JVM."""
    found = psutil.Process(engine.jvm.pid).children(recursive=True)
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


def ask_blocks(ports: list[int], blocks: list[str]) -> str:
    """Asks as another user, where this one may become one."""
    return subprocess.run(
        [
            *(str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", f"{_find_spark_home()}/jars/*"),
            *(str(HERE / "AskBlocks.java"), ",".join(map(str, ports)), *blocks),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Spark's own warnings of what it is refused
        text=True,
        check=True,
        cwd="/",
        user=NOBODY if os.getuid() == 0 else None,
    ).stdout


@pytest.mark.slow
def test_another_user_who_asks_sparks_ports_for_broadcast_blocks_is_refused(engine: EngineSession) -> None:
    answer(engine, PASSWORD)
    ports = sorted(port for _, port in listening(engine.jvm.pid) if port != engine.jvm.port)
    assert len(ports) == 2

    said = ask_blocks(ports, [f"broadcast_{number}_piece0" for number in range(3)])

    assert PASSWORD.decode() not in said
    answers = [line for line in said.splitlines() if line.startswith(tuple(map(str, ports)))]
    assert [line.partition(": ")[0] for line in answers] == [
        f"{port} for {shown}" for port in ports for shown in ("nothing", "a wrong secret")
    ]
    assert all(": refused " in line for line in answers), answers


def test_the_gateway_hangs_up_on_who_does_not_know_its_token(engine: EngineSession) -> None:
    for said in (b"j\ni\nrj\norg.apache.spark.SparkEnv\ne\n", b"A\nno-such-token\ne\n"):
        answered = b""
        with (
            socket.create_connection(("127.0.0.1", engine.jvm.port), timeout=20.0) as intruder,
            contextlib.suppress(ConnectionResetError),
        ):
            intruder.sendall(said)
            while chunk := intruder.recv(1000):
                answered += chunk
        assert not answered.startswith(b"!y"), answered


def test_what_listens_is_what_the_document_says(engine: EngineSession) -> None:
    answer(engine, b"")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in DOCUMENT.read_text().split("## What listens")[1].split("\n## ")[0].splitlines()
        if line.startswith("|")
    ][2:]
    documented = [where for what, where, _ in rows if what.startswith("Spark's ")]

    children = workers(engine)
    jvm_sockets = sorted(address for address, _ in listening(engine.jvm.pid))
    assert jvm_sockets == [where.partition(",")[0] for where in documented if not where.startswith("Unix")]
    assert children
    assert not [process for process in children if listening(process.pid)]

    for process in (psutil.Process(engine.jvm.pid), *children):
        for folder in {Path(str(c.laddr)).parent for c in process.net_connections("unix") if c.laddr}:
            assert folder == session_folder(engine)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert folder.stat().st_uid == os.getuid()


@pytest.mark.slow
def test_the_driver_itself_listens_nowhere(start_program: StartProgram) -> None:
    # In a process of its own: in this one servers of other tests listen.
    program = start_program(lease_seconds=600.0)
    program.await_note("lease-0")
    assert not listening(program.pid)


def session_folder(engine: EngineSession) -> Path:
    return Path(engine.jobs.sparkContext.getConf().get("spark.python.unix.domain.socket.dir"))


def test_a_secret_is_on_no_command_line_and_in_nobody_elses_environment(engine: EngineSession) -> None:
    for process in (psutil.Process(engine.jvm.pid), *workers(engine)):
        assert engine.jvm.secret not in " ".join(process.cmdline())
        assert stat.S_IMODE(Path(f"/proc/{process.pid}/environ").stat().st_mode) == 0o400


def files_with(folder: Path, content: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def test_a_plan_of_some_megabytes_is_on_no_disk(engine: EngineSession) -> None:
    """PySpark writes a closure above a megabyte to a file, where it stays until the session ends."""
    folder = session_folder(engine)
    plan = f"{folder}\n".encode() + PASSWORD + os.urandom(3_000_000)
    before = {path for path in folder.rglob("*") if path.is_file()}

    rows = run_lease(engine.jobs, "engine_works:files_with_the_plan", plan, description="a large plan")

    assert rows[0]["files"] == []
    assert files_with(folder, PASSWORD) == []
    grown = {path for path in folder.rglob("*") if path.is_file()} - before
    assert sum(path.stat().st_size for path in grown) < 1_000_000


def test_a_secret_of_the_environment_reaches_a_worker_that_reads_it_itself(engine: EngineSession) -> None:
    inherited = os.environ["HOME"]
    plan = plan_bytes({"password": Secret(inherited, variable="HOME")})
    assert inherited.encode() not in plan

    (row,) = run_lease(engine.jobs, "engine_works:password_of_the_plan", plan, description="a secret by its name")

    assert row["password"] == inherited


def test_a_plan_of_six_thousand_partitions_arrives_and_leaves_nothing(engine: EngineSession) -> None:
    folder = session_folder(engine)
    plan = plan_bytes(large_plan(6_000, random.Random(7), Secret(PASSWORD.decode())))
    before = {path for path in folder.rglob("*") if path.is_file()}

    for _ in range(3):
        (row,) = run_lease(engine.jobs, "engine_works:count_partitions", plan, description="many partitions")
        assert row["partitions"] == 6_000

    assert files_with(folder, PASSWORD) == []
    grown = {path for path in folder.rglob("*") if path.is_file()} - before
    assert sum(path.stat().st_size for path in grown) < len(plan)
