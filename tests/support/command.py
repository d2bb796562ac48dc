"""The ``mirrorlake`` command, run to its end as users run it: exit code, stdout and stderr apart."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS_MAX = 180.0
TRACEBACK = "Traceback (most recent call last)"

Row = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

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
        env={**os.environ, "COLUMNS": "100", **(environ or {})},
        check=False,
    )
    assert TRACEBACK not in done.stderr + done.stdout, done.stderr
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


def write_yaml(path: Path, text: str) -> Path:
    """Writes a configuration, made if it is new."""
    path.write_text(text, encoding="utf-8")
    return path
