"""Words that several threads read and write at once, without the interpreter.

A plain read may be taken out of a loop, and a plain write may be seen late or in another order; these are not. Each
takes an int64 array and an index.
"""

from __future__ import annotations

import platform
import time
from typing import Any

import numba.core.cgutils
from llvmlite import ir
from numba.extending import intrinsic

from slidejoin.kernels import config, types

cgutils: Any = numba.core.cgutils

ORDERING = "seq_cst"
X86, ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")
YIELD = 1  # the hint of that name

if config.DISABLE_JIT:  # interpreted, only one thread works on a board: see pools.py

    def look(words: Any, at: Any) -> Any:
        return words[at]

    def put(words: Any, at: Any, value: Any) -> None:
        words[at] = value

    def add(words: Any, at: Any, value: Any) -> Any:
        before = words[at]
        words[at] += value
        return before

    def swap(words: Any, at: Any, expected: Any, value: Any) -> bool:
        if words[at] != expected:
            return False
        words[at] = value
        return True

    def pause() -> None:
        """There is nobody to wait for."""

    def now() -> int:
        return time.monotonic_ns()

else:

    def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.gep(view.data, [arguments[1]])

    @intrinsic
    def look(typing_context, words, at):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """The word as it is in memory now."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.load_atomic(_address(context, builder, signature, arguments), ORDERING, 8)

        return types.int64(words, at), generate

    @intrinsic
    def put(typing_context, words, at, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Set the word, after everything that was written before."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            where = _address(context, builder, signature, arguments)
            builder.store_atomic(arguments[2], where, ORDERING, 8)
            return context.get_dummy_value()

        return types.void(words, at, types.int64), generate

    @intrinsic
    def add(typing_context, words, at, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Add to the word; what it was before."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            where = _address(context, builder, signature, arguments)
            return builder.atomic_rmw("add", where, arguments[2], ORDERING)

        return types.int64(words, at, types.int64), generate

    @intrinsic
    def swap(typing_context, words, at, expected, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Set the word if it is still as expected; whether it was."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            where = _address(context, builder, signature, arguments)
            done = builder.cmpxchg(where, arguments[2], arguments[3], ORDERING, ORDERING)
            return builder.extract_value(done, 1)

        return types.boolean(words, at, types.int64, types.int64), generate

    @intrinsic
    def pause(typing_context):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Tell the processor that this is a loop of looking, so that it leaves room for others."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
            word = ir.IntType(32)
            if platform.machine() in X86:
                hint = ir.FunctionType(ir.VoidType(), [])
                builder.call(cgutils.get_or_insert_function(builder.module, hint, "llvm.x86.sse2.pause"), [])
            elif platform.machine() in ARM:
                hint = ir.FunctionType(ir.VoidType(), [word])
                function = cgutils.get_or_insert_function(builder.module, hint, "llvm.aarch64.hint")
                builder.call(function, [word(YIELD)])
            return context.get_dummy_value()

        return types.void(), generate

    @intrinsic
    def now(typing_context):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Nanoseconds by a clock that only goes forward; 0 where there is no such clock to ask."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
            number, long = ir.IntType(32), ir.IntType(64)
            if not hasattr(time, "CLOCK_MONOTONIC"):
                return long(0)
            read = cgutils.alloca_once(builder, long, size=2)
            ask = ir.FunctionType(number, [number, long.as_pointer()])
            function = cgutils.get_or_insert_function(builder.module, ask, "clock_gettime")
            builder.call(function, [number(time.CLOCK_MONOTONIC), read])
            seconds, rest = builder.load(read), builder.load(builder.gep(read, [number(1)]))
            return builder.add(builder.mul(seconds, long(1_000_000_000)), rest)

        return types.int64(), generate
