"""What compiled loops over records share: how they are compiled, reach memory, and find columns.

The loops themselves are in `decode_kernels.py`, `encode_kernels.py` and `hash_kernels.py`: the only places
that look at single records, without a Python object for any. They reach memory through addresses, which
Python's callers take from buffers they hold for the time of the call. No loop raises; each answers with a
status or a number.

numba and the compiled loops take 2 s of a start and 110 MB, so they are loaded when the first loop is called, all at
once; a process that only looks after leases never calls one. Workers call them all before they fork (``codec.warm``).
"""

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Int8s = npt.NDArray[np.int8]
UInt64s = npt.NDArray[np.uint64]
UInt8s = npt.NDArray[np.uint8]
Function = TypeVar("Function", bound=Callable[..., object])

# The table of columns that encoding and hashing read: a row per Arrow array, and what a row holds. Addresses
# are 0 where the array has no such buffer; FIRST_INDEX is where a slice begins in its buffers.
KEY, VALUE, HEADERS, HEADER_KEY, HEADER_VALUE, COLUMN_ROWS = range(6)
VALIDITY_ADDRESS, FIRST_INDEX, OFFSETS_ADDRESS, DATA_ADDRESS, COLUMN_FIELDS = range(5)

INT32_MAX = 2**31 - 1

# Addresses are signed throughout: numba makes a float of a sum of signed and unsigned.
as_address = cast(Callable[[int], int], np.int64)

_LOCK = RLock()
_kernels: list["_Kernel"] = []
_are_loaded = False


def compiled(signature: str) -> Callable[[Function], Function]:
    """Returns a decorator for a kernel that Python calls; compiled, or taken from the cache, when one is first called.

    Kernels of a module that is imported after that are loaded at once.
    """

    def register(function: Function) -> Function:
        with _LOCK:
            kernel = _Kernel(function, signature)
            _kernels.append(kernel)
            if _are_loaded:
                kernel.load()
        return cast(Function, kernel)

    return register


class _Kernel:
    """A loop that Python calls: its first call loads all that there are, the others go to the compiled one."""

    __slots__ = ("_function", "_native", "_signature")

    def __init__(self, function: Callable[..., object], signature: str) -> None:
        self._function = function
        self._signature = signature
        self._native: Callable[..., object] = self._load_all_and_call

    def __call__(self, *arguments: object) -> object:
        return self._native(*arguments)

    def load(self) -> None:
        from mirrorlake.kafka.records.native import native_kernel

        self._native = native_kernel(self._function, self._signature)

    def _load_all_and_call(self, *arguments: object) -> object:
        load_kernels()
        return self._native(*arguments)


def load_kernels() -> None:
    """Loads every kernel whose module is imported: 5 s where they have to be compiled, 2 s from the cache. Idempotent.

    May be called from any thread; who calls a kernel meanwhile waits.
    """
    global _are_loaded
    with _LOCK:
        if _are_loaded:
            return
        for kernel in _kernels:
            kernel.load()
        _are_loaded = True


def are_loaded() -> bool:
    """Returns whether this process has its kernels: what is small may be done without them where it has not."""
    return _are_loaded


def inlined(function: Function) -> Function:
    """Marks a function that only kernels call: it becomes part of theirs."""
    INLINED.add(function)
    return function


INLINED: set[Callable[..., Any]] = set()
"""What is marked so."""


def _machine_code(name: str) -> Callable[..., int]:
    def only_compiled(*_: int) -> int:
        raise AssertionError(f"{name} is there for compiled loops only")

    only_compiled.__name__ = name
    return only_compiled


# Bytes in the order of the machine, which is little-endian wherever pyarrow and numba run; no alignment is
# assumed. `native.py` says what becomes of them.
load_byte: Callable[[int], int] = _machine_code("load_byte")
load_int32: Callable[[int], int] = _machine_code("load_int32")
load_int64: Callable[[int], int] = _machine_code("load_int64")
store_byte: Callable[[int, int], int] = _machine_code("store_byte")
copy_bytes: Callable[[int, int, int], int] = _machine_code("copy_bytes")


@inlined
def bytes_at(columns: Int64s, column: int, index: int) -> tuple[int, int]:
    """Returns the address and length of one value of a large binary array; length -1 where it is null."""
    index += columns[column, FIRST_INDEX]
    validity = columns[column, VALIDITY_ADDRESS]
    if validity != 0 and (load_byte(validity + (index >> 3)) >> (index & 7)) & 1 == 0:
        return 0, -1
    offsets = columns[column, OFFSETS_ADDRESS] + 8 * index
    start = load_int64(offsets)
    return columns[column, DATA_ADDRESS] + start, load_int64(offsets + 8) - start


@inlined
def headers_at(columns: Int64s, row: int) -> tuple[int, int]:
    """Returns the index of a record's first header in the header arrays, and how many it has."""
    index = row + columns[HEADERS, FIRST_INDEX]
    validity = columns[HEADERS, VALIDITY_ADDRESS]
    if validity != 0 and (load_byte(validity + (index >> 3)) >> (index & 7)) & 1 == 0:
        return 0, 0
    offsets = columns[HEADERS, OFFSETS_ADDRESS] + 4 * index
    start = load_int32(offsets)
    return start, load_int32(offsets + 4) - start
