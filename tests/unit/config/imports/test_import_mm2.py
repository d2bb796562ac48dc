"""MirrorMaker 2's file becomes a configuration of ours: what is taken, what is remarked, what is refused."""

import re

import pytest

from mirrorlake.config.imports.draft import ImportRefusedError
from mirrorlake.config.imports.mm2 import NO_EQUAL, TAKEN
from mirrorlake.config.imports.reading import Imported, Program, import_configuration
from mirrorlake.config.loading import parse_configuration

CLUSTERS = "clusters = oslo, rome\noslo.bootstrap.servers = o1:9092, o2:9092\nrome.bootstrap.servers: r1:9092\n"
FLOW = CLUSTERS + "oslo->rome.enabled = true\n"
PREFIX = r"/(?:.*\.)?rome\..*/"
DEFAULT_EXCLUDE = [r"/mm2.*\.internal/", r"/.*\.replica/", "/__.*/"]


def imported(text: str) -> Imported:
    return import_configuration(text.encode(), Program.MM2, file="mm2.properties")


def remarks(text: str) -> list[str]:
    return [line.removeprefix("#   ") for line in imported(text).text.splitlines() if line.startswith("#   ")]


def test_a_flow_becomes_a_mirror_with_the_defaults_of_the_other_program_written_out() -> None:
    result = imported(FLOW)

    assert result.problems == ()
    assert result.text.splitlines()[1:] == [
        "clusters:",
        "  oslo:",
        '    bootstrap-servers: "o1:9092, o2:9092"',
        "  rome:",
        '    bootstrap-servers: "r1:9092"',
        "mirrors:",
        "  - name: oslo-to-rome",
        "    source:",
        "      cluster: oslo",
        '      topics: ["/.*/"]',
        r'      exclude: ["/mm2.*\\.internal/", "/.*\\.replica/", "/__.*/", "/(?:.*\\.)?rome\\..*/"]',
        "    destinations:",
        "      - type: kafka",
        "        cluster: rome",
        '        topic: "oslo.{topic}"',
        "        offsets: map  # as there: other offsets than at the source; an exact map is kept",
        "        replication-factor: 2",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("oslo->rome.topics = orders, pay.*", "      topics: [orders, "),
        ("topics = orders", "      topics: [orders]"),
        ("topics = a\noslo->rome.topics = b", "      topics: [b]"),
        ("replication.policy.separator = _", '        topic: "oslo_{topic}"'),
        (
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            '        topic: "{topic}"',
        ),
        ("replication.factor = 3", "        replication-factor: 3"),
        ("ssl.endpoint.identification.algorithm = https", None),
        ("rome->oslo.topics = a", "    enabled: false"),
    ],
)
def test_a_setting_becomes_ours_and_the_file_loads(lines: str, expected: str | None) -> None:
    result = imported(f"{FLOW}{lines}\n")

    assert result.problems == ()
    assert expected is None or expected in result.text
    assert parse_configuration(result.text.encode(), file="x", environ={}).mirrors[0].name == "oslo-to-rome"


@pytest.mark.parametrize("name", [each for each in NO_EQUAL if "->" not in each])
def test_each_setting_without_equal_is_remarked_with_its_line_for_the_file_and_for_one_flow(name: str) -> None:
    for prefix in ("", "oslo->rome."):
        assert f"line 5, {prefix}{name}: {NO_EQUAL[name]}" in remarks(f"{FLOW}{prefix}{name} = 7\n")


def test_no_setting_is_both_taken_and_without_equal() -> None:
    assert not TAKEN.keys() & NO_EQUAL.keys()


@pytest.mark.parametrize("prefix", ["oslo.", "oslo.consumer.", "oslo.source.cluster.", ""])
@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"]
)
def test_a_secret_is_never_written(prefix: str, name: str) -> None:
    result = imported(f"{FLOW}{prefix}{name} = hunter2 $x\n")

    assert "hunter2" not in result.text + str(result.problems)
    assert any(line.startswith(f"line 5, {prefix}{name}: ") for line in remarks(f"{FLOW}{prefix}{name} = hunter2\n"))


