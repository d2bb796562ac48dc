"""Whose answer comes from a service's address: that of this file's mirrors, or of others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirrorlake.cli.start import load
from mirrorlake.config.process_settings import ListenAddress
from mirrorlake.config.resolved import Configuration
from mirrorlake.service.sight.listener import Listener, json_app
from mirrorlake.service.sight.live import PATH, LiveService, ask_service, partitions_json
from mirrorlake.service.sight.served import served_by
from mirrorlake.service.sight.whose_answer import of_this_file
from support.partition_states import kafka_state

FILE = """
clusters:
  east: {bootstrap-servers: "east-1:9092,east-2:9092"}
  west: {bootstrap-servers: "west-1:9092"}
stores: {lake: {type: filesystem, root: /lake}}
mirrors:
"""
TRADE = """
  - name: trade
    source: {cluster: east, topics: [orders]}
    destinations: [{type: kafka, cluster: west}, {type: archive, store: lake}]
"""
OTHER = """
  - name: other
    source: {store: lake, topics: [orders]}
    destinations: [{type: kafka, cluster: west, topic: "{topic}.again"}]
"""


def configuration(folder: Path, text: str) -> Configuration:
    file = folder / "mirror.yaml"
    file.write_text(text)
    return load(file)


@contextmanager
def answering(answer: dict[str, object]) -> Iterator[ListenAddress]:
    listener = Listener({PATH: json_app(lambda: answer)}, "127.0.0.1", 0)
    try:
        yield ListenAddress(host="127.0.0.1", port=listener.port)
    finally:
        listener.close()


def asked(folder: Path, theirs: str, ours: str) -> LiveService:
    """What the service of one configuration is to who asks with another; it tells of a partition of each mirror."""
    served = served_by(configuration(folder, theirs))
    states = [kafka_state(0, mirror=each.name) for each in served]
    answer = partitions_json(states, now_seconds=1.0, mirrors=served)
    with answering(answer) as address:
        found = of_this_file(ask_service(address), configuration(folder, ours))
        assert f"127.0.0.1:{address.port}" == found.where
    return found


def names(service: LiveService) -> set[str]:
    return {name for name, *_ in service.partitions}


def test_the_service_of_this_file_is_believed_and_nothing_is_said(tmp_path: Path) -> None:
    found = asked(tmp_path, FILE + TRADE + OTHER, FILE + TRADE + OTHER)
    assert (found.answers, found.unserved, names(found)) == (True, (), {"trade", "other"})


def test_a_service_of_other_mirrors_is_named_and_not_believed(tmp_path: Path) -> None:
    found = asked(tmp_path, FILE + OTHER, FILE + TRADE)
    assert found.silent_because == (
        f"the mirrorlake that answers at {found.where} serves other mirrors than this file has: other"
    )
    assert names(found) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [("east-1:9092,east-2:9092", "north-1:9092"), ("west-1:9092", "north-1:9092"), ("root: /lake", "root: /pond")],
)
def test_a_mirror_of_the_same_name_between_other_places_is_not_believed(
    tmp_path: Path, before: str, after: str
) -> None:
    found = asked(tmp_path, (FILE + TRADE).replace(before, after), FILE + TRADE)
    assert found.silent_because == (
        f"the mirrorlake that answers at {found.where} serves trade from or to other places than this file says"
    )
    assert names(found) == set()


def test_a_cluster_may_be_told_by_another_of_its_brokers(tmp_path: Path) -> None:
    found = asked(tmp_path, FILE.replace("east-1:9092,", "") + TRADE, FILE + TRADE)
    assert (found.answers, found.unserved, names(found)) == (True, (), {"trade"})


def test_a_mirror_that_the_service_does_not_serve_is_named_and_the_others_are_believed(tmp_path: Path) -> None:
    found = asked(tmp_path, FILE + TRADE, FILE + TRADE + OTHER)
    assert found.unserved == (f"the mirrorlake that answers at {found.where} does not serve other",)
    assert (found.answers, names(found)) == (True, {"trade"})


def test_a_destination_that_was_added_since_changes_nothing(tmp_path: Path) -> None:
    before = TRADE.replace(", {type: archive, store: lake}", "")
    found = asked(tmp_path, FILE + before, FILE + TRADE)
    assert (found.answers, found.unserved, names(found)) == (True, (), {"trade"})


def test_a_service_that_does_not_tell_its_mirrors_is_believed(tmp_path: Path) -> None:
    answer = partitions_json([kafka_state(0, mirror="other")], now_seconds=1.0)
    del answer["mirrors"]
    with answering(answer) as address:
        found = of_this_file(ask_service(address), configuration(tmp_path, FILE + TRADE))
    assert (found.answers, found.unserved, names(found)) == (True, (), {"other"})


@pytest.mark.parametrize("mirrors", ["trade", [{"name": "trade"}], [{"name": "a", "source": 1, "destinations": {}}]])
def test_mirrors_that_are_told_otherwise_are_those_of_no_mirrorlake(mirrors: object) -> None:
    with answering({**partitions_json([], now_seconds=1.0), "mirrors": mirrors}) as address:
        assert "is no mirrorlake" in ask_service(address).silent_because
