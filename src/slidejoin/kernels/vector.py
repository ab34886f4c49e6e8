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
            bits = keys.dtype.bitwidth

            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                view = context.make_array(signature.args[0])(context, builder, arguments[0])
                word, lane, wide = ir.IntType(bits), ir.IntType(32), ir.IntType(64)
                vector = ir.VectorType(word, width)
                place = builder.gep(view.data, [arguments[1]])
                values = builder.load(builder.bitcast(place, vector.as_pointer()))
                values.align = bits // 8
                want = arguments[2]
                if bits < 64:  # compared in its own width, a value beyond the ends is above or below all keys
                    least, most = wide(-(1 << (bits - 1))), wide((1 << (bits - 1)) - 1)
                    above, below = builder.icmp_signed(">", want, most), builder.icmp_signed("<", want, least)
                    want = builder.select(above, most, builder.select(below, least, want))
                    want = builder.trunc(want, word)
                nothing = ir.Constant(vector, ir.Undefined)
                alike = builder.shuffle_vector(
                    builder.insert_element(nothing, want, lane(0)),
                    nothing,
                    ir.Constant(ir.VectorType(lane, width), [0] * width),
                )
                set_bits = ir.IntType(width)
                found = builder.bitcast(builder.icmp_signed(comparison, values, alike), set_bits)
                if bits < 64:
                    if comparison == "<":
                        found = builder.or_(found, builder.sext(above, set_bits))
                    else:
                        found = builder.and_(found, builder.not_(builder.sext(below, set_bits)))
                return builder.ctpop(builder.zext(found, wide))

            return types.uint64(keys, types.uint64, types.int64), generate

        return count


below_of_16 = counter(16, "<")
below_of_32 = counter(32, "<")
up_to_of_8 = counter(8, "<=")
up_to_of_32 = counter(32, "<=")
