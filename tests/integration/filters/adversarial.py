# ruff: noqa: E501  (tables of texts)
"""Texts and records that make filters and Spark disagree where they can: broken JSON, odd numbers, no text.

Generated ones are the same every time: a difference that was found stays found.
"""

import random
from collections.abc import Iterator

Row = tuple[bytes | None, bytes | None, int, int, int, list[tuple[str, bytes | None]]]
"""Key, value, Unix milliseconds, partition, offset, headers."""

DOCUMENTS = [
    *(b'{"a":%s}' % value for value in (
        *(b"1", b'"x"', b"null", b"true", b"false", b"[]", b"{}", b'""', b'{"b":2}', b'[1,2.50,{"c":null}]'),
        *(b"1.50", b"-0", b"-0.0", b"1e400", b"-1e400", b"1e5", b"1E+2", b"1e-7", b"0.001", b"0.0009", b"1.0e22"),
        *(b"1234567.0", b"12345678.0", b"9999999.0", b"123456789012345678901234567890", b"3.4028235e38"),
        *(b"01", b"+1", b".5", b"1.", b"NaN", b"Infinity", b"0x1", b"1f", b"-", b"--1", b"1e", b"1e+", b"truex", b"nul"),
        *(b"1 2", b"[1 2]", b"", b"/*c*/1", b'"unterminated', b"1\x1e", b"1\xc2\xa0"),
        *(rb'"\u00e9\n\"\\\/"', '"é😀"'.encode(), rb'"\ud83d\ude00"', rb'"\ud83d"', rb'["\ud83d"]', rb'"\ude00x"'),
        *(b'"\xff\xfe"', b'"tab\there"', b'"nl\nhere"', b'"nul\x00"', rb'["\u0001\u001f' + b'\x7f/"]', rb'"\x"', rb'"\u12"'),
        *(rb"""'x"y'""", rb"'it\'s'", rb'"it\'s"', b"{'b':['x','\\n\"']}", b"'un", rb"'\x'", rb'{"\ud800":1}'),
    )),
    *(b'{"a":"%s"}' % flaw for flaw in (b"\xed\xa0\x80", b"\xed\xbf\xbf\x80", b"\xed\xa0x", b"\xed", b"\xed\x9f\xed\xb0\x80")),
    *(b'{"a":1} garbage', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{"b":1,"a":2}', b'{"b":x,"a":2}', b'{"a":2,"b":x}'),
    *(b'{"a":1,"a":2}', b'{"a":null,"a":2}', b'{"a":{"c":1},"a":{"b":2}}', b"{'a':1}", b"{a:1}", b'  {"a":1}'),
    *(b'\xef\xbb\xbf{"a":1}', b'\x0b{"a":1}', b'\xc2\xa0{"a":1}', b'[{"a":1}]', b'"a"', b"null", b"", b" ", b"{}"),
    *(rb'{"\u0061":5}', b'{"a":1}{"a":2}', b'{"a" :\t1\r\n}', b'{"a"}', b'{"a":}', b'{,"a":1}', b"{'a''b':1}"),
    *(b'{"a":' + b"[" * depth + b"]" * depth + b',"b":1}' for depth in (99, 101, 998, 999, 1000, 1001, 5000)),
    *(b'{"b":' + b"[" * depth + b"]" * depth + b',"a":1}' for depth in (998, 999, 1000, 1001)),
    *(b'{"b":%s,"a":%s}' % (b"1" * 10, b"1" * digits) for digits in (18, 19, 20, 999, 1000, 1001)),
    *(b'{"b":%s,"a":1}' % (b"1" * digits) for digits in (1000, 1001)),
    *(b'{"b":1.%s,"a":1}' % (b"1" * digits) for digits in (998, 999, 1000, 1001)),
    *(b'{"%s":1,"a":1}' % (b"x" * length) for length in (50_000, 50_001)),
]  # fmt: skip

_MOST = b"x" * 20_000_000
LARGE_DOCUMENTS = [
    *(b'{"a":"%s"}' % text for text in (_MOST, _MOST[:-1] + "😀".encode())),
    *(b'{"a":["%sx"]}' % _MOST, b'{"b":"%sx","a":"1"}' % _MOST),
]

NUMBERS = [
    *(b"1", b" 1 ", b"\x7f1\x7f", b"+1", b"-1", b"+", b"-", b"", b".", b"-.", b".5", b"5.", b"1.9", b"-1.9", b"1.9x"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809", b"1e3", b"0x10"),
    *(b"9223372036854775807.9", b"0" * 30 + b"12", b"1_000", "١".encode(), b"\xc2\xa01", b"1\xff", b"NaN", b"nan"),
    *(b"+NaN", b"-nan", b"+nan", b"Infinity", b"-infinity", b"inf", b"+INF", b"-inf", b"1d", b"1D", b"1f", b"1.5F", b"d"),
    *(b"NaNd", b"Infinityd", b"0x1p3", b"0x1.8P-2d", b"0x.8p1", b"0x1", b"0xp1", b"0x1p99999", b"-0x1p99999", b"1e400"),
    *(b"-1e400", b"1e-400", b"\t1.5\n", b"1 5", b"\x1c1", b"1.e5", b".e5", b"1.5e", b"e5", b"- 1", b"+-1", b"\x001"),
    *(b"1\x00", "1\u2003".encode(), b"-0", b"-0.0", "ınf".encode(), "İnf".encode(), b"1" * 400, b"\x7f1.5", b"1.5\x00"),
]  # fmt: skip

_ATOMS = [
    *(b"'", b"'a'", rb"\'", b"{", b"}", b"[", b"]", b'"a"', b'"b"', b":", b",", b"1", b"-1.5", b'"x"', b"null", b"true"),
    *(b" ", b'"\\', rb"\u0041", b"\xff", b"0", b"e", b"E5", b"."),
]  # fmt: skip
_WHOLE = [b'{"a":{"b":1,"c":[1,2]},"b":"z"}', b'{"b":[{"a":1}],"a":"t"}', b'{"a":1.25,"b":-3e2}']
_BYTES = bytes(
    [
        0x25,
        0x41,
        0x5F,
        0x61,
        0x7F,
        0x80,
        0xA0,
        0xBF,
        0xC0,
        0xC2,
        0xC3,
        0xDF,
        0xE0,
        0xE2,
        0xED,
        0xEF,
        0xF0,
        0xF4,
        0xF5,
        0xFF,
    ]
)


def texts() -> list[bytes]:
    """All texts: the written ones, then broken documents, numbers and bytes by chance."""
    chance = random.Random(14)
    broken = [_broken(chance) for _ in range(1500)]
    numbers = [_some(chance, b"0123456789+-.eEdDfFxXpP naifty\x7f\xff") for _ in range(800)]
    doubles = [b'{"a":%r}' % (chance.randint(-(10**9), 10**9) / 100) for _ in range(300)]
    return [*DOCUMENTS, *NUMBERS, *broken, *numbers, *doubles, *(_some(chance, _BYTES) for _ in range(800))]


def rows() -> list[Row]:
    """Records: nulls and empties everywhere, headers that repeat, times before 1970, every pair of some texts."""
    few = [
        None,
        b"",
        b"a",
        b"A",
        b"ab",
        b"b",
        b"a%",
        b"a_b",
        b"\xc3\xa9",
        b"a\xffb",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xed\xb0x",
        "é😀".encode(),
        b"a\nb",
        b"9",
    ]
    values = [
        *few,
        b'{"type":"order","n":7}',
        b'{"type":null}',
        b'{"n":"7.5"}',
        b"\x00\x00\x00\x00*rest",
        b"12",
        b"-3.5",
    ]
    found = list(_records(few, values))
    return [(*row[:4], offset * 3, row[5]) for offset, row in enumerate(found)]


def _records(keys: list[bytes | None], values: list[bytes | None]) -> Iterator[Row]:
    headers: list[list[tuple[str, bytes | None]]] = [
        [],
        [("type", b"order")],
        [("type", b"x"), ("type", b"order")],
        [("type", b"order"), ("type", None)],
        [("type", None)],
        [("Type", b"order")],
        [("", b""), ("é", b"\xff")],
        [("other", b"order")],
    ]
    times = (-1, 0, 1, 1767225600000, 1767225599999, -62135596800000)
    for number, (key, value) in enumerate((key, value) for key in keys for value in values):
        yield key, value, times[number % len(times)], number % 3, 0, headers[number % len(headers)]


def _broken(chance: random.Random) -> bytes:
    document = bytearray(chance.choice(_WHOLE))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(document) + 1)
        match chance.randrange(3):
            case 0:
                document[at:at] = chance.choice(_ATOMS)
            case 1:
                del document[at : at + chance.randint(1, 3)]
            case _:
                document[at : at + 1] = chance.choice(_ATOMS)
    return bytes(document)


def _some(chance: random.Random, of: bytes) -> bytes:
    return bytes(chance.choice(of) for _ in range(chance.randint(0, 6)))
