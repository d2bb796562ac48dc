"""What becomes of the loops in `kernels.py` where they are loaded: numba's part, imported when the first is called."""

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

from mirrorlake.kafka.records import kernels
from mirrorlake.kafka.records.kernel_cache import prepare_kernel_cache

prepare_kernel_cache()

import numba  # noqa: E402  (reads where its cache is when it is imported)
from llvmlite import ir  # noqa: E402
from numba.core import cgutils, types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402


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


_MACHINE_CODE: dict[Callable[..., Any], Callable[..., Any]] = {
    kernels.load_byte: intrinsic(_load_byte),
    kernels.load_int32: intrinsic(_load_int32),
    kernels.load_int64: intrinsic(_load_int64),
    kernels.store_byte: intrinsic(_store_byte),
    kernels.copy_bytes: intrinsic(_copy_bytes),
}

_inlined: dict[Callable[..., Any], Callable[..., Any]] = {}


def native_kernel(function: Callable[..., object], signature: str) -> Callable[..., object]:
    """Returns a kernel as machine code, compiled or from the cache."""
    compile_it = numba.njit(signature, cache=True, nogil=True)
    return cast(Callable[..., object], compile_it(_seeing_native(function)))


def _seeing_native(function: Callable[..., object]) -> FunctionType:
    """Returns the function with the machine code of what it calls in place of what Python sees under those names."""
    assert isinstance(function, FunctionType)
    used = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    names = {name: _native(value) for name, value in used.items() if callable(value)}
    copy = FunctionType(
        function.__code__, function.__globals__ | names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return copy


def _native(value: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(value, FunctionType) and value in _MACHINE_CODE:
        return _MACHINE_CODE[value]
    if not isinstance(value, FunctionType) or value not in kernels.INLINED:
        return value
    if value not in _inlined:
        _inlined[value] = numba.njit(nogil=True)(_seeing_native(value))
    return _inlined[value]
