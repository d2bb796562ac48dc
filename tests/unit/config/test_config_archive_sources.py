"""A source that is an archive: what may be said of it, and what is refused."""

import pickle

import pytest

from mirrorlake.config import availability
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.foreign_layout import BeginsAt, EmptyField, KafkaReplicatorLayout
from mirrorlake.window import Window
from unit.config.config_texts import load, messages, native

NOON = "2026-11-20T12:00:00.000Z"
NOON_MS = 1_795_176_000_000


@pytest.fixture(autouse=True)
def _available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "UNAVAILABLE", ())


def restore(source: str = "", mirror: str = "", destination: str = "{type: kafka, cluster: west}") -> str:
    """Returns a file with one mirror from the store lake."""
    return native(f"""
        - name: back
          source: {{store: lake, topics: [orders, "/payments-.*/"]{source}}}
          destinations: [{destination}]
          {mirror}
        """)


def source_of(text: str) -> ArchiveSource:
    """Returns the source of the one mirror of a file."""
    (mirror,) = load(text).mirrors
    assert isinstance(mirror.source, ArchiveSource)
    return mirror.source


def test_every_setting_of_an_archive_as_source_arrives() -> None:
    source = source_of(
        restore(
            ", exclude: [payments-tmp], partitions: [1, 0], from: '1970-01-01T00:00:00.001Z', until: "
            f"'{NOON}', from-offsets: {{orders: {{0: 5}}}}, until-offsets: {{orders: {{0: 9, 1: 7}}}}, generation: 2"
        )
    )
    assert (source.name, source.label, source.store.name) == ("lake", "archive lake", "lake")
    assert (source.topics.names, source.topics.patterns, source.topics.excluded_names) == (
        ("orders",),
        ("payments-.*",),
        ("payments-tmp",),
    )
    assert (source.partitions, source.generation) == ((0, 1), 2)
    assert source.window == Window(
        from_ms=1, until_ms=NOON_MS, from_offsets={"orders": {0: 5}}, until_offsets={"orders": {0: 9, 1: 7}}
    )
    assert pickle.loads(pickle.dumps(source)) == source


REPLICATOR = ", layout: {type: kafka-replicator, region: us-west-1}"


def test_another_programs_layout_is_read_with_what_is_made_of_it() -> None:
    assert source_of(restore()).layout is None
    assert source_of(restore(REPLICATOR)).layout == KafkaReplicatorLayout(region="us-west-1")
    source = source_of(
        restore(REPLICATOR.replace("}", ", begins-at: first-segment, null-for-empty: [value, header-value]}"))
    )
    assert source.layout == KafkaReplicatorLayout(
        region="us-west-1",
        begins_at=BeginsAt.FIRST_SEGMENT,
        null_for_empty=frozenset({EmptyField.VALUE, EmptyField.HEADER_VALUE}),
    )
    assert pickle.loads(pickle.dumps(source)) == source


def test_a_region_is_no_folder_of_the_archive_that_lies_beside_it() -> None:
    to_lake = restore(REPLICATOR, destination=TO_LAKE)
    assert load(to_lake)
    # But it is the very folder where the store begins there.
    within = to_lake.replace("store: lake}]", "store: pond}]").replace(
        "stores:", "stores:\n  pond: {type: filesystem, root: /lake/us-west-1}"
    )
    assert any("the topics it reads" in line for line in messages(within))


SKIPPING = "on-missing-segment: {skip-after: 10m}"


def test_a_missing_segment_is_passed_over_after_the_time_that_is_given() -> None:
    assert source_of(restore(", from-offsets: {orders: {0: 5}}", SKIPPING)).skip_after_seconds == 600.0


