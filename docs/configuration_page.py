"""Writes docs/configuration.md from the models, so that it cannot say anything but what is true.

``python -m docs.configuration_page`` prints the page; ``make docs`` writes it.
"""

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from inspect import cleandoc
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mirrorlake.config.availability import UNAVAILABLE
from mirrorlake.config.client_properties import OURS, SECURITY, TEXTS, TUNING
from mirrorlake.config.common_form import EngineForm, ServiceForm
from mirrorlake.config.destinations.registry import sections
from mirrorlake.config.environment import CONFIG_VARIABLE, VARIABLES
from mirrorlake.config.mirror_v3_form import (
    MirrorV3Form,
    V3FilesystemForm,
    V3FlushForm,
    V3KafkaForm,
    V3MirrorForm,
    V3S3Form,
    V3SourceForm,
)
from mirrorlake.config.native_form import FilterForm, LimitForm, MirrorForm, MirrorGroupForm, NativeForm
from mirrorlake.config.schemas.form import DeadLettersForm, RegistryForm, SchemasForm
from mirrorlake.config.section import NOTE, Shown
from mirrorlake.config.sources.forms import ArchiveSourceForm, KafkaReplicatorForm, SourceForm
from mirrorlake.config.spark.settings import OURS as SPARK_OURS
from mirrorlake.config.spark.settings import SWITCHED_ON
from mirrorlake.config.systems.forms import (
    ClusterForm,
    ClusterLimitForm,
    StoreAzureForm,
    StoreFilesystemForm,
    StoreGcsForm,
    StoreS3Form,
)
from mirrorlake.config.topics.heartbeats import HeartbeatsForm
from mirrorlake.config.topics.select import SelectForm


def destination_sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yields the section of each type of destination with those inside of it, as its row and the section name them."""
    for name, section in sections().items():
        yield f"`mirrors[].destinations[]`, `type: {name}`", section
        yield from section.parts


NATIVE_SECTIONS: Sequence[tuple[str, type[BaseModel]]] = (
    ("Root", NativeForm),
    ("`clusters.<name>`", ClusterForm),
    ("`clusters.<name>.limit`", ClusterLimitForm),
    ("`stores.<name>`, `type: filesystem`", StoreFilesystemForm),
    ("`stores.<name>`, `type: s3`", StoreS3Form),
    ("`stores.<name>`, `type: gcs`", StoreGcsForm),
    ("`stores.<name>`, `type: azure`", StoreAzureForm),
    ("`registries.<name>`", RegistryForm),
    ("`mirrors[]`", MirrorForm),
    ("`filter`", FilterForm),
    ("`select`", SelectForm),
    ("`limit`", LimitForm),
    ("`heartbeats`", HeartbeatsForm),
    ("`groups[]` at the root", MirrorGroupForm),
    ("`mirrors[].source` with `cluster`", SourceForm),
    ("`mirrors[].source` with `store`", ArchiveSourceForm),
    ("`layout`, `type: kafka-replicator`", KafkaReplicatorForm),
    *destination_sections(),
    ("`schemas`", SchemasForm),
    ("`dead-letters`", DeadLettersForm),
    ("`engine`", EngineForm),
    ("`service`", ServiceForm),
)
V3_SECTIONS: Sequence[tuple[str, type[BaseModel]]] = (
    ("mirror-v3: root", MirrorV3Form),
    ("mirror-v3: `destination`, `type: kafka`", V3KafkaForm),
    ("mirror-v3: `destination`, `type: filesystem`", V3FilesystemForm),
    ("mirror-v3: `destination`, `type: s3`", V3S3Form),
    ("mirror-v3: `destination.flush`", V3FlushForm),
    ("mirror-v3: `mirrors[]`", V3MirrorForm),
    ("mirror-v3: `mirrors[].source`", V3SourceForm),
)

INTRODUCTION = """# Configuration

*This page is generated: `make docs` writes it.*

