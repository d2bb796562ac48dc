"""Mirrors that bring several source topics into one destination topic, as processes: what is lost, and the remedies."""

import itertools
import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import shard_of
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.records import consume, simple_records
from support.topics import append, delete_topic, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 20
LANES = 2
"""As many shards the mirrors get."""


@dataclass(frozen=True)
class Site:
    """Source topics `a`, `b` and `c` of a name, of one partition with records that are all different.

    Neighbours are in different shards of a mirror: what one writes behind the other is not told by the same progress.
    """

    folder: Path
    east: str
    west: str
    name: str

    def topic(self, letter: str) -> str:
        names = (f"{letter}{n}-{self.name}" for n in itertools.count())
        return next(name for name in names if shard_of(TopicPartition(name, 0), LANES) == "abc".index(letter) % LANES)

    @property
    def shared(self) -> str:
        return f"all-{self.name}"

    def mirror(self, letters: str, *, name: str = "", to: str = "", start: str = "earliest", more: str = "") -> str:
        """A mirror of source topics, to the shared topic unless told."""
        topics = ", ".join(map(self.topic, letters))
        return f"""
  - name: {name or self.name}
    source: {{cluster: east, topics: [{topics}], start: {start}}}
    {more}
    destinations: [{{type: kafka, cluster: west, topic: "{to or self.shared}", offsets: map}}]"""

    def configure(self, *mirrors: str) -> None:
        write_yaml(
            self.folder / "mirror.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "{self.east}"}}
  west: {{bootstrap-servers: "{self.west}"}}
mirrors:{"".join(mirrors)}
engine: {{lanes: {LANES}, lease: 2s, memory: 512MiB}}
""",
        )

    def says(self, *verb: str) -> Ended:
        return mirrorlake(*verb, "-c", self.folder / "mirror.yaml")

    def run(self, *mirrors: str) -> Ended:
        """Runs once, with these mirrors from now on if any are named."""
        if mirrors:
            self.configure(*mirrors)
        return self.says("run", "--once")

    def written(self, letters: str) -> Counter[bytes | None]:
        return Counter(r.value for each in letters for r in consume(self.east, self.topic(each), 0).values())

    def arrived(self, topic: str = "") -> Counter[bytes | None]:
        return Counter(record.value for record in consume(self.west, topic or self.shared, 0).values())

    def assert_once(self, letters: str, topic: str = "") -> None:
        """The destination topic holds every record of the source topics once, and nothing else."""
        assert self.arrived(topic) == self.written(letters)


@pytest.fixture
def site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Site:
    found = Site(tmp_path, source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)
    for number, letter in enumerate("abc"):
        make_topic(found.east, found.topic(letter), simple_records(RECORDS, start=1000 * number))
    return found


def test_sources_of_different_shards_are_copied_on_at_every_start_whoever_wrote_last(site: Site) -> None:
    for number in range(4):
        if number:
            append(site.east, site.topic("ab"[number % 2]), 0, simple_records(5, start=10_000 * number))
        run = site.run(site.mirror("ab"))
        assert run.code == 0, run.err
        site.assert_once("ab")
    assert site.says("verify").code == 0


@pytest.mark.quick
def test_a_mirror_of_another_name_is_refused_every_source_topic_that_was_copied_before_not_the_last_one_alone(
    site: Site,
) -> None:
    assert site.run(site.mirror("ab")).code == 0
    renamed = site.run(site.mirror("ab", name=f"{site.name}-again"))
    assert renamed.code != 0
    assert renamed.err.count("would copy it a second time") >= 2
    site.assert_once("ab")


def test_a_source_topic_that_moves_to_a_mirror_that_fills_the_topic_already_is_not_copied_a_second_time(
    site: Site,
) -> None:
    one, two = f"{site.name}-1", f"{site.name}-2"
    assert site.run(site.mirror("a", name=one), site.mirror("b", name=two)).code == 0
    moved = site.run(site.mirror("ab", name=one), site.mirror("c", name=two))
    assert moved.code != 0
    assert f"has copied source {site.topic('b')}-0" in moved.err
    site.assert_once("abc")


@pytest.mark.parametrize("is_run_again", [False, True], ids=["at once", "after a start"])
def test_a_shared_topic_that_was_deleted_is_copied_once_by_a_mirror_of_another_name(
    site: Site, is_run_again: bool
) -> None:
    assert site.run(site.mirror("ab")).code == 0
    delete_topic(site.west, site.shared)
    refused = site.run() if is_run_again else site.says("plan")
    assert refused.code != 0
    assert "by a mirror of another name" in refused.err + refused.out
    if is_run_again:  # `c` begins in the topic that is there now, so it is not lost, and stays
        assert site.run(site.mirror("abc")).code != 0
        site.assert_once("c")
    for letter in "abc":
        append(site.east, site.topic(letter), 0, simple_records(5, start=ord(letter) * 10_000))
    run = site.run(site.mirror("ab", name=f"{site.name}-again"), site.mirror("c"))
    assert run.code == 0, run.err
    site.assert_once("abc")


def test_of_several_destination_topics_the_deleted_one_alone_is_copied_again(site: Site) -> None:
    to = f"copy-{site.name}-{{topic}}"
    assert site.run(site.mirror("abc", to=to)).code == 0
    lost = f"copy-{site.name}-{site.topic('a')}"
    delete_topic(site.west, lost)
    assert "by a mirror of another name" in site.run().err
    run = site.run(site.mirror("a", name=f"{site.name}-again", to=to), site.mirror("bc", to=to))
    assert run.code == 0, run.err
    for letter in "abc":
        site.assert_once(letter, f"copy-{site.name}-{site.topic(letter)}")


def test_a_copy_that_began_late_says_where_so_that_nothing_is_missing_after_the_remedy(site: Site) -> None:
    began = site.run(site.mirror("ab", start="latest"))
    assert began.code == 0, began.err
    for letter in "ab":
        append(site.east, site.topic(letter), 0, simple_records(5, start=ord(letter) * 10_000))
    assert site.run().code == 0
    delete_topic(site.west, site.shared)
    refused = site.run()
    wanted = {letter: f"`start: {{offsets: {{{site.topic(letter)}: {{0: {RECORDS}}}}}}}`" for letter in "ab"}
    for said in wanted.values():
        assert said in refused.err
    begin = ", ".join(f"{site.topic(letter)}: {{0: {RECORDS}}}" for letter in "ab")
    run = site.run(site.mirror("ab", name=f"{site.name}-again", start=f"{{offsets: {{{begin}}}}}"))
    assert run.code == 0, run.err
    late = Counter(r.value for letter in "ab" for r in simple_records(5, start=ord(letter) * 10_000))
    assert site.arrived() == late


def test_a_source_topic_that_was_recreated_is_copied_anew_and_what_others_have_there_stays(site: Site) -> None:
    assert site.run(site.mirror("ab")).code == 0
    before = site.written("ab")
    delete_topic(site.east, site.topic("a"))
    make_topic(site.east, site.topic("a"), simple_records(RECORDS, start=5000))
    refused = site.run()
    assert "reason=recreated" in refused.err
    assert "`on-recreate: restart`" in refused.err
    assert "--delete" not in refused.err, "it would lose what others have there"
    for said in ("restart", "restart"):
        run = site.run(site.mirror("ab", more=f"on-recreate: {said}"))
        assert run.code == 0, run.err
    assert site.arrived() == before + site.written("a")


def test_where_the_source_is_gone_failover_names_the_copy_of_every_source_topic(site: Site) -> None:
    assert site.run(site.mirror("ab")).code == 0
    with socket() as nobody:  # bound, and nobody listens
        nobody.bind(("127.0.0.1", 0))
        gone = replace(site, east=f"127.0.0.1:{nobody.getsockname()[1]}")
        gone.configure(gone.mirror("ab"))
        ended = gone.says("failover", "plan", "--format", "json")
    found = {(row["topic"], row["to"], row["copied"], row["state"]) for row in json.loads(ended.out)["copies"]}
    assert found == {(site.topic(letter), site.shared, RECORDS, "source-gone") for letter in "ab"}, (
        ended.out + ended.err
    )


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_lost_topic_of_a_route_that_several_sources_share_is_replaced_and_every_record_is_once_at_one(
    site: Site, start: str
) -> None:
    odd, even, again = (f"{name}-{site.name}" for name in ("odd", "even", "again"))

    def routed(first: str, start: str) -> str:
        to = f"CASE WHEN pmod(offset, 2) = 0 THEN '{first}' ELSE '{odd}' END"
        route = f'route: {{to: "{to}", topics: [{first}, {odd}]}}'
        return site.mirror("ab", start=start).replace(f'topic: "{site.shared}"', route)

    assert site.run(routed(even, start)).code == 0
    for letter in "ab":
        append(site.east, site.topic(letter), 0, simple_records(6, start=ord(letter) * 10_000))
    assert site.run().code == 0
    delete_topic(site.west, even)
    refused = site.run()
    assert "put a topic of another name in its place in the route" in refused.err
    first = 0
    if start == "latest":
        first = RECORDS
        for letter in "ab":
            assert f"with `start: {{offsets: {{{site.topic(letter)}: {{0: {first}}}}}}}`" in refused.err
        start = "{offsets: {" + ", ".join(f"{site.topic(letter)}: {{0: {first}}}" for letter in "ab") + "}}"
    run = site.run(routed(again, start))
    assert run.code == 0, run.err
    for topic, is_odd in ((again, 0), (odd, 1)):
        wanted = Counter(
            record.value
            for letter in "ab"
            for offset, record in consume(site.east, site.topic(letter), 0).items()
            if offset >= first and offset % 2 == is_odd
        )
        assert site.arrived(topic) == wanted
