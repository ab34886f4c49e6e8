"""Sorting a batch by key: one SIMD sort of key and position packed into a word.

NumPy's ``sort`` of 64-bit words is vectorised and twice as fast as ``argsort``; so key and position share a
word. Where the keys span too many bits for that, the low bits are left out, and the few neighbours whose
high bits tie are put right afterwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I64, OUT_I32, OUT_I64, kernel, types

WORD = 63  # bits of a non-negative int64
FEW = 512  # rows up to which packing costs more than it saves
PATIENCE = 8  # moves per row before nearly sorted is considered not sorted at all


@kernel(types.boolean(OUT_I64, OUT_I32, types.int64))
def finish_sort(keys, order, patience):  # type: ignore[no-untyped-def]
    """Insertion sort of a nearly sorted batch; False if it would take more than ``patience`` moves."""
    moves = 0
    for i in range(1, len(keys)):
        key = keys[i]
        if keys[i - 1] <= key:
            continue
        row = order[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            order[j] = order[j - 1]
            j -= 1
        keys[j] = key
        order[j] = row
        moves += i - j
        if moves > patience:
            return False
    return True


@kernel(types.boolean(I64))
def ascends(values):  # type: ignore[no-untyped-def]
    """Whether the values never decrease."""
    for i in range(1, len(values)):  # noqa: SIM110 - Numba compiles no generators here
        if values[i] < values[i - 1]:
            return False
    return True


def sort_order(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(sorted values, int32 positions)`` of a batch; values that tie keep no particular order.

    >>> sort_order(np.array([5, 1, 3]))
    (array([1, 3, 5]), array([1, 2, 0], dtype=int32))
    """
    n = len(values)
    if n < 2 or ascends(values):
        return values, np.arange(n, dtype=np.int32)
    if n <= FEW:
        order = values.argsort().astype(np.int32)
        return values[order], order
    low = int(values.min())
    span = int(values.max()) - low
    position_bits = (n - 1).bit_length()
    dropped = max(0, span.bit_length() + position_bits - WORD)
    if dropped == 0:
        packed = values - low
        packed <<= position_bits
        packed |= np.arange(n)
        packed.sort()
        order = (packed & ((1 << position_bits) - 1)).astype(np.int32)
        packed >>= position_bits
        packed += low
        return packed, order
    # The span may exceed int64 here, so the offset is taken modulo 2^64 and shifted as an unsigned word.
    offset = values.view(np.uint64) - np.uint64(low % (1 << 64))
    packed = (offset >> np.uint64(dropped)).view(np.int64)
    packed <<= position_bits
    packed |= np.arange(n)
    packed.sort()
    order = (packed & ((1 << position_bits) - 1)).astype(np.int32)
    ordered = values[order]
    if not finish_sort(ordered, order, PATIENCE * n):
        order = np.argsort(values).astype(np.int32)
        ordered = values[order]
    return ordered, order