A configuration is one YAML file in one of two forms. `mirrorlake validate -c FILE` says everything that
is wrong with it at once, each with file, line and field. Keys are kebab-case; an unknown or repeated key
is an error. Scalars follow YAML 1.2: `no`, `on` and `12:30:00` are text. An alias (`*name`)
stands for a whole value; merge keys (`<<`) are an error. `mirrorlake config schema`
prints a JSON Schema for editors. Files to start from are in `examples/`.

- The **native form** has `clusters`, `stores` and `mirrors` with any number of topics and destinations.
- The **mirror-v3 form** has one `destination` at the root and one partition per mirror. Files of
  mirror-v3 with it run unmodified ([which](mirror-v3.md)); `engine`, `service` and `on-park` may be beside it.

**What several mirrors have in common** stands once: in `defaults` at the root, or in those of a group (`groups` at
the root). A mirror's own setting goes first, then its group's, then the file's; mappings are merged key by key,
lists and single values are replaced:

```yaml
clusters:
  east: {bootstrap-servers: "localhost:9092"}
  west: {bootstrap-servers: "localhost:9192"}
defaults:
  source: {cluster: east}
  destinations: [{type: kafka, cluster: west}]
groups:
  - name: shop
    defaults: {on-truncation: skip}
    mirrors:
      - {name: carts, source: {topics: [carts]}}
      - {name: stock, source: {topics: [stock]}, on-truncation: park}
overlays:
  production:
    clusters: {east: {bootstrap-servers: "${EAST}"}, west: {bootstrap-servers: "${WEST}"}}
```

**What differs between environments** stands in `overlays`: with `MIRRORLAKE_OVERLAY=production` that overlay is laid
over the file. The other overlays are not looked at.

**Environment variables** may stand in any value: `${NAME}`, `${NAME:-default}` (the default is also taken
for an empty variable), and `$$` for a dollar sign. Their content is not expanded again. A variable that
is not set and has no default is an error. Inside `[ ]` and `{ }` put the value in quotes.

**Secrets** never stand in the file and are never printed: write `${NAME}`, or `{file: /path}`, which is
read when the secret is needed. A default would stand in the file, so a secret has none; nor may it be empty.

**Sizes** are bytes: `128MiB`, `64kB`, or a plain number. **Durations** have a unit: `250ms`, `5s`, `1m`,
`2h`, `1d`. **Names** of mirrors, clusters and stores have up to 120 letters, digits, `.`, `_` and `-`,
the first no `.` and no `-`. **Topics** are named in full, or by a regular expression between slashes that
matches the whole name; internal topics (`__…`) and mirrorlake's own (`mirrorlake.state`,
`mirrorlake.progress.…`, `mirrorlake.offset-map.…`, `mirrorlake.letter-progress.…`) are never mirrored.
**Templates** may hold `{topic}`,
`{mirror}` and `{cluster}` (of the source).

