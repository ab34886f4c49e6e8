"""PO-Join: permutation arrays between the sorted orders of several keys, and probing through them."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, OUT_I32, OUT_U8, OUT_U64, kernel, types
from slidejoin.kernels.bits import lowest_bit

U = np.uint64
ZERO, ONE, THREE, SEVEN = U(0), U(1), U(3), U(7)
ALL = U(0xFFFFFFFFFFFFFFFF)
I32_ROWS = types.Array(types.int32, 2, "C", readonly=True)


@kernel(types.void(I32, types.int64, types.int64, types.int64, OUT_I32))
def note_positions(ids, base, begin, end, out):  # type: ignore[no-untyped-def]
    """``out[id - base]`` = where the id stands in ``ids``, for those from ``begin`` to ``end``."""
    for i in range(U(begin), U(end)):
        out[U(ids[U(i)] - base)] = i


@kernel(types.void(I32, types.int64, I32, types.int64, types.int64, OUT_I32))
def permute(ids, base, positions, begin, end, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = where the i-th id of one order stands in another, whose positions were noted."""
    for i in range(U(begin), U(end)):
        out[U(i)] = positions[U(ids[U(i)] - base)]


@kernel(types.void(I32, types.uint64, types.uint64, OUT_U8))
def set_flags(permutation, begin, end, flags):  # type: ignore[no-untyped-def]
    """Set the flags at ``permutation[begin:end]``.

    A byte each: where the two orders are alike, neighbours would share a word of bits, and each would have to wait
    until the one before is stored.
    """
    for i in range(begin, end):
        flags[U(permutation[U(i)])] = 1


@kernel(
    types.UniTuple(types.int64, 3)(
        I32_ROWS, I32_ROWS, I32_ROWS, I32, I32, types.int64, OUT_U8, OUT_U64, OUT_U8, OUT_U64,
        OUT_I32, OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def probe_entry(  # type: ignore[no-untyped-def]
    starts, ends, permutations, ids, rows, at, flags, words, more_flags, more_words,
    out_rows, out_starts, out_ends, out_ids,
):  # fmt: skip
    """List the ids that lie within ``[starts[j, i], ends[j, i])`` of every key's order, for probes from ``at`` on.

    The flags are of positions in the first key's order: the other keys' stretches are set through their permutations
    and combined, then the first key's stretch is scanned. ``words`` are the same bytes as ``flags``, eight at a time;
    all are scratch of zeros and are left so. Stops when ``out_ids`` might not have room for another probe; returns
    (probe to go on with, ranges, pairs).
    """
    kept = 0
    pairs = ZERO
    room = U(len(out_ids))
    n = U(len(ids))
    probes = starts.shape[1]
    while at < probes:
        if pairs + n > room:
            break
        i = at
        at += 1
        first, last = starts[0, i], ends[0, i]
        if np.any(starts[:, i] >= ends[:, i]):
            continue
        set_flags(permutations[0], U(starts[1, i]), U(ends[1, i]), flags)
        for j in range(2, starts.shape[0]):
            set_flags(permutations[j - 1], U(starts[j, i]), U(ends[j, i]), more_flags)
            for place in range(len(words)):
                words[place] &= more_words[place]
                more_words[place] = ZERO
        begin = pairs
        low_word, high_word = U(first) >> THREE, U(last - 1) >> THREE
        for place in range(low_word, high_word + ONE):
            word = words[U(place)]
            if word == ZERO:
                continue
            if U(place) == low_word:
                word &= ALL << ((U(first) & SEVEN) << THREE)
            if U(place) == high_word:
                word &= ALL >> ((SEVEN - (U(last - 1) & SEVEN)) << THREE)
            base = U(place) << THREE
            while word != ZERO:
                out_ids[pairs] = ids[base + (lowest_bit(word) >> THREE)]
                pairs += ONE
                word &= word - ONE
        words[:] = ZERO
        if pairs > begin:
            out_rows[kept] = rows[i]
            out_starts[kept] = begin
            out_ends[kept] = pairs
            kept += 1
    return at, kept, np.int64(pairs)
