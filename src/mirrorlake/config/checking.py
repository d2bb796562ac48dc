"""Puts a part of the file through its model, and says in our words what the model did not like."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.problems import FieldPath, Place, ProblemList
from mirrorlake.config.reading import ALREADY_REPORTED, REFUSED, found, no_choice, suggestion
from mirrorlake.config.section import Section

TO_ADD = "add it; `mirrorlake config schema` describes it"
"""The remedy where a field is missing."""

_NATIVE_ONLY = ("clusters", "stores", "registries")
S = TypeVar("S", bound=Section)
T = TypeVar("T")
_QUOTED = re.compile("'([^']*)'")
"""A word of an enumeration, as pydantic lists them."""

_HABITS = {
    "max-offsets": "max-records",
    "max-time-ms": "max-time",
    "bootstrap.servers": "bootstrap-servers",
    "brokers": "bootstrap-servers",
    "on-recreation": "on-recreate",
    "destination-name-override": "topic",
    "topic": "topics",
    "partition": "partitions",
    "whitelist": "topics",
    "blacklist": "exclude",
}
"""What people are used to elsewhere, where the nearest spelling would not lead to it."""


def check(
    model: type[S],
    tree: Tree,
    path: FieldPath,
    document: Document,
    *,
    shown_as: type[Section] | None = None,
) -> S | None:
    """Returns the part of the file at ``path`` as its model, or None after noting all that is wrong.

    Args:
        model: what it must be.
        tree: the part.
        path: where it stands.
        document: the file; takes what is wrong.
        shown_as: the model whose fields are suggested for an unknown one, where that has more of them.
    """
    if isinstance(tree, UnsetText):
        return None
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        # The details hold the file's values and may hold secrets; nothing but `found` may print them.
        for detail in error.errors(include_url=False):
            _note(shown_as or model, detail, path, document)
        return None


def check_one_of(models: Mapping[str, type[S]], tree: Tree, path: FieldPath, document: Document) -> S | None:
    """Returns the part at ``path`` as the model its ``type`` selects, or None after noting what is wrong."""
    if not isinstance(tree, dict):
        if not isinstance(tree, UnsetText):
            document.note(path, f"expected a mapping, found {found(tree)}")
        return None
    known = ", ".join(models)
    kind = tree.get("type")
    if "type" not in tree:
        document.note((*path, "type"), "is required", f"one of {known}")
        return None
    if not isinstance(kind, str) or kind not in models:
        if not isinstance(kind, UnsetText):
            hint = suggestion(kind, models) if isinstance(kind, str) else ""
            document.note((*path, "type"), f"expected one of {known}, found {found(kind)}", hint)
        return None
    return check(models[kind], {**tree, "type": "".join(kind)}, path, document)


def note_unknown(model: type[Section], document: Document) -> None:
    """Notes the fields at the file's root that its model does not have."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    for key in document.tree if isinstance(document.tree, dict) else ():
        if key not in names:
            is_mixed = key in _NATIVE_ONLY and "destination" in names
            hint = "`destination` at the root makes this the mirror-v3 form" if is_mixed else suggestion(key, names)
            document.note((key,), "is not a known field", hint)


def entries(tree: Tree, key: str, document: Document, *, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Tree]]:
    """Yields path and value of each item of a list in the mapping at ``path``; notes it where it is no list."""
    where = (*path, key)
    if not isinstance(tree, dict) or key not in tree:
        document.note(where, "is required", list_to_add(key))
        return
    items = tree[key]
    if isinstance(items, list):
        yield from (((*where, index), item) for index, item in enumerate(items))
    elif not isinstance(items, UnsetText):
        document.note(where, f"expected a list, found {found(items)}", _list_hint(items))


def list_to_add(key: str) -> str:
    """Returns the remedy where a list is missing."""
    return f"add `{key}:`, and below it each item behind a `- `"


def _list_hint(value: object) -> str:
    if isinstance(value, dict):
        return "begin each item with `- `"
    return "write its items behind the colon" if value is None else "put it in [ ], several separated by commas"


def read_or_note(reader: Callable[[object], T], value: object, place: Place, problems: ProblemList) -> T | None:
    """Returns what a reader makes of a value that has no model, or None after noting what it refused."""
    try:
        return reader(value)
    except PydanticCustomError as error:
        context = error.context or {}
        problems.add(place, str(context.get("message", "")), str(context.get("hint", "")))
        return None


def read_plain(value: Tree, path: FieldPath, document: Document) -> str | None:
    """Returns a setting of Kafka's or Spark's as the text it is there, or None after noting that it is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return "".join(value) if isinstance(value, str) else str(value)
    document.note(path, f"expected text or a number, found {found(value)}")
    return None


def _note(model: type[BaseModel], detail: ErrorDetails, path: FieldPath, document: Document) -> None:
    where = (*path, *detail["loc"])
    context = detail.get("ctx", {})
    match detail["type"]:
        case kind if kind == ALREADY_REPORTED or isinstance(detail["input"], UnsetText):
            return
        case kind if kind == REFUSED:
            document.note(where, str(context["message"]), str(context["hint"]))
        case "missing":
            document.note(where, "is required", TO_ADD)
        case "extra_forbidden":
            document.note(where, "is not a known field", _nearest_field(model, detail["loc"]))
        case "model_type" | "dict_type" | "model_attributes_type":
            document.note(where, f"expected a mapping, found {found(detail['input'])}")
        case "enum":
            words = _QUOTED.findall(context["expected"])
            document.note(where, *no_choice(words, detail["input"]))
        case "list_type":
            document.note(where, f"expected a list, found {found(detail['input'])}", _list_hint(detail["input"]))
        case kind:
            # Every other kind would be a reader of ours that is missing: say where, but not the value.
            document.note(where, f"cannot be read ({kind})")


def _nearest_field(model: type[BaseModel], loc: FieldPath) -> str:
    owner: type[BaseModel] | None = model
    for part in loc[:-1]:
        if owner is not None and isinstance(part, str):
            owner = next((_inner_model(f.annotation) for f in owner.model_fields.values() if f.alias == part), None)
    if owner is None:
        return ""
    names = [field.alias or name for name, field in owner.model_fields.items()]
    habit = _HABITS.get(str(loc[-1]))
    return f"did you mean `{habit}`?" if habit in names else suggestion(str(loc[-1]), names)


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found_models = (_inner_model(part) for part in get_args(annotation))
    return next((inner for inner in found_models if inner is not None), None)
