"""What leases need of the host they run on: files, folders, variables. Collected from the configuration, as a value."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import mirrorlake
from mirrorlake.archive.root_marker import ROOT_MARKER
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import FilesystemSettings

if TYPE_CHECKING:  # tasks of queries load this, and no configuration
    from mirrorlake.config.resolved import Configuration


@dataclass(frozen=True, slots=True)
class RootSeen:
    """What the driver sees of an archive's root. All hosts must see the same folder, not one of their own.

    Attributes:
        path: the folder.
        inode: its number, and when it was changed; only asked where there is no marker. None where it is missing.
        marker: the archive's marker, empty where there is none yet.
    """

    path: str
    inode: tuple[int, int] | None
    marker: bytes

    @classmethod
    def look(cls, path: str) -> "RootSeen":
        """Returns what this process sees of a folder."""
        try:
            found = Path(path).stat()
            marker = Path(path, ROOT_MARKER)
            content = marker.read_bytes() if marker.exists() else b""
        except OSError:
            return cls(path, None, b"")
        return cls(path, (found.st_ino, int(found.st_mtime)), content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What every executor must have.

    Attributes:
        version: of this package, here.
        roots: folders of archives, which all hosts share.
        files: of certificates, keys and secrets, which leases read for themselves.
        variables: of the environment that hold secrets; a plan names them and does not hold what is in them.
    """

    version: str = mirrorlake.__version__
    roots: tuple[RootSeen, ...] = ()
    files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def needs_of(config: "Configuration") -> Needs:
    """Returns what leases of the enabled mirrors need."""
    return needs_for([(mirror.source, mirror.destinations) for mirror in config.enabled_mirrors])


def needs_for(settings: Iterable[object]) -> Needs:
    """Returns what is needed to work with stores and clusters: given are their settings, or values that hold them."""
    roots: set[str] = set()
    files: set[str] = set()
    variables: set[str] = set()
    for value in _values(list(settings)):
        match value:
            case FilesystemSettings():
                roots.add(str(value.root))
            case Secret() if value.file is not None:
                files.add(str(value.file))
            case Secret() if value.variable:
                variables.add(value.variable)
            case Path():
                files.add(str(value))
            case str() if value.startswith("file:///"):
                files.add(urlsplit(value).path)
    return Needs(
        roots=tuple(RootSeen.look(root) for root in sorted(roots)),
        files=tuple(sorted(files)),
        variables=tuple(sorted(variables)),
    )


def _values(value: object) -> Iterator[object]:
    """Yields a value and all that is in it; nothing below the settings of a folder, whose path is no file."""
    yield value
    if is_dataclass(value) and not isinstance(value, type | FilesystemSettings):
        for each in fields(value):
            yield from _values(getattr(value, each.name))
    elif isinstance(value, tuple | list | frozenset | set):
        for item in value:
            yield from _values(item)
    elif isinstance(value, dict):
        yield from _values(list(value.values()))