def test_what_is_not_said_bounds_nothing() -> None:
    source = source_of(restore(mirror="on-missing-segment: wait"))
    assert (source.window, source.partitions, source.generation) == (Window(), None, None)
    assert source.skip_after_seconds is None
    assert not source.window.is_of_times


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [(NOON, NOON_MS), ("2026-11-20T13:00:00.007+01:00", NOON_MS + 7), ("2026-11-20T12:00:00Z", NOON_MS)],
)
def test_a_time_is_read_to_the_millisecond(written: str, milliseconds: int) -> None:
    assert source_of(restore(f", until: '{written}'")).window.until_ms == milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (restore(", until: '2026-11-20'"), "source.until: `2026-11-20` has no time zone"),
        (restore(", until: yesterday"), "source.until: `yesterday` is not a time"),
        (restore(", until: '2026-11-20T12:00:00.0001Z'"), "source.until: `2026-11-20T12:00:00.0001Z` is finer than"),
        (restore(", from: '1969-12-31T23:59:59Z'"), "source.from: `1969-12-31T23:59:59Z` is before 1970"),
        (restore(f", from: '{NOON}', until: '2026-11-19T12:00:00Z'"), "source.until: is before `from`"),
        (
            restore(", from-offsets: {orders: {0: 9}}, until-offsets: {orders: {0: 8}}"),
            "source.until-offsets: ends orders-0 at 8, before it begins at 9",
        ),
        (restore(", from-offsets: {orders: 5}"), "source.from-offsets: expected offsets by topic and partition"),
        (restore(", layout: {region: a}"), "source.layout.type: "),
        (restore(", layout: {type: kafka-replicator}"), "source.layout.region: is required"),
        (restore(REPLICATOR.replace("us-west-1", "a/b")), "source.layout.region: "),
        (restore(REPLICATOR.replace("}", ", begins-at: earliest}")), "source.layout.begins-at: "),
        (restore(REPLICATOR.replace("}", ", null-for-empty: [offset]}")), "source.layout.null-for-empty[0]: "),
        (restore(f"{REPLICATOR}, generation: 2"), "source.generation: has no meaning for this layout"),
        (restore(", generation: 0"), "source.generation: expected a whole number at least 1"),
        (restore(", start: earliest"), "source.start: is not a known field"),
        (restore(", cluster: east"), "source.store: has no meaning beside `cluster`"),
        (restore().replace("store: lake", "store: pond"), "source.store: there is no store `pond`"),
        (restore().replace("store: lake, ", ""), "source.cluster: is required"),
        (restore(mirror="on-missing-segment: skip"), "on-missing-segment: expected wait or skip-after"),
        (restore(mirror="on-missing-segment: {skip-after: 0s}"), "on-missing-segment: "),
        (restore(f", until: '{NOON}'", SKIPPING), "on-missing-segment: `skip-after` has no meaning beside `from`"),
        (restore(f", from: '{NOON}'", SKIPPING), "on-missing-segment: `skip-after` has no meaning beside `from`"),
        (
            restore(mirror=SKIPPING, destination="{type: archive, store: pond, compaction: log}").replace(
                "stores:", "stores:\n  pond: {type: filesystem, root: /pond}"
            ),
            "on-missing-segment: `skip-after` has no meaning for `compaction: log`",
        ),
        (
            restore(mirror="on-missing-segment: wait").replace("store: lake", "cluster: east"),
            "on-missing-segment: has no meaning for a cluster as source",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_its_place(text: str, expected: str) -> None:
    lines = messages(text)
    assert len(lines) == 1
    assert lines[0].removeprefix("mirrors[0]").removeprefix(".").startswith(expected), lines


def test_offsets_are_of_topics_and_partitions_that_are_chosen() -> None:
    lines = messages(restore(", partitions: [0], until-offsets: {orders: {1: 5}, audit: {0: 5}}"))
    assert [line.split(": ", 1)[1] for line in lines] == [
        "until-offsets are given for audit, which is not among the topics named",
        "until-offsets are given for partition 1, which is not mirrored",
    ]


def test_all_that_is_wrong_with_a_source_is_said_with_all_else() -> None:
    text = restore(", until: x, generation: -1, topic: y", "enabld: true", "{type: kafka, cluster: wst}")
    assert {line.split(": ")[0] for line in messages(text)} == {
        "mirrors[0].enabld",
        "mirrors[0].source.until",
        "mirrors[0].source.generation",
        "mirrors[0].source.topic",
        "mirrors[0].destinations[0].cluster",
    }


TO_LAKE = "{type: archive, store: lake}"


def test_an_archive_that_is_read_and_written_in_one_folder_is_refused() -> None:
    named = native(f"""
        - name: m
          source: {{store: lake, topics: [orders]}}
          destinations: [{TO_LAKE}]
        """)
    assert messages(named) == [
        "mirrors[0].destinations[0]: mirror m (topic orders) writes folder orders of store lake, the topic it reads "
        "(give the destination topic another name, such as `copy-of-{topic}`)"
    ]
    (line,) = messages(restore(destination=TO_LAKE).replace("[orders, ", "["))
    assert "mirror back would write the topics it reads, on archive lake" in line


def test_one_folder_under_two_names_is_one_folder() -> None:
    text = native(f"""
        - name: m
          source: {{store: pond, topics: [orders]}}
          destinations: [{TO_LAKE}]
        """).replace("stores:", "stores:\n  pond: {type: filesystem, root: /lake}")
    assert ["the topic it reads" in line for line in messages(text)] == [True]


def test_an_archive_goes_to_another_folder_of_its_store() -> None:
    assert load(restore(destination="{type: archive, store: lake, name: 'all/{topic}'}".replace("all/", "all-")))


def test_records_that_would_go_round_by_way_of_an_archive_are_refused() -> None:
    text = native("""
        - name: out
          source: {cluster: east, topics: [orders]}
          destinations: [{type: archive, store: lake}]
        - name: back
          source: {store: lake, topics: [orders]}
          destinations: [{type: kafka, cluster: east}]
        """)
    (line,) = messages(text)
    assert (
        "records would go round: mirror out (topic orders) to folder orders of store lake, then mirror back (topic "
        "orders) to topic orders of cluster east, and again"
    ) in line
    assert load(text.replace("cluster: east}]", "cluster: west}]"))
    assert load(text.replace("cluster: east}]", "cluster: east, topic: orders-restored}]"))


def test_two_restores_into_one_topic_are_refused() -> None:
    text = native("""
        - name: a
          source: {store: lake, topics: [orders]}
          destinations: [{type: kafka, cluster: west}]
        - name: b
          source: {cluster: east, topics: [orders]}
          destinations: [{type: kafka, cluster: west}]
        """)
    assert ["writes topic orders of cluster west" in line for line in messages(text)] == [True]
