"""A number is shown of what is known, and of nothing else."""

import re

import pytest
from prometheus_client import generate_latest

from mirrorlake.clock import ManualClock
from mirrorlake.errors import (
    MirrorlakeError,
    RemoteTierError,
    SchemaUnknownError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.sources.client import Bounds
from support.partition_states import kafka_state


class Shown:
    """Metrics on a clock that stands still, as Prometheus reads them."""

    def __init__(self, *, has_v3: bool = False) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics(clock=self.clock, has_v3=has_v3)

    def began(self, *states: PartitionState) -> None:
        for state in states:
            self.metrics.began(state, is_first=True)

    def all(self) -> dict[str, float]:
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def of_states(self) -> dict[str, float]:
        """What is shown of partitions, by the name of the series and the partition."""
        found = {}
        for series, value in self.all().items():
            if match := re.fullmatch(r'(?:mirrorlake|mirror_v3)_(\w+)\{.*partition="(\d)".*\}', series):
                found[f"{match[1]} {match[2]}"] = value
        return found

    def parked(self) -> float | None:
        return self.all().get("mirrorlake_parked_partitions")


def test_nothing_is_shown_of_a_partition_of_which_nothing_is_known() -> None:
    shown = Shown()
    shown.began(kafka_state(0))
    assert shown.of_states() == {}


def test_a_source_that_is_away_has_no_end_and_no_lag_and_the_position_stays() -> None:
    shown = Shown()
    state = kafka_state(0)
    shown.began(state)
    state.position = 4
    state.saw_source(Bounds(0, 10), 0.0, 0.0)
    shown.clock.advance(5.0)
    assert shown.of_states() == {
        "position_offset 0": 4,
        "source_end_offset 0": 10,
        "lag_records 0": 6,
        "lag_seconds 0": 5,
    }
    shown.clock.advance(10.0)
    assert shown.of_states() == {"position_offset 0": 4}


def test_how_many_stand_parked_is_shown_after_everything_was_looked_at() -> None:
    shown = Shown()
    state = kafka_state(0)
    shown.began(state)
    assert shown.parked() is None
    shown.metrics.looked()
    assert shown.parked() == 0
    state.failed(TopicMissingError("gone", topic="orders"), 0.0)
    assert shown.parked() == 1
    assert shown.all()['mirrorlake_parked_partitions_by_reason{reason="missing"}'] == 1


def test_what_is_paused_is_counted_by_mirror_and_its_lag_is_shown() -> None:
    shown = Shown()
    state = kafka_state(0)
    shown.began(state)
    shown.metrics.looked()
    paused = 'mirrorlake_paused_partitions{mirror="m"}'
    assert shown.all()[paused] == 0
    state.is_paused = True
    state.position = 4
    state.saw_source(Bounds(0, 10), 0.0, 0.0)
    assert (shown.all()[paused], shown.parked()) == (1, 0)
    assert shown.of_states()["lag_records 0"] == 6


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RemoteTierError("waiting for the source's remote tier"), "remote-tier"),
        (SchemaUnknownError("schema ids 5 from offset 3 on are not known yet"), "schema-ids"),
    ],
)
def test_what_waits_is_counted_by_what_it_waits_for_and_not_parked(error: MirrorlakeError, reason: str) -> None:
    shown = Shown()
    state = kafka_state(0)
    shown.began(state)
    shown.metrics.looked()
    waiting = f'mirrorlake_waiting_partitions{{reason="{reason}"}}'
    assert shown.all()[waiting] == 0
    state.failed(error, 0.0)
    assert (shown.all()[waiting], shown.parked()) == (1, 0)


def test_what_begins_anew_or_is_gone_leaves_no_series_behind() -> None:
    shown = Shown()
    old, new = kafka_state(0), kafka_state(0)
    old.position, new.position = 5, 0
    shown.began(old)
    shown.began(new)
    shown.metrics.retired(old)
    assert shown.of_states() == {"position_offset 0": 0}
    shown.metrics.retired(new)
    assert shown.of_states() == {}


@pytest.mark.parametrize("has_v3", [False, True])
def test_series_of_mirror_v3_are_there_in_its_form_only(has_v3: bool) -> None:
    shown = Shown(has_v3=has_v3)
    state = kafka_state(0)
    state.position = 3
    shown.began(state)
    assert any(series.startswith("mirror_v3_") for series in shown.all()) is has_v3


def test_of_two_mirrors_of_one_partition_the_series_of_mirror_v3_show_what_is_safe_of_both() -> None:
    shown = Shown(has_v3=True)
    ahead, behind = kafka_state(0, mirror="a"), kafka_state(0, mirror="b")
    ahead.position, behind.position, ahead.failures = 9, 4, 2
    shown.began(ahead, behind)
    of_v3 = {name: value for name, value in shown.all().items() if name.startswith("mirror_v3_")}
    assert of_v3 == {
        'mirror_v3_destination_offset_verified{partition="0",topic="orders"}': 4,
        'mirror_v3_destination_offset_inflight_retry{partition="0",topic="orders"}': 2,
    }


def test_the_process_is_measured_and_no_series_says_when_a_counter_was_made() -> None:
    names = {series.split("{")[0] for series in Shown(has_v3=True).all()}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"} <= names
    assert not {name for name in names if name.endswith("_created")}


@pytest.mark.parametrize("has_v3", [False, True])
def test_a_copy_of_a_topic_that_was_recreated_has_no_position_in_the_topic_there_is_now(has_v3: bool) -> None:
    shown = Shown(has_v3=has_v3)
    state = kafka_state(0)
    shown.began(state)
    state.position = 100
    state.saw_source(Bounds(0, 7), 0.0, 0.0)
    state.failed(TopicRecreatedError("x"), 0.0)
    assert not {"position_offset 0", "lag_records 0", "destination_offset_verified 0"} & shown.of_states().keys()
