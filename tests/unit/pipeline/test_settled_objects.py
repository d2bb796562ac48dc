"""What a worker holds for ever is set aside from Python's collector, seldom, and never what a first lease makes."""

import json
import subprocess
import sys

# In a process of its own: counting what is set aside walks all of it, which takes seconds in one full of tests.
LEASES = """
import gc, json
from mirrorlake.pipeline.settled_objects import SettledObjects

settled, at = SettledObjects(), []
for lease in range(1, 40):
    before = gc.get_freeze_count()
    kept = [[lease] for _ in range(1000)]
    settled.lease_begins()
    if gc.get_freeze_count() > before + len(kept) - 1:
        at.append(lease)
print(json.dumps(at))
"""


def test_objects_are_set_aside_at_the_second_lease_and_then_ever_more_seldom() -> None:
    done = subprocess.run([sys.executable, "-c", LEASES], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [2, 4, 8, 16, 32]
