"""Reads what a registry answers; everything else than the API's words is an error of the registry's. Pure."""

import json
from dataclasses import dataclass
from typing import Final, TypeGuard
from uuid import UUID

from mirrorlake.schemas.transport import Json

NUMBER_MAX: Final = 2**31 - 1
"""Of ids and versions, which registries and records hold in 32 bits, signed."""


class UnreadableAnswerError(Exception):
    """An answer is not what the API says; the client makes a `NotRegistryError` of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReference:
    """A reference as a registry words it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSchema:
    """A schema as a registry words it; what it refers to is not looked up yet."""

    text: str
    type: str
    references: tuple[RawReference, ...]
    metadata: str
    rule_set: str


def fields_of(body: Json) -> dict[str, Json]:
    """Returns an answer's fields."""
    if not isinstance(body, dict):
        raise UnreadableAnswerError
    return body


def number_in(body: Json, field: str) -> int:
    """Returns a field that is the number of an id or version."""
    value = fields_of(body).get(field)
    if not _is_number(value):
        raise UnreadableAnswerError
    return value


def text_in(body: Json, field: str, *, default: str | None = None) -> str:
    """Returns a field that is text; the default, where there is one, for a field that is null or left out."""
    value = fields_of(body).get(field)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise UnreadableAnswerError
    return value


def texts_of(body: Json) -> list[str]:
    """Returns an answer that is a list of texts."""
    if not isinstance(body, list) or not all(isinstance(item, str) for item in body):
        raise UnreadableAnswerError
    return list(body)


def numbers_of(body: Json) -> list[int]:
    """Returns an answer that is a list of such numbers."""
    if not isinstance(body, list) or not all(_is_number(item) for item in body):
        raise UnreadableAnswerError
    return list(body)


def raw_schema_of(body: Json) -> RawSchema:
    """Returns the schema of an answer. The type is left out where it is Avro."""
    given = fields_of(body).get("references") or []
    if not isinstance(given, list):
        raise UnreadableAnswerError
    return RawSchema(
        text=text_in(body, "schema"),
        type=text_in(body, "schemaType", default="AVRO"),
        references=tuple(
            RawReference(
                name=text_in(each, "name"), subject=text_in(each, "subject"), version=number_in(each, "version")
            )
            for each in given
        ),
        metadata=_contract(body, "metadata"),
        rule_set=_contract(body, "ruleSet"),
    )


def guid_of(body: Json) -> str | None:
    """Returns a version's GUID as RFC 9562 words it; None where the registry gives none, or no such thing."""
    given = fields_of(body).get("guid")
    if not isinstance(given, str):
        return None
    try:
        return str(UUID(given))
    except ValueError:
        return None


def _is_number(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX


def _contract(body: Json, field: str) -> str:
    value = fields_of(body).get(field)
    return json.dumps(value, sort_keys=True) if value else ""
