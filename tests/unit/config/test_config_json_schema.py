"""The schema, checked against the examples by a small reader of the keywords it uses."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config.document import read_document
from mirrorlake.config.json_schema import configuration_schema, configuration_schema_text
from mirrorlake.config.problems import ProblemList
from unit.config.config_texts import archive, kafka, v3

ROOT = Path(__file__).parents[3]
SCHEMA = configuration_schema()
TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {
    "$ref", "$defs", "$schema", "title", "description", "default", "x-default", "discriminator", "type", "properties",
    "required", "additionalProperties", "propertyNames", "items", "anyOf", "oneOf", "enum", "const", "pattern",
    "minimum", "maximum", "minItems", "uniqueItems", "minProperties", "maxProperties",
}  # fmt: skip


def is_valid(value: object, schema: Any) -> bool:
    """Tells whether a value fits a schema; keywords it does not know fail the test."""
    if isinstance(schema, bool):
        return schema
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema and not is_valid(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]):
        return False
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        is_number_as_bool = isinstance(value, bool) and "boolean" not in kinds
        if is_number_as_bool or not any(isinstance(value, TYPES[kind]) for kind in kinds):
            return False
    if "anyOf" in schema and not any(is_valid(value, option) for option in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(is_valid(value, option) for option in schema["oneOf"]) != 1:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    return _is_valid_inside(value, schema)


def _is_valid_inside(value: object, schema: Any) -> bool:
    match value:
        case bool():
            return True
        case int():
            return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
        case str():
            return re.search(schema.get("pattern", ""), value) is not None
        case list():
            return len(value) >= schema.get("minItems", 0) and all(
                is_valid(item, schema.get("items", True)) for item in value
            )
        case dict():
            properties = schema.get("properties", {})
            others = schema.get("additionalProperties", True)
            return set(schema.get("required", ())) <= set(value) and all(
                is_valid(item, properties.get(key, others)) for key, item in value.items()
            )
    return True


def tree(text: str) -> object:
    """Returns the tree of a file; references without a default stay as they are written, as an editor sees them."""
    problems = ProblemList()
    environ = {name: f"${{{name}}}" for name in re.findall(r"\$\{(\w+)\}", text)}
    return read_document(text.encode(), file="c.yaml", environ=environ, problems=problems).tree


def test_the_schema_is_of_the_promised_draft_and_has_both_forms() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert [form["$ref"] for form in SCHEMA["oneOf"]] == ["#/$defs/NativeForm", "#/$defs/MirrorV3Form"]


def test_every_reference_of_the_schema_leads_somewhere() -> None:
    references = re.findall(r'"\$ref": "#/\$defs/([^"]+)"', configuration_schema_text())
    assert len(references) > 30
    assert set(references) <= set(SCHEMA["$defs"])


def test_the_text_is_the_schema_and_always_the_same() -> None:
    text = configuration_schema_text()
    assert json.loads(text) == SCHEMA
    assert text == configuration_schema_text()


def test_every_field_says_what_it_means() -> None:
    for name, definition in SCHEMA["$defs"].items():
        for key, field in definition.get("properties", {}).items():
            # Pydantic leaves a description out that is the same as that of the definition referred to.
            referred = SCHEMA["$defs"].get(field.get("$ref", "").removeprefix("#/$defs/"), {})
            assert field.get("description") or referred.get("description"), f"{name}.{key}"


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/**/*.yaml")), ids=lambda path: path.name)
def test_every_example_fits_the_schema(example: Path) -> None:
    assert is_valid(tree(example.read_text()), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        kafka(destination=", offsets: map, gap-fill: filler, replication-factor: 3"),
        kafka(source=", partitions: [0, 1], start: {offsets: {orders: {0: 5}}}"),
        kafka() + "engine: {lanes: '${LANES}', memory: 1GiB, lease: 250ms}\n",
        archive(", flush: {max-bytes: 1000, daily: {at-utc: '00:30'}}"),
        v3("{type: kafka, bootstrap-servers: w}", "[]"),
    ],
)
def test_what_can_be_written_fits_the_schema(text: str) -> None:
    quoted = text.replace("'${LANES}'", "'$${LANES}'")
    assert is_valid(tree(quoted), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        kafka(destination=", nonsense: 1"),
        kafka(destination=", offsets: keep"),
        kafka(source=", partitions: some"),
        kafka(source=", start: soon"),
        kafka() + "engine: {lanes: 0}\n",
        kafka() + "engine: {lanes: many}\n",
        kafka() + "engine: {lease: 5}\n",
        archive().replace("root: /lake", "root: lake"),
        archive(", flush: {max-time: 5}"),
        v3("{type: kafka}", "[]"),
        v3("{type: kafka, bootstrap-servers: w}", "- {name: m, topic: t, partition: 0}"),
        "mirrors: []\n",
    ],
)
def test_what_is_wrong_in_form_does_not_fit_the_schema(text: str) -> None:
    assert not is_valid(tree(text), SCHEMA)
