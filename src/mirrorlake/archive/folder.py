"""The folder of one partition in a store: an archive of every record, or snapshots of the latest ones."""

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshots_content
from mirrorlake.stores.object_store import ObjectStore

PartitionFolder = ArchivedPartition | SnapshotPartition


def partition_folder(
    store: ObjectStore, *, destination_name: str, partition: int, extension: str, are_snapshots: bool
) -> PartitionFolder:
    """Returns the folder of a partition; ``are_snapshots`` says which of the two it is to hold."""
    kind = SnapshotPartition if are_snapshots else ArchivedPartition
    return kind(store, destination_name=destination_name, partition=partition, extension=extension)


def check_folder_content(folder: PartitionFolder) -> int:
    """Reads every file of the partition and compares it with its own footer; returns how many were read.

    Raises:
        ChainBrokenError: a file was changed, cut or swapped; the text names it.
        MirrorlakeError: the store could not be read.
    """
    if isinstance(folder, SnapshotPartition):
        return check_snapshots_content(folder)
    return check_archived_content(folder)
