"""Leases over many archive partitions, in a process of its own: what it holds open and how much memory it takes.

    archive_lease.py SERVERS TOPIC PARTITIONS END ROOT [FORMAT]

Prints one JSON object: how many partitions ended where they should, the most staged files and descriptors that were
open at one time, and the peak of memory before and after, in bytes.
"""

import json
import resource
import sys
import threading
from contextlib import suppress
from pathlib import Path

from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.offsets import TopicPartition
from support.leases import archive_work, lease_plan, run_lease

_PAUSE_SECONDS = 0.002
LEASES_MAX = 50
"""A lease has its time; what is left when that is over goes into the next."""


class OpenFiles:
    """Looks at this process's descriptors again and again, in a thread."""

    def __init__(self) -> None:
        self.staged_max = 0
        self.all_max = 0
        self.looks = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "OpenFiles":
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_PAUSE_SECONDS):
            paths = []
            for descriptor in Path("/proc/self/fd").iterdir():
                with suppress(OSError):
                    paths.append(str(descriptor.readlink()))
            self.staged_max = max(self.staged_max, sum(".tmp." in path for path in paths))
            self.all_max = max(self.all_max, len(paths))
            self.looks += 1


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(servers: str, topic: str, partitions: str, end: str, root: str, format_name: str = "parquet") -> None:
    places = [TopicPartition(topic, number) for number in range(int(partitions))]
    warm_up, *rest = places

    def work_for(place: TopicPartition) -> ArchiveWork:
        return archive_work(Path(root), place, end=int(end), format_name=format_name)

    run_lease(lease_plan(servers, [(warm_up, [work_for(warm_up)])], end=None))
    before = peak_bytes()
    positions: dict[TopicPartition, int | None] = dict.fromkeys(rest, 0)
    errors: list[str] = []
    leases = 0
    with OpenFiles() as files:
        while not errors and leases < LEASES_MAX and (due := [p for p, at in positions.items() if at != int(end)]):
            works = [(place, [work_for(place)]) for place in due]
            rows = run_lease(lease_plan(servers, works, end=None)).values()
            positions |= {row.source: row.position for row in rows}
            errors += [str(row.error) for row in rows if row.error]
            leases += 1
    print(
        json.dumps(
            {
                "errors": errors,
                "done": sum(position == int(end) for position in positions.values()),
                "leases": leases,
                "looks": files.looks,
                "staged_max": files.staged_max,
                "open_max": files.all_max,
                "peak_bytes_before": before,
                "peak_bytes": peak_bytes(),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
