"""Makes the golden Parquet and NDJSON files whose blocks have checksums. Run once, by hand, when these were settled.

    PYTHONPATH=tests python tests/golden/make_pages_v1.py

Later versions of the package must go on reading what is in ``pages/``, so the files are kept, not remade.
"""

from pathlib import Path

from golden.make_formats_v1 import NDJSON, ndjson, publish
from golden.make_sealed_v1 import PARQUET, parquet
from mirrorlake.archive import seal
from mirrorlake.archive.formats import ndjson as ndjson_format

FOLDER = Path(__file__).parent / "pages"

BLOCK_BYTES = 400
"""So that small files have several."""


def main() -> None:
    for module in (seal, ndjson_format):
        vars(module)["BLOCK_BYTES"] = BLOCK_BYTES
    publish(FOLDER, {PARQUET: parquet, NDJSON: ndjson})


if __name__ == "__main__":
    main()
