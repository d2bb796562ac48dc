"""The objects that hold what consumer groups had committed: ``{name}/_groups/{number:020}.json``, the highest counts.

Objects never change: what is new is said by the next number, created if absent, so two processes that write at once
both read what won and add to it. Older ones go once a newer one can be read, but for the last `KEPT`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirrorlake.archive.groups.content import (
    PartitionGroups,
    PartitionLook,
    after_look,
    decode_groups,
    encode_groups,
    says_as_much,
)
from mirrorlake.errors import PositionMovedError
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

GROUPS_FOLDER = "_groups"
"""In a topic's folder, beside those of its partitions; no reader of segments looks into it."""

KEPT = 3
"""Objects that stay, the newest among them: one that a disk has lost the content of has others before it."""

ATTEMPTS_MAX = 10
"""How often others may be first with the next object, before whoever writes gives up for now."""

_OBJECT = re.compile(r"([0-9]{20})\.json", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedGroups:
    """What is archived of a topic's groups, by partition.

    ``key`` is the object it was read from, empty where there is none. ``damaged`` are newer objects that cannot be
    read: what is here is older than what was archived last, or nothing (`is_unknown`).
    """

    partitions: Mapping[int, PartitionGroups] = field(default_factory=dict)
    key: str = ""
    damaged: tuple[str, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """True where groups were archived and no object of them can be read; without any object it is False."""
        return bool(self.damaged) and not self.key


def read_groups(store: ObjectStore, name: str) -> ArchivedGroups:
    """Returns what is archived of the groups of the folder ``name``; empty where nothing is, or where it is unknown.

    Raises:
        UnsupportedError: a later version wrote it.
        MirrorlakeError: the store could not be read.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            return _read(store, name, _numbers(store, name))
        except ObjectMissingError:
            continue  # newer ones came, and these went
    raise PositionMovedError(f"{name}/{GROUPS_FOLDER}: objects went {ATTEMPTS_MAX} times while they were read")


def _read(store: ObjectStore, name: str, numbers: list[int]) -> ArchivedGroups:
    damaged: list[str] = []
    for number in reversed(numbers):
        key = _key(name, number)
        partitions = decode_groups(store.read(key), where=key)
        if partitions is not None:
            return ArchivedGroups(partitions=partitions, key=key, damaged=tuple(damaged))
        damaged.append(key)
    return ArchivedGroups(damaged=tuple(damaged))


def record_groups(
    store: ObjectStore,
    name: str,
    looks: Mapping[int, PartitionLook],
    *,
    writer: str,
    may_write: Callable[[], bool] = lambda: True,
) -> ArchivedGroups:
    """Records what a look found of partitions of the folder ``name``, unless all of it is recorded. Idempotent.

    Order of effects: the new object; then older ones are deleted, once it was read back.

    Args:
        store: of the archive.
        name: the topic's folder.
        looks: by partition; the other partitions stay as they are.
        writer: names this process.
        may_write: asked right before anything is written or deleted.

    Returns:
        What is recorded now.

    Raises:
        UnsupportedError: see `read_groups`.
        PositionMovedError: others were first each time.
        MirrorlakeError: the store could not be read or written.
    """
    for _ in range(ATTEMPTS_MAX):
        numbers = _numbers(store, name)
        try:
            known = _read(store, name, numbers)
        except ObjectMissingError:
            continue
        now = dict(known.partitions)
        for number, look in looks.items():
            now[number] = after_look(now.get(number), look)
        now = {number: each for number, each in now.items() if each.groups or number in known.partitions}
        if says_as_much(now, known.partitions) or not may_write():
            return known
        newest = numbers[-1] + 1 if numbers else 0
        try:
            store.create(_key(name, newest), encode_groups(now, writer=writer))
        except ObjectExistsError:
            continue
        _remove_older(store, name, newest)
        return ArchivedGroups(partitions=now, key=_key(name, newest))
    raise PositionMovedError(f"{name}/{GROUPS_FOLDER}: other processes were first {ATTEMPTS_MAX} times")


def _remove_older(store: ObjectStore, name: str, newest: int) -> None:
    """Deletes all but the last `KEPT` readable ones, the newest of which is read back before."""
    kept = 0
    for number in reversed([each for each in _numbers(store, name) if each <= newest]):
        if kept >= KEPT:
            store.delete(_key(name, number))
            continue
        try:
            kept += decode_groups(store.read(_key(name, number)), where=name) is not None
        except ObjectMissingError:
            continue


def _numbers(store: ObjectStore, name: str) -> list[int]:
    names = (info.name for info in store.list(f"{name}/{GROUPS_FOLDER}"))
    return [int(match[1]) for each in names if (match := _OBJECT.fullmatch(each))]


def _key(name: str, number: int) -> str:
    return f"{name}/{GROUPS_FOLDER}/{number:020}.json"
