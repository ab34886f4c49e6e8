"""Comparing several neighbours at once.

Where a value falls among 16 sorted keys is how many of them are below it; which of 16 keys lie between two values is a
word of bits, and with it those of 16 others that stand at the same places are moved together. Vector instructions, and a
count of bits, do that without a branch; a loop over the keys is not made into them by the compiler.
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

    def chooser(width: int) -> Any:
        def choose(keys: Any, at: Any, low: Any, high: Any) -> Any:
            some = keys[int(at) : int(at) + width]
            inside = np.flatnonzero((some >= low) & (some <= high))
            return np.uint64(sum(1 << int(place) for place in inside))

        return choose

    COMPRESSES = False

    def mover(width: int, *, compresses: bool = COMPRESSES) -> Any:
        del compresses  # it is all the same here

        def move(values: Any, at: Any, bits: Any, out: Any, to: Any) -> Any:
            some = [values[int(at) + place] for place in range(width) if int(bits) >> place & 1]
            out[int(to) : int(to) + len(some)] = some
            return np.uint64(len(some))

        return move

    def repeater(width: int) -> Any:
        def repeat(value: Any, out: Any, to: Any) -> None:
            out[int(to) : int(to) + width] = value

        return repeat

    def adder(width: int) -> Any:
        def add(values: Any, at: Any, base: Any, out: Any, to: Any) -> None:
            out[int(to) : int(to) + width] = base + values[int(at) : int(at) + width].astype(np.int64)

        return add

else:
    import numba.core.cgutils
    from llvmlite.binding import llvm_version_info

    cgutils: Any = numba.core.cgutils
    COMPRESSES = llvm_version_info >= (20,)  # older ones do not know the instruction behind it

    def neighbours(context: Any, builder: Any, kind: Any, array: Any, at: Any, width: int) -> Any:
        """The vector of ``array[at : at + width]``."""
        bits = kind.dtype.bitwidth
        vector = ir.VectorType(ir.IntType(bits), width)
        view = context.make_array(kind)(context, builder, array)
        values = builder.load(builder.bitcast(builder.gep(view.data, [at]), vector.as_pointer()))
        values.align = bits // 8
        return values

    def alike(builder: Any, value: Any, width: int) -> Any:
        """The vector of one value."""
        lane = ir.IntType(32)
        nothing = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
        return builder.shuffle_vector(
            builder.insert_element(nothing, value, lane(0)),
            nothing,
            ir.Constant(ir.VectorType(lane, width), [0] * width),
        )

    def store(context: Any, builder: Any, kind: Any, array: Any, to: Any, values: Any) -> None:
        """Write a vector to ``array[to:]``."""
        view = context.make_array(kind)(context, builder, array)
        begin = builder.bitcast(builder.gep(view.data, [to]), values.type.as_pointer())
        builder.store(values, begin).align = kind.dtype.bitwidth // 8

    def counter(width: int, comparison: str) -> Any:
        """A kernel's function: how many of ``keys[at : at + width]`` compare so with a value of their own width.

        All of them must be there.
        """

        @intrinsic
        def count(typing_context, keys, at, wanted):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                array, at, want = arguments
                values = neighbours(context, builder, signature.args[0], array, at, width)
                compared = builder.icmp_signed(comparison, values, alike(builder, want, width))
                found = builder.bitcast(compared, ir.IntType(width))
                return builder.ctpop(builder.zext(found, ir.IntType(64)))

            return types.uint64(keys, types.uint64, keys.dtype), generate

        return count

    def chooser(width: int) -> Any:
        """A kernel's function: the bits of those of ``keys[at : at + width]`` within ``[low, high]``.

        The two ends are int64, and must fit the keys.
        """

        @intrinsic
        def choose(typing_context, keys, at, low, high):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                array, at, *ends = arguments
                kind = signature.args[0]
                values = neighbours(context, builder, kind, array, at, width)
                compare = builder.icmp_signed if kind.dtype.signed else builder.icmp_unsigned
                if kind.dtype.bitwidth < 64:
                    ends = [builder.trunc(end, values.type.element) for end in ends]
                low, high = (alike(builder, end, width) for end in ends)
                above, below = compare(">=", values, low), compare("<=", values, high)
                inside = builder.bitcast(builder.and_(above, below), ir.IntType(width))
                return builder.zext(inside, ir.IntType(64))

            return types.uint64(keys, types.uint64, types.int64, types.int64), generate

        return choose

    def mover(width: int, *, compresses: bool = COMPRESSES) -> Any:
        """A kernel's function: those of ``values[at : at + width]`` whose bits are set go to ``out[to:]``; how many.

        Up to ``width`` places of the output are written, however many are wanted. Values are int32.
        """
        lane = ir.IntType(32)
        vector = ir.VectorType(lane, width)

        def one_by_one(builder: Any, values: Any, chosen: Any, begin: Any) -> None:
            at = lane(0)
            for place in map(lane, range(width)):
                builder.store(builder.extract_element(values, place), builder.gep(begin, [at]))
                at = builder.add(at, builder.zext(builder.extract_element(chosen, place), lane))

        def at_once(builder: Any, values: Any, chosen: Any, begin: Any) -> None:
            kind = ir.FunctionType(vector, [vector, chosen.type, vector])
            name = f"llvm.experimental.vector.compress.v{width}i32"
            compress = cgutils.get_or_insert_function(builder.module, kind, name)
            moved = builder.call(compress, [values, chosen, ir.Constant(vector, ir.Undefined)])
            builder.store(moved, builder.bitcast(begin, vector.as_pointer())).align = 4

        @intrinsic
        def move(typing_context, values, at, bits, out, to):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                array, at, bits, out, to = arguments
                some = neighbours(context, builder, signature.args[0], array, at, width)
                set_bits = builder.trunc(bits, ir.IntType(width))
                chosen = builder.bitcast(set_bits, ir.VectorType(ir.IntType(1), width))
                view = context.make_array(signature.args[3])(context, builder, out)
                put = at_once if compresses else one_by_one
                put(builder, some, chosen, builder.gep(view.data, [to]))
                return builder.zext(builder.ctpop(set_bits), ir.IntType(64))

            return types.uint64(values, types.uint64, types.uint64, out, types.uint64), generate

        return move

    def repeater(width: int) -> Any:
        """A kernel's function: the same value into each of ``out[to : to + width]``, which must be there."""

        @intrinsic
        def repeat(typing_context, value, out, to):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                value, out, to = arguments
                store(context, builder, signature.args[1], out, to, alike(builder, value, width))
                return context.get_dummy_value()

            return types.void(out.dtype, out, types.uint64), generate

        return repeat

    def adder(width: int) -> Any:
        """A kernel's function: ``base`` plus each of some int32 values, as int64; both stretches must be there."""

        @intrinsic
        def add(typing_context, values, at, base, out, to):  # type: ignore[no-untyped-def]  # noqa: ARG001
            def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                array, at, base, out, to = arguments
                some = neighbours(context, builder, signature.args[0], array, at, width)
                wide = builder.sext(some, ir.VectorType(ir.IntType(64), width))
                sums = builder.add(wide, alike(builder, base, width))
                store(context, builder, signature.args[3], out, to, sums)
                return context.get_dummy_value()

            return types.void(values, types.uint64, types.int64, out, types.uint64), generate

        return add


below_of_16 = counter(16, "<")
below_of_32 = counter(32, "<")
up_to_of_16 = counter(16, "<=")
up_to_of_32 = counter(32, "<=")
within_of_4, within_of_16 = chooser(4), chooser(16)
move_of_4, move_of_16 = mover(4), mover(16)
repeat_of_4 = repeater(4)
add_to_4 = adder(4)
