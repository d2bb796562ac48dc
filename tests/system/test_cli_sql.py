"""`mirrorlake sql` as people run it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirrorlake.cli.main import app
from mirrorlake.errors import JavaUnusableError, QueryError
from mirrorlake.java import find_java
from mirrorlake.pipeline.processes import descendants
from support.archived_schemas import DECODED_QUERY, DECODED_ROWS, write_bills
from support.archives import write_archive
from support.copies import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 20, 50)
    write_bills(root)
    file = tmp_path / "mirror.yaml"
    file.write_text(
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {root}}}}}
registries: {{here: {{store: lake}}}}
mirrors:
- {{name: orders, source: {{cluster: east, topics: [orders]}}, destinations: [{{type: archive, store: lake}}]}}
"""
    )
    return file


def test_a_query_ends_with_its_rows_on_stdout_and_nothing_else_there(config: Path) -> None:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "mirrorlake", "sql", "-c", str(config), "--format", "json"]

    done = subprocess.run(
        [*command, "select partition, count(*) as n, max(offset) as last from lake.orders group by partition"],
        capture_output=True,
        text=True,
        env={**os.environ},
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"partition": 0, "n": 45, "last": 49}]


def test_a_column_that_is_not_there_is_one_line_without_a_stack(config: Path) -> None:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "mirrorlake", "sql", "-c", str(config), "select ofset from lake.orders"]

    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "`ofset`" in line


def test_with_schemas_of_the_archive_a_query_sees_what_its_values_say(config: Path) -> None:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "mirrorlake", "sql", "-c", str(config), "--format", "json", "--schemas", "here"]

    done = subprocess.run([*command, DECODED_QUERY], capture_output=True, text=True, env={**os.environ}, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == DECODED_ROWS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_query_that_is_stopped_leaves_no_file_and_no_process(
    config: Path, tmp_path: Path, number: signal.Signals
) -> None:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    rows = tmp_path / "rows"
    rows.mkdir()
    endless = (
        "select /*+ broadcast(b) */ count(*) from range(10000000000) a, range(10000000000) b where a.id * b.id % 7 = 3"
    )
    command = [sys.executable, "-m", "mirrorlake", "sql", "-c", str(config), "--output", str(rows / "rows.json")]
    process = subprocess.Popen([*command, endless, "--format", "json"], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: [path.name for path in rows.iterdir()] == [".rows.json.part"], "the query to run")
    below = descendants(process.pid)
    assert below

    process.send_signal(number)
    _, told = process.communicate(timeout=120)

    assert process.returncode == 1
    assert told.splitlines()[-1] == f"error: stopped by {number.name} before all rows were written"
    assert list(rows.iterdir()) == []
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "all processes to end")


@pytest.mark.quick
def test_what_is_no_query_or_of_no_store_is_told_before_spark_starts(config: Path) -> None:
    run = CliRunner().invoke(app, ["sql", "-c", str(config), "select * from lak.orders"])
    assert isinstance(run.exception, QueryError)
    assert run.exception.message == "there is no store or cluster 'lak', as lak.orders has it"

    run = CliRunner().invoke(app, ["sql", "-c", str(config), "delete from lake.orders"])
    assert isinstance(run.exception, QueryError)

    run = CliRunner().invoke(app, ["sql", "-c", str(config), "select 1", "--format", "parquet"])
    assert run.exit_code == 2
    assert "--output" in run.output
