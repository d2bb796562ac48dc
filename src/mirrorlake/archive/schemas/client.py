"""Archived schemas as a registry that can be read: what subjects are restored from."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.errors import RegistryUnavailableError
from mirrorlake.schemas.history import NO_CHECK, Schema, SubjectHistory
from mirrorlake.together import all_of


class ArchivedRegistry:
    """Reads the schemas of an archive as `RegistryClient` reads those of a registry; for one event loop.

    Args:
        name: what the configuration calls it.
        schemas: what is archived.
        where: the archive, for messages.
    """

    def __init__(self, name: str, schemas: ArchivedSchemas, *, where: str) -> None:
        self.name, self._schemas, self._where = name, schemas, where
        self._looking = asyncio.Lock()
        self._begun = self._done = 0

    async def subjects(self) -> list[str]:
        """Returns the names of all archived subjects that have a live version, sorted."""
        await self._look()
        histories = await self.histories(self._schemas.subjects)
        return [each.subject for each in histories if each.live]

    async def history(self, subject: str) -> SubjectHistory:
        """Returns all that is archived of a subject; without versions where nothing is.

        Raises:
            RegistryUnavailableError: the archive holds nothing of the registry at all.
            MirrorlakeError: see `ArchivedSchemas.history`.
        """
        if not self._schemas.subjects:
            await self._look()
        found = await asyncio.to_thread(self._schemas.history, subject)
        return found or SubjectHistory(subject=subject, level=NO_CHECK)

    async def histories(self, subjects: Sequence[str]) -> list[SubjectHistory]:
        """Returns the same of many subjects, in their order."""
        return await all_of(self.history(subject) for subject in subjects)

    async def schema_of_id(self, id_: int, *, subject: str | None = None) -> Schema | None:
        """Returns what an id meant to the registry; None where it is not archived.

        Args:
            id_: the id.
            subject: has no meaning here: an archive holds one context.
        """
        del subject
        if not self._schemas.places_of_id(id_):
            await self._look()
        found = await asyncio.to_thread(self._schemas.version_of_id, id_)
        return None if found is None else found.version.schema

    async def places_of_id(self, id_: int) -> list[tuple[str, int]]:
        """Returns subject and version of all that is archived under an id; none where nothing is."""
        if not self._schemas.places_of_id(id_):
            await self._look()
        return self._schemas.places_of_id(id_)

    async def places_of_guid(self, guid: UUID) -> list[tuple[str, int]]:
        """Returns subject and version of all that is archived under a GUID; none where nothing is. Reads all of it."""
        await self._look()
        versions, _ = await asyncio.to_thread(self._schemas.versions)
        return sorted((each.subject, each.version.version) for each in versions if each.version.guid == str(guid))

    async def close(self) -> None:
        """Does nothing: stores close themselves."""

    async def _look(self) -> None:
        """Lists what is archived; one look serves all that were waiting when it began."""
        asked = self._begun
        async with self._looking:
            if self._done > asked:
                return
            self._begun += 1
            begun = self._begun
            is_there = await asyncio.to_thread(self._schemas.look)
            if is_there:
                self._done = begun
        if not is_there:
            raise RegistryUnavailableError(
                f"{self._where} holds no schemas of a registry {self._schemas.registry}",
                hint="a mirror with an archive destination and `schemas: {from: …}` archives them, under the key that "
                "its file gives the registry",
                registry=self.name,
            )
