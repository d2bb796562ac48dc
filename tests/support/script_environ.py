"""The environment of a test's script that runs as a process of its own and imports what tests import."""

import os
import sys
from pathlib import Path

SCRIPT_ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
