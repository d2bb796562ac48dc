"""What a service knows of schema ids: nothing is absent at the first look, and what is known is not asked again."""

from uuid import UUID

from mirrorlake.clock import Clock
from mirrorlake.config.problems import Place
from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.rules import SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.service.subjects.bringing import Brought, Meaning
from mirrorlake.service.subjects.known_ids import ABSENT_SECONDS_MIN, KnownIds, MovedId, NameThere

PLACE = Place(file="c.yaml", line=1, column=1, field="")
REGISTRY = Registry(settings=RegistrySettings(name="r", urls=("http://r",)), place=PLACE)


class Hand(Clock):
    """A clock that is set by hand."""

    seconds = 100.0

    def now_seconds(self) -> float:
        return self.seconds

    def elapsed_seconds(self) -> float:
        return self.seconds


def known(*, keeps: bool = False, passes: bool = False) -> tuple[KnownIds, Hand]:
    schemas = MirroredSchemas(
        source=REGISTRY,
        destination=REGISTRY,
        rules=SubjectRules(keeps_ids=keeps),
        key=SubjectStrategy.NONE,
        value=SubjectStrategy.TOPIC_NAME,
        passes_values=passes,
        place=PLACE,
    )
    clock = Hand()
    return KnownIds(schemas, clock=clock), clock


def test_a_map_is_there_before_anything_is_known_and_the_same_object_until_something_is() -> None:
    ids, _ = known(passes=True)
    assert ids.map == SchemaIdMap.of({}, passes_values=True)
    ids.take(Brought(pairs={1: 7}))
    assert ids.map == SchemaIdMap.of({1: 7}, passes_values=True)
    assert ids.map is ids.map


def test_where_ids_are_kept_there_is_no_map() -> None:
    ids, _ = known(keeps=True)
    ids.take(Brought(pairs={1: 1}))
    assert ids.map is None


def test_what_is_waited_for_is_told_whole_when_something_of_it_is_new_and_not_again() -> None:
    ids, _ = known()
    assert ids.ask((5, UUID(int=6))) == (5, UUID(int=6))
    assert ids.ask((5,)) == ()
    ids.take(Brought(absent=frozenset({5})))
    assert ids.ask((5, UUID(int=6))) == (), "it is not certain yet, and so the same wait"
    assert ids.ask((5, 7)) == (5, UUID(int=6), 7)
    ids.take(Brought(pairs={5: 9, 7: 8}, refused={UUID(int=6): "another history"}))
    assert ids.ask((5, 7, UUID(int=6))) == (), "a lease that began before has met what is known by now"


def test_what_leases_ask_for_is_asked_until_it_is_known() -> None:
    ids, _ = known()
    ids.take(Brought(pairs={1: 7}, refused={2: "why"}))
    ids.ask((1, 2, 3))
    assert (ids.asked, ids.has_news) == ((3,), True)
    ids.looking()
    assert (ids.is_asked, ids.has_news) == (True, False)
    ids.ask((3,))
    assert not ids.has_news
    ids.take(Brought(pairs={3: 9}))
    assert (ids.asked, ids.is_asked) == ((), False)


def test_an_id_is_absent_only_when_the_registry_has_not_known_it_for_a_while() -> None:
    ids, clock = known()
    ids.ask((5,))
    ids.take(Brought(absent=frozenset({5})))
    assert (ids.map, ids.is_asked) == (SchemaIdMap.of({}), True)
    clock.seconds += ABSENT_SECONDS_MIN - 0.1
    ids.take(Brought(absent=frozenset({5})))
    assert (ids.map, ids.is_asked) == (SchemaIdMap.of({}), True)
    clock.seconds += 0.2
    ids.take(Brought(absent=frozenset({5})))
    assert (ids.map, ids.is_asked, ids.asked, ids.absent) == (SchemaIdMap.of({}, absent=[5]), False, (), (5,))
    # It is asked about at each look all the same, as somebody may register it.
    ids.take(Brought(pairs={5: 50}))
    assert (ids.map, ids.asked, ids.absent) == (SchemaIdMap.of({5: 50}), (), ())


