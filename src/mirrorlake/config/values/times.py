"""Reads when something is done, and how long something is waited for."""

import re
from collections.abc import Callable
from datetime import time
from typing import TypeVar

from mirrorlake.config.reading import found, read_any_text, read_duration, read_text, refuse
from mirrorlake.schedule import Schedule

T = TypeVar("T")
_AT_UTC = re.compile(r"(\d\d):(\d\d)(?::(\d\d))?", re.ASCII)


def read_or_off(reader: Callable[[object], T]) -> Callable[[object], T | None]:
    """Returns a reader that takes ``off``, too, as None."""
    return lambda value: None if isinstance(value, str) and value == "off" else reader(value)


read_heartbeat = read_or_off(read_duration(1, 86400))
"""Reads seconds between heartbeats, or ``off``."""


def read_at_utc(value: object) -> time:
    """Reads a time of day in UTC: ``HH:MM`` or ``HH:MM:SS``."""
    match = _AT_UTC.fullmatch(read_any_text(value))
    if match is None:
        refuse(f"at-utc must be HH:MM or HH:MM:SS, got {found(value)}")
    hour, minute, second = (int(part or 0) for part in match.groups())
    if hour > 23 or minute > 59 or second > 59:
        refuse(f"at-utc out of range (HH 0-23, MM 0-59, SS 0-59), got {found(value)}")
    return time(hour, minute, second)


def read_cron(value: object) -> str:
    """Reads moments in UTC as crontab(5) writes them: five fields, or six of which the first is the second."""
    text = read_text(value)
    try:
        Schedule(cron=text)
    except ValueError as error:
        hint = "minute, hour, day of the month, month, day of the week: `*/15 * * * *` is every quarter of an hour"
        refuse(f"{found(value)} is no cron expression: {error}", hint)
    return text


def read_missing_segment(value: object) -> float | None:
    """Reads what is done about a missing segment: ``wait`` (None), or ``{skip-after: …}`` in seconds."""
    if isinstance(value, str) and value == "wait":
        return None
    if not isinstance(value, dict) or set(value) != {"skip-after"}:
        refuse(f"expected wait or skip-after, found {found(value)}", "for example {skip-after: 10m}")
    return read_duration(1, 30 * 86400)(value["skip-after"])
