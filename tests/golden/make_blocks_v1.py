"""Makes the golden log whose blocks have checksums. Run once, by hand, when these were settled; never again.

    PYTHONPATH=tests python tests/golden/make_blocks_v1.py

Later versions of the package must go on reading what is in ``blocks/``, so the files are kept, not remade.
"""

from functools import partial
from pathlib import Path

from golden.make_formats_v1 import LOG, log, publish

FOLDER = Path(__file__).parent / "blocks"

BLOCK_BYTES = 100
"""So that a small file has several."""


def main() -> None:
    publish(FOLDER, {LOG: partial(log, block_bytes=BLOCK_BYTES)})


if __name__ == "__main__":
    main()
