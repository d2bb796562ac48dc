"""What is damaged of the schemas that an archive holds of registries."""

from collections.abc import Iterator

from mirrorlake.archive.schemas.names import SCHEMAS_FOLDER, subject_of_folder
from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.service.archives.places import Finding, Survey
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store


def damaged_schemas(survey: Survey) -> Iterator[Finding]:
    """Yields what is damaged or lost of all archived schemas; nothing where only some topics are asked about.

    Reads every object of them, and changes nothing.
    """
    if survey.filters.names or survey.filters.partitions:
        return
    for store in survey.owners:
        try:
            errors = _errors_in(open_store(store))
        except MirrorlakeError as error:
            errors = [error]
        for each in errors:
            yield Finding(store=store, error=each)


def _errors_in(store: ObjectStore) -> list[MirrorlakeError]:
    found: list[MirrorlakeError] = []
    for folder in store.folders(SCHEMAS_FOLDER):
        registry = subject_of_folder(folder)  # written as subjects are
        if registry is None:
            continue
        schemas = ArchivedSchemas(store, registry)
        schemas.look()
        found += [
            ChainBrokenError(
                text,
                hint="put it back from a copy; what the registry still holds is archived anew where it is deleted",
            )
            for text in schemas.damage()
        ]
    return found
