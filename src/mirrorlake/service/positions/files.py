"""Files of positions, in the two formats of Mirus's offset tool. Pure.

CSV without a heading: ``name,topic,partition,offset``. JSON lines: one object a line, with ``connectorId``, ``topic``,
``partition`` and ``offset``. An empty offset, or null, says that there is none. The name is the mirror's, and with
several destinations ``mirror/destination``. Of a consumer group it is the group's, and JSON lines may have
``metadata``, the text that was committed with the offset; CSV has no place for it.

Source: ``OffsetSerDe`` of salesforce/mirus, `src/main/java/com/salesforce/mirus/offsets/`.
"""

import csv
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1

CSV_FIELDS = 4
JSON_FIELDS = ("connectorId", "topic", "partition", "offset")
METADATA = "metadata"

_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)


class FileFormat(StrEnum):
    """How a file of positions is written."""

    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionLine:
    """One line of a file: the next source offset that is needed, None where there is none. ``line`` counts from 1.

    ``metadata`` is of a consumer group's commit, empty for none.
    """

    name: str
    topic: str
    partition: int
    offset: int | None
    line: int = 0
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a line of a file, or with something that was asked for without one (``line`` 0)."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


class LineError(ValueError):
    """What a line says is no position."""


def write_lines(lines: Iterable[PositionLine], form: FileFormat) -> str:
    """Returns the text of a file: one line each, ended by a line feed."""
    if form is FileFormat.CSV:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
        for each in lines:
            writer.writerow((each.name, each.topic, each.partition, "" if each.offset is None else each.offset))
        return text.getvalue()
    return "".join(
        json.dumps(
            dict(zip(JSON_FIELDS, (each.name, each.topic, each.partition, each.offset), strict=True))
            | ({METADATA: each.metadata} if each.metadata else {}),
            ensure_ascii=False,
            separators=(",", ":"),
        )
        + "\n"
        for each in lines
    )


def read_lines(content: bytes, form: FileFormat, *, of_groups: bool = False) -> tuple[list[PositionLine], list[Fault]]:
    """Returns the lines of a file, and every fault of its form. Blank lines are passed over.

    Args:
        content: of the file.
        form: of the file.
        of_groups: its names are those of consumer groups, so JSON lines may have metadata.
    """
    lines: list[PositionLine] = []
    faults: list[Fault] = []
    read = _read_csv if form is FileFormat.CSV else partial(_read_json, of_groups=of_groups)
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            lines.append(read(raw.removesuffix(b"\r").decode(), number))
        except ValueError as error:
            text = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            faults.append(Fault(line=number, text=text))
    return lines, faults


def _read_csv(text: str, number: int) -> PositionLine:
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise LineError(f"is not CSV: {error}") from error
    fields = rows[0] if rows else []
    if len(fields) != CSV_FIELDS:
        raise LineError(f"expected name,topic,partition,offset, found {len(fields)} field(s)")
    name, topic, partition, offset = fields
    return _line(name, topic, _number("partition", partition), _number("offset", offset) if offset else None, number)


def _number(what: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise LineError(f"{what} {text!r} is no whole number")
    return int(text) if len(text) <= len(str(OFFSET_MAX)) + 1 else OFFSET_MAX + 1


def _read_json(text: str, number: int, *, of_groups: bool) -> PositionLine:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise LineError(f"is not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise LineError(
            "is not JSON that says a position: a number is too long, or lists are nested too deep"
        ) from error
    if not isinstance(pairs, _Pairs):
        raise LineError("expected an object")
    found = dict(pairs)
    metadata = found.get(METADATA, "")
    expected = [*JSON_FIELDS, METADATA] if of_groups and METADATA in found else JSON_FIELDS
    if sorted(key for key, _ in pairs) != sorted(expected):
        raise LineError(f"expected {', '.join(JSON_FIELDS)}, each once, found {', '.join(map(str, found)) or 'none'}")
    name, topic, partition, offset = (found[field] for field in JSON_FIELDS)
    if not isinstance(name, str) or not isinstance(topic, str):
        raise LineError("connectorId and topic are texts")
    if type(partition) is not int:
        raise LineError(f"partition {json.dumps(partition)} is no whole number")
    if offset is not None and type(offset) is not int:
        raise LineError(f"offset {json.dumps(offset)} is no whole number, and not null")
    if not isinstance(metadata, str):
        raise LineError("metadata is no text")
    return replace(_line(name, topic, partition, offset, number), metadata=metadata)


class _Pairs(list[tuple[str, object]]):
    """The fields of a JSON object in their order, those named twice too."""


def _line(name: str, topic: str, partition: int, offset: int | None, number: int) -> PositionLine:
    if not name or not topic:
        raise LineError("name or topic is empty")
    if not 0 <= partition <= PARTITION_MAX:
        raise LineError(f"there is no partition {partition}")
    if offset is not None and offset < 0:
        raise LineError(f"offset {offset} is negative; leave it empty for none")
    if offset is not None and offset > OFFSET_MAX:
        raise LineError("the offset is larger than Kafka's are")
    return PositionLine(name=name, topic=topic, partition=partition, offset=offset, line=number)
