"""What a running service says of its partitions, told on its listener and asked by ``status``.

Only it knows what stands parked and since when something waits; from the clusters that cannot be seen. Nothing is
believed of an answer that is not a mirrorlake's own.
"""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mirrorlake import __version__
from mirrorlake.config.process_settings import ListenAddress
from mirrorlake.service.partition_state import PartitionState, StateName
from mirrorlake.service.sight.park_names import park_name, wait_name
from mirrorlake.service.sight.served import ServedMirror, read_served
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
    ``WAIT_NAMES`` where the partition is not parked. ``stale`` says for how long the copy has been behind where that is
    longer than its mirror allows, else it is empty.
    """

    state: StateName
    lag_seconds: float | None = None
    reason: str = ""
    error: str = ""
    stale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedKeeping:
    """A schedule of an archive whose last run failed, in part or as a whole; ``work`` is `merge` or `retain`."""

    mirror: str
    destination: str
    work: str
    ended: str
    error: str

    @property
    def message(self) -> str:
        """What is said of it."""
        return f"{self.work} of {self.mirror} → {self.destination} failed at {self.ended}: {self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedKeeping:
    """Folders of an archive that retention left alone when it ran last, as it is not certain whose they are.

    ``reasons`` say why, by folder; where there are very many, ``folders`` counts more than are named.
    """

    mirror: str
    destination: str
    folders: int
    reasons: Mapping[str, str]

    @property
    def messages(self) -> list[str]:
        """What is said of them, one for each reason."""
        by_reason: dict[str, list[str]] = {}
        for folder, reason in self.reasons.items():
            by_reason.setdefault(reason, []).append(folder)
        said = [
            f"retain of {self.mirror} → {self.destination} leaves {', '.join(folders)} alone: {reason}"
            for reason, folders in by_reason.items()
        ]
        if (more := self.folders - len(self.reasons)) > 0:
            said.append(f"retain of {self.mirror} → {self.destination} leaves {more} more folders alone")
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveService:
    """What was found at a service's address: its partitions, or why nothing is known of them.

    ``where`` is that address, ``served`` which mirrors it serves, None where it does not tell. ``unserved`` says which
    mirrors of a configuration it does not serve: see `whose_answer`.
    """

    where: str = ""
    served: tuple[ServedMirror, ...] | None = None
    unserved: tuple[str, ...] = ()
    partitions: Mapping[Key, LivePartition] = field(default_factory=dict)
    failed_keeping: tuple[FailedKeeping, ...] = ()
    doubted_keeping: tuple[DoubtedKeeping, ...] = ()
    silent_because: str = ""

    @property
    def answers(self) -> bool:
        """True where a service of ours answered."""
        return not self.silent_because


def partitions_json(
    states: Sequence[PartitionState],
    *,
    now_seconds: float,
    keeping: Sequence[Mapping[str, object]] = (),
    stale: Callable[[PartitionState], str] = lambda _: "",
    mirrors: Sequence[ServedMirror] = (),
) -> dict[str, object]:
    """Returns what the listener tells of a service's mirrors and partitions, and of the schedules of its archives.

    Args:
        states: of all partitions.
        now_seconds: reading of the clock that the states were noted by.
        keeping: the schedules.
        stale: returns what is said of a copy that is stale; empty for the others.
        mirrors: which it serves.
    """
    return {
        "service": SERVICE,
        "version": __version__,
        "mirrors": [each.as_json() for each in mirrors],
        "partitions": [_partition_json(state, now_seconds, stale(state)) for state in states],
        "keeping": list(keeping),
    }


def _partition_json(state: PartitionState, now: float, stale: str) -> dict[str, object]:
    row: dict[str, object] = {
        "name": state.mirror,
        "topic": state.source.topic,
        "partition": None if state.source.partition == UNKNOWN_PARTITION else state.source.partition,
        "destination": state.destination,
        "dest_next": state.shown_position,
        "lag": state.lag_now(now),
        "lag_seconds": _rounded(state.lag_seconds(now)),
        "state": state.state_now(now).value,
    }
    if (error := state.shown_error) is not None:
        if reason := park_name(error) if state.is_parked else wait_name(error):
            row["reason"] = reason
        row["error"] = str(error)
    if stale:
        row["stale"] = stale
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
        told = json.loads(body)
        return LiveService(
            where=where,
            served=read_served(told),
            partitions=read_partitions(told),
            failed_keeping=read_failed_keeping(told),
            doubted_keeping=read_doubted_keeping(told),
        )
    except OSError:
        return LiveService(silent_because=f"none answers at {where}")
    except (http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
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
            stale=row.get("stale", ""),
        )
        for row in answer["partitions"]
    }


def read_failed_keeping(answer: Any) -> tuple[FailedKeeping, ...]:
    """Returns the schedules of an answer whose last run failed; a service of before has none.

    Raises:
        ValueError, KeyError, TypeError: it is not one of a mirrorlake.
    """
    return tuple(
        FailedKeeping(
            mirror=str(row["name"]),
            destination=str(row["destination"]),
            work=str(row["work"]),
            ended=str(row["ended"]),
            error=str(row["error"]),
        )
        for row in answer.get("keeping", ())
        if "error" in row
    )


def read_doubted_keeping(answer: Any) -> tuple[DoubtedKeeping, ...]:
    """Returns the schedules of an answer that left folders alone in doubt; a service of before has none.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is not one of a mirrorlake.
    """
    return tuple(
        DoubtedKeeping(
            mirror=str(row["name"]),
            destination=str(row["destination"]),
            folders=int(row["doubted"]),
            reasons={str(folder): str(reason) for folder, reason in row["doubts"].items()},
        )
        for row in answer.get("keeping", ())
        if "doubts" in row
    )
