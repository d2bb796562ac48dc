"""`offsets … --groups`: what consumer groups have committed, in the same files, at a real broker."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.groups import commit, committed, committed_offsets, join_as_kip_848, member, new_group
from support.records import simple_records
from support.topics import make_topic


@dataclass(frozen=True)
class Site:
    """A topic with 40 and 10 records, at one of the two clusters of a file."""

    folder: Path
    servers: str
    topic: str

    @property
    def first(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    @property
    def second(self) -> TopicPartition:
        return TopicPartition(self.topic, 1)

    def offsets(self, verb: str, *options: str | Path, cluster: str | None = "west") -> Ended:
        at = () if cluster is None else ("--cluster", cluster)
        return mirrorlake("offsets", verb, "-c", self.folder / "mirror.yaml", "--groups", *at, *options)

    def imported(self, text: str, *options: str) -> Ended:
        (file := self.folder / "groups").write_text(text, encoding="utf-8")
        return self.offsets("import", "--file", file, "--yes", *options)


@pytest.fixture
def site(destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Site:
    servers = destination_kafka.bootstrap_servers
    make_topic(servers, topic_name, simple_records(40), simple_records(10))
    write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "localhost:1"}}
  west: {{bootstrap-servers: "{servers}"}}
mirrors:
  - name: m
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, offsets: map}}]
""",
    )
    return Site(tmp_path, servers, topic_name)


def test_offsets_of_groups_are_exported_and_imported_with_what_was_committed_beside_them(site: Site) -> None:
    group, other = new_group(), new_group()
    commit(site.servers, group, {site.first: 12}, metadata='{"run": 7}')
    commit(site.servers, group, {site.second: 3})
    commit(site.servers, other, {site.first: 5})
    csv = f"{group},{site.topic},0,12\n{group},{site.topic},1,3\n"

    assert site.offsets("export", "--group", group).out == csv
    exported = site.offsets("export", "--format", "json", "--topic", site.topic, "--group", group, "--group", other)
    assert exported.code == 0, exported.err
    assert [json.loads(line) for line in exported.out.splitlines()] == [
        {"connectorId": name, "topic": site.topic, "partition": partition, "offset": offset} | beside
        for name, partition, offset, beside in sorted(
            [(group, 0, 12, {"metadata": '{"run": 7}'}), (group, 1, 3, {}), (other, 0, 5, {})],
            key=lambda each: each[:2],
        )
    ]
    assert group in site.offsets("list", "--topic", site.topic).out
    for options in (("--group", "nobody"), ("--group", group, "--topic", "nothing")):
        for verb in ("list", "export"):
            nothing = site.offsets(verb, *options)
            assert (nothing.code, nothing.out) == (1, "")
            assert nothing.err == "error: no offset is committed of what was asked for\n"
    part = site.offsets("export", "--group", group, "--group", "nobody")
    assert (part.code, part.out) == (1, csv)
    assert part.err == "error: no offset is committed of group nobody, of what was asked for\n"

    copied = new_group()
    told = site.imported(exported.out.replace(group, copied), "--format", "json", "--group", copied, "--dry-run")
    assert (told.code, committed(site.servers, copied)) == (0, {})
    assert [row["after"] for row in told.rows()] == [12, 3]
    assert site.imported(exported.out.replace(group, copied), "--format", "json", "--group", copied).code == 0
    assert committed(site.servers, copied) == committed(site.servers, group)
    assert site.imported(csv.replace(group, copied)).code == 0
    assert committed(site.servers, copied) == committed(site.servers, group), "a line without metadata takes none away"


