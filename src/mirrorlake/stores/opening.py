"""From the settings of a store to the store: the one place that knows which kinds there are."""

from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.settings import StoreSettings


def open_store(settings: StoreSettings) -> ObjectStore:
    """Returns the store; nothing is looked at yet, so this does not fail where it is not there."""
    return FilesystemStore(settings.root)
