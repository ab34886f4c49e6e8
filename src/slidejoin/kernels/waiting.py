"""Waiting without sleeping: a thread that is about to be needed watches a number instead of going idle.

Waking an idle core takes a tenth of a millisecond or several, as long as probing a few thousand rows; so helpers
watch for the next task for a short while, without the interpreter, before they sleep.
"""

from __future__ import annotations

from typing import Any

from numba.extending import intrinsic

from slidejoin.kernels import OUT_I64, config, kernel, types

if config.DISABLE_JIT:

    def fresh(array: Any) -> Any:
        """Interpreted, every look is a fresh one."""
        return array[0]

else:

    @intrinsic
    def fresh(typing_context, array):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """The first value of an array as it is in memory now; a plain read may be taken out of the loop."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            view = context.make_array(signature.args[0])(context, builder, arguments[0])
            return builder.load_atomic(view.data, "monotonic", 8)

        return types.int64(array), generate


@kernel(types.boolean(OUT_I64, types.int64, types.int64))
def changes(cell, seen, looks):  # type: ignore[no-untyped-def]
    """Whether the cell gets another value than ``seen`` within so many looks."""
    for _ in range(looks):  # noqa: SIM110 - Numba compiles no generators here
        if fresh(cell) != seen:
            return True
    return False
