"""A cluster far away: how fast a copy is where every answer takes a while, on either side."""

from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bench.brokers import BenchKafka
from bench.contender import Contender, Measured, measure
from bench.inputs import Filled, Input

ROUND_TRIPS_MS = (10, 80, 200)


class Far(StrEnum):
    """Which side is far from the mirror."""

    SOURCE = "source"
    DESTINATION = "destination"


@dataclass(frozen=True, slots=True, kw_only=True)
class FarCopy:
    """One run with one side ``round_trip_ms`` away."""

    far: Far
    round_trip_ms: int
    copy: Measured


async def measure_far(
    contender: Contender,
    *,
    source: BenchKafka,
    destination: BenchKafka,
    wanted: Input,
    filled: Filled,
    folder: Path,
    far: Far,
    round_trip_ms: int,
) -> FarCopy:
    """Measures one copy with a wire before one of the brokers."""
    seconds = round_trip_ms / 1000
    with (
        source.far_away(seconds) if far is Far.SOURCE else nullcontext(),
        destination.far_away(seconds) if far is Far.DESTINATION else nullcontext(),
    ):
        copy = await measure(
            contender, source=source, destination=destination, wanted=wanted, filled=filled, folder=folder
        )
    return FarCopy(far=far, round_trip_ms=round_trip_ms, copy=copy)
