from dataclasses import replace

import pytest

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.source_continuity import SourceContinuity
from mirrorlake.offsets import OffsetRange
from unit.archive.sample_records import envelope

SEALED = SegmentFooter(
    envelope=envelope(),
    end_offset=1,
    records=0,
    raw_bytes=0,
    first_offset=None,
    last_offset=None,
    timestamp_ms_min=None,
    timestamp_ms_max=None,
    gap_offsets={},
    gaps=(),
    gaps_complete=True,
    checksum="",
    seal="0123456789abcdef0123456789abcdef",
)
FIRST_AFTER_MIRROR_V3 = replace(SEALED, envelope=replace(SEALED.envelope, follows_mirror_v3=True))
BY_AN_EARLIER_VERSION = replace(SEALED, seal=None)
OF_ANOTHER_TOPIC = replace(SEALED, envelope=replace(SEALED.envelope, topic="payments"))
BARE = None


def flaws(*footers: SegmentFooter | None, extension: str = "ndjson") -> list[str]:
    """What is wrong with segments ``0.ndjson``, ``1.ndjson`` … that say this of themselves."""
    continuity = SourceContinuity()
    found = [
        flaw.message
        for number, footer in enumerate(footers)
        for flaw in continuity.follow(f"t/0/{number}.{extension}", footer)
    ]
    return found + [flaw.message for flaw in continuity.end()]


@pytest.mark.parametrize(
    "footers",
    [
        (),
        (SEALED, SEALED, SEALED),
        (BARE, BARE),
        (BARE, BARE, FIRST_AFTER_MIRROR_V3, SEALED),
        (BARE, BY_AN_EARLIER_VERSION, SEALED),
        # Back to mirror-v3, and to mirrorlake again.
        (SEALED, BARE, FIRST_AFTER_MIRROR_V3, SEALED),
    ],
)
def test_what_mirrorlake_and_mirror_v3_write_in_turn_is_sound(footers: tuple[SegmentFooter | None, ...]) -> None:
    assert flaws(*footers) == []


def test_a_description_lost_at_the_beginning_in_the_middle_or_at_the_end_is_told() -> None:
    said = "has no description (t/_meta/0/{}.ndjson.json), and mirrorlake wrote the files beside it"
    assert flaws(BARE, SEALED, SEALED) == ["t/0/0.ndjson " + said.format(0)]
    assert flaws(SEALED, BARE, SEALED) == ["t/0/1.ndjson " + said.format(1)]
    assert flaws(SEALED, SEALED, BARE) == ["t/0/2.ndjson " + said.format(2)]
    assert flaws(BARE, FIRST_AFTER_MIRROR_V3, BARE, SEALED) == ["t/0/2.ndjson " + said.format(2)]


def test_of_many_without_description_the_one_that_surely_lost_it_is_named() -> None:
    # The first two may be mirror-v3's, and the third what mirrorlake wrote first behind them.
    assert flaws(BARE, BARE, BARE, SEALED) == [
        "t/0/2.ndjson has no description (t/_meta/0/2.ndjson.json), perhaps like others from t/0/0.ndjson on, "
        "and mirrorlake wrote the files beside it"
    ]


def test_a_segment_that_cannot_be_read_says_nothing_of_those_before_it() -> None:
    continuity = SourceContinuity()
    continuity.follow("t/0/0.ndjson", BARE)
    continuity.pass_over()
    assert continuity.follow("t/0/2.ndjson", SEALED) == []


def test_a_parquet_segment_has_its_footer_or_was_written_by_mirror_v3() -> None:
    assert flaws(SEALED, BARE, SEALED, BARE, extension="parquet") == []


def test_a_log_segment_without_a_description_has_lost_it_wherever_it_stands() -> None:
    """mirror-v3 writes no such files."""
    for number, footers in enumerate([(BARE, BARE), (SEALED, BARE, SEALED), (BARE, SEALED)]):
        found = flaws(*footers, extension="log")
        assert len(found) == footers.count(BARE), number
        assert all("has no description" in flaw for flaw in found)


def test_records_of_another_source_are_told() -> None:
    (flaw,) = flaws(SEALED, OF_ANOTHER_TOPIC, SEALED)
    assert flaw.startswith("t/0/1.ndjson holds records of payments-3 of cluster cluster (topic id topic-id), and")


def test_what_was_merged_while_the_chain_was_read_is_not_taken_for_lost_descriptions() -> None:
    """The files of mirror-v3 read before lie inside the next segment, which a merge has made of them."""
    names = [str(SegmentName(from_offset=n, to_offset=n + 9, extension="ndjson")) for n in (0, 10)]
    merged = replace(SEALED, envelope=replace(SEALED.envelope, start_offset=0), end_offset=30)
    assert merged.offsets == OffsetRange(start_offset=0, end_offset=30)
    continuity = SourceContinuity()
    for name in names:
        assert continuity.follow(f"t/0/{name}", BARE) == []
    key = f"t/0/{SegmentName(from_offset=0, to_offset=29, extension='ndjson')}"
    assert continuity.follow(key, merged) == []
    assert continuity.end() == []
