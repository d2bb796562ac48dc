"""Whether a store keeps what was deleted, as far as that can be asked cheaply."""

from collections.abc import Sequence

from mirrorlake.errors import MirrorlakeError
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.opening import open_store


def stores_with_old_versions(places: Sequence[ArchivePlace]) -> list[str]:
    """Returns the stores of some partitions that say that they keep old versions of objects, as people write them.

    One that is not named may keep them all the same: it was not asked, or does not say.
    """
    found: list[str] = []
    for settings in dict.fromkeys(place.store for place in places):
        place = next(each for each in places if each.store == settings)
        try:
            store = open_store(settings)
            if isinstance(store, BucketStore) and (tail := place.open().read_chain().tail) is not None:
                prefix = f"{place.name}/{place.partition}"
                if store.keeps_versions(f"{prefix}/{tail.name}"):
                    found.append(settings.where(""))
        except MirrorlakeError:
            continue  # what was erased is erased: this is a remark
    return found
