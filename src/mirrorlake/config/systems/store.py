"""A store of archives, as the configuration names it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
