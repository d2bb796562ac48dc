"""``verify`` of copies whose topic, or whose source, was compacted once and is no more, or was not and is now."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.admin import alter_topic
from support.command import Ended, Row, write_yaml
from support.command import without_spark as mirrorlake
from support.compaction import EAGER, RECORD_MS, keyed_records
from support.copies import create_topic, wait_until
from support.records import Record, consume
from support.service_process import ServiceProcess
from support.topics import append, delete_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FORMATS = ("parquet", "ndjson", "log")
COPIED = keyed_records(40, 7)
LAST = Record(COPIED[-1].timestamp + RECORD_MS, b"last", b"the newest is never cleaned")
LEFT = set(range(33, 41))
"""Of 40 records of 7 keys, and the last."""

CLEANED = "cleaned"
"""Is compacted, and cleaned as soon as may be; topics of other policies are not, as their segments are not full."""

COMPACTED = "destination topic is compacted and its source is not"


@dataclass(frozen=True)
class Site:
    """One topic that is copied in every way, by a mirror each."""

    east: str
    west: str
    folder: Path
    topic: str

    def write_config(self, *, sync: str = "", mapped: str = "map") -> Path:
        """The file; ``sync`` is of both copies in the cluster, ``mapped`` names the mirror with mapped offsets."""
        archive = "{{type: archive, store: lake, name: '{form}-{{topic}}', format: {form}, flush: {{max-time: 1s}}}}"
        destinations = {
            "preserve": f"{{type: kafka, cluster: west, topic: 'preserve-{{topic}}'{sync}}}",
            mapped: f"{{type: kafka, cluster: west, topic: '{mapped}-{{topic}}', offsets: map{sync}}}",
            **{form: archive.format(form=form) for form in FORMATS},
        }
        mirrors = [
            f"  - {{name: {way}, source: {{cluster: east, topics: [{self.topic}]}}, destinations: [{to}]}}\n"
            for way, to in destinations.items()
        ]
        return write_yaml(
            self.folder / "mirror.yaml",
            f"clusters: {{east: {{bootstrap-servers: '{self.east}'}}, west: {{bootstrap-servers: '{self.west}'}}}}\n"
            f"stores: {{lake: {{type: filesystem, root: {self.folder}/lake}}}}\n"
            "engine: {discovery: 1s}\n"
            "mirrors:\n" + "".join(mirrors),
        )

    def name(self, way: str) -> str:
        return f"{way}-{self.topic}"

    def copy_once(self, config: Path) -> Ended:
        done = mirrorlake("run", "--once", "-c", config)
        assert done.code == 0, done.err
        return done

    def wait_until_cleaned(self, way: str, left: int = len(LEFT)) -> None:
        """Waits until the cleaner of the destination has taken from a copy all that it may."""
        name = self.name(way)

        def is_clean() -> bool:
            return len(consume(self.west, name, 0)) == left

        wait_until(is_clean, f"the cleaner to work in {name}", log=lambda: str(sorted(consume(self.west, name, 0))))


def settings(policy: str) -> dict[str, str]:
    """Settings of a topic; the records of tests are years old, and stay."""
    return EAGER if policy == CLEANED else {"cleanup_policy": policy, "retention_ms": "-1"}


def make(servers: str, topic: str, policy: str) -> None:
    create_topic(servers, topic, 1, **settings(policy))


def change(servers: str, topic: str, policy: str) -> None:
    alter_topic(servers, topic, **settings(policy))


@pytest.fixture
def site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Site:
    (tmp_path / "lake").mkdir()
    return Site(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, tmp_path, topic_name)


def verify(config: Path) -> tuple[int, dict[str, Row]]:
    ended = mirrorlake("verify", "-c", config, "--format", "json")
    return ended.code, {row["name"]: row for row in ended.rows()}


def said(rows: dict[str, Row]) -> dict[str, tuple[object, ...]]:
    return {way: (row["result"], row["first_difference"], row["difference"]) for way, row in rows.items()}


EQUAL = ("equal", None, None)
TAKEN = ("differs", 0, "cleaned")


def with_cleaned_source(site: Site, *, policy: str) -> Path:
    """Copies a topic, then has its source cleaned, then gives it another policy."""
    make(site.east, site.topic, "delete")
    # Copies that their own cleaners leave alone: their segments are not full.
    make(site.west, site.name("preserve"), "compact")
    make(site.west, site.name("map"), "delete")
    config = site.write_config()
    append(site.east, site.topic, 0, COPIED)
    site.copy_once(config)
    change(site.east, site.topic, CLEANED)
    clean(site)
    site.copy_once(config)
    change(site.east, site.topic, policy)
    return config


def clean(site: Site) -> None:
    """Writes the last record to the source, and waits until its cleaner has taken all that it may."""
    append(site.east, site.topic, 0, [LAST])

    def is_clean() -> bool:
        return set(consume(site.east, site.topic, 0)) == LEFT

    wait_until(
        is_clean, f"the cleaner to work in {site.topic}", log=lambda: str(sorted(consume(site.east, site.topic, 0)))
    )


def churn_until_gone(site: Site, key: bytes) -> None:
    """Writes another key until the cleaner has left nothing of this one, its tombstone included."""

    def is_gone() -> bool:
        append(site.east, site.topic, 0, [replace(LAST, timestamp=int(time.time() * 1000))])
        return key not in {record.key for record in consume(site.east, site.topic, 0).values()}

    wait_until(is_gone, f"the cleaner to take {key!r} from {site.topic}")


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_copies_that_have_what_the_source_lost_to_its_cleaner_are_equal_whatever_its_policy_is_by_now(
    site: Site, policy: str
) -> None:
    config = with_cleaned_source(site, policy=policy)

    code, rows = verify(config)

    assert said(rows) == dict.fromkeys(("preserve", "map", *FORMATS), EQUAL)
    assert {row["records"] for row in rows.values()} == {len(LEFT)}
    assert {row["cleaned"] for row in rows.values()} == {0}
    assert code == 0


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_record_whose_key_came_never_again_is_extra_in_every_copy_whatever_the_policy_is_by_now(
    site: Site, policy: str
) -> None:
    """Its tombstone was written and cleaned away while no mirror ran."""
    lost = {5: replace(COPIED[5], key=b"alice"), 6: replace(COPIED[6], key=b"alice", value=None)}
    make(site.east, site.topic, "delete")
    make(site.west, site.name("preserve"), "delete")
    make(site.west, site.name("map"), "delete")
    config = site.write_config()
    append(site.east, site.topic, 0, [*COPIED[:5], lost[5]])
    site.copy_once(config)
    append(site.east, site.topic, 0, [lost[6], *COPIED[7:]])
    change(site.east, site.topic, CLEANED)
    churn_until_gone(site, b"alice")
    site.copy_once(config)
    change(site.east, site.topic, policy)

    code, rows = verify(config)

    assert said(rows) == dict.fromkeys(("preserve", "map", *FORMATS), ("differs", 5, "extra"))
    assert code == 1
    why = {"delete": "its log was cleaned there", "compact": "it is compacted"}[policy]
    for way in ("preserve", "map"):
        assert (
            f"the source has no such record any more: {why}, and the copy may have missed the tombstone"
            in (rows[way]["cause"])
        )
    append(site.east, site.topic, 0, [Record(int(time.time() * 1000), b"alice", None)])
    site.copy_once(config)
    assert said(verify(config)[1]) == dict.fromkeys(("preserve", "map", *FORMATS), EQUAL)


def with_cleaned_copies(site: Site, config: Path) -> Ended:
    """Copies a source that keeps all to topics that are compacted, and has them cleaned; returns the first run."""
    make(site.east, site.topic, "delete")
    for way in ("preserve", "map"):
        make(site.west, site.name(way), CLEANED)
    append(site.east, site.topic, 0, COPIED)
    first = site.copy_once(config)
    append(site.east, site.topic, 0, [LAST])
    site.copy_once(config)
    for way in ("preserve", "map"):
        site.wait_until_cleaned(way)
    return first


def warned(text: str, mirror: str) -> list[str]:
    return [line for line in text.splitlines() if COMPACTED in line and f"mirror={mirror} " in f"{line} "]


def test_a_copy_that_is_compacted_while_its_source_keeps_all_is_not_called_equal(site: Site) -> None:
    config = site.write_config()
    first = with_cleaned_copies(site, config)

    code, rows = verify(config)

    assert said(rows) == {"preserve": TAKEN, "map": TAKEN, **dict.fromkeys(FORMATS, EQUAL)}
    assert code == 1
    for way in ("preserve", "map"):
        assert (rows[way]["records"], rows[way]["cleaned"]) == (41, 33)
        assert (
            f"{site.name(way)} is compacted: its cleanup.policy is compact, the source's delete" in rows[way]["cause"]
        )
        assert len(warned(first.err, way)) == 1
        planned = mirrorlake("plan", "-c", config, "--format", "json").row(way)
        assert any(
            "cleanup.policy=compact keeps the newest record of a key only" in each for each in planned["warnings"]
        )
    table = mirrorlake("verify", "-c", config)
    assert f"warning preserve {site.topic}-0 → west: the cleaner of destination topic" in table.out

    # Where it is meant so, the file says it.
    meant = site.write_config(sync=", sync: {override: {cleanup.policy: compact}}")
    code, rows = verify(meant)
    assert said(rows) == dict.fromkeys(("preserve", "map", *FORMATS), EQUAL)
    assert [rows[way]["cleaned"] for way in ("preserve", "map")] == [33, 33]
    assert code == 0
    assert not warned(site.copy_once(meant).err, "preserve")
    assert not mirrorlake("plan", "-c", meant, "--format", "json").row("preserve").get("warnings")


def test_a_service_warns_once_when_a_copy_is_compacted_that_was_not_before(site: Site) -> None:
    for servers, name in ((site.east, site.topic), *((site.west, site.name(way)) for way in ("preserve", "map"))):
        make(servers, name, "delete")
    append(site.east, site.topic, 0, COPIED)
    words = ("run", "-c", str(site.write_config()))
    with ServiceProcess(*words, folder=site.folder, without_spark=True) as service:
        wait_until(lambda: len(consume(site.west, site.name("map"), 0)) == len(COPIED), "all copied", log=service.said)
        change(site.west, site.name("map"), "compact")
        wait_until(lambda: warned(service.said(), "map"), "the warning", log=service.said)
        change(site.west, site.name("preserve"), "compact,delete")
        wait_until(lambda: warned(service.said(), "preserve"), "the other warning", log=service.said)
        assert [len(warned(service.said(), way)) for way in ("map", "preserve")] == [1, 1]
        service.stop()
        assert service.exit_code() == 0


def test_what_verify_says_to_do_about_a_compacted_copy_makes_it_equal(site: Site) -> None:
    with_cleaned_copies(site, site.write_config())
    config = site.write_config(sync=", sync: {configs: apply}")
    done = mirrorlake("topics", "apply", "-c", config, "--yes")
    assert done.code == 0, done.err

    code, rows = verify(config)

    # What was taken does not come back by that, and is not called equal for that.
    assert said(rows) == {"preserve": TAKEN, "map": TAKEN, **dict.fromkeys(FORMATS, EQUAL)}
    assert (code, rows["map"]["cleaned"]) == (1, 33)
    assert "was compacted: its cleanup.policy is delete by now, the source's delete" in rows["preserve"]["cause"]
    assert not warned(site.copy_once(config).err, "preserve")

    delete_topic(site.west, site.name("preserve"))
    again = site.write_config(mapped="again")
    site.copy_once(again)
    code, rows = verify(again)
    assert said(rows) == dict.fromkeys(("preserve", "again", *FORMATS), EQUAL)
    assert {row["cleaned"] for row in rows.values()} == {0}
    assert code == 0


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_copies_that_were_compacted_once_are_equal_to_a_source_that_is_compacted(site: Site, policy: str) -> None:
    config = site.write_config()
    with_cleaned_copies(site, config)
    change(site.east, site.topic, policy)  # its segment is not full: it is not cleaned
    for way in ("preserve", "map"):
        change(site.west, site.name(way), "delete")

    code, rows = verify(config)

    assert said(rows) == dict.fromkeys(("preserve", "map", *FORMATS), EQUAL)
    assert {way: row["cleaned"] for way, row in rows.items()} == {
        "preserve": 33,
        "map": 33,
        **dict.fromkeys(FORMATS, 0),
    }
    assert code == 0


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("source_policy", ["delete", "compact"])
def test_a_record_that_a_copy_lost_without_a_later_one_of_its_key_is_missing_whatever_the_policies_are_by_now(
    site: Site, policy: str, source_policy: str
) -> None:
    """Somebody else has written its key to the copy, whose cleaner took it for that."""
    make(site.east, site.topic, "delete")
    for way in ("preserve", "map"):
        make(site.west, site.name(way), CLEANED)
    config = site.write_config()
    append(site.east, site.topic, 0, [replace(r, key=b"dave") if n == 20 else r for n, r in enumerate(COPIED)])
    site.copy_once(config)
    append(site.west, site.name("map"), 0, [replace(LAST, key=b"dave", value=b"somebody else's")])
    append(site.east, site.topic, 0, [replace(LAST, timestamp=LAST.timestamp + RECORD_MS)])
    site.copy_once(config)

    def is_gone() -> bool:
        keys = [record.value for record in consume(site.west, site.name("map"), 0).values()]
        return COPIED[20].value not in keys and COPIED[0].value not in keys

    wait_until(is_gone, "the cleaner to take dave")
    site.wait_until_cleaned("preserve", len(LEFT) + 1)
    change(site.east, site.topic, source_policy)
    change(site.west, site.name("map"), policy)

    code, rows = verify(config)

    assert said(rows)["map"] == ("differs", 20, "missing")
    assert "cause" not in rows["map"]
    assert code == 1


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_record_that_was_never_copied_is_missing_however_often_its_key_came_again(site: Site, policy: str) -> None:
    """The position was moved past it by hand."""
    make(site.east, site.topic, policy)
    for way in ("preserve", "map"):
        make(site.west, site.name(way), policy)
    config = site.write_config()
    append(site.east, site.topic, 0, COPIED[:10])
    site.copy_once(config)
    append(site.east, site.topic, 0, COPIED[10:])
    moved = mirrorlake("offsets", "reset", "-c", config, "--mirror", "map", "--to-offset", "12", "--yes")
    assert moved.code == 0, moved.err
    site.copy_once(config)

    code, rows = verify(config)

    assert said(rows) == dict.fromkeys(("preserve", "map", *FORMATS), EQUAL) | {"map": ("differs", 10, "missing")}
    assert code == 1
