"""Whether offsets of a partition are under a legal hold: the one question an erasure asks."""

from collections.abc import Callable, Sequence
from functools import partial

from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.maintenance.holds import read_holds, topic_folder
from mirrorlake.offsets import OffsetRange

HoldsOf = Callable[[OffsetRange], Sequence[str]]
"""Returns what the holds are called that hold any offset of a range; nothing where none does."""


def holds_of(archived: PartitionFolder) -> HoldsOf:
    """Reads the holds of a partition, and returns what answers from them.

    Raises:
        MirrorlakeError: the store could not be read; whoever wants to erase must not then.
    """
    return partial(read_holds(archived.store, topic_folder(archived.prefix)).holding, archived.partition)


def holds_as_they_are(archived: PartitionFolder) -> HoldsOf:
    """Returns what reads the holds of a partition anew each time it is asked."""
    return lambda offsets: holds_of(archived)(offsets)


def labels_of(folder: PartitionFolder) -> Sequence[str]:
    """Returns what the holds are called that hold anything of a partition: of a snapshot all is held then.

    Raises:
        MirrorlakeError: the store could not be read; whoever wants to erase must not then.
    """
    return read_holds(folder.store, topic_folder(folder.prefix)).labels(folder.partition)


def no_holds(_: OffsetRange) -> Sequence[str]:
    """Returns nothing: nobody holds anything."""
    return ()
