"""Makes the golden log whose blocks have checksums. Run once, by hand, when these were settled; never again.

    PYTHONPATH=tests python tests/golden/make_blocks_v1.py

Later versions of the package must go on reading what is in ``blocks/``, so the files are kept, not remade.
"""

from pathlib import Path

from golden.make_formats_v1 import LOG, PARTITION, log
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "blocks"

BLOCK_BYTES = 100
"""So that a small file has several."""


def main() -> None:
    FOLDER.mkdir()
    store = FilesystemStore(FOLDER)
    staged = store.stage(PARTITION, "golden")
    create_sidecar(store, LOG, log(staged, block_bytes=BLOCK_BYTES))
    staged.publish(LOG)


if __name__ == "__main__":
    main()
