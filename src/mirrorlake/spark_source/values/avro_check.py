"""Whether bytes are a value of an Avro schema, found out before a library makes a value of them. Pure.

The library recurses on the C stack, so a value nested deep enough ends its process; and of bytes that are no value it
makes one where it can: an enum's index below zero counts from the end. So all bytes are walked first, without recursion
and without making anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from mirrorlake.spark_source.values.depth import DEPTH_MAX, TooDeepError

EMPTY_ITEMS_MAX: Final = 1_000_000
"""Items that take no byte: a few bytes can claim any number of them."""

_DAY_MILLIS = 86_400_000
_TIMES = {("int", "time-millis"): _DAY_MILLIS, ("long", "time-micros"): _DAY_MILLIS * 1000}
_LONG_BITS = {"int": 31, "long": 63}
_FIXED_BYTES = {"null": 0, "float": 4, "double": 8}


class AvroCheck:
    """Checks values of one schema.

    Args:
        schema: as the library has it, parsed.
        named: all that it refers to, by full names.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._root = _Shapes(named).of(schema)

    def check(self, data: bytes) -> None:
        """Checks that bytes begin with a value of the schema; what is behind it is not looked at.

        Raises:
            TooDeepError: it is nested too deep.
            ValueError: they do not; says why.
        """
        walk = _Walk(data)
        pending = walk.pending
        pending.append((self._root, 0))
        while pending:
            shape, depth = pending.pop()
            shape.step(walk, depth)


class _Walk:
    """A place in the bytes, and the shapes that are to come, each with its depth; the next is the last."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.items = data, 0, 0
        self.pending: list[tuple[_Shape, int]] = []

    def enter(self, depth: int) -> int:
        """Returns the depth of what is inside."""
        if depth >= DEPTH_MAX:
            raise TooDeepError
        return depth + 1

    def take(self, size: int) -> bytes:
        """Returns the next bytes."""
        begin, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.data):
            raise ValueError(f"it ends within a part of {size} bytes")
        return self.data[begin : self.at]

    def number(self, bits: int = 63) -> int:
        """Returns the next number, of so many bits beside its sign."""
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than ten bytes")
        number = (found >> 1) ^ -(found & 1)
        if not -(1 << bits) <= number < 1 << bits:
            raise ValueError(f"{number} is no number of {bits + 1} bits")
        return number

    def block(self) -> int:
        """Returns how many items the next block has."""
        count = self.number()
        if count < 0:
            self.number()  # its bytes, for who passes it over
            count = -count
        self.items += count
        if self.items > len(self.data) + EMPTY_ITEMS_MAX:
            raise ValueError(f"a block of {count} items is longer than the value")
        return count


class _Shape(ABC):
    """What a part of a value is like."""

    @abstractmethod
    def step(self, walk: _Walk, depth: int) -> None:
        """Passes over one such part, or puts off what is inside."""


class _Sized(_Shape):
    """A certain number of bytes, or as many as a number before them says."""

    def __init__(self, size: int | None = None, check: Callable[[bytes], None] | None = None) -> None:
        self._size, self._check = size, check

    def step(self, walk: _Walk, depth: int) -> None:
        del depth
        found = walk.take(walk.number() if self._size is None else self._size)
        if self._check is not None:
            self._check(found)


class _Number(_Shape):
    def __init__(self, bits: int, *, below: int | None = None, what: str = "") -> None:
        self._bits, self._below, self._what = bits, below, what

    def step(self, walk: _Walk, depth: int) -> None:
        del depth
        number = walk.number(self._bits)
        if self._below is not None and not 0 <= number < self._below:
            raise ValueError(f"{number} is no {self._what}, of which there are {self._below}")


class _Union(_Shape):
    def __init__(self) -> None:
        self.branches: list[_Shape] = []

    def step(self, walk: _Walk, depth: int) -> None:
        index = walk.number()
        if not 0 <= index < len(self.branches):
            raise ValueError(f"{index} is no index of a union's branch, of which there are {len(self.branches)}")
        walk.pending.append((self.branches[index], depth))


class _Record(_Shape):
    def __init__(self) -> None:
        self.fields: list[_Shape] = []

    def step(self, walk: _Walk, depth: int) -> None:
        inside = walk.enter(depth)
        walk.pending += [(field, inside) for field in reversed(self.fields)]


class _Blocks(_Shape):
    """An array, or with a key before each item a map."""

    def __init__(self, item: _Shape, key: _Shape | None) -> None:
        self._item, self._key = item, key

    def step(self, walk: _Walk, depth: int) -> None:
        inside = walk.enter(depth)
        if count := walk.block():
            walk.pending.append((self, depth))
            walk.pending.append((_Items(count, self._item, self._key), inside))


class _Items(_Shape):
    """What is left of a block."""

    def __init__(self, count: int, item: _Shape, key: _Shape | None) -> None:
        self._left, self._item, self._key = count, item, key

    def step(self, walk: _Walk, depth: int) -> None:
        if self._left == 0:
            return
        self._left -= 1
        walk.pending += [(self, depth), (self._item, depth)]
        if self._key is not None:
            self._key.step(walk, depth)


class _Shapes:
    """Makes shapes; a named type has one, so that it may hold itself."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._made: dict[str, _Shape] = {}

    def of(self, schema: Any) -> _Shape:
        if isinstance(schema, list):
            union = _Union()
            union.branches = [self.of(each) for each in schema]
            return union
        if isinstance(schema, str):
            if schema in self._made:
                return self._made[schema]
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if kind in {"record", "error"}:
            record = self._made[schema["name"]] = _Record()
            record.fields = [self.of(field["type"]) for field in schema["fields"]]
            return record
        if kind in {"array", "map"}:
            item = self.of(schema["items" if kind == "array" else "values"])
            return _Blocks(item, _Sized() if kind == "map" else None)
        return self._simple(kind, schema)

    def _simple(self, kind: str, schema: Mapping[str, Any]) -> _Shape:
        logical = schema.get("logicalType")
        if kind == "enum":
            return _Number(31, below=len(schema["symbols"]), what="index of an enum's symbol")
        if kind in _LONG_BITS:
            return _Number(_LONG_BITS[kind], below=_TIMES.get((kind, str(logical))), what="time of a day")
        if kind == "boolean":
            return _Sized(1, _check_boolean)
        check = _precision(schema["precision"]) if logical == "decimal" and "precision" in schema else None
        if kind in {"bytes", "string"}:
            return _Sized(check=check)
        if kind == "fixed":
            return _Sized(schema["size"], check)
        if kind in _FIXED_BYTES:
            return _Sized(_FIXED_BYTES[kind])
        return self.of(kind)


def _check_boolean(data: bytes) -> None:
    if data not in {b"\0", b"\1"}:
        raise ValueError(f"{data[0]} is no boolean")


def _precision(digits: int) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        if abs(int.from_bytes(data, "big", signed=True)) >= 10**digits:
            raise ValueError(f"a decimal has more than {digits} digits")

    return check
