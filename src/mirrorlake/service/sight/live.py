"""What a running service says of its partitions, told on its listener and asked by ``status``.

Only it knows what stands parked and since when something waits; from the clusters that cannot be seen. Nothing is
believed of an answer that is not a mirrorlake's own.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mirrorlake import __version__
from mirrorlake.config.resolved import ListenAddress
from mirrorlake.service.partition_state import PartitionState, StateName
from mirrorlake.service.sight.park_names import park_name, wait_name
from mirrorlake.topics.targets import UNKNOWN_PARTITION

PATH = "/partitions"
SERVICE = "mirrorlake"

ASK_SECONDS_MAX = 3.0
ANSWER_BYTES_MAX = 256 << 20
"""Some hundred bytes a partition."""

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Where a service that listens everywhere is asked."""

Key = tuple[str, str, int | None, str]
"""Mirror, topic, partition (None where it could not be asked for) and destination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    """One partition at one destination, as the running service has it; None for what it does not know.

    ``reason`` and ``error`` are empty where nothing stands against it; ``reason`` is one of ``PARK_NAMES``, or of
    ``WAIT_NAMES`` where the partition is not parked.
    """

    state: StateName
    lag_seconds: float | None = None
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveService:
    """What was found at a service's address: its partitions, or why nothing is known of them."""

    partitions: Mapping[Key, LivePartition] = field(default_factory=dict)
    silent_because: str = ""

    @property
    def answers(self) -> bool:
        """True where a service of ours answered."""
        return not self.silent_because


def partitions_json(states: Sequence[PartitionState], *, now_seconds: float) -> dict[str, object]:
    """Returns what the listener tells of a service's partitions."""
    return {
        "service": SERVICE,
        "version": __version__,
        "partitions": [_partition_json(state, now_seconds) for state in states],
    }


def _partition_json(state: PartitionState, now: float) -> dict[str, object]:
    row: dict[str, object] = {
        "name": state.mirror,
        "topic": state.source.topic,
        "partition": None if state.source.partition == UNKNOWN_PARTITION else state.source.partition,
        "destination": state.destination,
        "dest_next": state.position,
        "lag": state.lag_now(now),
        "lag_seconds": _rounded(state.lag_seconds(now)),
        "state": state.state_now(now).value,
    }
    if state.error is not None:
        if reason := park_name(state.error) if state.is_parked else wait_name(state.error):
            row["reason"] = reason
        row["error"] = str(state.error)
    return row


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def ask_service(address: ListenAddress | None) -> LiveService:
    """Asks the service that listens at an address for its partitions; blocks for seconds at most, raises nothing."""
    if address is None:
        return LiveService(silent_because="`service.metrics` is off")
    host = _ANYWHERE.get(address.host, address.host)
    where = f"{host}:{address.port}"
    connection = http.client.HTTPConnection(host, address.port, timeout=ASK_SECONDS_MAX)
    try:
        connection.request("GET", PATH)
        answer = connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX)
        if answer.status != http.HTTPStatus.OK:
            return LiveService(silent_because=f"what answers at {where} is no mirrorlake that tells its partitions")
        return LiveService(partitions=read_partitions(json.loads(body)))
    except OSError:
        return LiveService(silent_because=f"none answers at {where}")
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        return LiveService(silent_because=f"what answers at {where} is no mirrorlake")
    finally:
        connection.close()


def read_partitions(answer: Any) -> dict[Key, LivePartition]:
    """Returns the partitions of an answer.

    Raises:
        ValueError, KeyError, TypeError: it is not one of a mirrorlake.
    """
    if answer["service"] != SERVICE:
        raise ValueError(answer["service"])
    return {
        (row["name"], row["topic"], row["partition"], row["destination"]): LivePartition(
            state=StateName(row["state"]),
            lag_seconds=row["lag_seconds"],
            reason=row.get("reason", ""),
            error=row.get("error", ""),
        )
        for row in answer["partitions"]
    }
