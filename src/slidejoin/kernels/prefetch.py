"""Asking for memory ahead of time.

Probing a large run is a chain of cache misses; asking for the lines of a later probe while an earlier one is
searched halves the time for runs beyond the cache. LLVM has an instruction for it, Numba has no name for it.
"""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
from llvmlite import ir
from numba.extending import intrinsic

from slidejoin.kernels import config, types

cgutils: Any = numba.core.cgutils

if config.DISABLE_JIT:

    def prefetch(array: Any, index: Any) -> None:
        """Interpreted, there is nothing to ask for."""

else:

    @intrinsic
    def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Ask for the cache line of ``array[index]``; reads nothing, so any index is safe."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            view = context.make_array(signature.args[0])(context, builder, arguments[0])
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
                "llvm.prefetch.p0",
            )
            address = builder.bitcast(builder.gep(view.data, [arguments[1]]), byte)
            builder.call(function, [address, word(0), word(3), word(1)])  # for reading, keep, data
            return context.get_dummy_value()

        return types.void(array, index), generate
