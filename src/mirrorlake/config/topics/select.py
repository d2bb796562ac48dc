"""How the native form says what a mirror makes of the records it copies."""

from typing import Annotated

from pydantic import InstanceOf, WithJsonSchema

from mirrorlake.config.document import Document
from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.problems import FieldPath, ProblemList
from mirrorlake.config.reading import by, found, read_text, refuse
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.section import Section, Shown, option
from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.projection import HEADERS_MAX, Expression, Projection, parse_value

_NULL_HINT = 'write "NULL" in quotes for a null, and leave out what stays as it is'


def read_value(value: object) -> Expression:
    """Reads an expression of Spark SQL that makes a key or a value."""
    if value is None:
        refuse("expected Spark SQL, found nothing", _NULL_HINT)
    text = read_text(value)
    try:
        return parse_value(text)
    except UnsupportedError as error:
        # What stands in a variable is not repeated.
        why = "" if isinstance(value, ExpandedText) else f": {error.message}"
        refuse(f"{found(value)} cannot be selected{why}", error.hint)


def read_headers(value: object) -> dict[str, Expression]:
    """Reads headers by name, each with the expression that makes it."""
    if not isinstance(value, dict):
        refuse(f"expected headers by name, found {found(value)}", "for example {type: \"'order'\"}")
    if len(value) > HEADERS_MAX:
        refuse(f"sets {len(value)} headers, and may set {HEADERS_MAX}")
    return {_header_name(name): read_value(each) for name, each in value.items()}


def read_dropped(value: object) -> tuple[str, ...]:
    """Reads a list of headers' names, each once."""
    if not isinstance(value, list) or not value:
        refuse(f"expected a list of headers' names, found {found(value)}", "for example [trace-id]")
    if len(value) > HEADERS_MAX:
        refuse(f"drops {len(value)} headers, and may drop {HEADERS_MAX}")
    names = tuple(map(_header_name, value))
    if len(set(names)) < len(names):
        refuse("names a header twice")
    return names


def _header_name(value: object) -> str:
    if not isinstance(value, str):
        refuse(f"expected a header's name, found {found(value)}", "put it in quotes")
    return "".join(value)


Value = Annotated[InstanceOf[Expression] | None, by(read_value), WithJsonSchema({"type": "string"}), Shown("Spark SQL")]
Headers = Annotated[
    dict[str, InstanceOf[Expression]],
    by(read_headers),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
    Shown("Spark SQL by name"),
]
Dropped = Annotated[
    tuple[str, ...],
    by(read_dropped),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    Shown("list of names"),
]


class SelectForm(Section):
    """What records become: an expression in Spark SQL for each column that changes; the others stay as they are.

    Expressions look at `key`, `value`, `headers['name']`, `timestamp`, `partition` and `offset` of the source's record.
    See [filters and `select`](filters.md).
    """

    key: Value = option(None, 'The key, STRING or BINARY; `"NULL"` for none.', note="stays")
    value: Value = option(None, 'The value, STRING or BINARY; `"NULL"` for a tombstone.', note="stays")
    headers: Headers = option(
        {},
        "Headers that are set, STRING or BINARY: one of each name, in the place of all that the record has of it, "
        "behind the other headers. At most 16.",
    )
    drop_headers: Dropped = option((), "Headers that are taken away, all of each name. At most 16.", shown="[]")


def projection_of(form: SelectForm | None, path: FieldPath, document: Document) -> Projection | None:
    """Returns what the records of a mirror become; None where they stay, or after noting what is wrong.

    Args:
        form: as it stands in the file.
        path: of the form.
        document: the file; takes what is wrong.
    """
    if form is None:
        return None
    projection = Projection(
        key=form.key, value=form.value, headers=tuple(form.headers.items()), dropped=form.drop_headers
    )
    if not projection.expressions and not projection.dropped:
        document.note(path, "selects nothing", "name what changes: `key`, `value`, `headers` or `drop-headers`")
        return None
    if both := sorted(set(form.headers) & set(form.drop_headers)):
        document.note(
            (*path, "drop-headers"), f"drops header `{both[0]}`, which `headers` sets", "leave one of them out"
        )
    try:
        projection.check_size()
    except UnsupportedError as error:
        document.note(path, error.message, error.hint)
    return projection


def check_select(mirror: Mirror, problems: ProblemList) -> None:
    """Notes destinations that records cannot be changed for, and what would change schema ids under `schemas`."""
    if mirror.select is None:
        return
    for destination in mirror.destinations:
        if flaw := destination.select_flaw():
            problems.add(destination.place, flaw.message, flaw.hint)
    _check_schemas(mirror, problems)


def _check_schemas(mirror: Mirror, problems: ProblemList) -> None:
    schemas = mirror.schemas
    if schemas is None or mirror.select is None:
        return
    has_schemas = {"key": schemas.has_keys, "value": schemas.has_values}
    for side in mirror.select.sides:
        if has_schemas[side]:
            message = f"`select` changes each {side} of mirror {mirror.name}, and `schemas` reads a schema id in it"
            hint = f"leave `{side}` out of `select`, or say `{side}: none` in `schemas`"
            problems.add(mirror.place, message, hint)
