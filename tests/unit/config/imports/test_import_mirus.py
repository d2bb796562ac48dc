"""Mirus's connector and worker files become a configuration of ours."""

import json
import re

import pytest

from mirrorlake.config.imports.draft import ImportRefusedError
from mirrorlake.config.imports.mirus import NO_EQUAL, TAKEN
from mirrorlake.config.imports.reading import Imported, Program, import_configuration
from mirrorlake.config.loading import parse_configuration

CONNECTOR: dict[str, object] = {
    "name": "to-rome",
    "connector.class": "com.salesforce.mirus.MirusSourceConnector",
    "topics.whitelist": "orders, payments",
    "enable.partition.matching": "true",
    "consumer.bootstrap.servers": "oslo:9092",
    "destination.consumer.bootstrap.servers": "rome:9092",
}
SECRETS = ("sasl.jaas.config", "ssl.key.password", "ssl.keystore.password", "ssl.truststore.password")


def imported(settings: dict[str, object]) -> Imported:
    return import_configuration(json.dumps(settings, indent=1).encode(), Program.MIRUS, file="c.json")


def remarks(result: Imported) -> list[str]:
    return [line.removeprefix("#   ") for line in result.text.splitlines() if line.startswith("#   ")]


def form(settings: dict[str, object], kind: str) -> bytes:
    """The settings as the bare JSON, the JSON of ``POST /connectors``, JSON in one line, and properties."""
    if kind == "properties":
        return "".join(f"{key} = {value}\n" for key, value in settings.items()).encode()
    if kind == "wrapped":
        return json.dumps({"name": settings["name"], "config": settings}, indent=2).encode()
    return json.dumps(settings, indent=2 if kind == "json" else None).encode()


@pytest.mark.parametrize("kind", ["json", "wrapped", "one line", "properties"])
def test_a_connector_becomes_one_mirror_in_each_of_its_forms(kind: str) -> None:
    result = import_configuration(form(CONNECTOR | {"tasks.max": "4"}, kind), Program.MIRUS, file="c")

    assert result.text.splitlines()[4:] == [
        "clusters:",
        "  source:",
        '    bootstrap-servers: "oslo:9092"',
        "  destination:",
        '    bootstrap-servers: "rome:9092"',
        "mirrors:",
        "  - name: to-rome",
        "    source:",
        "      cluster: source",
        "      topics: [orders, payments]",
        "    destinations:",
        "      - type: kafka",
        "        cluster: destination",
        '        topic: "{topic}"',
        "        offsets: map  # as there: other offsets than at the source; an exact map is kept",
        "        create-topics: false",
    ]
    names = {re.sub("^line [0-9]+, ", "", each).split(":")[0] for each in remarks(result)}
    assert (result.translated, names) == (5, {"enable.partition.matching", "tasks.max"})


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("topics.regex", "a{1,2}", 'topics: [orders, payments, "/a{1,2}/"]'),
        ("topics.regex.list", "a.*,b.*", 'topics: [orders, payments, "/a.*/", "/b.*/"]'),
        ("destination.topic.name.prefix", "from-", 'topic: "from-{topic}"'),
        ("destination.topic.name.suffix", ".copy", 'topic: "{topic}.copy"'),
        ("consumer.auto.offset.reset", "LATEST", "start: latest"),
        ("consumer.client.id", "me", "client.id: me"),
    ],
)
def test_a_setting_becomes_ours_and_the_file_loads(setting: str, value: str, expected: str) -> None:
    result = imported(CONNECTOR | {setting: value})

    assert result.problems == ()
    assert expected in result.text
    assert not any(setting in each for each in remarks(result))
    assert parse_configuration(result.text.encode(), file="x", environ={}).mirrors[0].name == "to-rome"


def test_missing_topics_are_made_only_where_the_check_of_them_is_off() -> None:
    for value, is_said in (("true", True), ("false", False), (False, False), (True, True)):
        assert ("create-topics: false" in imported(CONNECTOR | {"enable.destination.topic.checking": value}).text) == (
            is_said
        )


@pytest.mark.parametrize("name", NO_EQUAL)
def test_each_setting_without_equal_is_remarked_with_its_line(name: str) -> None:
    settings = {key: value for key, value in CONNECTOR.items() if key != name} | {name: "7"}

    assert f"line {len(settings) + 1}, {name}: {NO_EQUAL[name]}" in remarks(imported(settings))


def test_no_setting_is_both_taken_and_without_equal() -> None:
    assert not TAKEN.keys() & NO_EQUAL.keys()


@pytest.mark.parametrize("prefix", ["consumer.", "destination.consumer.", "producer.", "producer.override.", "admin."])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_never_written(prefix: str, name: str) -> None:
    result = imported(CONNECTOR | {prefix + name: "hunter2"})

    assert "hunter2" not in result.text + str(result.problems)
    assert any(f", {prefix}{name}: " in each for each in remarks(result))


def test_a_workers_file_alone_must_be_mended_as_it_names_no_topic_and_no_source() -> None:
    result = import_configuration(b"bootstrap.servers=rome:1\ngroup.id=g\n", Program.MIRUS, file="w.properties")

    assert result.problems == ("mirrors[0].source.topics: names no topic",)
    assert '    bootstrap-servers: "${SOURCE_BOOTSTRAP_SERVERS}"' in result.text
    assert "# To be mended: mirrors[0].source.topics: names no topic" in result.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "it begins as JSON, and is none"),
        ('{"name": "a", "name": "b"}', "`name` is there twice, near line 1"),
        ("{}", "it has no key of Mirus's"),
        ("clusters = a, b", "it has no key of Mirus's"),
        ("  ", "it is empty"),
    ],
)
def test_what_is_no_such_file_is_refused_with_place_and_remedy(content: str, said: str) -> None:
    with pytest.raises(ImportRefusedError, match=re.escape(said)):
        import_configuration(content.encode(), Program.MIRUS, file="x")
