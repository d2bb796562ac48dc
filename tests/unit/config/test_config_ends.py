"""Where partitions of a cluster end for a mirror: what may be said, and what is refused."""

import pytest

from mirrorlake.window import Window
from unit.config.config_texts import load, messages, native

NOON = "2026-11-20T12:00:00.000Z"
NOON_MS = 1_795_176_000_000


def mirror(source: str, destination: str = "{type: kafka, cluster: west, offsets: map}") -> str:
    return native(f"""
        - name: m
          source: {{cluster: east, topics: [orders]{source}}}
          destinations: [{destination}]
        """)


def test_the_end_of_a_mirror_arrives() -> None:
    text = mirror(f", until: '{NOON}', until-offsets: {{orders: {{0: 9}}}}", "{type: kafka, cluster: west}")
    (found,) = load(text).mirrors
    assert found.source.window == Window(until_ms=NOON_MS, until_offsets={"orders": {0: 9}})
    (endless,) = load(mirror("")).mirrors
    assert endless.source.window == Window()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (", until: noon", "source.until"),
        (", until: '2026-11-20T12:00:00'", "has no time zone"),
        (", until-offsets: {orders: 5}", "source.until-offsets"),
        (f", start: {{timestamp: '2026-11-21T00:00:00Z'}}, until: '{NOON}'", "is before the timestamp of `start`"),
        (
            ", start: {offsets: {orders: {0: 9}}}, until-offsets: {orders: {0: 8}}",
            "source.until-offsets: ends orders-0 at 8, before it begins at 9",
        ),
        (", until-offsets: {audit: {0: 5}}", "until-offsets are given for audit, which is not among the topics named"),
        (", partitions: [0], until-offsets: {orders: {1: 5}}", "until-offsets are given for partition 1"),
    ],
)
def test_an_end_that_cannot_be_is_refused(source: str, message: str) -> None:
    assert message in "\n".join(messages(mirror(source)))
