"""Which subjects of a registry are what they were, by what it lists. Pure but for the listing that it asks for."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Final
from zlib import crc32

from mirrorlake.errors import MirrorlakeError
from mirrorlake.schemas.answers import UnreadableAnswerError
from mirrorlake.schemas.history import SchemaVersion, SubjectHistory
from mirrorlake.schemas.listing import Ask, ListedVersion, take_listing
from mirrorlake.schemas.transport import Json

SUBJECTS_MIN: Final = 20
"""Below so many a listing spares nothing: it takes six requests at least, and a registry lists others' subjects too."""

_SUBJECTS_OF_A_PAGE: Final = 20
"""A listing may take one page of a thousand schemas for so many subjects, which would be sixty requests otherwise."""

_LOOKS_APART: Final = 10
"""The level and mode of an unchanged subject are asked about at one look of so many; and behind a listing that failed
so many looks do without."""

Versions = Mapping[str, Mapping[int, SchemaVersion]]
"""What is known of versions, by subject and number."""


class SeenSubjects:
    """What subjects were when they were last read whole, and which of them a listing shows to be the same.

    A listing only ever confirms: a subject that it does not show exactly as it was is read as if there were none.
    """

    def __init__(self) -> None:
        self._seen: dict[str, SubjectHistory] = {}
        self._reused: dict[str, int] = {}
        self._pause = 0
        self._defaults: object = None

    def read(self, history: SubjectHistory) -> SubjectHistory:
        """Takes a subject that was read whole; returns it."""
        # Not all at one look later on.
        self._reused.setdefault(history.subject, crc32(history.subject.encode()) % _LOOKS_APART)
        self._seen[history.subject] = history
        return history

    def forget(self, subject: str) -> None:
        """Takes that a subject is being changed."""
        self._seen.pop(subject, None)

    def settings_of(self, subject: str) -> SubjectHistory | None:
        """Returns a subject whose level and mode need not be asked about at this look; None where they are to be."""
        if subject not in self._reused:
            return None
        reused = self._reused[subject] + 1
        self._reused[subject] = reused if reused < _LOOKS_APART else 0
        return self._seen.get(subject) if reused < _LOOKS_APART else None

    def take_defaults(self, defaults: object) -> None:
        """Takes what holds for subjects that have no level and mode of their own; if new, all are asked about."""
        if defaults != self._defaults:
            self._reused = {}
        self._defaults = defaults

    async def unchanged(
        self,
        subjects: Iterable[str],
        ask: Callable[..., Awaitable[Json]],
        *,
        prefix: str,
        versions: MutableMapping[str, dict[int, SchemaVersion]],
    ) -> dict[str, SubjectHistory]:
        """Returns those of some subjects that the registry lists exactly as they were; maybe none.

        Args:
            subjects: without their context.
            ask: asks for a page, with or without soft-deleted versions (``with_deleted``).
            prefix: of the context.
            versions: what is known; all that these subjects refer to is among it. Subjects with versions that are not
                what they were, or refer to such, are taken out of it.
        """
        wanted = [name for name in subjects if name in self._seen]
        if len(wanted) < SUBJECTS_MIN:
            return {}
        if self._pause > 0:
            self._pause -= 1
            return {}
        known = _Listed(prefix, versions)
        beginning = prefix + _common_beginning(known.with_references(wanted))

        def asking(*, with_deleted: bool) -> Ask:
            return lambda page: ask(page, beginning=beginning, with_deleted=with_deleted)

        pages_max = 2 + len(wanted) // _SUBJECTS_OF_A_PAGE
        try:
            is_whole = await take_listing(asking(with_deleted=True), known.take, pages_max=pages_max)
            is_whole = is_whole and await take_listing(asking(with_deleted=False), known.take_live, pages_max=pages_max)
        except (MirrorlakeError, UnreadableAnswerError):
            is_whole = False  # what is wrong is said by the requests that are asked instead
        if not is_whole:
            self._pause = _LOOKS_APART
            return {}
        found = {name: self._seen[name] for name in wanted if known.shows(self._seen[name])}
        for name in [name for name in known.with_references(wanted) if known.has_lost(name)]:
            versions.pop(name, None)
        return found


class _Listed:
    """What two listings show of subjects, as far as it is known."""

    def __init__(self, prefix: str, versions: Versions) -> None:
        self._prefix, self._versions = prefix, versions
        self._same: dict[str, dict[int, bool]] = {}
        self._live: dict[str, set[int]] = {}

    def with_references(self, subjects: Iterable[str]) -> set[str]:
        """Returns subjects with all that they refer to."""
        found: set[str] = set()
        waiting = [*subjects]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                held = self._versions.get(name, {}).values()
                waiting += {reference.subject for each in held for reference in each.schema.references}
        return found

    def take(self, item: ListedVersion) -> None:
        """Takes an item of the listing with soft-deleted versions."""
        if (name := self._own(item)) is not None:
            known = self._versions.get(name, {}).get(item.version)
            self._same.setdefault(name, {})[item.version] = known is not None and self._is(item, known)

    def take_live(self, item: ListedVersion) -> None:
        """Takes an item of the listing without them."""
        if (name := self._own(item)) is not None:
            self._live.setdefault(name, set()).add(item.version)

    def shows(self, history: SubjectHistory) -> bool:
        """Tells whether a subject is shown with exactly the versions it had, and what they refer to as well."""
        numbers = {each.version for each in history.versions}
        live = {each.version for each in history.live}
        listed = self._same.get(history.subject, {})
        return (
            bool(numbers)
            and listed.keys() == numbers
            and self._live.get(history.subject, set()) == live
            and all(self._is_there(history.subject, number, set()) for number in numbers)
        )

    def has_lost(self, subject: str) -> bool:
        """Tells whether a version that is known is not shown as it was, or what it refers to is not."""
        return not all(self._is_there(subject, number, set()) for number in self._versions.get(subject, {}))

    def _is_there(self, subject: str, number: int, entered: set[tuple[str, int]]) -> bool:
        if (subject, number) in entered:
            return True
        entered.add((subject, number))
        known = self._versions.get(subject, {}).get(number)
        if known is None or not self._same.get(subject, {}).get(number, False):
            return False
        return all(self._is_there(each.subject, each.version, entered) for each in known.schema.references)

    def _own(self, item: ListedVersion) -> str | None:
        name = item.subject.removeprefix(self._prefix)
        is_own = item.subject.startswith(self._prefix) and not name.startswith(":.")
        return name if is_own and name in self._versions else None

    def _is(self, item: ListedVersion, known: SchemaVersion) -> bool:
        schema, raw = known.schema, item.raw
        references = [(each.name, each.subject, each.version) for each in schema.references]
        return (
            (item.id, item.guid, raw.text, raw.type) == (known.id, known.guid, schema.text, schema.type)
            and (raw.metadata, raw.rule_set) == (schema.metadata, schema.rule_set)
            and [(r.name, r.subject.removeprefix(self._prefix), r.version) for r in raw.references] == references
        )


def _common_beginning(names: Collection[str]) -> str:
    first, last = min(names), max(names)
    same = next(
        (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:same]


def needs_listing(subjects: Collection[str]) -> bool:
    """Tells whether subjects are so many that a listing may spare requests."""
    return len(subjects) >= SUBJECTS_MIN
