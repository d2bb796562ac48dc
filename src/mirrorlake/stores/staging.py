"""Where files lie on their way to their names, so that no reader of a folder of segments takes one for a segment.

What is staged for ``orders/0`` lies in ``orders/_staged``: readers that go through the folder of a partition do not
meet it, and readers that go through the topic's pass over names that begin with ``_`` (Spark, pyarrow, and every glob
of ``*.parquet``). In the root and in the folder of a topic lie no segments, so what goes there is staged there.

A folder of a partition may be a file system of its own, or its parent may be closed to us. A link does not lead there
then, and what is staged lies beside its target, under the same kind of name.
"""

import contextlib
import hashlib
import uuid
from pathlib import Path

STAGING_FOLDER = "_staged"

STAGED_MARK = ".tmp."
"""Part of every staged file's name and of no other's; the same mark that mirror-v3 skips in its scans."""

_NAME_CHARACTERS_MAX = 40
"""Of the final name, as people see it in leftovers; the uuid tells them apart."""


_LEAD_BYTES_MAX = 150
_DIGEST_CHARACTERS = 16


def staging_prefix(prefix: str) -> str:
    """Returns the folder where objects of the folder ``prefix`` are staged; ``prefix`` where they are beside it."""
    first, separates, _ = prefix.partition("/")
    return f"{first}/{STAGING_FOLDER}" if separates else prefix


def staged_lead(prefix: str) -> str:
    """Returns how the names of all files begin that are staged apart for the folder ``prefix``.

    A long one is cut, and a digest of all of it tells it apart: with the name and the uuid behind it, it must be no
    longer than file systems take (255 bytes).
    """
    lead = "_" + ".".join([*prefix.split("/")[1:], ""])
    if len(lead.encode()) > _LEAD_BYTES_MAX:
        digest = hashlib.sha256(lead.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        cut = lead.encode()[: _LEAD_BYTES_MAX - _DIGEST_CHARACTERS - 1].decode(errors="ignore")
        lead = f"{cut}~{digest}."
    return lead


def staged_name(prefix: str, name: str) -> str:
    """Returns a name for a file that is staged for the folder ``prefix``, unlike every other."""
    people_see = name.removeprefix("_")[:_NAME_CHARACTERS_MAX]
    return f"{staged_lead(prefix)}{people_see}{STAGED_MARK}{uuid.uuid4()}"


def usable_folder(staging: Path, target: Path) -> Path:
    """Returns ``staging``, made where it is missing, or ``target`` where a link from there would not lead to it.

    Args:
        staging: where to stage.
        target: the folder of the final names; it exists.
    """
    with contextlib.suppress(OSError):
        staging.mkdir(exist_ok=True)
        if staging.stat().st_dev == target.stat().st_dev:
            return staging
    return target
