"""Rebounding search: where a sorted batch of intervals falls in a sorted run.

A batch is sorted, so each search starts from where the previous one ended (seed 000, III-E), in two steps. First every
16th key of the run, a sixteenth of the memory, tells the block: the samples are stepped through sixteen at a time, in
four places of the batch at once; where there are many more probes than samples, the probes are stepped through
instead; where there are many fewer, each is bisected without branches, so that the searches of several rows overlap. Of a
run that is short beside the batch, the keys are looked for among the probes. Then the
block's 16 keys are compared with both ends of the interval at once: mostly it begins and ends there. The end of a longer
range is looked for from where the one before it ended. New probes come every time, so a branch on them is a coin toss
that the processor loses.

Keys are int64, or int32 where they fit: then twice as many are in the cache. A run's bounds are as wide as its keys.

Positions are int32: a run has fewer than 2^31 rows. Indices are unsigned in the inner loops, because signed
ones make Numba test each for Python's counting from the end.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, inlined, kernel, types
from slidejoin.kernels.bits import cut_to_32, is_below
from slidejoin.kernels.expand import pairs_of
from slidejoin.kernels.memory import int32s_at, int64s_at
from slidejoin.kernels.order import add_both
from slidejoin.kernels.prefetch import prefetch
from slidejoin.kernels.vector import below_of_16, below_of_32, up_to_of_16, up_to_of_32

RUN_WORDS = 7  # what ``find_in_runs`` is told of a run
SPARE = 2  # answers a probe that there is room for beside one in each run
BLOCK = 16  # keys per sample: a cache line of int32, two of int64
CROWDED = 8  # from this many probes per sample on, they are stepped through instead of the samples
STEPS = 4  # of 32 keys, that cost less than galloping
THIN = 16  # from this many probes per key on, keys are looked for among the probes
SPARSE = 64  # from this many samples per probe on, bisecting anew is cheaper than stepping sixteen at a time

U = np.uint64
AHEAD = U(32)  # rows: about the time that one miss takes
ZERO, ONE, TWO, THREE, FOUR, SIXTEEN, THIRTY_TWO = (U(n) for n in (0, 1, 2, 3, 4, 16, 32))


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


@kernel(types.void(I64, I64, OUT_I32), types.void(I32, I32, OUT_I32))
def bisect_all(values, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = ``bisect(values, wanted[i])``, four at a time: each step waits for memory, four waits overlap."""
    m = U(len(wanted))
    i = ZERO
    while i + FOUR <= m:
        want_a, want_b = np.int64(wanted[i]), np.int64(wanted[i + ONE])
        want_c, want_d = np.int64(wanted[i + TWO]), np.int64(wanted[i + THREE])
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


