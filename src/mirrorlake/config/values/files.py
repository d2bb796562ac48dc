"""Reads where files lie, and secrets, which lie in files or come from the environment."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.reading import found, read_any_text, read_text, refuse
from mirrorlake.secret import Secret


def read_root(value: object) -> Path:
    """Reads the absolute path of an archive's folder; nothing is looked at on disk."""
    path = read_path("/var/lib/archive", rule="an archive's root is absolute")(value)
    if ".." in path.parts:
        refuse(f"{found(value)} goes through `..`", "write the folder itself")
    return path


def read_path(example: str, *, rule: str = "write it from the root on") -> Callable[[object], Path]:
    """Returns a reader of absolute paths; nothing is looked at on disk. A relative one is told rule and example."""

    def read(value: object) -> Path:
        path = read_text(value)
        if not PurePosixPath(path).is_absolute():
            refuse(f"{found(value)} is a relative path", f"{rule}, for example {example}")
        return Path(path)

    return read


def read_prefix(value: object) -> str:
    """Reads an object store's key prefix; slashes at both ends do not matter."""
    prefix = read_any_text(value).strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        refuse(f"{found(value)} cannot be a prefix", "no part between slashes may be empty, `.` or `..`")
    return prefix


def read_secret(value: object) -> Secret:
    """Reads a secret: text from the environment, or a file; what stands in clear is refused and not repeated.

    A default stands in clear as well. A variable that is empty is refused even where there is more to the text: nobody
    wants an empty password, and a service would learn of it from a broker only.
    """
    if isinstance(value, ExpandedText):
        if value.defaulted:
            name = value.defaulted[0]
            refuse("a secret may have no default: it would be in the file", f"write ${{{name}}}, and set {name}")
        if value.empty:
            refuse(f"the value of ${{{value.empty[0]}}} is empty", "a secret may not be empty")
        return Secret("".join(value), variable=value.whole)
    if not (isinstance(value, dict) and set(value) == {"file"} and isinstance(value["file"], str)):
        refuse("a secret may not be in the file", "write ${NAME} or {file: /path/of/it}")
    path = Path("".join(value["file"]))
    if not path.is_absolute():
        refuse("the file of a secret must be an absolute path")
    return Secret(file=path)
