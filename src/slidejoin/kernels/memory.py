"""Arrays by address: how one call of a kernel reads any number of arrays.

A kernel is compiled for a fixed list of arrays, but a window has as many runs as it happens to have. So their
addresses and lengths are passed as numbers. Whoever makes the call holds the arrays until it returns.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

from slidejoin.kernels import config, types

carray: Any = numba.carray  # type: ignore[attr-defined]  # it is there, but not typed

if config.DISABLE_JIT:

    def at(address: Any, length: Any, word: Any) -> Any:
        if length == 0:
            return np.empty(0, dtype=np.dtype(word))
        return np.ctypeslib.as_array((word * int(length)).from_address(int(address)))

    def int64s_at(address: Any, length: Any) -> Any:
        """A view of memory that somebody else holds."""
        return at(address, length, ctypes.c_int64)

    def int32s_at(address: Any, length: Any) -> Any:
        """A view of memory that somebody else holds."""
        return at(address, length, ctypes.c_int32)

    def values_at(address: Any, length: Any, like: Any) -> Any:
        """The same, of values like those of an array."""
        return at(address, length, np.ctypeslib.as_ctypes_type(like.dtype))

else:

    def pointer_to(word: Any) -> Any:
        """What makes a number a pointer."""

        @intrinsic
        def pointer(typing_context, address):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

            pointed = types.voidptr if word is types.void else types.CPointer(word)
            return pointed(types.int64), generate

        return pointer

    _to_int64s, _to_int32s = pointer_to(types.int64), pointer_to(types.int32)

    @numba.njit(inline="always")
    def int64s_at(address, length):  # type: ignore[no-untyped-def]
        """A view of memory that somebody else holds."""
        return carray(_to_int64s(address), (length,))

    @numba.njit(inline="always")
    def int32s_at(address, length):  # type: ignore[no-untyped-def]
        """A view of memory that somebody else holds."""
        return carray(_to_int32s(address), (length,))

    _to_values = pointer_to(types.void)

    @numba.njit(inline="always")
    def values_at(address, length, like):  # type: ignore[no-untyped-def]
        """The same, of values like those of an array."""
        return carray(_to_values(address), (length,), like.dtype)