def test_time_alone_makes_no_id_absent_and_a_question_without_an_answer_begins_it_anew() -> None:
    ids, clock = known()
    ids.ask((5,))
    ids.take(Brought(absent=frozenset({5})))
    clock.seconds += 10 * ABSENT_SECONDS_MIN
    assert (ids.map, ids.is_asked) == (SchemaIdMap.of({}), True)
    # The registry was away, and somebody may have registered the id meanwhile: at a node that is behind, too.
    ids.not_answered()
    ids.take(Brought(absent=frozenset({5})))
    assert (ids.map, ids.is_asked) == (SchemaIdMap.of({}), True)
    clock.seconds += ABSENT_SECONDS_MIN
    ids.take(Brought(absent=frozenset({5})))
    assert (ids.map, ids.is_asked) == (SchemaIdMap.of({}, absent=[5]), False)
    # What was answered for ten seconds stays absent until somebody registers it.
    ids.not_answered()
    assert ids.map == SchemaIdMap.of({}, absent=[5])


def test_a_refused_id_says_why_and_one_that_is_there_after_all_is_copied() -> None:
    ids, _ = known()
    ids.take(Brought(refused={4: "two histories"}))
    assert ids.map == SchemaIdMap.of({}, refused={4: "two histories"})
    ids.take(Brought(pairs={4: 40}, refused={4: "two histories"}))
    assert ids.map == SchemaIdMap.of({4: 40})
    ids.take(Brought(refused={4: "two histories"}))
    assert ids.map == SchemaIdMap.of({4: 40})
    assert dict(ids.counts) == {"known": 1, "absent": 0, "refused": 0, "guid": 0}


def meaning(key: str, version: int = 1) -> Meaning:
    return Meaning(keys=frozenset({key}), source=f"version {version} of s", destination="copy-of-s")


def test_an_id_that_is_another_at_the_destination_is_told_and_the_new_one_counts() -> None:
    ids, _ = known()
    same: dict[SchemaName, Meaning] = {1: meaning("x"), 2: meaning("y", 2)}
    assert ids.take(Brought(pairs={1: 7, 2: 8}, meanings=same)) == []
    moved = ids.take(Brought(pairs={1: 7, 2: 9}, meanings=same))
    assert moved == [MovedId(id=2, before=8, now=9, is_now=meaning("y", 2))]
    assert ids.map == SchemaIdMap.of({1: 7, 2: 9})


def test_what_the_destination_has_lost_is_unknown_until_it_is_there_again() -> None:
    ids, _ = known()
    ids.take(Brought(pairs={1: 7, 2: 8}, meanings={1: meaning("x"), 2: meaning("y", 2)}, keys_there={1: "x", 2: "z"}))
    seen = Brought(pairs={1: 7})
    assert ids.unseen(seen) == {2: NameThere(name=8, key="z")}
    assert ids.take(Brought(pairs={1: 7}, lost=frozenset({2}))) == []
    assert ids.map == SchemaIdMap.of({1: 7})
    ids.ask((2,))
    assert ids.asked == (2,)
    assert ids.take(Brought(pairs={2: 9}, meanings={2: meaning("y", 2)})) == [
        MovedId(id=2, before=8, now=9, is_now=meaning("y", 2))
    ]
    assert ids.map == SchemaIdMap.of({1: 7, 2: 9})


def test_what_is_lost_and_cannot_be_brought_again_is_refused_and_what_comes_back_as_it_was_has_not_moved() -> None:
    ids, _ = known()
    ids.take(Brought(pairs={1: 7, 2: 8}))
    ids.take(Brought(lost=frozenset({1, 2}), refused={1: "its place is taken"}))
    assert ids.map == SchemaIdMap.of({}, refused={1: "its place is taken"})
    assert ids.take(Brought(pairs={2: 8})) == []
    assert ids.map == SchemaIdMap.of({2: 8}, refused={1: "its place is taken"})


def test_subjects_that_ids_have_brought_are_kept_in_mind() -> None:
    ids, _ = known()
    ids.take(Brought(pairs={1: 7}))
    assert ids.subjects == frozenset()
    ids.take(Brought(pairs={2: 8}, subjects=frozenset({"other-value"})))
    ids.take(Brought(pairs={1: 7}))
    assert ids.subjects == {"other-value"}


