"""The process that tests fork others from has imported everything beforehand."""

from support.fork_server import exit_codes, missing_modules


def test_a_forked_process_has_every_module_from_the_start() -> None:
    assert exit_codes([(missing_modules, ())]) == [0]
