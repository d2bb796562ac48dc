"""``topics plan``, ``diff`` and ``apply`` as processes, against real clusters."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from support.acls import Right, grant_exactly
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import PATIENCE_SECONDS, create_topic
from support.records import consume, settings_of, simple_records
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, SecuredKafka
from support.service_process import ServiceProcess
from support.topics import make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@dataclass(frozen=True)
class There:
    """A topic as it is: number of partitions, and what it sets itself."""

    partitions: int
    settings: Mapping[str, str | None]


def there(servers: str, *topics: str) -> dict[str, There]:
    async def ask() -> dict[str, There]:
        async with ClusterClient(settings_of(servers)) as client:
            found = (await client.metadata(topics, refresh=True)).topics
            configs = await client.topics.configs(list(found)) if found else {}
            return {name: There(len(topic.partitions), own(configs[name])) for name, topic in found.items()}

    def own(configs: object) -> dict[str, str | None]:
        assert isinstance(configs, dict)
        return {key: each.value for key, each in configs.items() if not each.is_default}

    return asyncio.run(ask())


def set_on(servers: str, topic: str, **configs: str) -> None:
    """Sets some settings of a topic and leaves the others; underscores stand for dots."""

    async def alter() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.set_configs(topic, {key.replace("_", "."): value for key, value in configs.items()})

    asyncio.run(alter())


def write(folder: Path, east: str, west: str, mirrors: str) -> Path:
    return write_yaml(
        folder / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
        f"mirrors:\n{mirrors}",
    )


def mirror(name: str, topics: str, destination: str = "") -> str:
    return (
        f"  - name: {name}\n    source: {{cluster: east, topics: {topics}}}\n"
        f'    destinations: [{{type: kafka, cluster: west, topic: "{{topic}}-copy"{destination}}}]\n'
    )


def topics(verb: str, config: Path, *more: str) -> Ended:
    return mirrorlake("topics", verb, "-c", config, "--format", "json", *more)


def shown(ended: Ended) -> set[tuple[str, str, str, str | None, str | None]]:
    return {(row["to"], row["what"], row["action"], row["found"], row["wanted"]) for row in ended.rows()}


@pytest.mark.quick
def test_a_plan_changes_nothing_and_applied_twice_it_changes_nothing_the_second_time(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, t = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    new, grown, drifted = (f"{t}-{what}" for what in ("new", "grown", "drifted"))
    create_topic(east, new, 3, retention_ms="3600000")
    create_topic(east, grown, 4)
    create_topic(west, f"{grown}-copy", 2, message_timestamp_type="CreateTime")
    create_topic(east, drifted, 1, retention_ms="7200000", cleanup_policy="compact,delete")
    create_topic(west, f"{drifted}-copy", 1, retention_ms="1000", cleanup_policy="delete,compact", flush_ms="5000")
    sync = ", sync: {configs: apply, override: {segment.ms: 86400000}}"
    config = write(tmp_path, east, west, mirror("m", f"['/{t}-.*/']", sync))
    copies = [f"{name}-copy" for name in (new, grown, drifted)]
    before = there(west, *copies)

    planned, differing = topics("plan", config), topics("diff", config)
    assert (planned.code, planned.err, differing.code) == (0, "", 1)
    assert there(west, *copies) == before
    expected = {
        (copies[0], "topic", "create", None, "3 partition(s)"),
        (copies[1], "partitions", "add partitions", "2", "4"),
        (copies[1], "segment.ms", "set", "604800000", "86400000"),
        (copies[2], "retention.ms", "set", "1000", "7200000"),
        (copies[2], "segment.ms", "set", "604800000", "86400000"),
        (copies[2], "flush.ms", "report", "5000", None),
    }
    assert shown(planned) == shown(differing) == expected

    applied = topics("apply", config, "--yes")
    assert applied.code == 0, applied.err
    assert {(row["to"], row["what"], row.get("result")) for row in applied.rows()} == {
        (to, what, "done" if action != "report" else None) for to, what, action, _, _ in expected
    }
    after = there(west, *copies)
    assert {name: each.partitions for name, each in after.items()} == {copies[0]: 3, copies[1]: 4, copies[2]: 1}
    usual = {"message.timestamp.type": "CreateTime", "segment.ms": "86400000"}
    assert after[copies[0]].settings == {**usual, "retention.ms": "3600000"}
    assert after[copies[1]].settings == usual
    assert after[copies[2]].settings == {
        "segment.ms": "86400000",
        "retention.ms": "7200000",
        "cleanup.policy": "delete,compact",
        "flush.ms": "5000",
    }

    again = topics("apply", config, "--yes")
    assert (again.code, shown(again)) == (0, {(copies[2], "flush.ms", "report", "5000", None)})
    assert there(west, *copies) == after
    assert topics("diff", config).code == 1, "what is only reported differs all the same"


def test_a_difference_is_left_as_it_is_unless_the_file_says_otherwise(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, t = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    create_topic(east, t, 2, retention_ms="7200000")
    create_topic(west, f"{t}-copy", 1, retention_ms="1000")
    before = there(west, f"{t}-copy")
    report = ", sync: {partitions: report}"
    config = write(tmp_path, east, west, mirror("m", f"[{t}]", report))

    applied = topics("apply", config, "--yes")

    assert applied.code == 0, applied.err
    assert shown(applied) == {
        (f"{t}-copy", "partitions", "report", "1", "2"),
        (f"{t}-copy", "retention.ms", "report", "1000", "7200000"),
    }
    assert there(west, f"{t}-copy") == before
    off = write(tmp_path, east, west, mirror("m", f"[{t}]", ", sync: {partitions: off, configs: off}"))
    assert (topics("diff", off).code, topics("diff", off).rows()) == (0, [])


def test_equal_offsets_never_get_fewer_or_more_partitions_than_the_source_and_a_map_gets_what_the_rule_gives(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, t = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    for name in ("few", "wide", "mapped"):
        create_topic(east, f"{t}-{name}", 4)
    create_topic(west, f"{t}-wide-copy", 6, message_timestamp_type="CreateTime")
    fewer = ", create-topics: {partitions: {mirror-source: {max: 3}}}"
    config = write(
        tmp_path,
        east,
        west,
        mirror("few", f"[{t}-few]", fewer)
        + mirror("wide", f"[{t}-wide]")
        + mirror("mapped", f"[{t}-mapped]", f", offsets: map{fewer}"),
    )

    applied = topics("apply", config, "--yes")

    assert applied.code == 1
    errors = {row["name"]: row.get("error", "") for row in applied.rows()}
    assert f"`create-topics` gives destination topic {t}-few-copy on cluster west 3 partition(s)" in errors["few"]
    assert f"source topic {t}-wide has 4 partition(s), destination topic {t}-wide-copy" in errors["wide"]
    assert {row["name"]: row.get("result") for row in applied.rows()} == {"few": None, "wide": None, "mapped": "done"}
    found = there(west, f"{t}-few-copy", f"{t}-wide-copy", f"{t}-mapped-copy")
    assert {name: each.partitions for name, each in found.items()} == {f"{t}-wide-copy": 6, f"{t}-mapped-copy": 3}
    only = topics("diff", config, "--mirror", "mapped")
    assert (only.code, only.rows()) == (0, [])


def test_a_run_makes_topics_by_the_rules_and_a_copy_with_mapped_offsets_is_whole_in_them(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, t = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    make_topic(east, f"{t}-mapped", *(simple_records(10, start=1000 * n) for n in range(4)))
    make_topic(east, f"{t}-few", simple_records(5), simple_records(5))
    rule = ", create-topics: {partitions: {fixed: 3}, replication: {mirror-source: {max: 1}}}"
    config = write(
        tmp_path,
        east,
        west,
        mirror("mapped", f"[{t}-mapped]", f", offsets: map{rule}, sync: {{override: {{segment.ms: 86400000}}}}")
        + mirror("few", f"[{t}-few]", rule),
    )

    planned = mirrorlake("plan", "-c", config, "--format", "json")
    notes = {row["note"] for row in planned.rows() if row["name"] == "mapped"}
    assert all("topic with 3 partition(s), replication factor 1" in note for note in notes)
    assert all("segment.ms=86400000" in note for note in notes)
    assert {row["action"] for row in planned.rows() if row["name"] == "few"} == {"refused"}

    ran = mirrorlake("run", "--once", "-c", config)
    assert ran.code == 3, ran.err
    found = there(west, f"{t}-mapped-copy", f"{t}-few-copy")
    assert [(name, each.partitions, each.settings["segment.ms"]) for name, each in found.items()] == [
        (f"{t}-mapped-copy", 3, "86400000")
    ]
    verified = mirrorlake("verify", "-c", config, "--format", "json")
    assert {row["result"] for row in verified.rows() if row["name"] == "mapped"} == {"equal"}
    assert sum(len(consume(west, f"{t}-mapped-copy", partition)) for partition in range(3)) == 40


def test_two_mirrors_of_one_topic_that_want_other_settings_change_nothing(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, t = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    create_topic(east, f"{t}-a", 1, retention_ms="1000000")
    create_topic(east, f"{t}-b", 1, retention_ms="2000000")
    create_topic(west, f"{t}-both", 1, message_timestamp_type="CreateTime")
    into = f', topic: "{t}-both", offsets: map, sync: {{configs: apply}}'
    both = "".join(
        f"  - name: {name}\n    source: {{cluster: east, topics: [{t}-{name}]}}\n"
        f"    destinations: [{{type: kafka, cluster: west{into}}}]\n"
        for name in "ab"
    )
    config = write(tmp_path, east, west, both)
    before = there(west, f"{t}-both")

    applied = topics("apply", config, "--yes")

    assert applied.code == 1, applied.err
    assert {(row["name"], row["what"], row["action"]) for row in applied.rows()} == {
        ("a", "retention.ms", "refused"),
        ("b", "retention.ms", "refused"),
    }
    assert "wanted as 1000000 and as 2000000" in applied.rows()[0]["error"]
    alone = topics("apply", config, "--yes", "--mirror", "b")
    assert (alone.code, {(row["name"], row["action"]) for row in alone.rows()}) == (1, {("b", "refused")})
    assert there(west, f"{t}-both") == before


def test_a_setting_that_the_brokers_would_not_take_is_refused_by_the_plan_and_keeps_no_other_from_being_set(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, 1)
    create_topic(west, f"{topic_name}-copy", 1)
    override = "{retention.ms: 7200000, cleanup.policy: keep-it, segment.ms: 3600000}"
    config = write(
        tmp_path, east, west, mirror("m", f"[{topic_name}]", f", sync: {{configs: apply, override: {override}}}")
    )
    before = there(west, f"{topic_name}-copy")

    planned = topics("plan", config)

    assert planned.code == 1, planned.err
    assert {row["what"]: row["action"] for row in planned.rows()} == {
        "retention.ms": "set",
        "cleanup.policy": "refused",
        "segment.ms": "set",
    }
    (why,) = [row["error"] for row in planned.rows() if row["action"] == "refused"]
    assert "keep-it" in why
    assert there(west, f"{topic_name}-copy") == before, "a trial changes nothing"
    applied = topics("apply", config, "--yes")
    assert applied.code == 1, applied.err
    settings = there(west, f"{topic_name}-copy")[f"{topic_name}-copy"].settings
    assert settings == {**before[f"{topic_name}-copy"].settings, "retention.ms": "7200000", "segment.ms": "3600000"}


def test_a_cluster_that_is_away_is_unknown_and_not_equal(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    create_topic(source_kafka.bootstrap_servers, topic_name)
    config = write(tmp_path, source_kafka.bootstrap_servers, "127.0.0.1:1", mirror("m", f"[{topic_name}]"))

    for verb, more in (("plan", ()), ("diff", ()), ("apply", ("--yes",))):
        ended = topics(verb, config, *more)
        assert ended.code == 1
        assert [(row["what"], row["action"]) for row in ended.rows()] == [("topic", "unknown")]


def test_a_process_killed_between_two_acts_leaves_what_the_next_one_finishes(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, t = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    names = [f"{t}-{n}" for n in range(12)]
    copies = [f"{name}-copy" for name in names]
    for name in names:
        create_topic(east, name, 2, retention_ms="7200000")
    create_topic(west, copies[-1], 1, message_timestamp_type="CreateTime")
    config = write(tmp_path, east, west, mirror("m", f"['/{t}-.*/']", ", sync: {configs: apply}"))

    with ServiceProcess("topics", "apply", "-c", str(config), "--yes", folder=tmp_path) as killed:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while len(there(west, *copies)) < 3 and killed.is_running:
            assert time.monotonic() < give_up_at, killed.said()
        killed.kill()
    assert copies[0] in there(west, *copies)

    applied = topics("apply", config, "--yes")
    assert applied.code == 0, applied.err
    found = there(west, *copies)
    assert {name: each.partitions for name, each in found.items()} == dict.fromkeys(copies, 2)
    assert {each.settings["retention.ms"] for each in found.values()} == {"7200000"}
    assert (topics("diff", config).code, topics("diff", config).rows()) == (0, [])


def limited(kafka: SecuredKafka, topic: str, folder: Path) -> Path:
    def cluster(name: str, servers: str, properties: str = "") -> str:
        return f'  {name}: {{bootstrap-servers: "{servers}"{properties}}}\n'

    login = (
        ", properties: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, "
        f"sasl.username: {LIMITED}, sasl.password: '${{LIMITED_PASSWORD}}'}}"
    )
    return write_yaml(
        folder / "mirror.yaml",
        "clusters:\n"
        + cluster("east", kafka.bootstrap_servers)
        + cluster("west", kafka.servers("CLEAR"), login)
        + f"mirrors:\n{mirror('m', f'[{topic}]', ', sync: {configs: apply}')}",
    )


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (("DESCRIBE",), {("settings", "unknown"), ("topic", "unknown"), ("partitions", "report")}),
        (("DESCRIBE", "DESCRIBE_CONFIGS"), {("partitions", "refused"), ("retention.ms", "refused")}),
        (("ALTER", "DESCRIBE_CONFIGS"), {("partitions", "done"), ("retention.ms", "refused")}),
        (("ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"), {("partitions", "done"), ("retention.ms", "done")}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_this_user_may_not_do_is_refused_by_name_and_what_it_may_not_see_is_unknown(
    secured_kafka: SecuredKafka,
    topic_name: str,
    tmp_path: Path,
    operations: tuple[str, ...],
    expected: set[tuple[str, str]],
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, f"t{abs(hash((topic_name, operations)))}"
    create_topic(servers, topic, 2, retention_ms="7200000")
    create_topic(servers, f"{topic}-copy", 1, retention_ms="1000")
    state = Right("TOPIC", "mirrorlake.state", "READ")
    grant_exactly(servers, LIMITED, [state, *(Right("TOPIC", f"{topic}-copy", each) for each in operations)])
    config = limited(secured_kafka, topic, tmp_path)

    ended = mirrorlake(
        *("topics", "apply", "-c", config, "--yes", "--format", "json"),
        environ={"LIMITED_PASSWORD": LIMITED_PASSWORD},
    )

    assert {(row["what"], row.get("result", row["action"])) for row in ended.rows()} == expected
    assert ended.code == (0 if all(result == "done" for _, result in expected) else 1)
    for row in ended.rows():
        if row["action"] == "refused":
            needed = "ALTER_CONFIGS" if row["what"] == "retention.ms" else "ALTER"
            assert row["error"].startswith(f"this user may not {needed} topic {topic}-copy on cluster west")
    grown = any(each == ("partitions", "done") for each in expected)
    found = there(servers, f"{topic}-copy")[f"{topic}-copy"]
    kept = "7200000" if ("retention.ms", "done") in expected else "1000"
    assert (found.partitions, found.settings["retention.ms"]) == (2 if grown else 1, kept)


def test_a_topic_that_this_user_may_not_make_is_refused_by_name_and_the_others_are_made(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, topic_name
    for each in ("a", "b"):
        create_topic(servers, f"{topic}-{each}", 2, retention_ms="7200000")
    rights = [Right("TOPIC", "mirrorlake.state", "READ")]
    rights += [Right("TOPIC", f"{topic}-{each}-copy", "DESCRIBE") for each in ("a", "b")]
    rights += [Right("TOPIC", f"{topic}-b-copy", each) for each in ("CREATE", "DESCRIBE_CONFIGS")]
    grant_exactly(servers, LIMITED, rights)

    ended = mirrorlake(
        *("topics", "apply", "-c", limited(secured_kafka, f"'/{topic}-[ab]/'", tmp_path), "--yes", "--format", "json"),
        environ={"LIMITED_PASSWORD": LIMITED_PASSWORD},
    )

    assert ended.code == 1, ended.err
    assert {(row["to"], row["what"], row.get("result", row["action"])) for row in ended.rows()} == {
        (f"{topic}-a-copy", "topic", "refused"),
        (f"{topic}-b-copy", "topic", "done"),
    }
    assert [f"{topic}-a-copy" in row["error"] for row in ended.rows() if row["action"] == "refused"] == [True]
    found = there(servers, f"{topic}-a-copy", f"{topic}-b-copy")
    assert {name: each.partitions for name, each in found.items()} == {f"{topic}-b-copy": 2}


def test_a_setting_is_set_beside_those_that_are_there_and_a_wrong_one_sets_none(
    destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    west = destination_kafka.bootstrap_servers
    create_topic(west, topic_name, 1, flush_ms="5000")

    set_on(west, topic_name, retention_ms="1000", segment_ms="2000")
    with pytest.raises(MirrorlakeError, match="IncrementalAlterConfigs"):
        set_on(west, topic_name, retention_ms="5", no_such_setting="1")

    assert there(west, topic_name)[topic_name].settings == {
        "flush.ms": "5000",
        "retention.ms": "1000",
        "segment.ms": "2000",
    }


def test_nobody_is_asked_where_nobody_can_answer(tmp_path: Path) -> None:
    config = write(tmp_path, "127.0.0.1:1", "127.0.0.1:2", mirror("m", "[a]"))

    ended = topics("apply", config)
    assert (ended.code, "give --yes" in ended.err) == (2, True)
    unknown = topics("plan", config, "--mirror", "n")
    said = f"error: there is no mirror n in {config} that is enabled\nhint: there are m\n"
    assert (unknown.code, unknown.err) == (1, said)
