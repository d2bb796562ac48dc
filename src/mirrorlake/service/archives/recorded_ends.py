"""Where partitions had ended, as their topics' records say: what is missing at an end shows nowhere else."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mirrorlake.archive.maintenance.look import FolderLook
from mirrorlake.archive.topic_record import check_reached, read_topic_record
from mirrorlake.errors import MirrorlakeError
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.reports import READS_AT_ONCE
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEnds:
    """What the topics' records say, by store and folder; an error where one could not be read."""

    by_topic: Mapping[tuple[StoreSettings, str], Mapping[int, int] | MirrorlakeError]

    def check(self, place: ArchivePlace, look: FolderLook) -> None:
        """Checks that a partition ends where it once did, or further.

        Args:
            place: the partition.
            look: at it, begun after these records were read.

        Raises:
            ChainBrokenError: it ends before.
            MirrorlakeError: its topic's record could not be read.
        """
        recorded = self.by_topic[place.store, place.name]
        if isinstance(recorded, MirrorlakeError):
            raise recorded
        check_reached(
            open_store(place.store),
            place.name,
            place.partition,
            reached=recorded.get(place.partition, 0),
            position=look.newest.name.end_offset if look.newest is not None else 0,
        )


def recorded_ends(places: Sequence[ArchivePlace]) -> RecordedEnds:
    """Reads the record of each topic once, before its partitions are looked at: what it speaks of was there by then."""
    topics = list(dict.fromkeys((place.store, place.name) for place in places))
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="recorded-ends") as pool:
        return RecordedEnds(by_topic=dict(zip(topics, pool.map(lambda topic: reached_in(*topic), topics), strict=True)))


def reached_in(settings: StoreSettings, name: str) -> Mapping[int, int] | MirrorlakeError:
    """Returns where the partitions of a topic's folder ended once, as recorded; or why that cannot be read."""
    try:
        record = read_topic_record(open_store(settings), name)
    except MirrorlakeError as error:
        return error
    return record.reached if record is not None else {}
