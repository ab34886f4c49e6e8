"""Questions about the bits of a word: one instruction each that Numba has no name for, or one that must not be a branch.

And the nearest number that fits fewer bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slidejoin.kernels import config, inlined, types

if config.DISABLE_JIT:

    def lowest_bit(word: Any) -> Any:
        """The place of the lowest set bit of a word that is not zero."""
        return np.uint64((int(word) & -int(word)).bit_length() - 1)

    def count_bits(word: Any) -> Any:
        """How many bits of a word are set."""
        return np.uint64(int(word).bit_count())

    def is_below(value: Any, want: Any) -> Any:
        """All bits set if ``value < want``, both int64, else none."""
        return np.uint64(2**64 - 1 if value < want else 0)

else:
    import numba
    import numba.core.cgutils
    from llvmlite import ir
    from numba.extending import intrinsic

    cgutils: Any = numba.core.cgutils

    @intrinsic
    def lowest_bit(_context, word):  # type: ignore[no-untyped-def]
        """The place of the lowest set bit of a word that is not zero."""

        def generate(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            kind, flag = ir.IntType(64), ir.IntType(1)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(kind, [kind, flag]), "llvm.cttz.i64"
            )
            return builder.call(function, [arguments[0], flag(1)])  # the word is never zero

        return types.uint64(word), generate

    @intrinsic
    def count_bits(_context, word):  # type: ignore[no-untyped-def]
        """How many bits of a word are set."""

        def generate(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            kind = ir.IntType(64)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(kind, [kind]), "llvm.ctpop.i64"
            )
            return builder.call(function, [arguments[0]])

        return types.uint64(word), generate

    @numba.njit(inline="always")
    def is_below(value, want):  # type: ignore[no-untyped-def]
        """All bits set if ``value < want``, both int64, else none; nothing overflows.

        Spelled in bits because a comparison that chooses between two numbers is compiled to a branch, and where a value
        falls among others is a coin toss at each step of a search.
        """
        sign = (value & ~want) | (~(value ^ want) & (value - want))
        return np.uint64(sign >> 63)


LEAST, GREATEST = np.int64(-(1 << 31)), np.int64((1 << 31) - 1)  # of 32 bits


@inlined
def cut_to_32(value):  # type: ignore[no-untyped-def]
    """The number of 32 bits that is nearest to an int64, as an int64."""
    return min(max(value, LEAST), GREATEST)


def fits_32(least: int, most: int) -> bool:
    """Whether keys between them can be held in 32 bits.

    The least and the greatest number of so many bits stand for bounds beyond them, so they are no keys.
    """
    return bool(least > LEAST and most < GREATEST)
