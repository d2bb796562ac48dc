"""``schemas plan``, ``diff``, ``apply`` and ``ls`` as processes; one registry is real, one has Confluent's rules."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.apicurio import Apicurio
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import create_topic
from support.registry_model import RegistryModel, record
from support.stub_registry import StubRegistry

pytestmark = pytest.mark.kafka

PASSWORD = "of-the-source-alone"


@pytest.fixture
def source() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="NONE"), user=("reader", PASSWORD)) as stub:
        yield stub


class Site:
    """A topic, its subjects at a registry that asks who asks, and a file that mirrors it to another name."""

    def __init__(
        self, kafka: EmbeddedKafka, source: StubRegistry, apicurio: Apicurio, topic: str, folder: Path
    ) -> None:
        self._kafka, self._source, self._apicurio, self._folder = kafka, source, apicurio, folder
        self.topic = topic
        create_topic(kafka.bootstrap_servers, topic, 1)
        for each in (record("a"), record("b")):
            source.model.register(f"{topic}-value", {"schema": each})
        source.model.register(f"{topic}-key", {"schema": '"string"'})
        source.model.levels[f"{topic}-value"] = "FULL"
        self.config = self.written("")

    def written(self, more: str, *, registry: str = "") -> Path:
        servers = self._kafka.bootstrap_servers
        return write_yaml(
            self._folder / "mirror.yaml",
            f'clusters: {{here: {{bootstrap-servers: "{servers}"}}}}\n'
            "registries:\n"
            f'  east: {{url: "{self._source.url}", username: reader, password: "${{REGISTRY_PASSWORD}}"}}\n'
            f'  west: {{url: "{registry or self._apicurio.url}"}}\n'
            "mirrors:\n"
            f"  - name: m\n    source: {{cluster: here, topics: [{self.topic}]}}\n"
            '    destinations: [{type: kafka, cluster: here, topic: "copy-of-{topic}"}]\n'
            f"    schemas: {{from: east, to: west, key: topic-name{more}}}\n",
        )

    def schemas(self, verb: str, *more: str) -> Ended:
        environ = {"REGISTRY_PASSWORD": PASSWORD}
        ended = mirrorlake("schemas", verb, "-c", self.config, "--format", "json", *more, environ=environ)
        assert PASSWORD not in ended.out + ended.err
        return ended


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, source: StubRegistry, apicurio: Apicurio, topic_name: str, tmp_path: Path
) -> Site:
    return Site(source_kafka, source, apicurio, topic_name, tmp_path)


def changes(ended: Ended) -> list[tuple[object, ...]]:
    return [(row["subject"], row["action"], row["version"], row["value"]) for row in ended.rows()]


def test_what_is_planned_is_done_once_and_nothing_the_second_time(site: Site) -> None:
    key, value = f"copy-of-{site.topic}-key", f"copy-of-{site.topic}-value"
    expected = [
        (key, "register", 1, None),
        (value, "register", 1, None),
        (value, "register", 2, None),
        (value, "set-level", None, "FULL"),
    ]

    planned, planned_again = site.schemas("plan"), site.schemas("plan")
    assert (planned.code, changes(planned), planned_again.out) == (0, expected, planned.out)
    assert site.schemas("diff").code == 1
    assert {row["state"] for row in site.schemas("ls").rows()} == {"behind"}

    applied = site.schemas("apply", "--yes")
    assert (applied.code, changes(applied)) == (0, expected)

    after = [site.schemas("plan"), site.schemas("diff"), site.schemas("apply", "--yes")]
    assert [(each.code, each.rows()) for each in after] == [(0, [])] * 3
    listed = {row["to"]: (row["versions"], row["versions_there"], row["state"]) for row in site.schemas("ls").rows()}
    assert listed == {key: (1, 1, "equal"), value: (2, 2, "equal")}


def test_an_impossible_subject_shows_both_histories_and_is_not_changed(site: Site, source: StubRegistry) -> None:
    value = f"{site.topic}-value"
    with StubRegistry() as there:
        there.model.register(f"copy-of-{value}", {"schema": record("foreign")})
        there.model.changes.clear()
        site.written("", registry=there.url)

        planned, narrowed = site.schemas("plan"), site.schemas("apply", "--yes", "--subject", value)
        unchanged = list(there.model.changes)
        applied = site.schemas("apply", "--yes")
        changed = list(there.model.changes)
    refused = next(row for row in planned.rows() if row["action"] == "refuse")
    assert (planned.code, narrowed.code, applied.code, unchanged) == (1, 1, 1, [])
    assert "mode: lenient" in refused["error"]
    assert [(row["source"], row["destination"]) for row in refused["histories"]] == [(1, None), (2, None), (None, 1)]
    assert changed
    assert all(f"{site.topic}-key" in each for each in changed)  # one subject does not stop another


@pytest.mark.slow
def test_an_apply_that_is_killed_between_two_changes_is_finished_by_the_next(site: Site) -> None:
    """Killed while the level is low and one version of two is there; nothing but the registries remembers."""
    value = f"copy-of-{site.topic}-value"
    with StubRegistry() as there:
        site.written("", registry=there.url)
        environ = {**os.environ, "REGISTRY_PASSWORD": PASSWORD}
        command = [sys.executable, "-m", "mirrorlake", "schemas", "apply", "-c", str(site.config), "--yes"]
        with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
            killed: list[str] = []

            def kill_once(method: str, _: str) -> str | None:
                if method == "POST" and there.model.levels.get(value) == "NONE" and not killed:
                    killed.append(there.model.changes[-1])
                    process.kill()
                    process.wait()
                    return "drop-before"
                return None

            there.fault = kill_once
        left = (len(there.model.live(value)), there.model.levels[value])

        finished, again = site.schemas("apply", "--yes"), site.schemas("apply", "--yes")

        held = [each.body["schema"] for each in there.model.live(value)]
        level = there.model.levels[value]
    assert (process.returncode, killed, left) == (-signal.SIGKILL, [f"level {value} NONE"], (1, "NONE"))
    assert (finished.code, again.rows()) == (0, [])
    assert (held, level) == ([record("a"), record("b")], "FULL")


@pytest.mark.slow
def test_a_subject_that_nobody_has_and_a_registry_that_is_not_there_are_errors(site: Site) -> None:
    unknown = site.schemas("plan", "--subject", "nobodys")
    site.written("", registry="http://127.0.0.1:1")
    away = site.schemas("plan")

    assert (unknown.code, away.code) == (1, 1)
    assert "nobodys" in unknown.err
    assert "Traceback" not in unknown.err + away.err
    assert "http://127.0.0.1:1" in away.rows()[0]["error"]


def test_a_plan_is_readable_on_a_screen(site: Site) -> None:
    environ = {"REGISTRY_PASSWORD": PASSWORD}

    shown = [mirrorlake("schemas", verb, "-c", site.config, environ=environ) for verb in ("plan", "diff", "ls")]

    assert [each.code for each in shown] == [0, 1, 0]
    assert all(f"copy-of-{site.topic}-value" in each.out for each in shown)
