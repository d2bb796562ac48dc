"""The process that tests fork others from has imported everything beforehand."""

from concurrent.futures import ThreadPoolExecutor

from support.command import without_spark
from support.fork_server import exit_codes, missing_modules


def test_a_forked_process_has_every_module_from_the_start() -> None:
    assert exit_codes([(missing_modules, ())]) == [0]


def test_commands_of_several_threads_each_say_their_own_exit_code() -> None:
    """One that starts asks whether all others have ended, beside the thread that waits for it."""
    with ThreadPoolExecutor(8) as threads:
        ended = list(threads.map(lambda _: without_spark("validate", "-c", "/no/such/file"), range(160)))
    assert {each.code for each in ended} == {1}
