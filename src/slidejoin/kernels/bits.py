"""Questions about the bits of a word that are one instruction each: LLVM has them, Numba has no names for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from slidejoin.kernels import config, types

if config.DISABLE_JIT:

    def lowest_bit(word: Any) -> Any:
        """The place of the lowest set bit of a word that is not zero."""
        return np.uint64((int(word) & -int(word)).bit_length() - 1)

    def count_bits(word: Any) -> Any:
        """How many bits of a word are set."""
        return np.uint64(int(word).bit_count())

else:
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
