"""Comparing several neighbours at once.

Where a value falls among 16 sorted keys is how many of them are below it. One vector comparison and a count of
its bits answers that without a branch; a loop over the keys is not made into one by the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from slidejoin.kernels import config, types

if config.DISABLE_JIT:

    def counter(width: int, comparison: str) -> Any:
        compare = np.less if comparison == "<" else np.less_equal

        def count(keys: Any, at: Any, wanted: Any) -> Any:
            return np.uint64(np.count_nonzero(compare(keys[int(at) : int(at) + width], wanted)))

        return count

else:

    def counter(width: int, comparison: str) -> Any:
        """A kernel's function: how many of ``keys[at : at + width]`` compare so with an int64; all must be there."""

        @intrinsic
        def count(typing_context, keys, at, wanted):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                view = context.make_array(signature.args[0])(context, builder, arguments[0])
                held, word, lane = ir.IntType(keys.dtype.bitwidth), ir.IntType(64), ir.IntType(32)
                narrow, wide = ir.VectorType(held, width), ir.VectorType(word, width)
                place = builder.gep(view.data, [arguments[1]])
                values = builder.load(builder.bitcast(place, narrow.as_pointer()))
                values.align = keys.dtype.bitwidth // 8
                if keys.dtype.bitwidth < 64:
                    values = builder.sext(values, wide)
                nothing = ir.Constant(wide, ir.Undefined)
                alike = builder.insert_element(nothing, arguments[2], lane(0))
                alike = builder.shuffle_vector(
                    alike, nothing, ir.Constant(ir.VectorType(lane, width), [0] * width)
                )
                bits = builder.bitcast(builder.icmp_signed(comparison, values, alike), ir.IntType(width))
                return builder.ctpop(builder.zext(bits, word))

            return types.uint64(keys, types.uint64, types.int64), generate

        return count


below_of_16 = counter(16, "<")
up_to_of_8 = counter(8, "<=")
