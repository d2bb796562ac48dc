"""Makes the golden archives in the formats without a footer. Run once, by hand, when they were settled; never again.

    PYTHONPATH=tests python tests/golden/make_formats_v1.py

Later versions of the package must go on reading what is in ``formats/``, so the files are kept, not remade.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from golden.make_segments_v1 import ENVELOPE
from golden.records_v1 import RECORDS, columns_of
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import log_batch
from mirrorlake.archive.formats.ndjson import NdjsonSegmentWriter
from mirrorlake.archive.sidecar import create_sidecar, sidecar_key
from mirrorlake.kafka.records.batch_header import LOG_APPEND_TIME_BIT, write_header
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import StagedObject

FOLDER = Path(__file__).parent / "formats"
NDJSON = "orders/3/00000000000000000010-00000000000000000020.ndjson"
LOG = "orders/3/00000000000000000010-00000000000000000020.log"
PARTITION = "orders/3"

BATCHES = ((0, 3, Codec.NONE), (3, 4, Codec.ZSTD), (4, 5, Codec.LZ4), (5, 7, Codec.GZIP))
"""Which of the records are in which batch; the third has the broker's time."""


def batches() -> list[bytes]:
    made = []
    for start, stop, codec in BATCHES:
        records = list(RECORDS[start:stop])
        data = encode_batch(columns_of(records), codec=codec, base_offset=records[0].offset)
        (batch,) = walk(memoryview(data))
        stamp = LOG_APPEND_TIME_BIT if records[0].timestamp_type == 1 else 0
        write_header(data, batch.header._replace(attributes=batch.header.attributes | stamp, leader_epoch=5))
        made.append(bytes(data))
    return made


def ndjson(staged: StagedObject) -> SegmentFooter:
    writer = NdjsonSegmentWriter(staged.file, ENVELOPE)
    writer.write(columns_of(list(RECORDS)))
    return writer.close(end_offset=21)


def log(staged: StagedObject, *, block_bytes: int | None = None) -> SegmentFooter:
    writer = LogSegmentWriter(staged.file, ENVELOPE, block_bytes=block_bytes)
    writer.write([log_batch(batch) for batch in walk(memoryview(b"".join(batches())))])
    return writer.close(end_offset=21, leader_epoch=5)


def publish(folder: Path, writers: Mapping[str, Callable[[StagedObject], SegmentFooter]]) -> None:
    """Makes an archive of one segment for each key, described where its format has no footer."""
    folder.mkdir()
    store = FilesystemStore(folder)
    for key, write in writers.items():
        staged = store.stage(PARTITION, "golden")
        footer = write(staged)
        if footer.file is not None:
            create_sidecar(store, key, footer)
        staged.publish(key)


def main() -> None:
    publish(FOLDER, {NDJSON: ndjson, LOG: log})
    described = FOLDER / sidecar_key(NDJSON)
    future = described.read_bytes().replace(b'"format_version": 1', b'"format_version": 2')
    (FOLDER / "from-the-future.ndjson.json").write_bytes(future)
    # What a writer left that died between its description and its segment, and had read more than the next one.
    shutil.copy(FOLDER / sidecar_key(LOG), FOLDER / sidecar_key(NDJSON, 1))


if __name__ == "__main__":
    main()
