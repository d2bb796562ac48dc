"""From the settings of a store to the store: the one place that knows which kinds there are."""

import os
from functools import lru_cache

from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.settings import BucketSettings, FilesystemSettings, StoreSettings

_STORES_MAX = 32


def open_store(settings: StoreSettings) -> ObjectStore:
    """Returns the store; nothing is looked at yet, so this does not fail where it is not there.

    Raises:
        ConfigurationError: the credentials named for it cannot be had.
    """
    if isinstance(settings, FilesystemSettings):
        return FilesystemStore(settings.root, missing_is_empty=settings.makes_root)
    return _open_bucket(settings, os.getpid())


@lru_cache(maxsize=_STORES_MAX)
def _open_bucket(settings: BucketSettings, process: int) -> ObjectStore:
    """Returns the process's one store of a bucket, so that its connections are kept; none crosses a fork."""
    del process
    # Only those who use a bucket load the library.
    from mirrorlake.stores.bucket_store import BucketStore

    return BucketStore(settings)
