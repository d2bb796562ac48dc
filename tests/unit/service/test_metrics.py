"""The latency histogram adds up what leases bring."""

from prometheus_client import CollectorRegistry, generate_latest

from mirrorlake.destinations.interface import Progress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.metrics import LatencyHistogram


def row(*seconds: float) -> LeaseRow:
    progress = Progress()
    for each in seconds:
        progress.saw_latency(each)
    return LeaseRow(
        mirror="m",
        source=TopicPartition("t", 0),
        destination="west",
        start_offset=0,
        position=1,
        source_start=0,
        source_end=1,
        latencies=dict(progress.latencies),
        latency_seconds_sum=progress.latency_seconds_sum,
    )


def test_latencies_of_several_leases_add_up_in_cumulative_buckets() -> None:
    registry = CollectorRegistry()
    histogram = LatencyHistogram()
    registry.register(histogram)
    copy = ("m", "t", "0", "west")
    histogram.add(copy, row(0.004, 0.005, 0.3))
    histogram.add(copy, row(3600.0, -0.001))
    labels = 'destination="west",mirror="m",partition="0",topic="t"'
    series = dict(
        line.rsplit(" ", 1)
        for line in generate_latest(registry).decode().splitlines()
        if line.startswith("mirrorlake_latency_seconds")
    )

    def bucket(bound: str) -> float:
        (value,) = (v for name, v in series.items() if f'le="{bound}"' in name and "_bucket" in name)
        return float(value)

    assert [bucket(b) for b in ("0.001", "0.005", "0.5", "60.0", "+Inf")] == [1, 3, 4, 4, 5]
    total = [float(v) for name, v in series.items() if "_sum" in name]
    assert total == [0.004 + 0.005 + 0.3 + 3600.0]
    assert any(part in next(iter(series)) for part in labels.split(","))
