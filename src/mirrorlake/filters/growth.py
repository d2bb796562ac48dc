"""How large a value may become, so that a lease's memory stays a multiple of what it reads, whatever records hold."""

from collections.abc import Sequence

from mirrorlake.filters.condition import Condition, Op
from mirrorlake.filters.refusal import refused

GROWTH_MAX = 8
"""How often what a record holds may be repeated."""

WRITTEN_BYTES_MAX = 1024
"""How many bytes that are written down may come into each record."""

_NUMBER_BYTES = 20
_DIGEST_BYTES = 128


def check_size(values: Sequence[Condition]) -> None:
    """Checks how large values of one record may be together.

    Raises:
        UnsupportedError: they may repeat more than ``GROWTH_MAX`` times what the record holds, or have more than
            ``WRITTEN_BYTES_MAX`` bytes beside that.
    """
    hint = "the memory of a lease is bounded: make less of each record"
    sizes = [_size(value) for value in values]
    if (times := sum(times for times, _ in sizes)) > GROWTH_MAX:
        raise refused(f"it repeats {times} times what a record holds, and may do so {GROWTH_MAX} times", hint)
    if (written := sum(written for _, written in sizes)) > WRITTEN_BYTES_MAX:
        raise refused(f"it puts {written} bytes more into each record, and may put {WRITTEN_BYTES_MAX}", hint)


def _size(value: Condition) -> tuple[int, int]:
    """Returns how often a value may hold what the record does, and how many bytes beside that, at most."""
    match value.op:
        case Op.COLUMN | Op.HEADER:
            return 1, 0
        case Op.LITERAL:
            return 0, len(value.value) if isinstance(value.value, bytes) else 0
        case Op.TO_STRING:
            return 0, _NUMBER_BYTES
        case Op.SHA2:
            return 0, _DIGEST_BYTES
        case Op.CONCAT:
            sizes = [_size(part) for part in value.parts]
            return sum(times for times, _ in sizes), sum(written for _, written in sizes)
        case Op.CASE:
            return _largest(value.parts[1::2])
        case Op.COALESCE | Op.RETYPED | Op.JSON_FIELD | Op.SUBSTRING:
            return _largest(value.parts)
        case _:
            return 0, 0


def _largest(parts: Sequence[Condition]) -> tuple[int, int]:
    sizes = [_size(part) for part in parts]
    return max(times for times, _ in sizes), max(written for _, written in sizes)
