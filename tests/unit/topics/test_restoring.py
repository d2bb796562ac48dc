"""The mirror of a restore, from options and a file's clusters and stores."""

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.offsets import GapFill
from mirrorlake.topics.restoring import RestoreOptions, restore_configuration, split_topics
from mirrorlake.window import Window
from unit.config.config_texts import kafka, load

FILE = kafka() + "service: {metrics: '127.0.0.1:9090'}\nengine: {lanes: 3, ui: 4040}\n"


def refusals(**options: object) -> list[str]:
    """Returns what is wrong with options that are right but for these."""
    given = {"store": "lake", "topics": "orders", "to": "west", **options}
    with pytest.raises(ConfigurationErrors) as caught:
        restore_configuration(load(FILE), RestoreOptions(**given))  # type: ignore[arg-type]
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, GapFill.MARKERS), ("filler", GapFill.FILLER), ("refuse", GapFill.REFUSE)],
)
def test_gaps_are_filled_as_it_was_asked(given: str | None, expected: GapFill) -> None:
    options = RestoreOptions(store="lake", topics="orders", to="west", gap_fill=given)
    ((destination,),) = (mirror.destinations for mirror in restore_configuration(load(FILE), options).mirrors)
    assert isinstance(destination, KafkaDestination)
    assert destination.gap_fill is expected


def test_there_are_no_gaps_to_be_filled_where_offsets_are_mapped() -> None:
    assert refusals(offsets="map", gap_fill="filler") == [
        "restore: --gap-fill: has no meaning for `--offsets map` (leave it out)"
    ]


def test_a_restore_is_one_mirror_on_the_files_clusters_stores_and_engine() -> None:
    options = RestoreOptions(
        store="lake",
        topics="orders,/payments-.{1,2}/, audit",
        to="west",
        rename="{topic}.restored",
        from_time="1970-01-01T00:00:00.001Z",
        until="1970-01-01T00:00:00.002Z",
        offsets="map",
        partitions=(0, 2),
        generation=2,
    )
    found = restore_configuration(load(FILE), options)
    (mirror,) = found.mirrors
    (destination,) = mirror.destinations
    assert isinstance(mirror.source, ArchiveSource)
    assert isinstance(destination, KafkaDestination)
    assert (mirror.name, mirror.source.store.name, destination.cluster.name) == ("restore-lake", "lake", "west")
    assert (mirror.source.topics.names, mirror.source.topics.patterns) == (("orders", "audit"), ("payments-.{1,2}",))
    assert mirror.source.window == Window(from_ms=1, until_ms=2)
    assert (mirror.source.partitions, mirror.source.generation) == ((0, 2), 2)
    assert (destination.name_for("orders"), destination.offsets) == ("orders.restored", OffsetMode.MAP)
    assert (found.engine.lanes, found.destination_types) == (3, ("kafka",))


def test_a_restore_keeps_the_offsets_and_all_there_is_unless_told_otherwise() -> None:
    found = restore_configuration(load(FILE), RestoreOptions(store="lake", topics="orders", to="west"))
    (destination,) = found.mirrors[0].destinations
    assert isinstance(destination, KafkaDestination)
    assert isinstance(found.mirrors[0].source, ArchiveSource)
    assert (destination.offsets, destination.name_for("orders")) == (OffsetMode.PRESERVE, "orders")
    assert found.mirrors[0].source.window == Window()


def test_a_restore_serves_no_metrics_and_no_page_of_sparks_beside_a_service_of_the_same_file() -> None:
    assert load(FILE).service.metrics is not None
    assert load(FILE).engine.ui_port == 4040
    assert (
        restore_configuration(load(FILE), RestoreOptions(store="lake", topics="orders", to="west")).engine.ui_port
        is None
    )
    options = RestoreOptions(store="lake", topics="orders", to="west")
    assert restore_configuration(load(FILE), options).service.metrics is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"store": "pond"}, "restore: --store: there is no store `pond`"),
        ({"to": "wset"}, "restore: --to: there is no cluster `wset` (did you mean `west`?"),
        ({"topics": " , "}, "restore: --topics: names no topic"),
        ({"topics": "a/b"}, "restore: --topics: `a/b` cannot be mirrored"),
        ({"topics": "/(/"}, "restore: --topics: `/(/` is not a regular expression"),
        ({"until": "yesterday"}, "restore: --until: `yesterday` is not a time"),
        (
            {"from_time": "2026-01-01T00:00:00Z", "until": "2025-01-01T00:00:00Z"},
            "restore: --until: is before `--from`",
        ),
        ({"rename": "{topc}"}, "restore: --rename: the placeholder {topc} is not known"),
        ({"topics": "/.*/", "rename": "all"}, "restore: --to: all topics an expression selects would go into one"),
        ({"name": "m"}, "restore: --name: the file has a mirror `m`"),
        ({"name": "-"}, "restore: --name: `-` cannot be a name"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_its_name(options: dict[str, object], expected: str) -> None:
    (line,) = refusals(**options)
    assert line.startswith(expected)


def test_all_options_that_cannot_be_used_are_refused_at_once() -> None:
    lines = refusals(store="pond", to="wset", topics="..", until="x", rename="a/b")
    assert [line.split(": ")[1] for line in lines] == ["--rename", "--store", "--to", "--topics", "--until"]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("orders", ["orders"]),
        ("orders,/payments-.*/", ["orders", "/payments-.*/"]),
        ("/a{1,2}/,b , /c,d/", ["/a{1,2}/", "b", "/c,d/"]),
        ("/a", ["/a"]),
        ("", []),
        (",a,,b,", ["a", "b"]),
    ],
)
def test_a_comma_parts_topics_but_not_an_expression(text: str, entries: list[str]) -> None:
    assert list(split_topics(text)) == entries
