"""Range partitions: which of them a sorted batch falls into, and what a batch of probes wants of them.

Partition p holds the keys above ``splitters[p - 1]`` up to and including ``splitters[p]``; the last one has no
upper splitter. ``search.find_blocks`` finds the partitions of a sorted batch, rebounding from one to the next;
the kernels here go on from there.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, kernel, types

HISTOGRAM = types.Array(types.int64, 2, "C", readonly=True)
OUT_HISTOGRAM = types.Array(types.int64, 2, "C")

COUNT, MIN, MAX = 0, 1, 2  # columns of the histograms

U = np.uint64
ZERO, ONE = U(0), U(1)


@kernel(types.uint64(I64, types.uint64, types.int64))
def gallop_to(values, start, want):  # type: ignore[no-untyped-def]
    """The first position from ``start`` on whose value is not below ``want``; O(log of the distance)."""
    n = U(len(values))
    if start >= n or values[start] >= want:
        return start
    at = start
    step = ONE
    above = at + ONE
    while above < n and values[above] < want:
        at = above
        step <<= ONE
        above = at + step
    above = min(above, n)
    at += ONE
    while at < above:
        middle = (at + above) >> ONE
        if values[middle] < want:
            at = middle + ONE
        else:
            above = middle
    return at


@kernel(types.int64(I32, I64, OUT_HISTOGRAM, OUT_I32, OUT_I32))
def split_batch(partitions, keys, histogram, out_partitions, out_bounds):  # type: ignore[no-untyped-def]
    """The runs of a sorted batch that go to one partition each, noted in the histograms.

    Run r is rows ``out_bounds[r]:out_bounds[r + 1]``, for ``out_partitions[r]``. Returns the number of runs.
    """
    n = U(len(partitions))
    runs = ZERO
    row = ZERO
    while row < n:
        partition = partitions[row]
        out_partitions[runs] = partition
        out_bounds[runs] = row
        runs += ONE
        begin = row
        row += ONE
        while row < n and partitions[row] == partition:
            row += ONE
        here = U(partition)
        histogram[here, COUNT] += np.int64(row - begin)
        histogram[here, MIN] = min(histogram[here, MIN], keys[begin])
        histogram[here, MAX] = max(histogram[here, MAX], keys[row - ONE])
    out_bounds[runs] = n
    return np.int64(runs)


@kernel(types.void(I32, I64, OUT_HISTOGRAM))
def measure(ends, keys, histogram):  # type: ignore[no-untyped-def]
    """The histograms of partitions that lie one after the other; partition p ends at ``ends[p]``."""
    at = ZERO
    for p in range(len(ends)):
        end = U(ends[p])
        least = np.int64(2**63 - 1)
        most = np.int64(-(2**63))
        histogram[p, COUNT] = np.int64(end - at)
        while at < end:
            least = min(least, keys[at])
            most = max(most, keys[at])
            at += ONE
        histogram[p, MIN] = least
        histogram[p, MAX] = most


@kernel(
    types.UniTuple(types.int64, 5)(
        I64, HISTOGRAM, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32
    )
)
def divide_probes(  # type: ignore[no-untyped-def]
    splitters,
    histogram,
    lows,
    highs,
    firsts,
    low_probes,
    low_partitions,
    high_probes,
    high_partitions,
    whole_probes,
    whole_firsts,
    whole_lasts,
):
    """What each probe wants: a partition to scan at its lower end, one at its upper end, all rows in between.

    ``firsts`` are the partitions of ``lows``. A partition whose least and greatest key are within the bounds
    is wanted whole wherever it lies. Returns (items at lower ends, at upper ends, whole items, rows to scan,
    partitions wanted whole); probes that ask the same as the one before are not counted among the rows.
    """
    at_low = ZERO
    at_high = ZERO
    wholes = ZERO
    scanned = np.int64(0)
    listed = ZERO
    for row in range(len(lows)):
        low = lows[row]
        high = highs[row]
        if low > high:
            continue
        fresh = row == 0 or lows[row - 1] != low or highs[row - 1] != high
        first = U(firsts[row])
        last = gallop_to(splitters, first, high)
        begin = first + ONE  # of what is wanted whole; the end is exclusive
        end = last
        count = histogram[first, COUNT]
        if count > 0:
            least = histogram[first, MIN]
            most = histogram[first, MAX]
            if least >= low and most <= high:
                begin = first
            elif most >= low and least <= high:
                low_probes[at_low] = row
                low_partitions[at_low] = first
                at_low += ONE
                scanned += count if fresh else 0
        if last > first:
            count = histogram[last, COUNT]
            if count > 0:
                if histogram[last, MAX] <= high:
                    end = last + ONE
                elif histogram[last, MIN] <= high:
                    high_probes[at_high] = row
                    high_partitions[at_high] = last
                    at_high += ONE
                    scanned += count if fresh else 0
        elif begin == first:
            end = first + ONE
        if begin < end:
            whole_probes[wholes] = row
            whole_firsts[wholes] = begin
            whole_lasts[wholes] = end - ONE
            wholes += ONE
            listed += end - begin
    return np.int64(at_low), np.int64(at_high), np.int64(wholes), scanned, np.int64(listed)
