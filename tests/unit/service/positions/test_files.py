"""Files of positions: what one of the two formats says is read back as it was, and every fault has its line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.positions.files import Fault, FileFormat, PositionLine, read_lines, write_lines

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00"), min_size=1).filter(str.strip)
LINES = st.lists(
    st.builds(
        lambda name, topic, partition, offset: PositionLine(name=name, topic=topic, partition=partition, offset=offset),
        NAMES,
        NAMES,
        st.integers(0, 2**31 - 1),
        st.none() | st.integers(0, 2**63 - 1),
    )
)
BOTH = pytest.mark.parametrize("form", FileFormat)


def fields(lines: list[PositionLine]) -> list[tuple[str, str, int, int | None]]:
    return [(each.name, each.topic, each.partition, each.offset) for each in lines]


@BOTH
@given(lines=LINES)
def test_what_is_written_is_read_back(form: FileFormat, lines: list[PositionLine]) -> None:
    found, faults = read_lines(write_lines(lines, form).encode(), form)
    assert faults == []
    assert fields(found) == fields(lines)
    assert [each.line for each in found] == list(range(1, len(lines) + 1))


@BOTH
@given(content=st.binary(max_size=60))
def test_whatever_bytes_a_file_has_each_line_is_a_position_or_a_fault(form: FileFormat, content: bytes) -> None:
    found, faults = read_lines(content, form)
    filled = [n for n, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1) if line.strip()]
    assert sorted([*(each.line for each in found), *(each.line for each in faults)]) == filled


POSITIONS = [
    PositionLine(name="orders", topic="a", partition=0, offset=0, line=1),
    PositionLine(name="both/west", topic="b.c", partition=12, offset=None, line=2),
]


def test_csv_is_as_mirus_has_it() -> None:
    text = "orders,a,0,0\nboth/west,b.c,12,\n"
    assert write_lines(POSITIONS, FileFormat.CSV) == text
    assert read_lines(text.encode(), FileFormat.CSV) == (POSITIONS, [])


def test_json_lines_are_as_mirus_has_them() -> None:
    text = (
        '{"connectorId":"orders","topic":"a","partition":0,"offset":0}\n'
        '{"connectorId":"both/west","topic":"b.c","partition":12,"offset":null}\n'
    )
    assert write_lines(POSITIONS, FileFormat.JSON) == text
    assert read_lines(text.encode(), FileFormat.JSON) == (POSITIONS, [])


def test_blank_lines_byte_order_marks_and_carriage_returns_say_nothing() -> None:
    found, faults = read_lines(b"\xef\xbb\xbforders,a,0,5\r\n\r\n  \nb,c,1,\r\n", FileFormat.CSV)
    assert faults == []
    assert [(each.line, each.name, each.offset) for each in found] == [(1, "orders", 5), (4, "b", None)]


CSV_FAULTS = [
    ("a,b,0", "expected name,topic,partition,offset, found 3 field(s)"),
    ("a,b,0,1,2", "expected name,topic,partition,offset, found 5 field(s)"),
    ("name,topic,partition,offset", "partition 'partition' is no whole number"),
    ("a,b,,1", "partition '' is no whole number"),
    ("a,b,-1,1", "there is no partition -1"),
    ("a,b,2147483648,1", "there is no partition 2147483648"),
    ("a,b,0,-1", "offset -1 is negative; leave it empty for none"),
    ("a,b,0, 1", "offset ' 1' is no whole number"),
    ("a,b,0,1.0", "offset '1.0' is no whole number"),
    ("a,b,0,1e3", "offset '1e3' is no whole number"),
    ("a,b,0,١", "offset '١' is no whole number"),
    ("a,b,0,null", "offset 'null' is no whole number"),
    ("a,b,0,9223372036854775808", "the offset is larger than Kafka's are"),
    ("a,b,0," + "9" * 5000, "the offset is larger than Kafka's are"),
    (",b,0,1", "name or topic is empty"),
    ('"a,b,0,1', "is not CSV"),
]
OBJECT = '{"connectorId":"a","topic":"b","partition":0,"offset":1}'
JSON_FAULTS = [
    (OBJECT[:-1], "is not JSON"),
    ("[]", "expected an object"),
    ("5", "expected an object"),
    ('{"connectorId":"a","topic":"b","partition":0}', "expected connectorId, topic, partition, offset, each once"),
    (OBJECT.replace("connectorId", "name"), "expected connectorId, topic, partition, offset, each once"),
    (OBJECT[:-1] + ',"offset":2}', "expected connectorId, topic, partition, offset, each once"),
    (OBJECT[:-1] + ',"x":2}', "expected connectorId, topic, partition, offset, each once"),
    (OBJECT.replace("0", '"0"'), 'partition "0" is no whole number'),
    (OBJECT.replace("0", "true"), "partition true is no whole number"),
    (OBJECT.replace("1", "1.0"), "offset 1.0 is no whole number, and not null"),
    (OBJECT.replace("1", '""'), 'offset "" is no whole number, and not null'),
    (OBJECT.replace("1", "-1"), "offset -1 is negative; leave it empty for none"),
    (OBJECT.replace('"a"', "7"), "connectorId and topic are texts"),
    (OBJECT.replace('"a"', '""'), "name or topic is empty"),
    (OBJECT.replace("1", "NaN"), "offset NaN is no whole number, and not null"),
]


@pytest.mark.parametrize(
    ("form", "text", "fault"),
    [*((FileFormat.CSV, *each) for each in CSV_FAULTS), *((FileFormat.JSON, *each) for each in JSON_FAULTS)],
)
def test_a_line_that_is_no_position_is_a_fault_of_its_own(form: FileFormat, text: str, fault: str) -> None:
    good = "a,b,0,1" if form is FileFormat.CSV else OBJECT
    found, faults = read_lines(f"{good}\n{text}\n{good}\n".encode(), form)
    assert [each.line for each in found] == [1, 3]
    assert [each.line for each in faults] == [2]
    assert faults[0].text.startswith(fault)


@BOTH
def test_bytes_that_are_no_utf_8_are_a_fault(form: FileFormat) -> None:
    assert read_lines(b"\n\xff\xfe", form) == ([], [Fault(line=2, text="is not UTF-8")])


def test_a_fault_without_a_line_says_none() -> None:
    assert [str(Fault(line=line, text="is wrong")) for line in (3, 0)] == ["line 3: is wrong", "is wrong"]


def test_a_number_of_thousands_of_digits_is_a_fault() -> None:
    text = json.dumps({"connectorId": "a", "topic": "b", "partition": 0, "offset": 7}).replace("7", "7" * 5000)
    found, (fault,) = read_lines(text.encode(), FileFormat.JSON)
    assert (found, fault.line) == ([], 1)


def test_json_lines_of_groups_may_have_metadata_and_others_may_not() -> None:
    line = PositionLine(name="g", topic="a", partition=0, offset=7, metadata='{"run": "ü"}', line=1)
    text = write_lines([line], FileFormat.JSON).encode()

    assert read_lines(text, FileFormat.JSON, of_groups=True) == ([line], [])
    assert len(read_lines(text, FileFormat.JSON)[1]) == 1
    for metadata in ("null", "7", "{}"):
        wrong = b'{"connectorId":"g","topic":"a","partition":0,"offset":7,"metadata":%s}' % metadata.encode()
        assert read_lines(wrong, FileFormat.JSON, of_groups=True)[1] == [Fault(line=1, text="metadata is no text")]
