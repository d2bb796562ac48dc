"""How archived schemas are named: ``_mirrorlake/schemas/{registry}/{subject}/…``.

Not in a folder of the root's own: `_schemas` is the topic that Confluent's registry keeps its schemas in, which may be
archived beside them.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote, unquote

from mirrorlake.stores.object_store import KEY_PART_BYTES_MAX

SCHEMAS_FOLDER = "_mirrorlake/schemas"

_DIGITS = 10
_LONG_KEPT = 180
_LONG_MARK = "~"
_VERSION = re.compile(r"([0-9]{10})-([0-9]{10})\.json", re.ASCII)
_STATE = re.compile(r"_subject-([0-9]{10})\.json", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class VersionName:
    """The name of a version's object: its number in the subject, and its id in the registry.

    A subject that was deleted for good and made anew gives numbers again; an id keeps its meaning.
    """

    version: int
    id: int

    def __str__(self) -> str:
        return f"{self.version:0{_DIGITS}d}-{self.id:0{_DIGITS}d}.json"


def parse_version_name(name: str) -> VersionName | None:
    """Returns what ``name`` says, or None where it is not exactly what `VersionName` writes."""
    match = _VERSION.fullmatch(name)
    return None if match is None else VersionName(version=int(match[1]), id=int(match[2]))


def state_name(number: int) -> str:
    """Returns the name of the object that says how a subject stands; the highest number counts."""
    return f"_subject-{number:0{_DIGITS}d}.json"


def parse_state_name(name: str) -> int | None:
    """Returns the number of such an object, or None where ``name`` is none."""
    match = _STATE.fullmatch(name)
    return None if match is None else int(match[1])


def registry_folder(registry: str) -> str:
    """Returns the folder of a registry."""
    return f"{SCHEMAS_FOLDER}/{_encoded(registry)}"


def subject_folder(registry: str, subject: str) -> str:
    """Returns the folder of a subject; two subjects never share one."""
    return f"{registry_folder(registry)}/{_encoded(subject)}"


def subject_of_folder(name: str) -> str | None:
    """Returns the subject of a folder; None where the name was too long to say, or is none of ours."""
    if _LONG_MARK in name:
        return None
    try:
        subject = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return None
    return subject if _encoded(subject) == name else None


def _encoded(text: str) -> str:
    """Returns a name that every store takes: percent-encoded; where that is too long, its beginning and a digest."""
    whole = quote(text, safe="").replace(_LONG_MARK, "%7E")
    if whole[:1] in {".", "_"}:  # what begins with an underscore is no subject's
        whole = f"%{ord(whole[0]):02X}{whole[1:]}"
    if len(whole) <= KEY_PART_BYTES_MAX:
        return whole
    return f"{whole[:_LONG_KEPT]}{_LONG_MARK}{sha256(text.encode()).hexdigest()[:32]}"
