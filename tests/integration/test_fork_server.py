"""The process that tests fork others from has imported everything beforehand."""

from support.fork_server import end_with_missing_modules, fork_context


def test_a_forked_process_has_every_module_from_the_start() -> None:
    process = fork_context().Process(target=end_with_missing_modules)
    process.start()
    process.join(120)

    assert process.exitcode == 0
