"""Writes a draft as a file of our native form, and takes out of it what this program would refuse."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirrorlake.config.imports.draft import Draft, MirrorDraft
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.problems import ConfigurationErrors, Problem

_VARIABLE = re.compile(r"(?<!\$)(?:\$\$)*\$\{([A-Z0-9_a-z]+)\}")
_STAND_IN = "localhost:9092"


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a configuration, and what its check still says: it must be mended by hand."""

    text: str
    problems: tuple[str, ...]


def written(draft: Draft, *, program: str, file: str, problems: Sequence[str] = ()) -> Written:
    """Returns the configuration. Client properties that are refused become remarks; the draft is changed so.

    Args:
        draft: what was read.
        program: whose file it was, for the first line.
        file: its name, likewise.
        problems: what is to be mended already, one line each.
    """
    while True:
        text, places = _text(draft, program, file)
        found = _problems(text)
        refused = {places[each.place.line]: each for each in found if each.place.line in places}
        if not refused:
            break
        for (cluster, name), problem in refused.items():
            place = draft.clusters[cluster]
            del place.properties[name]
            entry = place.origins.pop(name)
            draft.translated.discard((entry.line, entry.key))
            draft.remark(entry, f"is refused here: {problem.message}{f' ({problem.hint})' if problem.hint else ''}")
    said = (*problems, *(f"{each.place.field or 'file'}: {each.message}" for each in found))
    return Written(text + "".join(f"# To be mended: {_one_line(each)}\n" for each in said), said)


def _problems(text: str) -> tuple[Problem, ...]:
    environ = dict.fromkeys(_VARIABLE.findall(text), _STAND_IN)
    try:
        parse_configuration(text.encode(), file="imported", environ=environ)
    except ConfigurationErrors as errors:
        # What stands in for a variable is no JAAS text and no port: only its owner can tell if it is right.
        return tuple(each for each in errors.problems if not _is_of_variable(text, each))
    return ()


def _is_of_variable(text: str, problem: Problem) -> bool:
    lines = text.splitlines()
    return 0 < problem.place.line <= len(lines) and bool(_VARIABLE.search(lines[problem.place.line - 1]))


def _text(draft: Draft, program: str, file: str) -> tuple[str, dict[int, tuple[str, str]]]:
    """Returns the file's text, and by line the client property that stands there."""
    lines = [f"# Imported from {program}: {_one_line(file)}"]
    remarks = sorted(draft.remarks, key=lambda each: (each.line, each.key))
    if remarks:
        lines.append("# These lines have no equal, or another meaning:")
    lines += [f"#   {f'line {each.line}, ' if each.line else ''}{_remark(each.key, each.text)}" for each in remarks]
    places: dict[int, tuple[str, str]] = {}
    lines.append("clusters:" if draft.clusters else "clusters: {}")
    for name, cluster in draft.clusters.items():
        lines += [f"  {_quoted(name)}:", f"    bootstrap-servers: {_quoted(cluster.bootstrap_servers)}"]
        if cluster.properties:
            lines.append("    properties:")
        for key, value in cluster.properties.items():
            lines.append(f"      {_quoted(key)}: {_quoted(value)}")
            places[len(lines)] = (name, key)
    if draft.registries:
        lines.append("registries:")
        lines += [f"  {_quoted(name)}: {{url: {_quoted(each.url)}}}" for name, each in draft.registries.items()]
    lines.append("mirrors:" if draft.mirrors else "mirrors: []")
    for mirror in draft.mirrors:
        lines += _mirror(mirror)
    return "\n".join(lines) + "\n", places


def _mirror(mirror: MirrorDraft) -> Iterator[str]:
    yield f"  - name: {_quoted(mirror.name)}"
    if not mirror.is_enabled:
        yield "    enabled: false"
    yield "    source:"
    yield f"      cluster: {_quoted(mirror.source)}"
    # Offsets are given of topics that are named.
    topics = [*mirror.topics, *(each for each in mirror.start_offsets if each not in mirror.topics)]
    yield f"      topics: [{', '.join(map(_quoted, topics))}]"
    if mirror.exclude:
        yield f"      exclude: [{', '.join(map(_quoted, mirror.exclude))}]"
    if mirror.start_offsets:
        yield "      start:"
        yield "        offsets:"
        for topic, offsets in sorted(mirror.start_offsets.items()):
            pairs = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(offsets.items()))
            yield f"          {_quoted(topic)}: {{{pairs}}}"
    elif mirror.start:
        yield f"      start: {mirror.start}"
    yield "    destinations:"
    yield "      - type: kafka"
    yield f"        cluster: {_quoted(mirror.destination)}"
    yield f"        topic: {_quoted(mirror.topic)}{f'  # {mirror.note}' if mirror.note else ''}"
    yield "        offsets: map  # as there: other offsets than at the source; an exact map is kept"
    if mirror.topic_rules or not mirror.creates_topics:
        yield f"        create-topics: {mirror.topic_rules or 'false'}"
    if mirror.replication_factor:
        yield f"        replication-factor: {_plain(mirror.replication_factor)}"
    if mirror.schemas:
        yield f"    schemas: {{{', '.join(f'{key}: {_quoted(value)}' for key, value in mirror.schemas.items())}}}"


def _plain(number: str) -> str:
    return number if re.fullmatch(r"[0-9]{1,9}", number, re.ASCII) else _quoted(number)


def _quoted(text: str) -> str:
    """Returns a scalar of YAML; JSON's text is one, but for what YAML takes for a line's end."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", text, re.ASCII) and text.lower() not in ("null", "true", "false"):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found.group()):04x}", quoted)


def _remark(key: str, text: str) -> str:
    return f"{_one_line(key)}: {_one_line(text)}"


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)
