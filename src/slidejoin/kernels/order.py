"""Sorting a batch by key: a radix sort of keys and positions, of as many bits as the batch needs.

n keys that are spread evenly differ in their first log2(n) bits and a few; so two passes over the first 22 bits
of what the keys span put all but a few neighbours in place, whatever the width of the keys, and an insertion
sort does the rest. Where the keys crowd together (floats of many magnitudes, a few outliers) that would take
too many moves; then every digit is sorted by, those that no two keys differ in apart. Two passes take a fifth
of the time of NumPy's vectorised sort of key and position packed into a word, and keep equal keys in order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U64, U64, kernel, types

FEW = 256  # rows up to which one argsort costs less than clearing the counters
DIGIT = 11  # bits a pass: the counters of one digit fit the first-level cache
PATIENCE = 4  # moves per row before nearly sorted is considered not sorted at all

U = np.uint64
DIGIT_BITS, BUCKETS = U(DIGIT), 1 << DIGIT
MASK = U(BUCKETS - 1)
SIGN = U(1 << 63)  # flipped, the signed order is the unsigned one; nothing overflows


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
            moves += 1
            if moves > patience:
                return False
        keys[j] = key
        order[j] = row
    return True


@kernel(types.boolean(I64))
def ascends(values):  # type: ignore[no-untyped-def]
    """Whether the values never decrease."""
    for i in range(1, len(values)):  # noqa: SIM110 - Numba compiles no generators here
        if values[i] < values[i - 1]:
            return False
    return True


@kernel(types.boolean(I64, I64, I32, OUT_I64, OUT_I64))
def gather_ascending(lows, highs, order, out_lows, out_highs):  # type: ignore[no-untyped-def]
    """Take both bounds in the given order; False, with the output unfinished, if the lower do not ascend."""
    before = np.int64(-(1 << 63))
    for i in range(len(order)):
        row = order[i]
        low = lows[row]
        if low < before:
            return False
        before = low
        out_lows[i] = low
        out_highs[i] = highs[row]
    return True


@kernel(types.boolean(U64, I32, types.uint64, types.uint64, OUT_I32, OUT_U64, OUT_I32))
def sort_by_digit(keys, order, base, shift, counts, out_keys, out_order):  # type: ignore[no-untyped-def]
    """One pass: by one digit of ``key - base``, keeping the order of equal ones; False if all are equal.

    An empty ``order`` stands for the order as it is.
    """
    n = len(keys)
    counted = len(order) == 0
    counts[:] = 0
    for i in range(n):
        counts[(((keys[i] ^ SIGN) - base) >> shift) & MASK] += 1
    if counts[(((keys[0] ^ SIGN) - base) >> shift) & MASK] == n:
        return False
    before = np.int32(0)
    for digit in range(BUCKETS):
        here = counts[digit]
        counts[digit] = before
        before += here
    for i in range(n):
        key = keys[i]
        digit = (((key ^ SIGN) - base) >> shift) & MASK
        at = counts[digit]
        counts[digit] = at + 1
        out_keys[U(at)] = key
        out_order[U(at)] = i if counted else order[i]
    return True


@kernel(types.int64(I64, OUT_I32, OUT_I64, OUT_I32, OUT_I64, OUT_I32))
def radix_sort(values, counts, keys, order, spare_keys, spare_order):  # type: ignore[no-untyped-def]
    """Sort a batch of at least two; 0 if the answer is in ``keys`` and ``order``, 1 if it is in the spare ones."""
    given, words, spare_words = values.view(np.uint64), keys.view(np.uint64), spare_keys.view(np.uint64)
    base = most = given[0] ^ SIGN
    for i in range(len(given)):
        word = given[i] ^ SIGN
        base = min(base, word)
        most = max(most, word)
    span = most - base
    bits = U(0)
    while bits < U(64) and span >> bits:
        bits += U(1)
    if bits > DIGIT_BITS + DIGIT_BITS:
        low = bits - DIGIT_BITS - DIGIT_BITS
        moved = sort_by_digit(given, order[:0], base, low, counts, spare_words, spare_order)
        if not moved:
            for i in range(len(values)):
                spare_words[i] = given[i]
                spare_order[i] = i
        if sort_by_digit(spare_words, spare_order, base, low + DIGIT_BITS, counts, words, order):
            if finish_sort(keys, order, PATIENCE * len(values)):
                return 0
        elif finish_sort(spare_keys, spare_order, PATIENCE * len(values)):
            return 1
    # Every digit, from the last to the first; the batch wanders between the two pairs of arrays.
    for i in range(len(values)):
        words[i] = given[i]
        order[i] = i
    place = 0
    shift = U(0)
    while shift < bits:
        if place == 0:
            place = 1 if sort_by_digit(words, order, base, shift, counts, spare_words, spare_order) else 0
        else:
            place = 0 if sort_by_digit(spare_words, spare_order, base, shift, counts, words, order) else 1
        shift += DIGIT_BITS
    return place


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
    keys, spare_keys = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    order, spare_order = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    counts = np.empty(BUCKETS, dtype=np.int32)
    if radix_sort(values, counts, keys, order, spare_keys, spare_order) == 0:
        return keys, order
    return spare_keys, spare_order
