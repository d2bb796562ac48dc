"""A store of archives, as the configuration names it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from mirrorlake.config.problems import Place
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, GcsSettings, S3Settings, StoreSettings

STORE_TYPES: Mapping[type[StoreSettings], str] = {
    FilesystemSettings: "filesystem",
    S3Settings: "s3",
    GcsSettings: "gcs",
    AzureSettings: "azure",
}
"""The types of stores as users name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store of archives; nothing of it is looked at while loading."""

    name: str
    settings: StoreSettings
    place: Place = field(compare=False)

    @property
    def type_name(self) -> str:
        """Returns the type as users name it."""
        return STORE_TYPES[type(self.settings)]

    def folder(self, name: str) -> PurePosixPath:
        """Returns a folder below its root, with the store in front so that different stores never meet."""
        match self.settings:
            case FilesystemSettings(root=root):
                return PurePosixPath("filesystem") / str(root).lstrip("/") / name
            case AzureSettings(account=account, container=container, prefix=prefix):
                return PurePosixPath("azure", account, container, prefix, name)
            case bucket:
                return PurePosixPath(self.type_name, bucket.endpoint or "", bucket.bucket, bucket.prefix, name)
