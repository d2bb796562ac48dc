"""What an archive knows of groups after a look, and the bytes that say so."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.groups.content import (
    FORGET_MS,
    ArchivedOffset,
    PartitionGroups,
    PartitionLook,
    after_look,
    decode_groups,
    encode_groups,
    says_as_much,
)
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.seal import OPEN_SEAL, sealed
from mirrorlake.errors import UnsupportedError

ORIGIN = Origin(cluster_id="cluster", topic="orders", topic_id="id", partition=0)
NOW = 1_700_000_000_000


def at(offset: int, *, seen: int = NOW, missing: int | None = None, metadata: str = "") -> ArchivedOffset:
    return ArchivedOffset(offset=offset, metadata=metadata, seen_at_ms=seen, missing_since_ms=missing)


def look(
    committed: dict[str, ArchivedOffset] | None = None,
    *,
    none: frozenset[str] = frozenset(),
    now: int = NOW,
    origin: Origin = ORIGIN,
) -> PartitionLook:
    return PartitionLook(origin=origin, read_at_ms=now, committed=committed or {}, none=none)


def known(groups: dict[str, ArchivedOffset], *, now: int = NOW - 1000, origin: Origin = ORIGIN) -> PartitionGroups:
    return PartitionGroups(origin=origin, read_at_ms=now, groups=groups)


def test_the_first_look_is_what_is_known() -> None:
    assert after_look(None, look({"a": at(5)})) == known({"a": at(5)}, now=NOW)


def test_a_new_offset_takes_the_place_of_the_one_before_also_a_lower_one() -> None:
    before = known({"a": at(5, seen=1), "b": at(9, seen=1)})
    after = after_look(before, look({"a": at(7), "b": at(3)}))
    assert after.groups == {"a": at(7), "b": at(3)}


def test_the_same_commit_keeps_the_time_it_was_first_seen() -> None:
    before = known({"a": at(5, seen=1)})
    assert after_look(before, look({"a": at(5)})).groups == {"a": at(5, seen=1)}
    assert after_look(before, look({"a": at(5, metadata="m")})).groups == {"a": at(5, metadata="m")}


def test_of_a_group_that_was_not_seen_nothing_follows() -> None:
    before = known({"a": at(5, seen=1)})
    assert after_look(before, look({"b": at(1)})).groups == {"a": at(5, seen=1), "b": at(1)}


def test_a_group_without_an_offset_stays_with_the_last_it_had_until_it_is_forgotten() -> None:
    gone = after_look(known({"a": at(5, seen=1)}), look(none=frozenset("a")))
    assert gone.groups == {"a": at(5, seen=1, missing=NOW)}
    still = after_look(gone, look(none=frozenset("a"), now=NOW + FORGET_MS - 1))
    assert still.groups == {"a": at(5, seen=1, missing=NOW)}
    assert after_look(still, look(now=NOW + FORGET_MS)).groups == {}


def test_a_group_that_has_an_offset_again_is_there_again() -> None:
    gone = known({"a": at(5, seen=1, missing=NOW - 5)})
    assert after_look(gone, look({"a": at(5)})).groups == {"a": at(5, seen=1)}
    assert after_look(gone, look({"a": at(6)})).groups == {"a": at(6)}


def test_nobody_is_known_by_a_look_that_found_no_offset() -> None:
    assert after_look(None, look(none=frozenset("a"))).groups == {}


def test_a_look_from_before_changes_nothing() -> None:
    before = known({"a": at(9)}, now=NOW)
    assert after_look(before, look({"a": at(5)}, now=NOW - 1)) == before


def test_groups_of_a_topic_before_are_none_of_the_one_there_now() -> None:
    before = known({"a": at(9)}, now=NOW + 1)
    recreated = replace(ORIGIN, topic_id="other")
    assert after_look(before, look({"b": at(1)}, origin=recreated)).groups == {"b": at(1)}


def test_only_the_time_of_a_look_is_nothing_new() -> None:
    assert says_as_much({0: known({"a": at(5)}, now=1)}, {0: known({"a": at(5)}, now=2)})
    assert not says_as_much({0: known({"a": at(5)})}, {0: known({"a": at(5, missing=3)})})
    assert not says_as_much({0: known({})}, {})


OFFSETS = st.builds(
    ArchivedOffset,
    offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=20),
    seen_at_ms=st.integers(0, 2**53),
    missing_since_ms=st.none() | st.integers(0, 2**53),
)
PARTITIONS = st.builds(
    PartitionGroups,
    origin=st.builds(
        Origin,
        cluster_id=st.text(max_size=5),
        topic=st.text(min_size=1, max_size=5),
        topic_id=st.none() | st.just(OPEN_SEAL),
        partition=st.integers(0, 5),
    ),
    read_at_ms=st.integers(0, 2**53),
    groups=st.dictionaries(st.text(max_size=8), OFFSETS, max_size=4),
)


@given(st.lists(PARTITIONS, max_size=4))
def test_what_is_written_is_read_back(partitions: list[PartitionGroups]) -> None:
    content = {each.origin.partition: each for each in partitions}
    data = encode_groups(content, writer="host-1")
    assert decode_groups(data, where="x") == content
    assert data.endswith(b"\n")


@given(st.data())
def test_a_change_of_any_byte_is_told(data: st.DataObject) -> None:
    written = bytearray(encode_groups({0: known({"a": at(1000, metadata="m")})}, writer="host-1"))
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= data.draw(st.integers(1, 255))
    assert decode_groups(bytes(written), where="x") is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"null", encode_groups({}, writer="w")[:-10]])
def test_what_is_no_such_object_is_told(data: bytes) -> None:
    assert decode_groups(data, where="x") is None


def test_a_later_version_is_refused_and_not_passed_over() -> None:
    fields = json.loads(encode_groups({}, writer="w"))
    later = sealed((json.dumps({**fields, "format_version": 2, "seal": OPEN_SEAL}) + "\n").encode())
    with pytest.raises(UnsupportedError, match="use a newer mirrorlake"):
        decode_groups(later, where="x")


def test_fields_of_a_later_writer_are_passed_over() -> None:
    fields = json.loads(encode_groups({0: known({"a": at(5)})}, writer="w"))
    fields["partitions"][0]["groups"]["a"]["new"] = {}
    more = sealed((json.dumps({"more": 1, **fields, "seal": OPEN_SEAL}) + "\n").encode())
    assert decode_groups(more, where="x") == {0: known({"a": at(5)})}
