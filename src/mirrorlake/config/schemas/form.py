"""How the native form says where schema registries are, and how a mirror takes schemas along."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import WithJsonSchema

from mirrorlake.config import section as fields
from mirrorlake.config.reading import by, found, read_text, refuse
from mirrorlake.config.section import Section, Shown, lasting, option
from mirrorlake.config.values.addresses import read_endpoint
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode

_CONTEXT = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


class Compatibility(StrEnum):
    """The level of a destination's subject: the source's, or one of the registry's."""

    MIRROR = "mirror"
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class RegistryMode(StrEnum):
    """The mode of a destination's subject: as it is, the source's, or one of the registry's."""

    LEAVE = "leave"
    MIRROR = "mirror"
    READWRITE = "READWRITE"
    READONLY = "READONLY"


class SchemaIds(StrEnum):
    """Which schema ids the records have at the destination."""

    REMAP = "remap"
    KEEP = "keep"


class OnUnreadable(StrEnum):
    """What becomes of records that name no schema."""

    FAIL = "fail"
    PASS = "pass"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePolicy:
    """What becomes of keys and of values that name no schema."""

    key: OnUnreadable = OnUnreadable.FAIL
    value: OnUnreadable = OnUnreadable.FAIL

    @property
    def has_dead_letters(self) -> bool:
        """True where records of either side become dead letters."""
        return OnUnreadable.DEAD_LETTER in (self.key, self.value)


def read_on_unreadable(value: object) -> UnreadablePolicy:
    """Reads one word for keys and values, or one each."""
    if isinstance(value, UnreadablePolicy):
        return value
    sides = value if isinstance(value, dict) else {"key": value, "value": value}
    if unknown := sorted(map(str, sides.keys() - {"key", "value"})):
        refuse(f"`{unknown[0]}` is no side of a record", "the sides are `key` and `value`")
    for each in sides.values():
        if each not in list(OnUnreadable):
            refuse(
                f"{found(each)} is not known here",
                "write `fail`, `pass` or `dead-letter`, or one each for `key` and `value`",
            )
    return UnreadablePolicy(**{side: OnUnreadable(str(each)) for side, each in sides.items()})


def read_urls(value: object) -> tuple[str, ...]:
    """Reads one address or a list of them, each once, without credentials."""
    items = value if isinstance(value, list) else [value]
    if not items:
        refuse("names no address")
    return tuple(dict.fromkeys(_read_url(item) for item in items))


def _read_url(value: object) -> str:
    if "@" in read_text(value):  # what stands before it is not repeated
        refuse("an address holds no credentials", "write them as `username` and `password`, or `token`")
    endpoint = read_endpoint(value)
    if "?" in endpoint or "#" in endpoint:
        refuse(f"{found(value)} has a query or a fragment", "give the address below which `/subjects` lies")
    return endpoint.rstrip("/")


def read_context(value: object) -> str:
    """Reads the name of a registry's context, with or without the dot in front."""
    text = read_text(value)
    context = text.removeprefix(".")
    if not _CONTEXT.fullmatch(context):
        refuse(f"{found(value)} cannot be a context", "write its name alone: `east` for subjects like `:.east:orders`")
    return context


_URLS = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]})
Urls = Annotated[tuple[str, ...], by(read_urls), _URLS, Shown("address or a list")]
_WORDS = {"enum": [each.value for each in OnUnreadable]}
_ON_UNREADABLE = WithJsonSchema(
    {
        "anyOf": [
            _WORDS,
            {"type": "object", "properties": {"key": _WORDS, "value": _WORDS}, "additionalProperties": False},
        ]
    }
)
OnUnreadableEntry = Annotated[
    UnreadablePolicy,
    by(read_on_unreadable),
    _ON_UNREADABLE,
    Shown("`fail`, `pass` or `dead-letter`, or `{key: …, value: …}`"),
]
Context = Annotated[str, by(read_context), WithJsonSchema({"type": "string"}), Shown("name")]


