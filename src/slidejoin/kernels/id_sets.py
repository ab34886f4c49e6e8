"""Sets of row ids as hash tables with open addressing: what SPO-Join is compared with.

Each predicate's answer becomes a table, as if its operator handed it over, and the smaller table's ids are
looked up in the larger (seed 002, 2.4 and 3.2: a result set each, then a logical operation on the two).
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, OUT_I32, kernel, types

U = np.uint64
ZERO, ONE, TWO = U(0), U(1), U(2)
SPREAD = U(0x9E3779B97F4A7C15)  # the golden ratio in 64 bits: spreads consecutive ids over the table
WORD = U(64)
EMPTY = -1


@kernel(types.uint64(I32, types.uint64, types.uint64, OUT_I32))
def fill_table(ids, begin, end, table):  # type: ignore[no-untyped-def]
    """Put ``ids[begin:end]`` into an empty table, at most half full; returns the bits of its size."""
    bits = ONE
    while (ONE << bits) < TWO * (end - begin):
        bits += ONE
    mask = (ONE << bits) - ONE
    shift = WORD - bits
    for place in range(ONE << bits):
        table[U(place)] = EMPTY
    for i in range(begin, end):
        entry = ids[U(i)]
        slot = (U(entry) * SPREAD) >> shift
        while table[slot] != EMPTY:
            slot = (slot + ONE) & mask
        table[slot] = entry
    return bits


@kernel(types.int64(I32, I32, I32, I32, I32, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32))
def list_common(  # type: ignore[no-untyped-def]
    ids_a, starts_a, ends_a, ids_b, starts_b, ends_b, table_a, table_b, out_ids, out_ends
):
    """The ids that ``ids_a[starts_a[i]:ends_a[i]]`` and the same of b have in common, up to ``out_ends[i]``."""
    at = ZERO
    for i in range(len(starts_a)):
        begin_a, end_a = U(starts_a[i]), U(ends_a[i])
        begin_b, end_b = U(starts_b[i]), U(ends_b[i])
        if begin_a < end_a and begin_b < end_b:
            bits_a = fill_table(ids_a, begin_a, end_a, table_a)
            bits_b = fill_table(ids_b, begin_b, end_b, table_b)
            small, large, small_bits, bits = table_a, table_b, bits_a, bits_b
            if end_b - begin_b < end_a - begin_a:
                small, large, small_bits, bits = table_b, table_a, bits_b, bits_a
            mask = (ONE << bits) - ONE
            shift = WORD - bits
            for place in range(ONE << small_bits):
                entry = small[U(place)]
                if entry == EMPTY:
                    continue
                slot = (U(entry) * SPREAD) >> shift
                while large[slot] != EMPTY and large[slot] != entry:
                    slot = (slot + ONE) & mask
                out_ids[at] = entry
                at += U(large[slot] == entry)
        out_ends[i] = at
    return np.int64(at)
