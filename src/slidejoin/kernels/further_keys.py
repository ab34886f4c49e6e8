"""Third keys and more, by id: kept, and looked at where the first two keys have left something."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, OUT_I32, kernel, types
from slidejoin.kernels.prefetch import prefetch

I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT_I64_ROWS = types.Array(types.int64, 2, "C")

U = np.uint64
ZERO, ONE, TWO = U(0), U(1), U(2)
AHEAD = 16  # ranges: about the time that one miss takes


@kernel(types.void(I64_ROWS, I32, types.int64, OUT_I64_ROWS))
def keep_by_id(keys, ids, base, out):  # type: ignore[no-untyped-def]
    """``out[:, id - base]`` = the keys from the third on."""
    for j in range(len(out)):
        for i in range(U(len(ids))):
            out[U(j), U(ids[U(i)] - base)] = keys[U(j + 2), U(i)]


@kernel(
    types.UniTuple(types.int64, 3)(
        I64_ROWS, types.int64, I32, I64_ROWS, I64_ROWS, I32, I32, I32, I32, types.int64, OUT_I32, OUT_I32, OUT_I32
    )
)  # fmt: skip
def sift(  # type: ignore[no-untyped-def]
    keys, base, ids, lows, highs, rows, probes, starts, ends, at, out_rows, out_starts, out_ends
):
    """What of the ranges from ``at`` on is within the bounds of the further keys too; ``probes`` says whose they are.

    After the first two keys, and apart from looking for those, because it is a coin toss again which rows pass. Ranges
    are written from place 1 on; stops when the output might not have room for another one, which takes half its rows
    and two. Returns (range to go on with, places used, pairs).
    """
    room = U(len(out_rows))
    kept = ONE
    pairs = ZERO
    while at < len(probes):
        t = U(at)
        begin, end = U(starts[t]), U(ends[t])
        if kept + ((end - begin) >> ONE) + TWO > room:
            break
        if at + AHEAD < len(probes):
            prefetch(keys, U(ids[U(starts[t + U(AHEAD)])] - base))
        i = U(probes[t])
        row = rows[i]
        running = ZERO
        for number in range(begin, end):
            place = U(number)
            passes = ONE
            at_id = U(ids[place] - base)
            for j in range(len(keys)):
                key = keys[U(j), at_id]
                passes &= U(key >= lows[i, U(j)]) & U(key <= highs[i, U(j)])
            out_rows[kept] = row
            out_starts[kept] = place
            kept += passes & (ONE - running)
            out_ends[kept - ONE] = place + ONE if passes else U(out_ends[kept - ONE])
            pairs += passes
            running = passes
        at += 1
    return at, np.int64(kept), np.int64(pairs)
