"""Merging two sorted runs, all or a stretch of the result, and dropping rows without disturbing the order.

Keys are int64 or, in both runs, int32.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types

U = np.uint64  # unsigned indices: see search.py
ZERO, ONE = U(0), U(1)
SHORT = U(8)  # steps that are not worth another round from both ends


@kernel(types.int64(I64, I64, types.int64), types.int64(I32, I32, types.int64))
def rows_of_first(keys_a, keys_b, count):  # type: ignore[no-untyped-def]
    """How many of the first ``count`` rows of the merged run are from ``a``; O(log count).

    This is where several threads cut a merge: each stretch of the result needs a stretch of either run.
    """
    low = max(0, count - len(keys_b))
    high = min(count, len(keys_a))
    while low < high:
        middle = (low + high) >> 1
        # Row `middle` of a is among the first if no more than the rest of them come before it; ties are a's.
        if keys_a[middle] <= keys_b[count - middle - 1]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(
    types.void(I64, I32, I64, I32, OUT_I64, OUT_I32),
    types.void(I32, I32, I32, I32, OUT_I32, OUT_I32),
)
def merge_runs(keys_a, ids_a, keys_b, ids_b, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Merge two ascending runs into one; equal keys of ``a`` come first. O(len(a) + len(b)).

    From both ends at once: each step waits for the one before it, and two chains of steps overlap.
    """
    a, b = ZERO, ZERO  # next from the front
    c, d = U(len(keys_a)), U(len(keys_b))  # one past the next from the back
    at, end = ZERO, c + d
    while True:
        both = min(c - a, d - b) >> ONE  # neither end can run out of rows in so many steps, nor can they meet
        if both < SHORT:
            break
        for _ in range(both):
            key_a, key_b, id_a, id_b = keys_a[a], keys_b[b], ids_a[a], ids_b[b]
            take_b = key_b < key_a
            out_keys[at] = key_b if take_b else key_a
            out_ids[at] = id_b if take_b else id_a
            b += U(take_b)
            a += U(not take_b)
            at += ONE
            end -= ONE
            key_a, key_b, id_a, id_b = keys_a[c - ONE], keys_b[d - ONE], ids_a[c - ONE], ids_b[d - ONE]
            take_a = key_b < key_a
            out_keys[end] = key_a if take_a else key_b
            out_ids[end] = id_a if take_a else id_b
            c -= U(take_a)
            d -= U(not take_a)
    while a < c and b < d:
        key_a, key_b = keys_a[a], keys_b[b]
        take_b = key_b < key_a
        out_keys[at] = key_b if take_b else key_a
        out_ids[at] = ids_b[b] if take_b else ids_a[a]
        b += U(take_b)
        a += U(not take_b)
        at += ONE
    while a < c:
        out_keys[at] = keys_a[a]
        out_ids[at] = ids_a[a]
        a += ONE
        at += ONE
    while b < d:
        out_keys[at] = keys_b[b]
        out_ids[at] = ids_b[b]
        b += ONE
        at += ONE


@kernel(types.int64(I32, types.int32))
def count_from(ids, first):  # type: ignore[no-untyped-def]
    """How many ids are at least ``first``."""
    count = 0
    for i in range(len(ids)):
        count += ids[i] >= first
    return count


@kernel(
    types.void(I64, I32, types.int32, types.int32, OUT_I64, OUT_I32),
    types.void(I32, I32, types.int32, types.int32, OUT_I32, OUT_I32),
)
def drop_below(keys, ids, first, shift, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Copy the entries whose id is at least ``first``, less ``shift``, until the output is full."""
    at, room = 0, len(out_keys)
    for i in range(len(keys)):
        if at == room:
            break
        out_keys[at] = keys[i]
        out_ids[at] = ids[i] - shift
        at += ids[i] >= first
