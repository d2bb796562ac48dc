"""What compiled loops over records share: how they are compiled, reach memory, and find columns.

The loops themselves are in `decode_kernels.py`, `encode_kernels.py` and `hash_kernels.py`: the only places
that look at single records, without a Python object for any. They reach memory through addresses, which
Python's callers take from buffers they hold for the time of the call. No loop raises; each answers with a
status or a number.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from mirrorlake.kafka.records.kernel_cache import prepare_kernel_cache

prepare_kernel_cache()

import numba  # noqa: E402  (reads where its cache is when it is imported)
from llvmlite import ir  # noqa: E402
from numba.core import cgutils, types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

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


def compiled(signature: str) -> Callable[[Function], Function]:
    """Returns a decorator for a kernel that Python calls; compiled, or taken from the cache, at import."""

    def compile_now(function: Function) -> Function:
        return cast(Function, numba.njit(signature, cache=True, nogil=True)(function))

    return compile_now


def inlined(function: Function) -> Function:
    """Marks a function that only kernels call: it becomes part of theirs."""
    return cast(Function, numba.njit(nogil=True)(function))


def _load_byte(_typing: object, _address: object) -> tuple[object, object]:
    def generate(_: object, builder: ir.IRBuilder, __: object, arguments: list[ir.Value]) -> ir.Value:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(types.int64), generate


def _load_int32(_typing: object, _address: object) -> tuple[object, object]:
    def generate(_: object, builder: ir.IRBuilder, __: object, arguments: list[ir.Value]) -> ir.Value:
        pointer = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.sext(builder.load(pointer, align=1), ir.IntType(64))

    return types.int64(types.int64), generate


def _load_int64(_typing: object, _address: object) -> tuple[object, object]:
    def generate(_: object, builder: ir.IRBuilder, __: object, arguments: list[ir.Value]) -> ir.Value:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)

    return types.int64(types.int64), generate


def _store_byte(_typing: object, _address: object, _byte: object) -> tuple[object, object]:
    def generate(_: object, builder: ir.IRBuilder, __: object, arguments: list[ir.Value]) -> ir.Value:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), pointer)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, types.int64), generate


def _copy_bytes(_typing: object, _to: object, _from: object, _length: object) -> tuple[object, object]:
    def generate(_: object, builder: ir.IRBuilder, __: object, arguments: list[ir.Value]) -> ir.Value:
        pointer = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, pointer) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, types.int64, types.int64), generate


# Bytes in the order of the machine, which is little-endian wherever pyarrow and numba run; no alignment is
# assumed.
load_byte: Callable[[int], int] = intrinsic(_load_byte)
load_int32: Callable[[int], int] = intrinsic(_load_int32)
load_int64: Callable[[int], int] = intrinsic(_load_int64)
store_byte: Callable[[int, int], int] = intrinsic(_store_byte)
copy_bytes: Callable[[int, int, int], int] = intrinsic(_copy_bytes)


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
