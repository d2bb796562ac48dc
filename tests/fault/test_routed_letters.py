"""A route beside `schemas` and dead letters: rewritten records and letters once each, whoever is killed."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.copies import wait_until
from support.records import Record, consume
from support.registry_model import RegistryModel
from support.routed_copies import KINDS, topics_of
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, letter_headers, letters_in
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SHORT = b"\0\1"
RECORDS = 900


def kind_at(number: int) -> str:
    return KINDS[number % 3]


def is_letter(number: int) -> bool:
    return number % 4 == 3


def test_records_with_other_ids_are_once_at_their_topics_and_letters_once_whichever_topic_they_were_for(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        site = SchemaSite(east, west, first, second, topic_name, tmp_path)
        one = site.register("a")
        now_ms = int(time.time() * 1000)
        records = [
            Record(
                now_ms,
                f"{kind_at(n)}-{n}".encode(),
                SHORT if is_letter(n) else None if n % 5 == 4 else framed(one, b"body %d" % n),
            )
            for n in range(RECORDS)
        ]
        make_topic(east, topic_name, records[:30], [])
        to = f"'{topic_name}.' || CAST(substring(key, 1, 4) AS STRING)"
        topics = ", ".join(topics_of(topic_name).values())
        policy = ', on-unreadable: {value: dead-letter}, dead-letters: {topic: "{topic}.dead-letters"}'
        file = str(site.file(f'map, route: {{to: "{to}", topics: [{topics}], otherwise: park}}', policy))
        assert mirrorlake("run", "--once", "-c", file).code == 0
        for start, stop in ((30, 400), (400, RECORDS)):
            letters_before = len(letters_in(west, site.letters, 0))
            with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:
                append(east, topic_name, 0, records[start:stop])
                wait_until(
                    lambda before=letters_before: len(letters_in(west, site.letters, 0)) > before,  # type: ignore[misc]
                    "a letter",
                    log=service.said,
                )
                service.kill()
        run, verified = mirrorlake("run", "--once", "-c", file), mirrorlake("verify", "-c", file, "--format", "json")
        assert (run.code, verified.code) == (0, 0), run.err + verified.out + verified.err
        letters = Counter(int(letter_headers(each)["offset"]) for each in letters_in(west, site.letters, 0))
        assert letters == Counter(n for n in range(RECORDS) if is_letter(n))
        expected = dict(enumerate(site.expected()))
        for kind, topic in topics_of(topic_name).items():
            held = [replace(each, timestamp=0) for _, each in sorted(consume(west, topic, 0).items())]
            assert held == [expected[n] for n in range(RECORDS) if kind_at(n) == kind and not is_letter(n)]
        assert {row["result"] for row in verified.rows()} == {"equal"}
