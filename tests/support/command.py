"""The ``mirrorlake`` command, run to its end as users run it: exit code, stdout and stderr apart."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.forked_command import ForkedCommand

SECONDS_MAX = 180.0
WITHOUT_SPARK = (str(Path(__file__).with_name("without_spark.py")),)
"""What a command goes through that is started anew and has its engine in its own process."""
PROGRESS = re.compile(r"(reading footers|checking files): .+ of .+, .+/s, \d+ s left")
TRACEBACK = "Traceback (most recent call last)"

Row = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Stderr without the lines that tell how far long work is: on a busy machine any work may be long."""
        return "".join(line for line in self.err.splitlines(keepends=True) if not PROGRESS.fullmatch(line.rstrip()))

    def rows(self) -> list[Row]:
        """Stdout as the JSON array that ``--format json`` promises, alone there."""
        rows = json.loads(self.out)
        assert isinstance(rows, list)
        return rows

    def row(self, name: str, partition: int | None = 0, destination: str | None = None) -> Row:
        """The one row of a mirror and partition, and of a destination where there are several."""
        found = [
            row
            for row in self.rows()
            if (row["name"], row["partition"]) == (name, partition) and destination in (None, row["destination"])
        ]
        assert len(found) == 1, self.out
        return found[0]

    def troubles(self, mirror: str) -> list[str]:
        """The log lines that say what is wrong with a mirror, without the one at the end that says that it was."""
        lines = [line for line in self.err.splitlines() if f" mirror={mirror} " in f"{line} "]
        troubles = [line for line in lines if "[error]" in line or "[warning]" in line]
        return [line for line in troubles if "[error] mirror exited with error" not in line]


def mirrorlake(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> Ended:
    """Runs the command; nothing a test does to it may end in a traceback.

    Args:
        arguments: of the command.
        environ: added to the environment.
    """
    done = subprocess.run(
        [sys.executable, "-m", "mirrorlake", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=_environment(environ),
        check=False,
    )
    return _ended(done.returncode, done.stdout, done.stderr)


def without_spark(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> Ended:
    """Runs the command with an engine in its own process, where Spark is not the point; else as `mirrorlake`."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = ForkedCommand(*map(str, arguments), environ=_environment(environ), out=out, err=err)
        try:
            code = process.wait(SECONDS_MAX)
        finally:
            process.send_signal(signal.SIGKILL)
        return _ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _environment(added: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", **(added or {})}


def _ended(code: int, out: str, err: str) -> Ended:
    assert TRACEBACK not in err + out, err
    return Ended(code=code, out=out, err=err)


def write_yaml(path: Path, text: str) -> Path:
    """Writes a configuration, made if it is new."""
    path.write_text(text, encoding="utf-8")
    return path
