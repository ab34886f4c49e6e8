"""Rebounding search: where a sorted batch of intervals falls in a sorted run.

A batch is sorted, so each search starts from where the previous one ended (seed 000, III-E). Where the batch is
dense in the run, that is all: 32 keys are compared at once, and mostly the answer is among them. Where it is not,
there are two steps. First every 16th key of the run, a sixteenth of the memory: stepped through as a merge would,
sixteen at a time, or bisected without branches, so that the searches of several rows overlap. Then one comparison
with the block of 16. One with the 8 keys from the start of the range gives its end; the end of a longer range is
looked for from where the one before it ended. New probes come every time, so a branch on them is a coin toss that the processor
loses.

Keys are int64, or int32 where they fit: then twice as many are in the cache. Bounds are always int64.

Positions are int32: a run has fewer than 2^31 rows. Indices are unsigned in the inner loops, because signed
ones make Numba test each for Python's counting from the end.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, inlined, kernel, types
from slidejoin.kernels.bits import is_below
from slidejoin.kernels.memory import int32s_at, int64s_at
from slidejoin.kernels.prefetch import prefetch
from slidejoin.kernels.vector import below_of_16, below_of_32, up_to_of_8, up_to_of_32

BLOCK = 16  # keys per sample: two cache lines of int64
DENSE_KEYS = 24  # up to this many keys per probing row, they are stepped through without samples
DENSE = 1  # up to this many samples per probing row, stepping through all of them is the cheapest
STEPS = 4  # of 32 keys, that cost less than galloping
SPARSE = 64  # from this many on, bisecting anew is cheaper than stepping sixteen at a time

U = np.uint64
AHEAD = U(16)  # rows: about the time that one miss takes
ZERO, ONE, TWO, THREE, FOUR, EIGHT, SIXTEEN, THIRTY_TWO = (U(n) for n in (0, 1, 2, 3, 4, 8, 16, 32))


@kernel(types.uint64(I64, types.int64), types.uint64(I32, types.int64))
def bisect(values, want):  # type: ignore[no-untyped-def]
    """The first position whose value is not below ``want``, without a branch that could be mispredicted."""
    at = ZERO
    left = U(len(values))
    while left > ZERO:
        half = (left + ONE) >> ONE
        at += is_below(np.int64(values[at + half - ONE]), want) & half
        left -= half
    return at


@kernel(types.void(I64, I64, OUT_I32), types.void(I32, I64, OUT_I32))
def bisect_all(values, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = ``bisect(values, wanted[i])``, four at a time: each step waits for memory, four waits overlap."""
    m = U(len(wanted))
    i = ZERO
    while i + FOUR <= m:
        want_a, want_b, want_c, want_d = wanted[i], wanted[i + ONE], wanted[i + TWO], wanted[i + THREE]
        a = b = c = d = ZERO
        left = U(len(values))
        while left > ZERO:
            half = (left + ONE) >> ONE
            last = half - ONE
            a += is_below(np.int64(values[a + last]), want_a) & half
            b += is_below(np.int64(values[b + last]), want_b) & half
            c += is_below(np.int64(values[c + last]), want_c) & half
            d += is_below(np.int64(values[d + last]), want_d) & half
            left -= half
        out[i], out[i + ONE], out[i + TWO], out[i + THREE] = a, b, c, d
        i += FOUR
    while i < m:
        out[i] = bisect(values, wanted[i])
        i += ONE