@kernel(types.void(I64, I64, OUT_I32), types.void(I32, I32, OUT_I32))
def find_blocks(samples, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = first block whose last key is not below ``wanted[i]``; ``wanted`` ascends and is not empty.

    ``samples[j]`` is the last key of the j-th full block.
    """
    m = U(len(wanted))
    at = bisect(samples, wanted[0])
    blocks = bisect(samples, wanted[m - ONE])
    if U(CROWDED) * (blocks - at) <= m:
        fill_blocks(samples, at, blocks, wanted, out)
    elif blocks - at <= U(SPARSE) * m:
        step_blocks(samples, wanted, out)
    else:
        bisect_all(samples, wanted, out)


@inlined
def fill_blocks(samples, at, last, wanted, out):  # type: ignore[no-untyped-def]
    """The blocks from ``at`` to ``last``, each written to all that want it."""
    m = U(len(wanted))
    i = ZERO
    while at < last:
        sample = samples[at]
        step = SIXTEEN
        while step == SIXTEEN and i + SIXTEEN <= m:
            for place in range(16):  # those that want a later one are written again
                out[i + U(place)] = at
            step = up_to_of_16(wanted, i, sample)
            i += step
        while i + SIXTEEN > m and i < m and wanted[i] <= sample:
            out[i] = at
            i += ONE
        at += ONE
    while i < m:
        out[i] = at
        i += ONE


@inlined
def step_on(values, at, want):  # type: ignore[no-untyped-def]
    """The first position from ``at`` on whose value is not below ``want``; one at which 16 values begin must be there."""
    step = below_of_16(values, at, want)
    while step == SIXTEEN:
        at += SIXTEEN
        step = below_of_16(values, at, want)
    return at + step


@inlined
def step_within(values, at, want):  # type: ignore[no-untyped-def]
    """The first position from ``at`` on whose value is not below ``want``, or the end."""
    n = U(len(values))
    step = SIXTEEN
    while step == SIXTEEN and at + SIXTEEN <= n:
        step = below_of_16(values, at, want)
        at += step
    while at + SIXTEEN > n and at < n and values[at] < want:
        at += ONE
    return at


@inlined
def step_blocks(samples, wanted, out):  # type: ignore[no-untyped-def]
    """Each step waits for the one before it, so four quarters of the batch are stepped through side by side."""
    n = U(len(samples))
    quarter = U(len(wanted)) >> TWO
    second, third, fourth = quarter, TWO * quarter, THREE * quarter
    a, b = bisect(samples, wanted[0]), bisect(samples, wanted[second])
    c, d = bisect(samples, wanted[third]), bisect(samples, wanted[fourth])
    i = ZERO
    while i < quarter and d + SIXTEEN <= n:  # no quarter gets beyond where the next one began
        a = step_on(samples, a, wanted[i])
        b = step_on(samples, b, wanted[second + i])
        c = step_on(samples, c, wanted[third + i])
        d = step_within(samples, d, wanted[fourth + i])
        out[i], out[second + i], out[third + i], out[fourth + i] = a, b, c, d
        i += ONE
    while i < quarter:
        a = step_within(samples, a, wanted[i])
        b = step_within(samples, b, wanted[second + i])
        c = step_within(samples, c, wanted[third + i])
        d = step_within(samples, d, wanted[fourth + i])
        out[i], out[second + i], out[third + i], out[fourth + i] = a, b, c, d
        i += ONE
    for row in range(FOUR * quarter, len(wanted)):
        i = U(row)
        d = step_within(samples, d, wanted[i])
        out[i] = d


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


@kernel(types.void(I64, I64, OUT_I32))
def find_starts(keys, lows, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = first position whose key is not below ``lows[i]``; ``lows`` ascend and are not far apart.

    Without samples; four quarters of the batch are stepped through side by side.
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


@inlined
def never_fall(values):  # type: ignore[no-untyped-def]
    falls = 0
    for row in range(1, len(values)):
        i = U(row)
        falls += values[i] < values[i - ONE]
    return falls == 0


@inlined
def find_among_probes(keys, lows, highs, rows, out_rows, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """``find_ranges`` for few keys: most probes meet none of them, and are never looked at. ``highs`` ascend as well.

    A probe that a key is within, and none before it was, begins there.
    """
    asked = U(len(lows))
    kept = ZERO
    i = ZERO
    for start in range(len(keys)):
        key = keys[U(start)]
        i = max(i, bisect(highs, key))
        while i < asked and lows[i] <= key:
            out_rows[kept] = rows[i]
            out_starts[kept] = start
            out_ends[kept] = gallop_past(keys, U(start), highs[i])
            kept += ONE
            i += ONE
    return kept


@kernel(
    types.UniTuple(types.int64, 2)(I64, I64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32),
    types.UniTuple(types.int64, 2)(I32, I32, I32, I32, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32),
)
def find_ranges(  # type: ignore[no-untyped-def]
    keys, samples, lows, highs, rows, blocks, out_rows, out_starts, out_ends
):
    """The ranges of keys within ``[lows[i], highs[i]]``, the non-empty ones; returns (ranges, pairs).

    ``lows`` ascend; ``samples[j]`` is the last key of the j-th full block; ``blocks`` is scratch.
    """
    asked = U(len(lows))
    if asked == ZERO:
        return 0, 0
    if U(THIN) * U(len(keys)) <= asked and never_fall(highs):
        kept = find_among_probes(keys, lows, highs, rows, out_rows, out_starts, out_ends)
        return kept, pairs_of(out_starts, out_ends, 0, kept)
    find_blocks(samples, lows, blocks)
    whole = asked  # probes that begin in a full block
    while whole > ZERO and U(blocks[whole - ONE]) >= U(len(samples)):
        whole -= ONE
    kept = ZERO
    # Of the last range that was long, and where it ended: a higher one ends no earlier.
    high_before, end_before = highs[0], ZERO
    for row in range(whole):
        i = U(row)
        prefetch(keys, U(blocks[min(i + AHEAD, asked - ONE)]) * SIXTEEN)
        at, high = U(blocks[i]) * SIXTEEN, highs[i]
        start = at + below_of_16(keys, at, lows[i])
        few = up_to_of_16(keys, at, high)
        end = at + few
        if few == SIXTEEN:
            if high >= high_before:
                end = max(end, end_before)
            end = step_past(keys, end, high)
            high_before, end_before = high, end
        out_rows[kept] = rows[i]
        out_starts[kept] = start
        out_ends[kept] = end
        kept += U(end > start)
    for row in range(whole, asked):
        i = U(row)
        start = step_within(keys, U(blocks[i]) * SIXTEEN, lows[i])
        end = gallop_past(keys, start, highs[i])
        out_rows[kept] = rows[i]
        out_starts[kept] = start
        out_ends[kept] = end
        kept += U(end > start)
    return kept, pairs_of(out_starts, out_ends, 0, kept)


@kernel(types.int64(I32, types.int64, types.int64, types.int64, OUT_I32, OUT_I32, OUT_I32))
def leave_out(ids, first, kept, pairs, rows, starts, ends):  # type: ignore[no-untyped-def]
    """Of ranges that were found, the ids from ``first`` on, each a range of its own; returns how many.

    They are written where the ranges are; if there may not be room for that, nothing is done, and -1 returned.
    """
    if pairs >= len(rows):
        return -1
    # First the ranges move up. Each has a pair, so what is written never catches up with what is to be read, not even
    # where one more is written than there is.
    last = U(pairs)
    ahead = last + ONE - U(kept)
    for number in range(kept):
        i = U(kept) - ONE - U(number)
        rows[ahead + i], starts[ahead + i], ends[ahead + i] = rows[i], starts[i], ends[i]
    written = ZERO
    for number in range(kept):
        i = ahead + U(number)
        prefetch(ids, U(starts[min(i + AHEAD, last)]))
        row, start, end = rows[i], U(starts[i]), U(ends[i])
        rows[written], starts[written], ends[written] = row, start, start + ONE
        written += U(ids[start] >= first)
        # Whether there is a second one nobody can foresee, so it is written in any case.
        second = start + U(end - start > ONE)
        rows[written], starts[written], ends[written] = row, second, second + ONE
        written += U((ids[second] >= first) & (second > start))
        start += TWO
        while start < end:
            rows[written], starts[written], ends[written] = row, start, start + ONE
            written += U(ids[start] >= first)
            start += ONE
    return written


@kernel(types.void(I64, types.int64, OUT_I32), types.void(I32, types.int64, OUT_I32))
def narrow(values, shift, out):  # type: ignore[no-untyped-def]
    """Bounds as wide as narrow keys, so far from values; nothing may overflow.

    One beyond 32 bits is as good as the least or the greatest, which no key is.
    """
    for i in range(len(values)):
        out[i] = cut_to_32(np.int64(values[i]) + shift)


@kernel(
    types.int64(
        I64, I64, types.int64, types.int64, OUT_I64, OUT_I64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64
    ),
    types.int64(
        I64, I32, types.int64, types.int64, OUT_I64, OUT_I64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64
    ),
)  # fmt: skip
def find_in_runs(  # type: ignore[no-untyped-def]
    runs,
    centres,
    below,
    above,
    made_lows,
    made_highs,
    lows,
    highs,
    rows,
    scratch,
    out_rows,
    out_starts,
    out_ends,
    counts,
):
    """``find_ranges`` over several runs, one behind the other; returns how many ranges there are in all.

    Bounds are given or, if there are ``centres``, made of them, as wide as the runs' keys; then ``made_lows`` and
    ``made_highs`` are the memory of ``lows`` and ``highs``. ``runs`` has seven numbers a run: address and length of its keys
    and of its samples, the bytes of a key, the address of its ids, and the first of those that are asked for. ``counts``
    gets three: ranges, pairs, and whether none is of another id; they are left out where there is room for that. The
    outputs have room for every probe in every run, and some to spare, ``scratch`` for three numbers a probe.
    """
    asked = len(rows)
    around = len(centres) > 0
    widened = not around
    blocks, narrow_lows, narrow_highs = (
        scratch[:asked],
        scratch[asked : 2 * asked],
        scratch[2 * asked : 3 * asked],
    )
    narrowed = False
    at = 0
    held = len(runs) // RUN_WORDS
    for number in range(held):
        run = runs[RUN_WORDS * number : RUN_WORDS * (number + 1)]
        room = len(out_rows) - asked * (held - number - 1)
        here, starts, ends = out_rows[at:room], out_starts[at:room], out_ends[at:room]
        if run[4] == 4:
            if not narrowed:
                if around:
                    narrow(centres, below, narrow_lows)
                    narrow(centres, above, narrow_highs)
                else:
                    narrow(lows, 0, narrow_lows)
                    narrow(highs, 0, narrow_highs)
                narrowed = True
            kept, pairs = find_ranges(
                int32s_at(run[0], run[1]), int32s_at(run[2], run[3]),
                narrow_lows, narrow_highs, rows, blocks, here, starts, ends,
            )  # fmt: skip
        else:
            if not widened:
                add_both(centres, below, above, made_lows, made_highs)
                widened = True
            kept, pairs = find_ranges(
                int64s_at(run[0], run[1]), int64s_at(run[2], run[3]),
                lows, highs, rows, blocks, here, starts, ends,
            )  # fmt: skip
        counts[3 * number + 2] = 1
        if run[6] > 0:
            left = leave_out(int32s_at(run[5], run[1]), run[6], kept, pairs, here, starts, ends)
            if left < 0:
                counts[3 * number + 2] = 0
            else:
                kept = pairs = left
        counts[3 * number] = kept
        counts[3 * number + 1] = pairs
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
