"""Where ``archive snapshot`` puts the snapshot of a partition, and what is there already."""

from dataclasses import dataclass

from mirrorlake.archive.chain import Chain
from mirrorlake.archive.inspection import are_snapshots, first_segment
from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.taking import TakenSnapshot
from mirrorlake.archive.snapshots.view import read_snapshot_footer
from mirrorlake.archive.topic_record import is_recorded, lost_topic, partitions_in, read_topic_record
from mirrorlake.errors import ChainBrokenError, CommandRefusedError, ConfigurationError
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.snapshot_options import DEFAULT_NAME, SnapshotOptions
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderAddress:
    """Where the snapshots of a partition go."""

    store: StoreSettings
    name: str
    partition: int

    def open(self) -> SnapshotPartition:
        """Returns the folder.

        Raises:
            MirrorlakeError: the store's settings cannot be used.
        """
        return SnapshotPartition(
            open_store(self.store), destination_name=self.name, partition=self.partition, extension="parquet"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTarget:
    """Where a snapshot goes: what is there, and where a run that died wanted to end."""

    name: str
    where: str
    folder: FolderAddress
    chain: Chain
    claimed_end: int | None


def newest_by(folder: FolderAddress, writer: str, offsets: OffsetRange) -> TakenSnapshot | None:
    """Returns the newest snapshot of a folder where it covers ``offsets`` and ``writer`` has made it; else None.

    Raises:
        MirrorlakeError: the folder could not be read, or holds what is no snapshot.
    """
    opened = folder.open()
    newest = opened.read_chain().tail
    if newest is None or newest.name.offsets != offsets:
        return None
    footer = read_snapshot_footer(opened.store, opened.prefix, newest)
    if footer is None or footer.envelope.writer != writer:
        return None
    return TakenSnapshot(name=str(newest.name), records=footer.records, size_bytes=newest.size_bytes, is_ours=True)


def find_target(place: ArchivePlace, options: SnapshotOptions, origin: Origin) -> SnapshotTarget:
    """Looks at where the snapshot goes.

    Raises:
        ConfigurationError: it is where the archive is, or another one of every record; see `_check_is_for_snapshots`.
        ChainBrokenError: something else than snapshots is there, or was.
        OtherSourceError, TopicRecreatedError: they are of another source.
    """
    settings = options.store.settings if options.store is not None else place.store
    name = options.name_for(place.name)
    if settings == place.store and name == place.name:
        raise ConfigurationError(
            f"the snapshot of {place.where} would lie among the records it is made of",
            hint=f"let `--to` end in another folder, for example {DEFAULT_NAME}",
        )
    address = FolderAddress(store=settings, name=name, partition=place.partition)
    folder = address.open()
    where = settings.where(folder.prefix)
    _check_is_for_snapshots(folder.store, name, where=settings.where(name))
    chain = folder.read_chain()
    if chain.tail is not None and (footer := read_snapshot_footer(folder.store, folder.prefix, chain.tail)) is not None:
        check_origin(Origin.of(footer), origin, what=f"{where}/{chain.tail.name} was made")
    claim = folder.pending_claim(chain, origin=origin)
    claimed_end = None if claim is None else claim.to_offset + 1
    return SnapshotTarget(name=name, where=where, folder=address, chain=chain, claimed_end=claimed_end)


def _check_is_for_snapshots(store: ObjectStore, name: str, *, where: str) -> None:
    """Checks that a topic's folder holds snapshots alone, or nothing: the partition that is meant may be empty yet.

    Raises:
        ConfigurationError: it holds every record, or what does not say that it is a snapshot.
        ChainBrokenError: something was archived there, and all of it is gone; or its record is damaged.
        MirrorlakeError: the store could not be read.
    """
    record = read_topic_record(store, name)
    if record is not None and record.holds_snapshots:
        return
    what = f"is an archive of every record, of topic {record.topic}" if record is not None else ""
    if not what:
        numbers = sorted(partitions_in(store, name))
        if not numbers and is_recorded(store, name):
            raise lost_topic(name, where=where)
        prefixes = (partition_prefix(name, number) for number in numbers)
        strange = (each for each in prefixes if first_segment(store, each) and not are_snapshots(store, each))
        if (found := next(strange, None)) is not None:
            what = f"holds an archive of every record, or one that does not say what it is, in {found}"
    if what:
        raise ConfigurationError(
            f"{where} {what}: no snapshot goes there",
            hint=f"let `--to` end in a folder of its own, for example {DEFAULT_NAME}",
        )


def adopted_end(target: SnapshotTarget, end: int, archived_end: int) -> int:
    """Returns the end that a run which died had claimed; whoever comes next must take it.

    Raises:
        CommandRefusedError: it lies behind the end that is asked for.
        ChainBrokenError: it lies behind the archive's end.
    """
    assert target.claimed_end is not None
    if target.claimed_end > archived_end:
        raise ChainBrokenError(
            f"{target.where}: a run that did not finish had claimed offset {target.claimed_end}, and the archive ends "
            f"at {archived_end}",
            hint="put the archive's newest segments back; or let the snapshot go to another folder (`--to`)",
        )
    if target.claimed_end > end:
        raise CommandRefusedError(
            f"{target.where}: a run that did not finish had claimed offset {target.claimed_end}, and this one is to "
            f"end at {end}",
            hint="run it once without an earlier end; or let the snapshot go to another folder (`--to`)",
        )
    return target.claimed_end


def refused_earlier(target: SnapshotTarget, end: int) -> CommandRefusedError:
    """Returns the refusal of a snapshot that would end before one that is there."""
    return CommandRefusedError(
        f"{target.where} has a snapshot up to offset {target.chain.position}, and this one is to end at {end}",
        hint="let an earlier one go to another folder (`--to`)",
        position=target.chain.position,
    )
