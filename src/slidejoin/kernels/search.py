"""Rebounding search: where a sorted batch of intervals falls in a sorted run.

A batch is sorted, so each search starts from where the previous one ended (seed 000, III-E). Three ways to
get from there to the next position, by how far apart the answers are:

- dense   the run is about as long as the batch: step through both as a merge would;
- sampled the run is longer: gallop over every 16th key (a sixteenth of the memory, so it stays in cache),
          then five branch-free steps inside the block of 16, whose misses overlap between rows.

Positions are int32: a run has fewer than 2^31 rows.
"""

from __future__ import annotations

from numba import types

from slidejoin.kernels import I32, I64, OUT_I32, kernel

BLOCK = 16  # keys per sample: two cache lines of int64, found by five branch-free steps
DENSE = 2  # up to this many keys per probing row, stepping beats sampling (bench/structures.py)


@kernel(types.void(I64, I64, I64, OUT_I32))
def lower_bounds(keys, samples, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = first position whose key is not below ``wanted[i]``; ``wanted`` ascends.

    ``samples[j]`` is the last key of the j-th full block of 16.
    """
    n = len(keys)
    m = len(wanted)
    if n <= DENSE * m:
        at = 0
        for i in range(m):
            want = wanted[i]
            while at < n and keys[at] < want:
                at += 1
            out[i] = at
        return
    blocks = len(samples)
    block = 0
    for i in range(m):
        want = wanted[i]
        if block < blocks and samples[block] < want:
            below = block
            step = 1
            above = below + 1
            while above < blocks and samples[above] < want:
                below = above
                step <<= 1
                above = below + step
            if above > blocks:
                above = blocks
            below += 1
            while below < above:
                middle = (below + above) >> 1
                if samples[middle] < want:
                    below = middle + 1
                else:
                    above = middle
            block = below
        out[i] = block
    for i in range(m):
        want = wanted[i]
        at = out[i] * BLOCK
        if at + BLOCK <= n:
            at += (keys[at + 7] < want) * 8
            at += (keys[at + 3] < want) * 4
            at += (keys[at + 1] < want) * 2
            at += (keys[at] < want) * 1
            at += (keys[at] < want) * 1
        else:
            while at < n and keys[at] < want:
                at += 1
        out[i] = at


@kernel(types.UniTuple(types.int64, 2)(I64, I64, I32, I32, OUT_I32, OUT_I32, OUT_I32))
def close_ranges(keys, highs, rows, starts, out_rows, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """Keep the non-empty ranges: those whose keys from ``starts[i]`` on do not exceed ``highs[i]``.

    Returns how many were written and how many pairs they hold. The end is found by galloping from the start,
    or from the previous end where that is certain to be before it.
    """
    n = len(keys)
    kept = 0
    pairs = 0
    last_end = 0
    last_high = highs[0] if len(highs) else 0
    for i in range(len(highs)):
        high = highs[i]
        start = starts[i]
        end = start
        if high >= last_high and last_end > end:
            end = last_end
        if end < n and keys[end] <= high:
            step = 1
            above = end + 1
            while above < n and keys[above] <= high:
                end = above
                step <<= 1
                above = end + step
            if above > n:
                above = n
            end += 1
            while end < above:
                middle = (end + above) >> 1
                if keys[middle] <= high:
                    end = middle + 1
                else:
                    above = middle
        last_end = end
        last_high = high
        out_rows[kept] = rows[i]
        out_starts[kept] = start
        out_ends[kept] = end
        kept += end > start
        pairs += max(end - start, 0)
    return kept, pairs
