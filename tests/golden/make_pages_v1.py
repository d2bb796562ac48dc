"""Makes the golden Parquet and NDJSON files whose blocks have checksums. Run once, by hand, when these were settled.

    PYTHONPATH=tests python tests/golden/make_pages_v1.py

Later versions of the package must go on reading what is in ``pages/``, so the files are kept, not remade.
"""

from pathlib import Path

from golden.make_formats_v1 import NDJSON, PARTITION, ndjson
from golden.make_sealed_v1 import PARQUET, parquet
from mirrorlake.archive import seal
from mirrorlake.archive.formats import ndjson as ndjson_format
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "pages"

BLOCK_BYTES = 400
"""So that small files have several."""


def main() -> None:
    FOLDER.mkdir()
    for module in (seal, ndjson_format):
        vars(module)["BLOCK_BYTES"] = BLOCK_BYTES
    store = FilesystemStore(FOLDER)
    for key, write in ((PARQUET, parquet), (NDJSON, ndjson)):
        staged = store.stage(PARTITION, "golden")
        footer = write(staged)
        if footer.file is not None:
            create_sidecar(store, key, footer)
        staged.publish(key)


if __name__ == "__main__":
    main()
