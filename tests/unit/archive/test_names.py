import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.names import (
    ClaimName,
    MergeName,
    SegmentName,
    parse_claim_name,
    parse_merge_name,
    parse_partition_folder,
    parse_segment_name,
    partition_prefix,
)
from mirrorlake.errors import ConfigurationError

INT63_MAX = 9_223_372_036_854_775_807


def test_a_segment_name_holds_both_inclusive_offsets_in_twenty_digits() -> None:
    name = SegmentName(from_offset=7, to_offset=1234, extension="parquet")
    assert str(name) == "00000000000000000007-00000000000000001234.parquet"
    assert name.end_offset == 1235
    assert (name.offsets.start_offset, name.offsets.end_offset) == (7, 1235)


@given(st.integers(0, INT63_MAX - 1), st.integers(0, INT63_MAX - 1), st.sampled_from(["parquet", "ndjson", "log"]))
def test_a_segment_name_is_read_back_as_it_was_written(a: int, b: int, extension: str) -> None:
    name = SegmentName(from_offset=min(a, b), to_offset=max(a, b), extension=extension)
    assert parse_segment_name(str(name)) == name


@given(
    st.integers(0, INT63_MAX - 1),
    st.integers(0, INT63_MAX - 1),
    st.text("0123456789abcxyz", min_size=1, max_size=32),
    st.booleans(),
)
def test_the_name_of_a_merge_is_read_back_as_it_was_written_and_is_no_segments(
    a: int, b: int, token: str, erases: bool
) -> None:
    name = MergeName(from_offset=min(a, b), to_offset=max(a, b), token=token, erases=erases)
    assert parse_merge_name(str(name)) == name
    assert parse_segment_name(str(name)) is None
    assert parse_claim_name(str(name)) is None
    assert str(name).startswith("_erase-" if erases else "_merge-")


@pytest.mark.parametrize(("start", "end", "token"), [(2, 1, "a"), (-1, 1, "a"), (0, INT63_MAX, "a"), (0, 1, "A.b")])
def test_what_is_no_merge_has_no_name(start: int, end: int, token: str) -> None:
    with pytest.raises(ValueError, match="not"):
        MergeName(from_offset=start, to_offset=end, token=token)


@given(st.lists(st.tuples(st.integers(0, INT63_MAX - 1), st.integers(0, 9)), min_size=2, max_size=2))
def test_names_sort_as_their_offsets_do(pairs: list[tuple[int, int]]) -> None:
    names = [
        SegmentName(from_offset=start, to_offset=min(start + more, INT63_MAX - 1), extension="log")
        for start, more in pairs
    ]
    assert sorted(map(str, names)) == list(map(str, sorted(names)))


@given(st.text(alphabet="0123456789-+. _\n", max_size=60))
def test_whatever_parses_is_exactly_what_would_be_written(text: str) -> None:
    for candidate in (text, f"{text}.parquet"):
        name = parse_segment_name(candidate)
        assert name is None or str(name) == candidate


@pytest.mark.parametrize(
    "name",
    [
        "1-2.parquet",
        "+0-+5.parquet",
        "0000000000000000000-00000000000000000005.parquet",
        "000000000000000000000-00000000000000000005.parquet",
        "00000000000000000000-00000000000000000005-9.parquet",
        "00000000000000000006-00000000000000000005.parquet",
        "00000000000000000000-09223372036854775807.parquet",
        "00000000000000000000-09223372036854775808.parquet",
        "00000000000000000000-99999999999999999999.parquet",
        "00000000000000000000-00000000000000000005.PARQUET",
        "00000000000000000000-00000000000000000005.parquet\n",
        "00000000000000000000-00000000000000000005.parquet.crc",
        "00000000000000000000-00000000000000000005.json",
        "00000000000000000000-00000000000000000005",
        "٠0000000000000000000-00000000000000000005.parquet",
        "README",
        "",
    ],
)
def test_a_name_that_is_not_canonical_is_refused(name: str) -> None:
    assert parse_segment_name(name) is None


def test_the_highest_offset_leaves_room_for_the_position_after_it() -> None:
    name = SegmentName(from_offset=0, to_offset=INT63_MAX - 1, extension="log")
    assert parse_segment_name("00000000000000000000-09223372036854775806.log") == name
    with pytest.raises(ValueError, match="not the offsets"):
        SegmentName(from_offset=0, to_offset=INT63_MAX, extension="log")


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4)])
def test_a_segment_without_offsets_cannot_be_named(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not the offsets"):
        SegmentName(from_offset=start, to_offset=end, extension="parquet")


def test_a_claim_name_holds_the_start_alone() -> None:
    assert str(ClaimName(from_offset=42)) == "_claim-00000000000000000042"
    assert str(ClaimName(from_offset=42, revision=2)) == "_claim-00000000000000000042.2"


@given(st.integers(0, INT63_MAX - 1), st.integers(0, 9))
def test_a_claim_name_is_read_back_as_it_was_written(offset: int, revision: int) -> None:
    name = ClaimName(from_offset=offset, revision=revision)
    assert parse_claim_name(str(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "_claim-42",
        "_claim-00000000000000000042.0",
        "_claim-00000000000000000042.10",
        "_claim-09223372036854775807",
        "claim-00000000000000000042",
        "_claim-00000000000000000042.parquet",
    ],
)
def test_a_claim_name_that_is_not_canonical_is_refused(name: str) -> None:
    assert parse_claim_name(name) is None


@pytest.mark.parametrize(
    "name", ["orders", "__consumer_offsets", "a.b-c_d", "topic=orders", "bestellung-ü", "team/orders"]
)
def test_a_partition_lies_in_its_topics_folder(name: str) -> None:
    assert partition_prefix(name, 12) == f"{name}/12"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "leave its folder"),
        ("..", "leave its folder"),
        ("/etc", "empty"),
        ("a/", "empty"),
        ("a//b", "empty"),
        ("a/../b", "leave its folder"),
        ("..\\up", "holds"),
        ("a\0b", "holds"),
        ("a\nb", "holds"),
        ("x" * 256, "256 bytes, more than 255"),
        ("ü" * 128, "256 bytes, more than 255"),
        ("\udc80", "not valid Unicode"),
    ],
)
def test_a_destination_name_that_is_no_folder_name_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        partition_prefix(name, 0)
    assert "choose another name" in refused.value.hint


@pytest.mark.parametrize("partition", [-1, 2**31])
def test_a_number_that_is_no_partition_is_refused(partition: int) -> None:
    with pytest.raises(ConfigurationError, match="not the number of a partition"):
        partition_prefix("orders", partition)


@pytest.mark.parametrize(
    ("folder", "partition"),
    [
        ("0", 0),
        ("17", 17),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("01", None),
        ("-1", None),
        ("_staged", None),
        ("", None),
        ("٣", None),
    ],
)
def test_a_partition_folder_is_a_plain_decimal_number(folder: str, partition: int | None) -> None:
    assert parse_partition_folder(folder) == partition
