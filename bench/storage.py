"""Where the brokers keep their logs while copies are measured: one place for every contender of a run.

A disk that cannot keep up makes every fast mirror as fast as the disk, and one that is throttled after some gigabytes
changes the figures from run to run. So the logs are kept in memory where the largest input and its copy fit there.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from bench.brokers import KEPT_BYTES_MAX
from bench.contender import KAFKA_KINDS, Kind
from bench.inputs import Input

MEMORY_FOLDER = Path("/dev/shm")  # tmpfs: what is written to it is memory
BESIDE_BYTES = 5 << 30
"""Memory for what runs: two brokers, a contender, and the system."""
_RECORD_FRAME_BYTES_MAX = 32  # what a record of the inputs has beside its value, and its share of the batch's header


class Storage(StrEnum):
    """What keeps the brokers' logs."""

    MEMORY = "memory"
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the folders of the brokers are made."""

    storage: Storage
    folder: Path


def bytes_of(wanted: Input, kind: Kind, *, copies: int = 1) -> int:
    """Returns what an input and its copies take at most: of a copy in Kafka the newest is kept only."""
    source = wanted.records * (wanted.record_bytes + _RECORD_FRAME_BYTES_MAX)
    return source + copies * (wanted.partitions * KEPT_BYTES_MAX if kind in KAFKA_KINDS else source)


def choose_place(
    needed_bytes: int,
    *,
    wanted: Storage | None,
    memory_folder: Path = MEMORY_FOLDER,
    available_bytes: Callable[[], int] = lambda: psutil.virtual_memory().available,
) -> Place:
    """Returns the place for what is measured, one copy at a time.

    Args:
        needed_bytes: what the largest of the copies takes, both sides of it.
        wanted: None takes memory where there is enough of it.
        memory_folder: a tmpfs.
        available_bytes: memory that is free now.
    """
    fits = (
        memory_folder.is_dir()
        and needed_bytes <= shutil.disk_usage(memory_folder).free
        and needed_bytes + BESIDE_BYTES <= available_bytes()
    )
    if wanted is Storage.MEMORY or (wanted is None and fits):
        return Place(storage=Storage.MEMORY, folder=memory_folder)
    return Place(storage=Storage.DISK, folder=Path(tempfile.gettempdir()))
