"""From an archive's section of the configuration to the settings of its store."""

from mirrorlake.config.resolved import ArchiveDestination, StoreFilesystem
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings


def store_settings(destination: ArchiveDestination) -> StoreSettings:
    """Returns the settings of the destination's store."""
    assert isinstance(destination.store, StoreFilesystem), "the configuration refuses other stores"
    return FilesystemSettings(root=destination.store.root)
