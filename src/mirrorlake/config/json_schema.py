"""The JSON Schema of the configuration: draft 2020-12, both forms, made from the models."""

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from mirrorlake.config.mirror_v3_form import MirrorV3Form
from mirrorlake.config.native_form import NativeForm

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_REQUIRED: dict[str, list[str]] = {
    "NativeForm": ["clusters"],
    "MirrorForm": ["name"],
    "SourceForm": [],
    "ArchiveSourceForm": [],
}
"""What must stand there by all means. A mirror's source, say, may stand in `defaults`, in `groups` or in an overlay."""


class _Generator(GenerateJsonSchema):
    """Pydantic's generator without the titles it makes up from field names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Returns False: a key is title enough."""
        del schema
        return False


def configuration_schema() -> dict[str, Any]:
    """Returns the schema of a file: exactly one of the two forms."""
    definitions: dict[str, Any] = {}
    for form in (NativeForm, MirrorV3Form):
        schema = _schema(form)
        definitions |= schema.pop("$defs")
        definitions[form.__name__] = schema
    for name, required in _REQUIRED.items():
        definitions[name]["required"] = required
    return {
        "$schema": DIALECT,
        "title": "mirrorlake configuration",
        "oneOf": [{"$ref": f"#/$defs/{form.__name__}"} for form in (NativeForm, MirrorV3Form)],
        "$defs": dict(sorted(definitions.items())),
    }


def configuration_schema_text() -> str:
    """Returns the schema as indented JSON with a final line break; the same text every time."""
    return json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
