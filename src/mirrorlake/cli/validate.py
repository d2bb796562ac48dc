"""``mirrorlake validate``: parses and cross-checks a configuration, touches nothing else."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from mirrorlake.cli.output import print_json
from mirrorlake.config.loading import load_configuration
from mirrorlake.config.problems import ConfigurationErrors, Problem
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.pipeline.cluster.submission import submitted_settings


def validate(path: Path, environ: Mapping[str, str] | None = None, *, as_json: bool = False) -> int:
    """Returns 0 after saying on stdout what the configuration means, or 1 after saying all that is wrong with it.

    The first line is for scripts: how many mirrors, and which types of destinations. One line per mirror follows.
    Problems go to stderr, one per line; with ``as_json`` they are part of the one object on stdout.

    Args:
        path: the configuration file.
        environ: the environment variables; None for those of this process.
        as_json: an object instead of lines.
    """
    try:
        configuration = load_configuration(path, environ, submitted=submitted_settings())
    except ConfigurationErrors as errors:
        if as_json:
            print_json({"ok": False, "file": str(path), "problems": [_problem(each) for each in errors.problems]})
        else:
            print(errors, file=sys.stderr)
        return 1
    if as_json:
        print_json({"ok": True, **_understood(configuration), "problems": []})
        return 0
    types = ", ".join(configuration.destination_types)
    print(f"OK: {len(configuration.mirrors)} mirror(s), destination type = {types}")
    for mirror in configuration.mirrors:
        print(_line(mirror))
    return 0


def _problem(problem: Problem) -> dict[str, str | int | None]:
    place = problem.place
    return {
        "file": place.file,
        "line": place.line or None,
        "column": place.column or None,
        "field": place.field or None,
        "message": problem.message,
        "hint": problem.hint or None,
    }


def _understood(configuration: Configuration) -> dict[str, object]:
    return {
        "file": configuration.file,
        "form": configuration.form.value,
        "destination_types": list(configuration.destination_types),
        "mirrors": [_mirror(mirror) for mirror in configuration.mirrors],
    }


def _mirror(mirror: Mirror) -> dict[str, object]:
    partitions = mirror.source.partitions
    return {
        "name": mirror.name,
        "enabled": mirror.is_enabled,
        "source": {
            **_place(mirror),
            "topics": list(_topics(mirror)),
            "exclude": list(_excluded(mirror)),
            "partitions": None if partitions is None else sorted(partitions),
        },
        "destinations": [
            {"name": destination.label, "type": destination.type_name, "to": destination.name_for("{topic}")}
            for destination in mirror.destinations
        ],
    }


def _place(mirror: Mirror) -> dict[str, object]:
    """Returns the cluster, or the store and which part of it."""
    source = mirror.source
    if isinstance(source, KafkaSource):
        until = source.window.until_ms
        return {"cluster": source.cluster.name, **({} if until is None else {"until": _moment(until)})}
    window = source.window
    return {
        "store": source.store.name,
        "from": _moment(window.from_ms),
        "until": _moment(window.until_ms),
    }


def _moment(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _topics(mirror: Mirror) -> tuple[str, ...]:
    """Returns names, and expressions between slashes, as they stand in a file."""
    chosen = mirror.source.topics
    return (*chosen.names, *(f"/{pattern}/" for pattern in chosen.patterns))


def _excluded(mirror: Mirror) -> tuple[str, ...]:
    chosen = mirror.source.topics
    return (*chosen.excluded_names, *(f"/{pattern}/" for pattern in chosen.excluded_patterns))


def _line(mirror: Mirror) -> str:
    source = mirror.source
    what = ", ".join(_topics(mirror))
    if excluded := _excluded(mirror):
        what += f" without {', '.join(excluded)}"
    if source.partitions is not None:
        what += f", partition(s) {', '.join(map(str, sorted(source.partitions)))}"
    places = "; ".join(f"{each.noun} {each.name_for('{topic}')} on {each.label}" for each in mirror.destinations)
    disabled = "" if mirror.is_enabled else " (disabled)"
    return f"  {mirror.name}{disabled}: {what} of {source.label} → {places}"
