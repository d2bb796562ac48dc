"""What it means that a leader called a position out of range."""

import pytest

from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.errors import (
    BrokerNotReadyError,
    DestinationAheadError,
    MirrorlakeError,
    RequestTimeoutError,
    SourceTruncatedError,
)
from mirrorlake.offsets import TopicPartition

SOURCE = TopicPartition("orders", 0)
SILENT = RequestTimeoutError("no answer")


@pytest.mark.parametrize(
    ("position", "log_start", "log_end", "kind"),
    [
        (9, 10, 20, SourceTruncatedError),
        (10, 10, 20, BrokerNotReadyError),
        (20, 10, 20, BrokerNotReadyError),
        (21, 10, 20, DestinationAheadError),
        (15, SILENT, 20, RequestTimeoutError),
        (15, 10, SILENT, RequestTimeoutError),
    ],
)
def test_only_a_position_outside_the_log_parks(
    position: int, log_start: int | MirrorlakeError, log_end: int | MirrorlakeError, kind: type[MirrorlakeError]
) -> None:
    error = explain_out_of_range(SOURCE, position, log_start, log_end)
    assert type(error) is kind
