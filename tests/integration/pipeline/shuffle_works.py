"""Works of shuffles, imported by Spark's workers."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mirrorlake.errors import ExecutorUncheckedError
from mirrorlake.pipeline.cluster.identity import executor_id

Block = tuple[int, int, int, bytes]


def spread(order: bytes) -> Iterator[Block]:
    """Blocks of three buckets, the last ones first; the order is the number of the part."""
    number = int(order)
    for bucket in (2, 0, 1):
        for minor in reversed(range(4)):
            yield bucket, number, minor, b"%d.%d.%d" % (bucket, number, minor) + bytes(1 << 20)


def listed(blocks: Iterator[Block], plans: Sequence[bytes]) -> Iterator[Mapping[str, object]]:
    """What came, in its order, a row for each bucket."""
    found: dict[int, list[str]] = {}
    for bucket, _, _, data in blocks:
        assert len(data.rstrip(b"\0")) == len(data) - (1 << 20)
        found.setdefault(bucket, []).append(data.rstrip(b"\0").decode())
    for bucket, names in found.items():
        yield {"bucket": bucket, "plan": plans[bucket], "names": names}


def dies_once(order: bytes) -> Iterator[Block]:
    """The first attempt takes its worker along, half-way; the order is the path of what it leaves behind."""
    mark = Path(order.decode())
    yield 0, 0, 0, b"half" + bytes(1 << 20)
    if not mark.exists():
        mark.touch()
        time.sleep(0.1)
        os._exit(1)
    yield 1, 0, 0, b"whole" + bytes(1 << 20)


def fails(order: bytes) -> Iterator[Block]:
    """Raises."""
    raise ValueError(f"cannot read {order!r}")


def comes_to_a_stranger(order: bytes) -> Iterator[Block]:
    """Does what a task does on an executor that nobody has looked at."""
    raise ExecutorUncheckedError(f"{order!r} came to an executor that was not looked at yet")


def where_read(order: bytes) -> Iterator[Block]:
    """One block: which executor read the order."""
    yield 0, int(order), 0, executor_id().encode()


def where_merged(blocks: Iterator[Block], plans: Sequence[bytes]) -> Iterator[Mapping[str, object]]:
    """One row: which executors have read the orders, in their order, and which has merged."""
    del plans
    yield {"read": [data.decode() for *_, data in blocks], "merged": executor_id()}


def waits(order: bytes) -> Iterator[Block]:
    """Makes a file in a folder, named after this host and process; one block when there is one named `until`."""
    folder = Path(order.decode())
    (folder / f"{socket.gethostname()} {os.getpid()}").touch()
    while not (folder / "until").exists():
        time.sleep(0.02)
    yield 0, 0, 0, b"done"
