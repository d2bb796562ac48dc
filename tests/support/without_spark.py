"""The ``mirrorlake`` command with an engine in its own process: for what is no matter of Spark's.

A program, run as ``python without_spark.py -m mirrorlake ARGUMENT...``. It is the command in everything else.
"""

import sys

from mirrorlake.cli.main import main
from mirrorlake.pipeline.in_process import InProcessEngine

if __name__ == "__main__":
    del sys.argv[1:3]  # -m mirrorlake
    sys.argv[0] = "mirrorlake"
    main(InProcessEngine)
