"""The rights that `docs/security.md` asks for dead letters are enough, and each one that is missing is named."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.transactions.owner_states import STATE_TOPIC
from mirrorlake.topics.targets import SHARDS_PER_MIRROR
from support.acls import Right, grant_exactly
from support.command import write_yaml
from support.copies import wait_until
from support.records import Record, consume
from support.registry_model import RegistryModel
from support.running_service import RunningService
from support.schema_site import FIRST_ID_THERE, SchemaSite, letter_headers, letters_in, numbered
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, SecuredKafka
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

UNREADABLE = Record(1_700_000_000_000, b"k", b"{}")
POLICY = ', on-unreadable: {value: dead-letter}, dead-letters: {topic: "{topic}.dead-letters"}'


@dataclass
class LimitedSite(SchemaSite):
    """A site whose destination is one broker with the source, and another user."""

    mode: str = "map"

    @property
    def letter_rights(self) -> list[Right]:
        """What dead letters need beside the copy."""
        own = [self.letters] if self.mode == "map" else [self.letters, f"mirrorlake.letter-progress.{self.topic}"]
        return [_on(name, each) for name in own for each in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")]

    def grant(self, *, without: Right | None = None) -> None:
        own = ProgressTopics(mirror=self.topic, shards=SHARDS_PER_MIRROR)
        names = [f"copy-of-{self.topic}", *([own.progress, own.pages] if self.mode == "map" else [])]
        rights = [_on(name, each) for name in names for each in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")]
        rights += [_on(STATE_TOPIC, each) for each in ("CREATE", "READ", "WRITE")]
        rights.append(Right("TRANSACTIONAL_ID", f"mirrorlake.{self.topic}.", "WRITE", is_prefix=True))
        grant_exactly(self.east, LIMITED, [each for each in [*rights, *self.letter_rights] if each != without])

    def limited_file(self) -> Path:
        """The configuration in which the destination is logged in to as the limited user."""
        text = self.file(self.mode, POLICY).read_text()
        secret = self.folder / "secret"
        secret.write_text(LIMITED_PASSWORD)
        login = (
            f'west: {{bootstrap-servers: "{self.west}", properties: {{security.protocol: SASL_PLAINTEXT, '
            f"sasl.mechanism: PLAIN, sasl.username: {LIMITED}, sasl.password: {{file: {secret}}}}}}}"
        )
        plain = f'west: {{bootstrap-servers: "{self.west}"}}'
        assert text.count(plain) == 1
        copied = text.replace(plain, login).replace("cluster: west,", 'cluster: west, topic: "copy-of-{topic}",')
        return write_yaml(self.folder / "limited.yaml", copied)


def _on(topic: str, operation: str) -> Right:
    return Right("TOPIC", topic, operation)


Make = Callable[[str], LimitedSite]


@pytest.fixture
def make_site(secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path) -> Iterator[Make]:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = secured_kafka.bootstrap_servers, secured_kafka.servers("CLEAR")
        yield lambda mode: LimitedSite(east, west, first, second, topic_name, tmp_path, mode)
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [])


@pytest.mark.parametrize("mode", ["map", "preserve"])
def test_the_rights_for_dead_letters_are_enough_and_what_is_missing_is_named_and_nothing_lost(
    make_site: Make, mode: str
) -> None:
    site = make_site(mode)
    one = site.register("a")
    make_topic(site.east, site.topic, [*numbered([one]), UNREADABLE, *numbered([one])])
    file = site.limited_file()

    def lettered() -> list[str]:
        return [letter_headers(each)["offset"] for each in letters_in(site.east, site.letters, 0)]

    site.grant()
    with RunningService(file) as running:
        wait_until(lambda: lettered() == ["1"], "the letter", log=lambda: str(running.rows()))
    end = 3
    for lacking in [each for each in site.letter_rights if each.operation != "CREATE"]:
        append(site.east, site.topic, 0, [UNREADABLE, *numbered([one])])
        before = lettered()
        site.grant(without=lacking)
        with RunningService(file) as running:
            running.await_states("parked", partitions=1)
            (row,) = running.rows()
        assert (row["reason"], f"grant {lacking.operation} on topic {lacking.name} " in row["error"]) == (
            "denied",
            True,
        ), (lacking, row)
        assert lettered() == before
        end += 2
    site.grant()
    with RunningService(file) as running:
        wait_until(lambda: len(lettered()) == 1 + (end - 3) // 2, "letters", log=lambda: str(running.rows()))
        running.await_states("caught-up", partitions=1)
    assert lettered() == ["1", *(str(offset) for offset in range(3, end, 2))], "each once"
    assert len(consume(site.east, f"copy-of-{site.topic}", 0)) == 2 + (end - 3) // 2