@kernel(types.void(I64, I64, OUT_I32), types.void(I32, I64, OUT_I32))
def find_blocks(samples, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = first block whose last key is not below ``wanted[i]``; ``wanted`` ascends and is not empty.

    ``samples[j]`` is the last key of the j-th full block.
    """
    m = U(len(wanted))
    at = bisect(samples, wanted[0])
    blocks = bisect(samples, wanted[m - ONE])
    if blocks - at <= U(DENSE) * m:
        i = ZERO
        while i < m and at < blocks:
            below = samples[at] < wanted[i]
            out[i] = at
            at += U(below)
            i += U(not below)
        while i < m:
            out[i] = at
            i += ONE
    elif blocks - at <= U(SPARSE) * m:
        n = U(len(samples))
        for row in range(len(wanted)):
            want = wanted[row]
            step = SIXTEEN
            while step == SIXTEEN and at + SIXTEEN <= n:
                step = below_of_16(samples, at, want)
                at += step
            while at + SIXTEEN > n and at < n and samples[at] < want:
                at += ONE
            out[row] = at
    else:
        bisect_all(samples, wanted, out)


@kernel(types.uint64(I64, types.uint64, types.int64), types.uint64(I32, types.uint64, types.int64))
def gallop_past(keys, start, high):  # type: ignore[no-untyped-def]
    """The first position from ``start`` on whose key exceeds ``high``; O(log of the distance)."""
    n = U(len(keys))
    if start >= n or keys[start] > high:
        return start
    at = start
    step = ONE
    above = at + ONE
    while above < n and keys[above] <= high:
        at = above
        step <<= ONE
        above = at + step
    above = min(above, n)
    at += ONE
    while at < above:
        middle = (at + above) >> ONE
        if keys[middle] <= high:
            at = middle + ONE
        else:
            above = middle
    return at


@inlined
def start_in_block(keys, at, low):  # type: ignore[no-untyped-def]
    """The first position of the block at ``at`` whose key is not below ``low``, or its end."""
    n = U(len(keys))
    if at + SIXTEEN <= n:
        return at + below_of_16(keys, at, low)
    while at < n and keys[at] < low:
        at += ONE
    return at


@inlined
def step_to(keys, at, low):  # type: ignore[no-untyped-def]
    """The first position from ``at`` on whose key is not below ``low``."""
    n = U(len(keys))
    step = THIRTY_TWO
    while step == THIRTY_TWO and at + THIRTY_TWO <= n:
        step = below_of_32(keys, at, low)
        at += step
    while at + THIRTY_TWO > n and at < n and keys[at] < low:
        at += ONE
    return at


@inlined
def step_past(keys, at, high):  # type: ignore[no-untyped-def]
    """The first position from ``at`` on whose key exceeds ``high``; usually near, as the one before was found."""
    for _ in range(STEPS):
        if at + THIRTY_TWO > U(len(keys)):
            break
        step = up_to_of_32(keys, at, high)
        at += step
        if step < THIRTY_TWO:
            return at
    return gallop_past(keys, at, high)


@kernel(types.void(I64, I64, OUT_I32), types.void(I32, I64, OUT_I32))
def find_starts(keys, lows, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = first position whose key is not below ``lows[i]``; ``lows`` ascend and are not far apart.

    Each step waits for the one before it, so four quarters of the batch are stepped through side by side.
    """
    quarter = U(len(lows)) >> TWO
    second, third, fourth = quarter, TWO * quarter, THREE * quarter
    a, b = bisect(keys, lows[0]), bisect(keys, lows[second])
    c, d = bisect(keys, lows[third]), bisect(keys, lows[fourth])
    for row in range(quarter):
        i = U(row)
        a = step_to(keys, a, lows[i])
        b = step_to(keys, b, lows[second + i])
        c = step_to(keys, c, lows[third + i])
        d = step_to(keys, d, lows[fourth + i])
        out[i], out[second + i], out[third + i], out[fourth + i] = a, b, c, d
    for row in range(FOUR * quarter, len(lows)):
        i = U(row)
        d = step_to(keys, d, lows[i])
        out[i] = d


@kernel(
    types.UniTuple(types.int64, 2)(I64, I64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32),
    types.UniTuple(types.int64, 2)(I32, I32, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32),
)
def find_ranges(  # type: ignore[no-untyped-def]
    keys, samples, lows, highs, rows, blocks, out_rows, out_starts, out_ends
):
    """The ranges of keys within ``[lows[i], highs[i]]``, the non-empty ones; returns (ranges, pairs).

    ``lows`` ascend; ``samples[j]`` is the last key of the j-th full block; ``blocks`` is scratch.
    """
    if len(lows) == 0:
        return 0, 0
    n = U(len(keys))
    asked = U(len(lows))
    dense = bisect(keys, lows[asked - ONE]) - bisect(keys, lows[0]) <= U(DENSE_KEYS) * asked
    if dense:
        find_starts(keys, lows, blocks)
    else:
        find_blocks(samples, lows, blocks)
    kept = ZERO
    pairs = ZERO
    # Of the last range that was long, and where it ended: a higher one ends no earlier.
    high_before, end_before = highs[0], ZERO
    for row in range(len(lows)):
        i = U(row)
        if dense:
            start = U(blocks[i])
        else:
            if i + AHEAD < asked:
                later = U(blocks[i + AHEAD]) * SIXTEEN
                prefetch(keys, later)
                prefetch(keys, later + EIGHT)
            start = start_in_block(keys, U(blocks[i]) * SIXTEEN, lows[i])
        high = highs[i]
        if start + EIGHT <= n:
            few = up_to_of_8(keys, start, high)
            end = start + few
            if few == EIGHT:
                if high >= high_before:
                    end = max(end, end_before)
                end = step_past(keys, end, high)
                high_before, end_before = high, end
        else:
            end = gallop_past(keys, start, high)
        out_rows[kept] = rows[i]
        out_starts[kept] = start
        out_ends[kept] = end
        kept += U(end > start)
        pairs += end - start
    return kept, pairs


@kernel(types.int64(I64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64))
def find_in_runs(runs, lows, highs, rows, blocks, out_rows, out_starts, out_ends, counts):  # type: ignore[no-untyped-def]
    """``find_ranges`` over several runs, one behind the other; returns how many ranges there are in all.

    ``runs`` has five numbers a run: address and length of its keys and of its samples, and the bytes of a key.
    ``counts`` gets two: ranges and pairs. The outputs have room for every probe in every run.
    """
    at = 0
    for number in range(len(runs) // 5):
        run = runs[5 * number : 5 * number + 5]
        if run[4] == 4:
            kept, pairs = find_ranges(
                int32s_at(run[0], run[1]), int32s_at(run[2], run[3]),
                lows, highs, rows, blocks, out_rows[at:], out_starts[at:], out_ends[at:],
            )  # fmt: skip
        else:
            kept, pairs = find_ranges(
                int64s_at(run[0], run[1]), int64s_at(run[2], run[3]),
                lows, highs, rows, blocks, out_rows[at:], out_starts[at:], out_ends[at:],
            )  # fmt: skip
        counts[2 * number] = kept
        counts[2 * number + 1] = pairs
        at += kept
    return at


@kernel(
    types.UniTuple(types.int64, 2)(I64, I64, types.int64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32)
)
def find_by_merging(  # type: ignore[no-untyped-def]
    keys, samples, stride, lows, highs, rows, blocks, out_rows, out_starts, out_ends
):
    """``find_ranges`` for blocks of any length: each is stepped through as a merge would, from the previous answer.

    ``samples[j]`` is the last key of the j-th full block of ``stride`` keys.
    """
    if len(lows) == 0:
        return 0, 0
    find_blocks(samples, lows, blocks)
    n = U(len(keys))
    wide = U(stride)
    at = ZERO
    end = ZERO
    high_before = highs[0]
    kept = ZERO
    pairs = ZERO
    for row in range(len(lows)):
        i = U(row)
        low, high = lows[i], highs[i]
        at = max(at, U(blocks[i]) * wide)
        while at < n and keys[at] < low:
            at += ONE
        # Everything before the previous end is at most the previous high.
        end = gallop_past(keys, max(at, end) if high >= high_before else at, high)
        high_before = high
        out_rows[kept] = rows[i]
        out_starts[kept] = at
        out_ends[kept] = end
        kept += U(end > at)
        pairs += end - at
    return kept, pairs
