import subprocess
import sys

from mirrorlake.pipeline.processes import descendants, kill

# It goes on when its child is killed, or it could end by itself before its own turn.
CHILD_OF_A_CHILD = "import subprocess, sys, time; subprocess.run([sys.executable, '-c', {!r}]); time.sleep(60)"
SAYS_SO_AND_WAITS = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"


def test_children_of_children_are_found_after_their_parents_and_killed() -> None:
    command = [sys.executable, "-c", CHILD_OF_A_CHILD.format(SAYS_SO_AND_WAITS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())

        assert descendants(parent.pid) == [grandchild]

        kill([*descendants(parent.pid), parent.pid])
        assert parent.wait(10) < 0
    assert descendants(parent.pid) == []


def test_a_process_that_is_not_there_has_nobody_below_it_and_can_be_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass

    assert descendants(ended.pid) == []
    kill([ended.pid])
