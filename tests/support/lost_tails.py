"""Brokers that lose the newest records of a log, as after an unclean election or a disk that lied."""

from collections.abc import Mapping
from pathlib import Path

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.records.batches import walk

_UNCHECKPOINTED = "recovery-point-offset-checkpoint"


def restart_without_tails(server: EmbeddedKafka, ends: Mapping[str, int]) -> None:
    """Restarts a broker whose logs of partition 0 of some topics end before the batch with an offset, or at it.

    Everything that would tell the broker of what was there is taken away too: indexes, producer snapshots, the point
    up to which it need not look, and the mark of a clean stop.

    Args:
        server: stopped and started.
        ends: for each topic the first offset that is lost.
    """
    server.stop()
    data = server.folder / "data"
    for topic, end in ends.items():
        _cut(data / f"{topic}-0", end)
    (data / ".kafka_cleanshutdown").unlink()
    _forget(data / _UNCHECKPOINTED, set(ends))
    server.start()


def _cut(folder: Path, end: int) -> None:
    for log in sorted(folder.glob("*.log")):
        content = log.read_bytes()
        kept = sum(batch.header.batch_bytes for batch in walk(memoryview(content)) if batch.header.next_offset <= end)
        if kept or int(log.stem) == 0:
            log.write_bytes(content[:kept])
        else:
            log.unlink()
    for leftover in folder.iterdir():
        if leftover.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            leftover.unlink()


def _forget(checkpoint: Path, topics: set[str]) -> None:
    """Sets the offset of each topic's partition 0 to 0: below it a start recovers nothing."""
    version, count, *lines = checkpoint.read_text().splitlines()
    changed = [f"{line.split()[0]} 0 0" if line.split()[0] in topics else line for line in lines]
    checkpoint.write_text("\n".join([version, count, *changed]) + "\n")