class RegistryForm(Section):
    """A schema registry with Confluent's REST API; its key is the name that mirrors refer to.

    Apicurio's is below `/apis/ccompat/v7`. Instead of `url`: `store` and `registry`, for what an archive holds of one.
    """

    url: Urls | None = option(
        None, "Its address, or several: each serves when another does not answer. Or `store`, and nothing but that."
    )
    store: fields.Name | None = option(
        None, "Key of one of `stores`: subjects are restored from the archive there. Only for `from`."
    )
    registry: fields.Name | None = option(
        None, "With `store`: the key of the registry in the file of the mirror that archived it.", note="its own key"
    )
    username: fields.Text | None = option(None, "For basic authentication, with `password`.")
    password: fields.SecretText | None = option(None, "See above.")
    token: fields.SecretText | None = option(None, "A bearer token, instead of username and password.")
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    certificate: fields.CaFile | None = option(
        None, "This client's certificate chain in PEM; it may hold the key. Only over `https://`."
    )
    key: fields.CaFile | None = option(None, "The private key of `certificate` in PEM, not encrypted.")
    context: Context | None = option(
        None, "The context whose subjects are meant, where the registry has several.", note="the default one"
    )


class DeadLettersForm(Section):
    """Where records go that name no schema, with `on-unreadable: dead-letter`."""

    topic: fields.Template = option(
        ...,
        "A topic of the destination's cluster, which no mirror of the file copies into and this one does not read; "
        "knows `{topic}`, the source's, `{mirror}` and `{cluster}`. Where it is missing it is made as `create-topics` "
        "says.",
    )


class SchemasForm(Section):
    """How the subjects of a mirror's topics come to another registry, and its records to the ids they have there."""

    from_: fields.Name = option(..., "Key of one of `registries`: the source's.", key="from")
    to: fields.Name | None = option(
        None,
        "Key of one of `registries`: the destination's. Required by Kafka destinations; archives hold the schemas "
        "themselves.",
    )
    mode: SubjectMode = option(
        SubjectMode.STRICT,
        "`strict`: the destination's subject has the source's versions and no others. `lenient`: others may stand "
        "between, and where the compatibility level is `NONE` order does not matter.",
    )
    compatibility: Compatibility = option(
        Compatibility.MIRROR, "The compatibility level of the destination's subject: the source's, or a level."
    )
    key: SubjectStrategy = option(
        SubjectStrategy.NONE, "How the subjects of keys are named; `none`: keys have no schemas."
    )
    value: SubjectStrategy = option(
        SubjectStrategy.TOPIC_NAME, "How the subjects of values are named; `none`: values have no schemas."
    )
    ids: SchemaIds = option(
        SchemaIds.REMAP,
        "`remap`: schema ids of records are rewritten to those of the destination's registry. `keep`: schemas are "
        "registered there under the source's ids, which a registry with the mode `IMPORT` allows, and records stay as "
        "they are.",
    )
    on_unreadable: OnUnreadableEntry = option(
        UnreadablePolicy(),
        "With `ids: remap`, a key or value that names no schema the source's registry knows. `fail`: its partition is "
        "parked before it. `pass`: it is copied as it is. `dead-letter`: its record goes to the "
        "topic of `dead-letters` instead. One word, or `{key: …, value: …}`. Null has no schema.",
        shown="fail",
    )
    dead_letters: DeadLettersForm | None = option(
        None, "Needed with `on-unreadable: dead-letter`: where such records go.", note="none are written"
    )
    interval: fields.GroupsTime = lasting(
        "30s", "How often a service looks for new versions, and for ids that were not known."
    )
    deleted_versions: DeletedVersions = option(
        DeletedVersions.KEEP,
        "Versions soft-deleted at the source. `keep`: they are registered, so that records written with them can be "
        "read, and nothing is deleted. `mirror`: they are registered, and soft-deleted in their turn. `skip`: they are "
        "not registered.",
    )
    registry_mode: RegistryMode = option(
        RegistryMode.LEAVE,
        "The mode of the destination's subject in the end: the one it has, the source's, or this one. A closed subject "
        "is opened while versions are registered, unless it is to be left as it is.",
    )
