"""A service in a thread of the test, with an engine in this process: for its commands and questions."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mirrorlake.config.loading import load_configuration
from mirrorlake.mirror import lease_worker
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.service.lifecycle.parts import RunOptions
from mirrorlake.service.service import Service
from support.copies import wait_until

END_SECONDS_MAX = 60.0

Row = dict[str, Any]


class ClosingEngine(InProcessEngine):
    """Closes what a lane's leases have left open when its thread ends; a process that ends needs nobody to."""

    def lane_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        def run() -> None:
            try:
                target()
            finally:
                worker = getattr(lease_worker._of_this_thread, "worker", None)
                if worker is not None:
                    worker.close()

        return super().lane_thread(run, name)


class RunningService:
    """The service of a configuration file, from the beginning of a block to its end. It hears no signals."""

    def __init__(self, path: Path, *, engine: type[ClosingEngine] = ClosingEngine) -> None:
        def read() -> Any:
            return load_configuration(path, environ={})

        self.service = Service(read(), RunOptions(engine=engine), reread=read)
        self._codes: list[int] = []
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)

    def _run(self) -> None:
        self._codes.append(self.service.run())

    def rows(self, mirror: str | None = None) -> list[Row]:
        """What the service says of its partitions, or of those of a mirror."""
        rows: Any = self.service.status()["partitions"]
        return [row for row in rows if mirror in (None, row["name"])]

    def states(self, mirror: str | None = None) -> set[str]:
        """The states its partitions are in."""
        return {row["state"] for row in self.rows(mirror)}

    def await_states(self, *states: str, mirror: str | None = None, partitions: int) -> None:
        """Waits until there are so many partitions, all in one of these states."""
        wait_until(
            lambda: len(self.rows(mirror)) == partitions and self.states(mirror) <= set(states),
            f"{partitions} partitions of {mirror or 'all mirrors'} in {states}",
            log=lambda: str(self.rows(mirror)),
        )

    def exit_code(self) -> int:
        """Waits for its end."""
        self._thread.join(END_SECONDS_MAX)
        (code,) = self._codes
        return code

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.service.stop("the end of the test")
        self._thread.join(END_SECONDS_MAX)
