"""Runs by cell of one key and then by another: filling them, merging them, probing them.

Cell c holds the first keys above ``splitters[c - 1]`` up to and including ``splitters[c]``; its rows lie from
``offsets[c]`` to ``offsets[c + 1]`` in the order of the second key. ``least`` and ``most`` are the first keys that
really occur in a cell.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types
from slidejoin.kernels.search import bisect

U = np.uint64
ZERO, ONE = U(0), U(1)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT_I64_ROWS = types.Array(types.int64, 2, "C")
LEAST, GREATEST = -(2**63), 2**63 - 1


@kernel(types.void(I32, I64_ROWS, I32, OUT_I32, OUT_I64_ROWS, OUT_I32))
def fill_cells(cells, keys, ids, offsets, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Distribute rows, which come in the order of the second key, to their cells; it stays so within each."""
    count = len(offsets) - 1
    offsets[:] = 0
    for i in range(len(cells)):
        offsets[U(cells[i]) + ONE] += 1
    for c in range(count):
        offsets[c + 1] += offsets[c]
    width = keys.shape[1]
    for i in range(len(cells)):
        cell = U(cells[i])
        place = U(offsets[cell])
        offsets[cell] += 1
        for j in range(width):
            out_keys[place, j] = keys[i, j]
        out_ids[place] = ids[i]
    for c in range(count):  # each was moved on to the next one's beginning
        offsets[count - c] = offsets[count - c - 1]
    offsets[0] = 0


@kernel(types.void(I32, I64_ROWS, I32, I32, I64_ROWS, I32, OUT_I32, OUT_I64_ROWS, OUT_I32))
def merge_cells(  # type: ignore[no-untyped-def]
    offsets_a, keys_a, ids_a, offsets_b, keys_b, ids_b, offsets, out_keys, out_ids
):
    """Merge two runs of the same cells, cell by cell. O(rows + cells)."""
    width = keys_a.shape[1]
    at = ZERO
    for c in range(len(offsets) - 1):
        offsets[c] = at
        a, end_a = U(offsets_a[c]), U(offsets_a[c + 1])
        b, end_b = U(offsets_b[c]), U(offsets_b[c + 1])
        while a < end_a or b < end_b:
            if b >= end_b or (a < end_a and keys_a[a, ONE] <= keys_b[b, ONE]):
                for j in range(width):
                    out_keys[at, j] = keys_a[a, j]
                out_ids[at] = ids_a[a]
                a += ONE
            else:
                for j in range(width):
                    out_keys[at, j] = keys_b[b, j]
                out_ids[at] = ids_b[b]
                b += ONE
            at += ONE
    offsets[len(offsets) - 1] = at


@kernel(types.void(I32, I64_ROWS, OUT_I64, OUT_I64, OUT_I64))
def measure_cells(offsets, keys, seconds, least, most):  # type: ignore[no-untyped-def]
    """The second keys on their own, for searching, and the least and greatest first key of every cell."""
    for c in range(len(offsets) - 1):
        low = np.int64(GREATEST)
        high = np.int64(LEAST)
        for i in range(U(offsets[c]), U(offsets[c + 1])):
            place = U(i)
            low = min(low, keys[place, ZERO])
            high = max(high, keys[place, ZERO])
            seconds[place] = keys[place, ONE]
        least[c] = low
        most[c] = high


@kernel(types.uint64(I64, types.uint64, types.uint64, types.int64))
def place_of(values, begin, end, want):  # type: ignore[no-untyped-def]
    """The first place from ``begin`` to ``end`` whose value is not below ``want``; no branch to mispredict."""
    at = begin
    left = end - begin
    while left > ZERO:
        half = (left + ONE) >> ONE
        at += U(values[at + half - ONE] < want) * half
        left -= half
    return at


@kernel(
    types.UniTuple(types.int64, 4)(
        I64, I32, I64, I64, I64_ROWS, I64, I64_ROWS, I64_ROWS, I32, types.int64, types.int64,
        OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def find_in_cells(  # type: ignore[no-untyped-def]
    splitters, offsets, least, most, keys, seconds, lows, highs, rows, at, cell, out_rows, out_starts, out_ends
):
    """The ranges of rows that are within all bounds, for probes from ``at`` on, the first of them from ``cell`` on.

    In a cell that lies wholly within the first key's bounds, the second key's stretch is the answer; elsewhere, and
    where there are more keys, the stretch is looked through, and neighbours that pass are one range. Stops when the
    output might not have room for another cell, which takes half the cell's rows and one; returns (probe and cell to
    go on with, ranges, pairs). ``cell`` -1 is the probe's first.
    """
    room = U(len(out_rows))
    width = keys.shape[1]
    cells = U(len(offsets) - 1)
    kept = ZERO
    pairs = ZERO
    while at < len(lows):
        low, high = lows[at, 0], highs[at, 0]
        low_second, high_second = lows[at, 1], highs[at, 1]
        if low > high or low_second > high_second:
            at += 1
            continue
        c = U(cell)
        if cell < 0:
            c = bisect(splitters, low) if low > LEAST else ZERO
        cell = -1
        while c < cells:
            if c > ZERO and splitters[c - ONE] >= high:
                break
            begin, end = U(offsets[c]), U(offsets[c + ONE])
            if begin == end or most[c] < low or least[c] > high:
                c += ONE
                continue
            if low_second > LEAST:
                begin = place_of(seconds, begin, end, low_second)
            if high_second < GREATEST:
                if begin + U(4) < end and seconds[begin + U(4)] > high_second:
                    end = begin + U(4)  # most stretches are short
                end = place_of(seconds, begin, end, high_second + 1)
            if kept + ((end - begin) >> ONE) + ONE + ONE > room:
                return at, np.int64(c), np.int64(kept), np.int64(pairs)
            if width == 2 and least[c] >= low and most[c] <= high:
                out_rows[kept] = rows[at]
                out_starts[kept] = begin
                out_ends[kept] = end
                kept += U(end > begin)
                pairs += end - begin
            else:
                open_at = begin
                for i in range(begin, end):
                    place = U(i)
                    passes = keys[place, ZERO] >= low and keys[place, ZERO] <= high
                    for j in range(2, width):
                        passes = passes and keys[place, j] >= lows[at, j] and keys[place, j] <= highs[at, j]
                    if not passes:
                        out_rows[kept] = rows[at]
                        out_starts[kept] = open_at
                        out_ends[kept] = place
                        kept += U(place > open_at)
                        pairs += place - open_at
                        open_at = place + ONE
                out_rows[kept] = rows[at]
                out_starts[kept] = open_at
                out_ends[kept] = end
                kept += U(end > open_at)
                pairs += end - min(end, open_at)
            c += ONE
        at += 1
    return at, -1, np.int64(kept), np.int64(pairs)
