import pytest

from mirrorlake.config.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("17", 17),
        ("1B", 1),
        ("64kB", 64_000),
        ("64KiB", 65_536),
        ("128MiB", 134_217_728),
        ("128mib", 134_217_728),
        ("2 GiB", 2_147_483_648),
        ("1.5KiB", 1536),
        ("3TB", 3_000_000_000_000),
    ],
)
def test_size_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 2", "10M", "10XiB", "0.5B", "1e3", "１"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|number and a unit"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("5s", 5.0), ("1m", 60.0), ("2h", 7200.0), ("1d", 86400.0), ("1.5s", 1.5), ("0s", 0.0)],
)
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["5", "s", "-5s", "5S", "5 min", "1:30", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|number and a unit"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0B"), (1, "1B"), (1000, "1000B"), (1024, "1KiB"), (3 * 1024**3, "3GiB")]
)
def test_size_is_written_in_the_largest_unit_that_divides_it(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0ms"), (0.25, "250ms"), (90, "90s"), (60, "1m"), (86400, "1d")])
def test_duration_is_written_in_the_largest_unit_that_divides_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
