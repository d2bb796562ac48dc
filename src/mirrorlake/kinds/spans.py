"""Times as people read them, in what `plan` says."""

from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def span_text(milliseconds: int) -> str:
    """Returns a span of time in the largest unit of which it is at least two, or a whole number."""
    for size, unit in _UNITS:
        if milliseconds >= 2 * size or (milliseconds >= size and milliseconds % size == 0):
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds} ms"


def about_text(seconds: float) -> str:
    """Returns how long something takes, roughly."""
    if seconds < 1:
        return f"{max(1, round(seconds * 1000))} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def day_text(milliseconds: int) -> str:
    """Returns the day of a Unix time, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
