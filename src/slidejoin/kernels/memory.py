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

    def int64s_at(address: Any, length: Any) -> Any:
        """A view of memory that somebody else holds."""
        if length == 0:
            return np.empty(0, dtype=np.int64)
        return np.ctypeslib.as_array((ctypes.c_int64 * int(length)).from_address(int(address)))

else:

    @intrinsic
    def pointer(typing_context, address):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """The number as a pointer."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(types.int64)(types.int64), generate

    _pointer: Any = pointer  # the decorator takes the first parameter away, which its type does not say

    @numba.njit(inline="always")
    def int64s_at(address, length):  # type: ignore[no-untyped-def]
        """A view of memory that somebody else holds."""
        return carray(_pointer(address), (length,))
