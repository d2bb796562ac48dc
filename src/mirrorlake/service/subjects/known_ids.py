"""What a service knows by now of the schema ids and GUIDs on one way: from a source's registry to a destination's."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from mirrorlake.clock import Clock
from mirrorlake.config.schemas.mirrored import MirroredSchemas
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.kinds.kafka import archived_ids_of, ids_of
from mirrorlake.service.subjects.bringing import Brought, Meaning

ABSENT_SECONDS_MIN = 10.0
"""An id or GUID is called absent when the source's registry has said for so long that it does not know it: a registry
of several nodes gives a producer an id before all of its nodes have heard of it, and the producer's records may be here
first. Both ends of that time are answers, and every question between them was answered: while a registry is away
somebody may have registered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedId:
    """An id or GUID of the source that was seen to be something else than before.

    Attributes:
        id: the source's.
        before: what it was at the destination.
        now: what its schema of now is there; None where it is not there.
        was: what it meant at the source before; None where it still does, and the destination's registry has changed.
        is_now: what it means at the source; None where nobody told.
    """

    id: SchemaName
    before: SchemaName | None
    now: SchemaName | None
    was: Meaning | None = None
    is_now: Meaning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameThere:
    """What names a schema of the source at the destination.

    Attributes:
        name: the id or GUID there.
        key: of the schema there, as it was seen; empty for a GUID's.
    """

    name: SchemaName
    key: str


