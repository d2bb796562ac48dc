"""What stands in an archive's markers: one JSON object with a version, in UTF-8, with a line end; some with a seal."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from mirrorlake.archive.seal import OPEN_SEAL, SEAL_ALGORITHM, flaw_of, sealed
from mirrorlake.errors import ChainBrokenError, UnsupportedError

MARKER_VERSION = 1


def encode_marker(fields: Mapping[str, object]) -> bytes:
    """Returns the object's content."""
    return (json.dumps({"format_version": MARKER_VERSION, **fields}) + "\n").encode()


def decode_marker(data: bytes, *, where: str) -> dict[str, object]:
    """Returns the fields of an object; those not known are there too, and may be passed over.

    Raises:
        ChainBrokenError: it is not such an object.
        UnsupportedError: a later version wrote it.
    """
    try:
        fields = object_of(json.loads(data))
        version = number_of(fields["format_version"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(where) from error
    _check_version(version, where)
    return fields


def encode_sealed(fields: Mapping[str, object]) -> bytes:
    """Returns the content of an object that says itself whether its bytes are what was written."""
    return sealed(encode_marker({**fields, "sealed_by": SEAL_ALGORITHM, "seal": OPEN_SEAL}))


def decode_sealed(data: bytes, *, where: str) -> dict[str, object] | None:
    """Returns the fields of a sealed object; None where its bytes are not what was written.

    Raises:
        ValueError, TypeError, KeyError, RecursionError: it is not such an object.
        UnsupportedError: a later version wrote it.
    """
    fields = object_of(json.loads(data))
    if fields["sealed_by"] != SEAL_ALGORITHM or flaw_of(data, text_of(fields["seal"])) is not None:
        return None
    _check_version(number_of(fields["format_version"]), where)
    return fields


def _check_version(version: int, where: str) -> None:
    if version > MARKER_VERSION:
        raise UnsupportedError(
            f"{where}: archive format {version}, and this version of mirrorlake knows up to {MARKER_VERSION}",
            hint="use a newer mirrorlake",
            format_version=version,
        )


def damaged(where: str) -> ChainBrokenError:
    """Returns the error of an object that cannot be read."""
    return ChainBrokenError(
        f"{where} cannot be read",
        hint="put it back from a copy; or delete it: the next run writes it anew from the archive",
        key=where,
    )


def time_of(now_seconds: float) -> str:
    """Returns a Unix time as markers hold it."""
    return datetime.fromtimestamp(now_seconds, UTC).isoformat(timespec="seconds")


def text_of(value: object) -> str:
    """Returns a text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def number_of(value: object) -> int:
    """Returns a whole number; TypeError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a whole number: {value!r}")
    return value


def object_of(value: object) -> dict[str, object]:
    """Returns an object's fields; TypeError for anything else."""
    if not isinstance(value, dict):
        raise TypeError(f"not an object: {value!r}")
    return value


def list_of(value: object) -> list[object]:
    """Returns the elements of a list; TypeError for anything else."""
    if not isinstance(value, list):
        raise TypeError(f"not a list: {value!r}")
    return value
