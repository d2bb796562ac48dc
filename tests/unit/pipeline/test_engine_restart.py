from mirrorlake.pipeline.restart import TIMES_VARIABLE, RestartBounds, allowed_restart

BOUNDS = RestartBounds(restarts_max=3, window_seconds=100.0)


def times(value: str) -> dict[str, str]:
    return {TIMES_VARIABLE: value}


def test_first_restart_is_allowed_and_noted() -> None:
    assert allowed_restart({}, 1000.0, BOUNDS) == "1000.000"


def test_restarts_within_the_window_add_up() -> None:
    assert allowed_restart(times("950.000,960.500"), 1000.0, BOUNDS) == "950.000,960.500,1000.000"


def test_one_restart_too_many_is_refused() -> None:
    assert allowed_restart(times("950.000,960.000,970.000"), 1000.0, BOUNDS) is None


def test_restarts_before_the_window_are_forgotten() -> None:
    assert allowed_restart(times("899.000,900.000,970.000"), 1000.0, BOUNDS) == "970.000,1000.000"


def test_times_from_the_future_count_because_a_clock_was_set_back() -> None:
    assert allowed_restart(times("2000.000,2001.000,2002.000"), 1000.0, BOUNDS) is None


def test_unreadable_times_count_as_none() -> None:
    assert allowed_restart(times("yesterday"), 1000.0, BOUNDS) == "1000.000"


def test_no_restart_is_allowed_when_the_most_is_zero() -> None:
    assert allowed_restart({}, 1000.0, RestartBounds(restarts_max=0)) is None
