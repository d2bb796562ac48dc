"""What stays of an erasure: one object for each segment that was rewritten, with hashes in the place of keys.

``{name}/_erased/{partition}/{from}-{to}-{token}.json``, both offsets inclusive, is created before the segment it names
is published, or the snapshot deleted for which there is none. So what was erased is never without it; where nothing in
the chain holds the gap that it names, that attempt came to nothing, and who tried was told.
"""

import contextlib
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.maintenance.erased_keys import Key
from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.archive.marker_content import decode_marker, encode_marker, list_of, object_of, text_of, time_of
from mirrorlake.archive.names import RESERVED_MARK, SegmentName, padded
from mirrorlake.archive.origin import Origin
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectExistsError

AUDIT_FOLDER = f"{RESERVED_MARK}erased"

RUNS_LISTED_MAX = 1000
"""Runs of offsets that one object lists; the segment's own list is complete."""

NULL_KEY = "null"
"""Stands for the null key, of which there is nothing to hash."""

_NAME = re.compile(r"[0-9]{20}-([0-9]{20})-[0-9a-z]{1,32}\.json", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was taken out of one range: from which files, which became what, and the records of which keys.

    ``footer`` is of what was made of them, None where nothing was, as the one input was to be deleted.
    """

    name: SegmentName
    inputs: Sequence[Segment]
    origin: Origin
    footer: SegmentFooter | None
    runs: OffsetRuns
    records: int
    keys: Collection[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedErasure:
    """What one audit object says: records below ``end_offset`` of the keys with these hashes were to be erased."""

    end_offset: int
    salt: bytes
    key_hashes: frozenset[str]


def audit_folder(archived: PartitionFolder) -> str:
    """Returns the folder of a partition's audit objects."""
    topic, _, partition = archived.prefix.rpartition("/")
    return f"{topic}/{AUDIT_FOLDER}/{partition}"


def key_hash(key: Key, salt: bytes) -> str:
    """Returns the SHA-256 of salt and key, in hexadecimal: who knows a key can tell that it was meant.

    Not more: keys that can be guessed can be found by trying them.
    """
    return NULL_KEY if key is None else hashlib.sha256(salt + key).hexdigest()


def record_erasure(
    archived: PartitionFolder, erasure: Erasure, *, token: str, salt: bytes, writer: str, now_seconds: float
) -> str:
    """Creates the audit object of an erasure that is about to be published; returns its key. Idempotent for a token.

    Raises:
        MirrorlakeError: the store could not be reached, or refuses.
    """
    name = f"{padded(erasure.name.from_offset)}-{padded(erasure.name.to_offset)}-{token}.json"
    key = f"{audit_folder(archived)}/{name}"
    ranges, footer = erasure.runs.ranges(), erasure.footer
    fields = {
        "cluster_id": erasure.origin.cluster_id,
        "topic_id": erasure.origin.topic_id,
        "topic": erasure.origin.topic,
        "partition": archived.partition,
        "file": None if footer is None else str(erasure.name),
        "checksum": None if footer is None else {"algorithm": footer.algorithm, "value": footer.checksum},
        "inputs": [str(each.name) for each in erasure.inputs],
        "records": erasure.records,
        "offsets": [[each.start_offset, each.end_offset] for each in ranges[:RUNS_LISTED_MAX]],
        "offsets_complete": len(ranges) <= RUNS_LISTED_MAX,
        "key_hash": {"algorithm": "sha256", "salt": salt.hex()},
        "keys": sorted(key_hash(each, salt) for each in erasure.keys),
        "writer": writer,
        "created_at": time_of(now_seconds),
    }
    # "Exists" is ours: a store may do the create, lose the answer, and say so to the next attempt.
    with contextlib.suppress(ObjectExistsError):
        archived.store.create(key, encode_marker(fields))
    return key


def read_erasures(archived: PartitionFolder) -> list[RecordedErasure]:
    """Returns what a partition's audit objects say, in the order of their names; without any, nothing.

    Raises:
        ChainBrokenError: one cannot be read; the text names it.
        MirrorlakeError: the store could not be read.
    """
    found: list[RecordedErasure] = []
    for info in archived.store.list(audit_folder(archived)):
        if (match := _NAME.fullmatch(info.name)) is not None:
            found.append(_recorded(archived.store.read(info.key), int(match[1]) + 1, where=info.key))
    return found


def _recorded(data: bytes, end_offset: int, *, where: str) -> RecordedErasure:
    try:
        fields = decode_marker(data, where=where)
        return RecordedErasure(
            end_offset=end_offset,
            salt=_salt_of(object_of(fields["key_hash"])),
            key_hashes=frozenset(text_of(each) for each in list_of(fields["keys"])),
        )
    except (ChainBrokenError, ValueError, TypeError, KeyError) as error:
        raise ChainBrokenError(
            f"{where} cannot be read, so it is not known what was erased",
            hint="put it back from a copy; where it is moved away, `verify` calls missing what it says was erased",
            key=where,
        ) from error


def _salt_of(hashing: dict[str, object]) -> bytes:
    if hashing["algorithm"] != "sha256":
        raise ValueError(f"not an algorithm that keys are hashed by: {hashing['algorithm']!r}")
    return bytes.fromhex(text_of(hashing["salt"]))