def test_the_whole_file_is_checked_before_the_first_commit(site: Site) -> None:
    group, fresh = new_group(), new_group()
    commit(site.servers, group, {site.first: 12, site.second: 3})
    lines = [
        f"{fresh},{site.topic},0,20",
        f"{group},{site.topic},0,11",
        f"{group},{site.topic},1,11",
        f"{group},{site.topic},7,0",
        f"{group},no-such-topic,0,0",
        f"{fresh},{site.topic},0,21",
        f"{group},{site.topic},1,",
        "nothing",
    ]

    refused = site.imported("\n".join(lines))

    assert refused.code == 1
    said = refused.err.splitlines()
    assert "line 2: " in said[0]
    assert "it stands at 12; --force takes it back to 11" in said[0]
    assert "line 3: " in said[1]
    assert "offset 11 is outside of the log, which has 0…10" in said[1]
    assert "line 4: " in said[2]
    assert "the cluster has no such partition" in said[2]
    assert "line 5: " in said[3]
    assert "the cluster has no such partition" in said[3]
    assert "line 6: says again what line 1 is about" in said[4]
    assert "line 7: says again what line 3 is about" in said[5]
    assert "line 8: expected name,topic,partition,offset, found 1 field(s)" in said[6]
    assert said[7] == "hint: 7 fault(s); nothing was changed"
    assert committed(site.servers, fresh) == {}
    assert committed_offsets(site.servers, group) == {site.first: 12, site.second: 3}


def test_no_group_goes_back_unless_it_is_forced_and_none_is_taken_back(site: Site) -> None:
    group = new_group()
    commit(site.servers, group, {site.first: 12})

    assert site.imported(f"{group},{site.topic},0,4").code == 1
    assert "kafka-consumer-groups.sh --delete-offsets" in site.imported(f"{group},{site.topic},0,").err
    assert site.imported(f"{group},{site.topic},1,").code == 0
    assert committed_offsets(site.servers, group) == {site.first: 12}
    assert site.imported(f"{group},{site.topic},0,4", "--force").code == 0
    assert committed_offsets(site.servers, group) == {site.first: 4}


def test_a_group_with_members_is_refused(site: Site) -> None:
    classic, new = new_group(), new_group()

    async def refused() -> tuple[Ended, Ended]:
        async with member(site.servers, classic, [site.topic], reset="earliest"):
            assert await join_as_kip_848(site.servers, new, site.topic) == 0
            text = f"{classic},{site.topic},0,4\n{new},{site.topic},0,4\n"
            told = await asyncio.to_thread(site.imported, text, "--dry-run")
            return told, await asyncio.to_thread(site.imported, text)

    for ended in asyncio.run(refused()):
        assert ended.code == 1
        assert f"group {classic}, {site.topic}-0: it has members (Stable): stop its consumers" in ended.err
        assert f"group {new}, {site.topic}-0: it has members" in ended.err
    assert committed(site.servers, classic) == {}


def test_reset_moves_what_groups_have_committed_to_one_goal(site: Site) -> None:
    group = new_group()
    commit(site.servers, group, {site.first: 12, site.second: 3}, metadata="kept")
    verb = ("--group", group, "--yes")

    assert site.offsets("reset", *verb, "--to-latest").code == 0
    assert committed_offsets(site.servers, group) == {site.first: 40, site.second: 10}
    back = site.offsets("reset", *verb, "--to-earliest", "--topic", site.topic, "--partition", "1")
    assert (back.code, "--force takes it back to 0" in back.err) == (1, True)
    assert site.offsets("reset", *verb, "--to-earliest", "--partition", "1", "--force").code == 0
    assert committed_offsets(site.servers, group) == {site.first: 40, site.second: 0}
    time = "2023-11-14T22:13:20.005Z"  # of the sixth record
    assert site.offsets("reset", *verb, "--to-datetime", time, "--force", "--format", "json").code == 0
    assert committed_offsets(site.servers, group) == {site.first: 5, site.second: 5}


def test_options_that_do_not_go_together_are_refused(site: Site) -> None:
    several = site.offsets("list", cluster=None)
    assert (several.code, "give --cluster, one of east, west" in several.err) == (1, True)
    assert site.offsets("list", cluster="north").code == 1
    assert site.offsets("list", "--mirror", "m").code == 2
    assert site.offsets("reset", "--to-latest", "--yes").code == 2
    assert site.offsets("reset", "--group", "g", "--yes").code == 2
    config = ("-c", site.folder / "mirror.yaml")
    assert mirrorlake("offsets", "list", *config, "--cluster", "west").code == 2
    assert mirrorlake("offsets", "reset", *config, "--yes").code == 2
