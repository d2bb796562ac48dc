"""Processes that merge an archive again and again, as `archive merge` does, until they are told to end."""

import contextlib
import io
import json
import sys
import traceback
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mirrorlake.cli.archive import Where
from mirrorlake.cli.archive_keeping import merge
from mirrorlake.pipeline.in_process import InProcessEngine
from support.fork_server import fork_context

END_SECONDS_MAX = 60.0


class Mergers:
    """One such process for each configuration. Use as a context manager; fails where a run of one does.

    Attributes:
        rows: what the runs said, once all have ended: for each configuration, row by row.
    """

    def __init__(self, *configs: Path) -> None:
        self._configs = configs
        self._processes: list[ForkServerProcess] = []
        self.rows: list[list[dict[str, Any]]] = []

    def __enter__(self) -> Self:
        for config in self._configs:
            names = [str(config.with_suffix(suffix)) for suffix in (".stop", ".said", ".failed")]
            process = fork_context().Process(target=_merge_again_and_again, args=(str(config), *names), daemon=True)
            process.start()
            self._processes.append(process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for config in self._configs:
            config.with_suffix(".stop").touch()
        for process in self._processes:
            process.join(END_SECONDS_MAX)
            process.kill()
        for config in self._configs:
            failed = config.with_suffix(".failed")
            assert not failed.exists(), failed.read_text()
            lines = config.with_suffix(".said").read_text().splitlines()
            self.rows.append([row for line in lines for row in json.loads(line)])


def _merge_again_and_again(config: str, stop: str, said: str, failed: str) -> None:
    while not Path(stop).exists():
        with contextlib.redirect_stdout(io.StringIO()) as out:
            where = Where(config=Path(config), root=None, topics=[])
            try:
                code = merge(where, is_dry=False, as_json=True, engine=InProcessEngine)
            except Exception:
                Path(failed).write_text(traceback.format_exc())
                raise
        if code:
            Path(failed).write_text(f"code {code}: {out.getvalue()}")
            sys.exit(code)
        with Path(said).open("a") as file:
            file.write(json.dumps(json.loads(out.getvalue())) + "\n")
