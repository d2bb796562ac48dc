import pytest
from pydantic_core import PydanticCustomError

from mirrorlake.config.sources.source import Start
from mirrorlake.config.values.positions import read_start
from mirrorlake.offsets import StartKind


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("earliest", Start(kind=StartKind.EARLIEST)),
        ("latest", Start(kind=StartKind.LATEST)),
        ({"timestamp": 0}, Start(kind=StartKind.TIMESTAMP, timestamp_ms=0)),
        ({"timestamp": "1970-01-02T00:00:00Z"}, Start(kind=StartKind.TIMESTAMP, timestamp_ms=86_400_000)),
        ({"timestamp": "1970-01-01T02:00:00.001+02:00"}, Start(kind=StartKind.TIMESTAMP, timestamp_ms=1)),
        ({"max-age": "7d"}, Start(kind=StartKind.MAX_AGE, max_age_seconds=604_800.0)),
        (
            {"offsets": {"orders": {"0": 5, "12": 0}}},
            Start(kind=StartKind.OFFSETS, offsets={"orders": {0: 5, 12: 0}}),
        ),
    ],
)
def test_a_start_is_read(value: object, start: Start) -> None:
    assert read_start(value) == start


@pytest.mark.parametrize(
    "value",
    [
        "soon",
        5,
        None,
        {},
        {"timestamp": "2026-01-31"},
        {"timestamp": "yesterday"},
        {"timestamp": -1},
        {"max-age": 7},
        {"max-age": "0s"},
        {"max-age": "a week"},
        {"max-age": "7d", "timestamp": 0},
        {"offsets": {}, "timestamp": 0},
        {"offsets": {"orders": 5}},
        {"offsets": {"orders": {}}},
        {"offsets": {"orders": {"first": 5}}},
        {"offsets": {"orders": {"0": -1}}},
        {"offsets": {"a/b": {"0": 1}}},
        {"offsets": 5},
    ],
)
def test_what_is_no_start_is_refused(value: object) -> None:
    with pytest.raises(PydanticCustomError):
        read_start(value)
