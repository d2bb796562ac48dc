"""A share of a core: control groups of Linux hold processes to less than a machine has, so that it is not the bound."""

import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

_CPU = Path("/sys/fs/cgroup/cpu")
_PERIOD_MICROSECONDS = 20_000


class CoreShare:
    """A control group (cgroup v1) whose processes together get so much of a core; removed at the end.

    Args:
        cores: how much, 0.2 for a fifth of one core.

    Raises:
        RuntimeError: this machine has no such control groups, or they are not ours to make.
    """

    def __init__(self, cores: float) -> None:
        self._cores = cores
        self._folder = _CPU / f"bench-{secrets.token_hex(4)}"

    def command(self, *command: str) -> tuple[str, ...]:
        """Returns a command that runs another one within the share, all processes below it too."""
        return ("sh", "-c", f'echo $$ > {self._folder / "cgroup.procs"} && exec "$@"', "sh", *command)

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir()
            (self._folder / "cpu.cfs_period_us").write_text(f"{_PERIOD_MICROSECONDS}")
            (self._folder / "cpu.cfs_quota_us").write_text(f"{round(_PERIOD_MICROSECONDS * self._cores)}")
        except OSError as error:
            raise RuntimeError(f"--core-share needs root and cgroup v1 at {_CPU}: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.rmdir()
