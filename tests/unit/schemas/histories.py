"""Histories of one subject in few letters: each letter is a schema, a capital one is soft-deleted."""

from functools import cache

from mirrorlake.schemas.history import Schema, SchemaVersion, SubjectHistory
from mirrorlake.schemas.plan import Action


@cache
def schema(letter: str) -> Schema:
    return Schema(text=f'"{letter}"')


def history(
    letters: str, *, subject: str = "s", level: str = "BACKWARD", mode: str | None = "READWRITE"
) -> SubjectHistory:
    versions = tuple(
        SchemaVersion(version=place + 1, id=100 + place, schema=schema(each.lower()), is_deleted=each.isupper())
        for place, each in enumerate(letters)
    )
    return SubjectHistory(subject=subject, versions=versions, level=level, mode=mode)


def letter_of(action: Action) -> str:
    """The schema an action is about; empty for levels and modes."""
    return action.version.schema.text.strip('"') if action.version else ""
