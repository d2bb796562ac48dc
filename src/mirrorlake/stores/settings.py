"""Which store an archive lives in, as a value: frozen, hashable, and fit to travel into a Spark task."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSettings:
    """A folder, absolute."""

    root: Path

    def where(self, name: str) -> str:
        """Returns how people write the place of ``name`` in this store."""
        return str(self.root / name)


StoreSettings = FilesystemSettings