def test_an_id_that_means_another_schema_at_the_source_is_refused_from_then_on() -> None:
    ids, _ = known()
    ids.take(Brought(pairs={1: 7, 2: 8}, meanings={1: meaning("x"), 2: meaning("y", 2)}))
    anew = Brought(pairs={1: 9}, meanings={1: meaning("z", 3)})
    moved = ids.take(anew)
    assert moved == [MovedId(id=1, before=7, now=9, was=meaning("x"), is_now=meaning("z", 3))]
    assert ids.map is not None
    assert (ids.map.source_ids.tolist(), ids.map.destination_ids.tolist()) == ([2], [8])
    assert "schema id 1: it was version 1 of s and is version 3 of s, another schema" in ids.map.reason_of([1])
    assert ids.take(anew) == []
    assert (ids.map.source_ids.tolist(), dict(ids.counts)) == ([2], {"known": 1, "absent": 0, "refused": 1, "guid": 0})
    ids.ask((1,))
    assert ids.asked == ()


def test_an_id_that_means_one_of_several_wordings_it_had_is_the_same() -> None:
    ids, _ = known()
    both = Meaning(keys=frozenset({"x", "y"}), source="version 1 of s", destination="s")
    ids.take(Brought(pairs={1: 7}, meanings={1: both}))
    assert ids.take(Brought(pairs={1: 7}, meanings={1: meaning("y")})) == []
    assert ids.take(Brought(pairs={1: 7}, meanings={1: meaning("x")})) == []
    assert ids.map == SchemaIdMap.of({1: 7})


GUID, OTHER_GUID = UUID(int=1), UUID(int=2)


def test_a_guid_is_asked_about_and_known_as_an_id_is() -> None:
    ids, clock = known()
    ids.ask((GUID, OTHER_GUID, 5))
    assert [*ids.asked] == [GUID, OTHER_GUID, 5]
    ids.take(Brought(pairs={GUID: OTHER_GUID, 5: 6}, absent=frozenset({OTHER_GUID})))
    assert [*ids.asked] == [OTHER_GUID]
    assert ids.map == SchemaIdMap.of({GUID: OTHER_GUID, 5: 6})
    clock.seconds += ABSENT_SECONDS_MIN
    assert ids.map == SchemaIdMap.of({GUID: OTHER_GUID, 5: 6})
    ids.take(Brought(absent=frozenset({OTHER_GUID})))
    assert ids.map == SchemaIdMap.of({GUID: OTHER_GUID, 5: 6}, absent=[OTHER_GUID])


def test_a_guid_that_the_destination_does_not_name_is_told_after_a_while_and_only_if_a_record_has_it() -> None:
    ids, clock = known()
    ids.ask((GUID,))
    unnamed = Brought(unnamed=frozenset({GUID, OTHER_GUID}))
    ids.take(unnamed)
    assert (ids.map, ids.is_asked, ids.unnamed) == (SchemaIdMap.of({}), True, frozenset({GUID}))
    clock.seconds += ABSENT_SECONDS_MIN
    ids.take(unnamed)
    assert (ids.map, ids.is_asked, ids.absent) == (SchemaIdMap.of({}, unnamed=[GUID]), False, (GUID,))
    assert ids.counts == {"known": 0, "absent": 0, "refused": 0, "guid": 1}
    # The destination's registry is upgraded, and gives one.
    ids.take(Brought(pairs={GUID: GUID}))
    assert (ids.map, ids.absent, ids.unnamed) == (SchemaIdMap.of({GUID: GUID}), (), frozenset())
    # One that the source does not know any more is absent.
    ids.ask((OTHER_GUID,))
    ids.take(Brought(unnamed=frozenset({OTHER_GUID})))
    ids.take(Brought(absent=frozenset({OTHER_GUID})))
    clock.seconds += ABSENT_SECONDS_MIN
    ids.take(Brought(absent=frozenset({OTHER_GUID})))
    assert ids.map == SchemaIdMap.of({GUID: GUID}, absent=[OTHER_GUID])


def test_a_guid_that_means_another_schema_is_refused_as_an_id_is() -> None:
    ids, _ = known()
    ids.take(Brought(pairs={GUID: GUID}, meanings={GUID: meaning("x")}))
    (moved,) = ids.take(Brought(pairs={GUID: GUID}, meanings={GUID: meaning("y")}))
    assert (moved.id, moved.was) == (GUID, meaning("x"))
    assert ids.map is not None
    assert dict(ids.map.refused).keys() == {GUID}
