"""What topics' settings mean for a copy."""

import pytest

from mirrorlake.topics.targets import is_compacted, is_deleting


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact,delete", True, True),
        ("", False, False),
        (None, True, False),
    ],
)
def test_a_topic_without_a_cleanup_policy_keeps_everything_and_one_that_does_not_say_may_not(
    policy: str | None, deletes: bool, compacts: bool
) -> None:
    settings = {"cleanup.policy": policy}
    assert (is_deleting(settings), is_compacted(settings)) == (deletes, compacts)