def test_a_secret_of_the_environment_stays_that_variable() -> None:
    result = imported(FLOW + "rome.ssl.key.password = ${env:KEY_PASSWORD}\n")

    assert '      ssl.key.password: "${KEY_PASSWORD}"' in result.text


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        (
            "oslo.fetch.min.byte = 1",
            "line 5, oslo.fetch.min.byte: `fetch.min.byte` is not a client property known here",
        ),
        ("oslo->milan.enabled = true", "line 5, oslo->milan.enabled: it is no flow between two of the clusters"),
        ("consumer.fetch.min.bytes = 1", "line 5, consumer.fetch.min.bytes: client properties belong to a cluster"),
        ("oslo->rome.topics = a[b&&c]", "line 5, oslo->rome.topics: the expression `a[b&&c]` uses syntax of Java's"),
        ("enabled = true", "line 5, enabled: a flow is enabled by a line of its own"),
        ("nonsense.of.mine = 1", "line 5, nonsense.of.mine: unknown to MirrorMaker 2"),
        ("oslo->rome.replication.policy.class = my.Own", "line 5, oslo->rome.replication.policy.class: a policy"),
    ],
)
def test_what_has_another_meaning_is_remarked(line: str, remark: str) -> None:
    assert any(each.startswith(remark) for each in remarks(f"{FLOW}{line}\n")), remarks(f"{FLOW}{line}\n")


def test_every_line_of_a_file_is_either_taken_or_remarked() -> None:
    lines = [
        *("oslo.bootstrap.servers = again:1", "emit.heartbeats.enabled = false", "oslo.consumer.fetch.min.bytes = 2"),
        *("topics.exclude = x.*", "rome.producer.acks = all", "oslo->rome.consumer.fetch.max.bytes = 5"),
        *("rome.key.converter = c", "rome.client.id = me", "transforms = a", "transforms.a.type = b", "topics = t"),
    ]
    text = "clusters = oslo, rome\nrome.bootstrap.servers = r:1\noslo->rome.enabled = true\n" + "\n".join(lines)

    said = {int(found) for each in remarks(text) if (found := re.findall(r"^line (\d+)", each)[0])}
    assert said == {5, 8, 9, 10, 12, 13}


def test_copies_in_both_directions_are_remarked_where_names_stay_equal() -> None:
    back = "rome->oslo.enabled = true\n"
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"

    assert remarks(FLOW + back) == []
    assert [each.split(": ")[0] for each in remarks(FLOW + back + identity)] == ["oslo->rome and rome->oslo"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"a = b\n", "there is no `clusters` line"),
        (b"clusters = a\nclusters = b\n", "`clusters` is there twice, in lines 1 and 2"),
        (b"clusters = a\nb = \\u12\n", "line 2 has a malformed"),
        (b"clusters = a\nb = \xe9\n", "line 2 is no text in UTF-8"),
        (b"\0\0", "it is no text in UTF-8"),
        (b"#" * (4 * 1024**2 + 1), "it is larger than 4194304 bytes"),
    ],
)
def test_what_is_no_such_file_is_refused_with_place_and_remedy(content: bytes, said: str) -> None:
    with pytest.raises(ImportRefusedError, match=re.escape(said)):
        import_configuration(content, Program.MM2, file="x")


def test_lines_are_continued_and_unescaped_as_in_java() -> None:
    result = imported(
        "! note\nclusters = oslo, \\\n  rome\n\\u006fslo.bootstrap.servers o\\:1\nrome.bootstrap.servers=r:1"
    )

    assert '    bootstrap-servers: "o:1"' in result.text
    assert '    bootstrap-servers: "r:1"' in result.text
