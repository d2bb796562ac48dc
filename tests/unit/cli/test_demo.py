"""What the demo ends with."""

import pytest

from mirrorlake.cli.demo import exit_code


@pytest.mark.parametrize(
    ("is_equal", "is_interrupted", "code"), [(True, False, 0), (True, True, 130), (False, False, 1), (False, True, 1)]
)
def test_a_signal_is_no_success_and_hides_no_failure(is_equal: bool, is_interrupted: bool, code: int) -> None:
    assert exit_code(is_equal=is_equal, is_interrupted=is_interrupted) == code
