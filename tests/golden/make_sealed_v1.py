"""Makes the golden archive of sealed files. Run once, by hand, when seals were settled; never again.

    PYTHONPATH=tests python tests/golden/make_sealed_v1.py

Later versions of the package must go on reading what is in ``sealed/``, so the files are kept, not remade.
"""

from pathlib import Path

from golden.make_formats_v1 import LOG, NDJSON, log, ndjson, publish
from golden.make_segments_v1 import ENVELOPE
from golden.records_v1 import RECORDS, columns_of
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.stores.object_store import StagedObject

FOLDER = Path(__file__).parent / "sealed"
PARQUET = "orders/3/00000000000000000010-00000000000000000020.parquet"


def parquet(staged: StagedObject) -> SegmentFooter:
    writer = ParquetSegmentWriter(staged.file, ENVELOPE)
    writer.write(columns_of(list(RECORDS)))
    return writer.close(end_offset=21, leader_epoch=5)


def main() -> None:
    publish(FOLDER, {PARQUET: parquet, NDJSON: ndjson, LOG: log})


if __name__ == "__main__":
    main()
