"""Makes the golden segment whose checksum of records is by parts. Run once, by hand; never again.

    PYTHONPATH=tests python tests/golden/make_joined_v1.py

Later versions of the package must go on reading what is in ``joined/``, so the file is kept, not remade.
"""

from dataclasses import replace
from pathlib import Path

from golden.make_segments_v1 import ENVELOPE
from golden.records_v1 import RECORDS, columns_of
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.memory import MemoryStore

FOLDER = Path(__file__).parent / "joined"
SEGMENT = "orders/3/00000000000000000010-00000000000000000020.parquet"

ENDS = (14, 17, 21)
"""Of the three segments that it was joined from; the fourth is the newest, which is never merged."""


def main() -> None:
    FOLDER.mkdir()
    store = MemoryStore()
    archived = ArchivedPartition(store, destination_name="orders", partition=3, extension="parquet")
    store.create(f"{archived.prefix}/_floor-{10:020}", b"")
    start = 10
    for end in (*ENDS, 22):
        staged = store.stage(archived.prefix, "golden")
        writer = ParquetSegmentWriter(staged.file, replace(ENVELOPE, start_offset=start))
        if held := [record for record in RECORDS if start <= record.offset < end]:
            writer.write(columns_of(held))
        writer.close(end_offset=end, leader_epoch=5)
        staged.publish(f"{archived.prefix}/{start:020}-{end - 1:020}.parquet")
        start = end
    GroupMerge(
        archived,
        look_at(archived).chain[:-1],
        compression="zstd-1",
        writer=ENVELOPE.writer,
        token="golden",
        clock=ManualClock(),
        copied_bytes_min=1,
    ).run(deletes_inputs=True)
    FilesystemStore(FOLDER).create(SEGMENT, store.read(SEGMENT))


if __name__ == "__main__":
    main()
