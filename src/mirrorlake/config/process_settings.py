"""What the configuration says to the process as a whole: its engine and its listeners. Null is spelled None."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mirrorlake.secret import Secret


class OnPark(StrEnum):
    """What the process does when a partition is parked."""

    CONTINUE = "continue"
    EXIT = "exit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How much of the machine, or of a cluster, the engine uses. ``master`` None is one machine.

    ``largest_batch_bytes`` is what one record batch of a source may decompress to. ``spark_secrets`` are those of
    Spark's settings that must never be shown; ``ui_port`` is on loopback.
    """

    lanes: int
    lease_seconds: float = 5.0
    discovery_seconds: float = 30.0
    tail_check_seconds: float = 60.0
    stop_seconds: float = 60.0
    memory_bytes: int = 2 * 1024**3
    largest_batch_bytes: int = 512 * 1024**2
    batch_slots: int = 1
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    spark_secrets: Mapping[str, Secret] = field(default_factory=dict)
    start_timeout_seconds: float = 60.0
    ui_port: int | None = None
    event_log: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """A local address to listen on. ``host`` without brackets, ``port`` 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The listeners of ``run`` and the seconds between heartbeats in the log; None where switched off."""

    metrics: ListenAddress | None = None
    control: ListenAddress | None = None
    heartbeat_seconds: float | None = 30.0
