"""Dead letters while leaders move: of the letters' topic, of the copy, and of what the mirror keeps about both.

Partitions move between three brokers while records come, a broker is killed and comes back, and the service is killed
in the middle of a move. Every record is either in the copy or a dead letter, once.
"""

import threading
import time
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import log_end, source_end, wait_until
from support.kafka_nodes import KafkaNodes
from support.kept_letters import SHORT
from support.records import Record, consume
from support.registry_model import RegistryModel
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, letter_headers, letters_in
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

POLICY = ', on-unreadable: {value: dead-letter}, dead-letters: {topic: "{topic}.dead-letters"}'
PER_CHUNK = 8


def is_letter(number: int) -> bool:
    return number % 4 == 3


class Writing:
    """Appends records to the source from the beginning of a block to its end, every fourth one unreadable."""

    def __init__(self, site: SchemaSite, id_: int, *, start: int) -> None:
        self._site, self._id, self.count = site, id_, start
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        while not self._is_over.wait(0.5):
            chunk = records_of(self._id, self.count, PER_CHUNK)
            append(self._site.east, self._site.topic, 0, chunk)
            self.count += len(chunk)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def records_of(id_: int, start: int, count: int) -> list[Record]:
    now_ms = int(time.time() * 1000)
    return [
        Record(now_ms, b"%d" % n, SHORT if is_letter(n) else framed(id_, b"body %d" % n))
        for n in range(start, start + count)
    ]


def own_topics(site: SchemaSite) -> list[str]:
    """The copy, its letters, and what the mirror keeps."""
    return sorted(name for name in topics_of(site.west) if site.topic in name)


def await_letters_of_now(site: SchemaSite, service: ServiceProcess) -> None:
    """Waits until a letter is there of a record that was written after the call."""
    wanted = source_end(site.east, site.topic) + 4

    def newest() -> int:
        letters = letters_in(site.west, site.letters, 0)
        return max((int(letter_headers(each)["offset"]) for each in letters), default=-1)

    wait_until(lambda: not service.is_running or newest() >= wanted, "more letters", log=service.said)
    assert service.is_running, service.said()


@pytest.mark.parametrize("mode", ["map", "preserve"])
def test_each_letter_is_written_once_while_leaders_move_and_brokers_and_the_service_are_killed(
    mode: str, source_kafka: EmbeddedKafka, kafka_nodes: KafkaNodes, topic_name: str, tmp_path: Path
) -> None:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        site = SchemaSite(
            source_kafka.bootstrap_servers, kafka_nodes.bootstrap_servers, first, second, topic_name, tmp_path
        )
        one = site.register("a")
        make_topic(site.east, topic_name, records_of(one, 0, PER_CHUNK))
        made = site.file(mode, POLICY)
        file = str(write_yaml(made, made.read_text().replace("lease: 1s", "lease: 2s")))
        leaders: dict[str, set[int]] = {}
        with Writing(site, one, start=PER_CHUNK) as writing:  # noqa: SIM117  it ends after the service
            with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:
                wait_until(lambda: site.letters in topics_of(site.west), "the topics", log=service.said)
                await_letters_of_now(site, service)
                for number in (1, 2):
                    for name in own_topics(site):
                        kafka_nodes.move(name, [number])
                        leaders.setdefault(name, set()).add(kafka_nodes.leader(name))
                    await_letters_of_now(site, service)
                kafka_nodes.nodes[2].kill()  # it leads all of them, and nobody else has them
                time.sleep(1.0)
                kafka_nodes.revive()
                await_letters_of_now(site, service)
                mover = threading.Thread(target=move_all, args=(kafka_nodes, own_topics(site), 3), daemon=True)
                mover.start()
                wait_until(partial(moves, kafka_nodes, site.letters, 3), "the letters to move", log=service.said)
                service.kill()
                mover.join(60)
        assert all(found == {1, 2} for found in leaders.values()), leaders
        assert len(leaders) > 2, "the copy, the letters and what is known of both"
        with ServiceProcess("run", "-c", file, "--once", folder=tmp_path, without_spark=True) as once:
            assert once.exit_code() == 0, once.said()
        assert_each_once(site, mode, writing.count)
        (row,) = mirrorlake("verify", "-c", file, "--level", "records", "--format", "json").rows()
        assert (row["result"], row["dead_lettered"], row["dead_lettered_copied"]) == ("equal", writing.count // 4, 0)


def move_all(nodes: KafkaNodes, topics: list[str], number: int) -> None:
    for name in topics:
        nodes.move(name, [number])


def moves(nodes: KafkaNodes, topic: str, number: int) -> bool:
    return nodes.leader(topic) == number


def assert_each_once(site: SchemaSite, mode: str, count: int) -> None:
    assert log_end(site.east, site.topic) == count
    letters = letters_in(site.west, site.letters, 0)
    assert [letter_headers(each)["offset"] for each in letters] == [str(n) for n in range(count) if is_letter(n)]
    kept = [n for n in range(count) if not is_letter(n)]
    copied = consume(site.west, site.topic, 0)
    assert [copied[offset].key for offset in sorted(copied)] == [b"%d" % n for n in kept]
    if mode == "preserve":
        assert sorted(copied) == kept, "at their own offsets"
        assert log_end(site.west, site.topic) == count