class KnownIds:
    """Pairs of ids and of GUIDs, those that are absent, and those that are refused. Several threads may call it.

    Args:
        schemas: how the mirror takes schemas along.
        clock: tells how long an id has not been known.
        is_archived: whether the destination is an archive, whose records keep their ids.
    """

    def __init__(self, schemas: MirroredSchemas, *, clock: Clock, is_archived: bool = False) -> None:
        self.schemas = schemas
        self._clock = clock
        self._map_of = archived_ids_of if is_archived else ids_of
        self._lock = threading.Lock()
        self._pairs: dict[SchemaName, SchemaName] = {}
        self._keys_there: dict[SchemaName, str] = {}
        self._lost: dict[SchemaName, SchemaName] = {}
        self._subjects: set[str] = set()
        self._refused: dict[SchemaName, str] = {}
        self._meanings: dict[SchemaName, Meaning] = {}
        self._ambiguous: dict[SchemaName, str] = {}
        # Those whose schemas the destination holds, in a registry that gives no GUIDs, are among the absent: a registry
        # of several nodes may be in the middle of an upgrade.
        self._absent_since: dict[SchemaName, float] = {}
        self._absent: set[SchemaName] = set()
        self._unnamed: set[UUID] = set()
        self._asked: dict[SchemaName, None] = {}
        self._looked_for: set[SchemaName] = set()
        self._map = self._map_of(schemas)
        self._is_map_old = False

    @property
    def map(self) -> SchemaIdMap | None:
        """What leases are told: the same object until something changes. None where records keep their ids."""
        with self._lock:
            if self._is_map_old:
                self._map = self._map_of(
                    self.schemas,
                    self._pairs,
                    absent=self._absent - self._unnamed,
                    unnamed=[each for each in self._absent & self._unnamed if isinstance(each, UUID)],
                    refused=self._refused,
                )
                self._is_map_old = False
            return self._map

    @property
    def asked(self) -> tuple[SchemaName, ...]:
        """Ids and GUIDs that leases wait for."""
        with self._lock:
            return tuple(self._asked)

    @property
    def absent(self) -> tuple[SchemaName, ...]:
        """Ids and GUIDs that a registry did not know, and that no lease waits for: somebody may register them."""
        with self._lock:
            return tuple(id_ for id_ in self._absent_since if id_ not in self._asked)

    @property
    def unnamed(self) -> frozenset[UUID]:
        """GUIDs of records whose schemas are in a registry of the destination that gives no GUIDs."""
        with self._lock:
            return frozenset(self._unnamed)

    @property
    def is_asked(self) -> bool:
        """True where a lease waits for an id."""
        with self._lock:
            return bool(self._asked)

    @property
    def has_news(self) -> bool:
        """True where a lease waits for an id that no look was taken for."""
        with self._lock:
            return bool(self._asked.keys() - self._looked_for)

    @property
    def subjects(self) -> frozenset[str]:
        """The source's subjects that are taken along only as ids or GUIDs of records are in them."""
        with self._lock:
            return frozenset(self._subjects)

    def unseen(self, brought: Brought) -> dict[SchemaName, NameThere]:
        """Returns what is known, and what a look that was to show all of it has not shown."""
        with self._lock:
            return {
                id_: NameThere(name=there, key=self._keys_there.get(id_, ""))
                for id_, there in self._pairs.items()
                if id_ not in brought.pairs
            }

    @property
    def counts(self) -> Mapping[str, int]:
        """How many ids and GUIDs are known, absent, refused, and how many GUIDs have no equal at the destination."""
        with self._lock:
            absent = self._absent_since.keys() - self._unnamed
            counts = {"known": len(self._pairs), "absent": len(absent), "refused": len(self._refused)}
            return counts | {"guid": len(self._unnamed)}

    def ask(self, ids: tuple[SchemaName, ...]) -> tuple[SchemaName, ...]:
        """Takes ids and GUIDs that records have and the map of their lease did not hold; it may hold them by now.

        Returns all that leases wait for where some of these are new among them; else none.
        """
        with self._lock:
            before = len(self._asked)
            self._asked.update((id_, None) for id_ in ids if id_ not in self._pairs and id_ not in self._refused)
            return tuple(self._asked) if len(self._asked) > before else ()

    def looking(self) -> None:
        """Takes that the ids that are asked for now are looked for."""
        with self._lock:
            self._looked_for = set(self._asked)

    def not_answered(self) -> None:
        """Takes that a question went without an answer: what is not called absent yet is not for another ten seconds.

        The next answer that says so begins them anew.
        """
        with self._lock:
            self._absent_since = {id_: since for id_, since in self._absent_since.items() if id_ in self._absent}

    def take(self, brought: Brought) -> list[MovedId]:
        """Takes what was found; returns the ids that are something else than they were before.

        An id that means another schema at the source is refused from then on: of a record that has it nobody knows
        which of the two was meant.
        """
        now = self._clock.elapsed_seconds()
        with self._lock:
            moved = self._changed(brought)
            self._lost |= {id_: self._pairs.pop(id_) for id_ in brought.lost if id_ in self._pairs}
            self._subjects |= brought.subjects
            pairs = {id_: there for id_, there in brought.pairs.items() if id_ not in self._ambiguous}
            before = self._lost | self._pairs
            moved += [
                MovedId(id=id_, before=before[id_], now=there, is_now=brought.meanings.get(id_))
                for id_, there in pairs.items()
                if before.get(id_, there) != there
            ]
            self._lost = {id_: there for id_, there in self._lost.items() if id_ not in pairs}
            brought = replace(brought, pairs=pairs, refused={**brought.refused, **self._ambiguous})
            self._is_map_old = True
            self._pairs |= pairs
            self._keys_there |= brought.keys_there
            # Where the schema is there, its records are copied, whatever is to become of the subject.
            refused = {**self._refused, **brought.refused}
            self._refused = {id_: why for id_, why in refused.items() if id_ not in self._pairs}
            self._take_absent(brought, now)
            certain = self._pairs.keys() | self._refused.keys() | self._absent
            self._asked = {id_: None for id_ in self._asked if id_ not in certain}
            return moved

    def _take_absent(self, brought: Brought, now: float) -> None:
        # Of the GUIDs of all subjects, only those that records have are asked about again.
        unnamed = {each for each in brought.unnamed if each in self._asked or each in self._absent_since}
        self._unnamed = (self._unnamed | unnamed) - brought.absent
        for id_ in (brought.absent | unnamed) - self._pairs.keys():
            if now - self._absent_since.setdefault(id_, now) >= ABSENT_SECONDS_MIN:
                self._absent.add(id_)
        for id_ in (*brought.pairs, *brought.refused):
            self._absent_since.pop(id_, None)
        self._unnamed &= self._absent_since.keys()
        self._absent &= self._absent_since.keys()

    def _changed(self, brought: Brought) -> list[MovedId]:
        """Takes what ids mean; returns those that meant another schema at the source when they were seen last."""
        moved = []
        for id_, means in brought.meanings.items():
            was = self._meanings.get(id_, means)
            if was.keys.isdisjoint(means.keys):
                self._ambiguous[id_] = (
                    f"it was {was.source} and is {means.source}, another schema: the source's registry was made anew, "
                    "or the subject was, and nobody knows which of the two a record means; start again to have all "
                    "records read by what it means now"
                )
                before = self._pairs.pop(id_, None)
                moved.append(MovedId(id=id_, before=before, now=brought.pairs.get(id_), was=was, is_now=means))
                self._meanings[id_] = means
            else:
                self._meanings[id_] = replace(means, keys=means.keys | was.keys)
        return moved