Refused, with both places named: two mirrors or destinations that would write one destination partition or
one archive's folder, and records that would go round in a circle. Clusters that share a bootstrap server
are one.
"""


def reference_page() -> str:
    """Returns the whole page; the same text every time."""
    parts = [INTRODUCTION, "## The native form\n"]
    parts += [_section(title, model) for title, model in NATIVE_SECTIONS]
    parts += [_spark_table(), _properties_table(), "## The mirror-v3 form\n"]
    parts += [_section(title, model) for title, model in V3_SECTIONS]
    parts += [_variables_table(), _unavailable_table()]
    return "\n".join(parts)


def _section(title: str, model: type[BaseModel]) -> str:
    rows = [
        (f"`{field.alias or name}`", _kind(field), _default(field), field.description or "")
        for name, field in model.model_fields.items()
    ]
    table = _table(("field", "kind", "default", "meaning"), rows)
    return f"### {title}\n\n{cleandoc(model.__doc__ or '')}\n\n{table}"


def _spark_table() -> str:
    refused = _table(("setting", "why"), [(f"`{name}`", reason) for name, reason in SPARK_OURS.items()])
    shown = ", ".join(f"`{name}`" for name in SWITCHED_ON)
    return (
        "### `engine.spark-conf`\n\nUnder Spark's own names; what a cluster needs is on [its page](cluster.md). "
        "Settings that hold a secret, a password or a token take `${NAME}` or `{file: /path}`, reach the JVM over its "
        "own connection, and stand on no command line.\n\nThese cannot be set, nor what is below them:\n\n"
        f"{refused}\n{shown} can only be `true`.\n"
    )


def _properties_table() -> str:
    rows = [(f"`{name}`", "text", meaning) for name, meaning in TEXTS.items()]
    rows += [(f"`{name}`", f"{t.minimum} to {t.maximum}", t.meaning) for name, t in TUNING.items()]
    security = _table(("property", "meaning"), [(f"`{name}`", meaning) for name, meaning in SECURITY.items()])
    refused = _table(("property", "why"), [(f"`{name}`", reason) for name, reason in OURS.items()])
    return (
        "### Client properties\n\nUnder Kafka's own names. Every other property is refused: it would have no "
        f"effect.\n\n{_table(('property', 'values', 'meaning'), rows)}\nSecurity ([more](security.md)):\n\n{security}"
        f"\nThese cannot be set:\n\n{refused}"
    )


def _variables_table() -> str:
    file = (
        f"`{CONFIG_VARIABLE}`",
        "path",
        "`mirror.yaml` in the folder one is in",
        "The configuration, for verbs without `-c`.",
    )
    rows = [file, *((f"`{name}`", *row) for name, row in VARIABLES.items())]
    table = _table(("variable", "values", "default", "meaning"), rows)
    return f"## Environment\n\nA value that cannot be read is an error that names the variable.\n\n{table}"


def _unavailable_table() -> str:
    rows = []
    for row in UNAVAILABLE:
        what = f"anything but `{row.allowed[0]}`" if row.allowed else "any value"
        rows.append((f"`{'.'.join(row.where).replace('.[]', '[]')}`", what, row.remedy))
    table = _table(("field", "refused", "instead"), rows)
    return "## Not available in this version\n\nKnown, checked, and then refused by name, never ignored.\n\n" + table


def _kind(field: FieldInfo) -> str:
    shown = [item.text for item in field.metadata if isinstance(item, Shown)]
    return shown[0] if shown else ", or ".join(dict.fromkeys(_kinds(field.annotation)))


def _kinds(annotation: Any) -> Iterator[str]:
    """Yields the words for a type, one per member of a union."""
    shown = [item.text for item in getattr(annotation, "__metadata__", ()) if isinstance(item, Shown)]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if shown:
        yield shown[0]
    elif hasattr(annotation, "__metadata__"):
        yield from _kinds(arguments[0])
    elif origin is Literal:
        yield " or ".join(f"`{value}`" for value in arguments)
    elif origin is list:
        yield f"list of {', or '.join(dict.fromkeys(_kinds(arguments[0])))}"
    elif origin is dict:
        yield f"{', or '.join(dict.fromkeys(_kinds(arguments[1])))}, by name"
    elif isinstance(annotation, type) and issubclass(annotation, StrEnum):
        yield " or ".join(f"`{member.value}`" for member in annotation)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "mapping"
    elif annotation is bool:
        yield "`true` or `false`"
    elif annotation is not NoneType:
        for argument in arguments:
            yield from _kinds(argument)


def _default(field: FieldInfo) -> str:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    if NOTE in extra:
        return str(extra[NOTE])
    if "default" in extra:
        return f"`{extra['default']}`"
    if field.is_required():
        return "**required**"
    match field.default:
        case None | "" | []:
            return "none"
        case bool() as value:
            return f"`{str(value).lower()}`"
        case dict():
            return "none"
    return f"`{field.default}`"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(reference_page())
