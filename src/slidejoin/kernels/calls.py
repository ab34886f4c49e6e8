"""Calling a kernel by its address.

A kernel that calls another by name is compiled together with all of it. What only hands chores on would be compiled with
every kernel that there is, and so would each of those that call it; by address, each is compiled once.
"""

from __future__ import annotations

from typing import Any

from numba.extending import intrinsic

from slidejoin.kernels import I64, config, types

if config.DISABLE_JIT:
    _held: dict[int, Any] = {}

    def address_of(kernel: Any) -> int:
        """What ``call`` finds the kernel by."""
        _held[id(kernel)] = kernel
        return id(kernel)

    def call(address: Any, words: Any) -> None:
        """Call a kernel of one int64 array, which returns nothing."""
        _held[int(address)](words)

else:

    def address_of(kernel: Any) -> int:
        """Where the code of a kernel lies that has one signature; it stays there."""
        [compiled] = kernel.overloads.values()
        return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))

    @intrinsic
    def call(typing_context, address, words):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Call a kernel of one int64 array, which returns nothing."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            convention = context.call_conv
            function = convention.get_function_type(types.void, (I64,)).as_pointer()
            given = context.cast(builder, arguments[1], signature.args[1], I64)
            convention.call_function(
                builder, builder.inttoptr(arguments[0], function), types.void, (I64,), [given]
            )
            return context.get_dummy_value()

        return types.void(types.int64, words), generate
