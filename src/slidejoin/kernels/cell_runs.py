"""Runs by cell of one key and then by another: filling them, merging them, probing them.

Cell c holds the first keys above ``splitters[c - 1]`` up to and including ``splitters[c]``; its rows lie from
``offsets[c]`` to ``offsets[c + 1]`` in the order of the second key. ``least`` and ``most`` are the first keys that
really occur in a cell. First and second keys have ``PADDING`` more places than there are rows, so that a few rows can be
looked at together wherever they begin.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types
from slidejoin.kernels.bits import is_below
from slidejoin.kernels.prefetch import prefetch
from slidejoin.kernels.search import bisect

U = np.uint64
ZERO, ONE, TWO, THREE, FOUR, SIX, EIGHT = (U(n) for n in (0, 1, 2, 3, 4, 6, 8))
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT_I64_ROWS = types.Array(types.int64, 2, "C")
LEAST, GREATEST = -(2**63), 2**63 - 1
PADDING = 4
TASKS = 1024  # cells that probes meet, searched together: their places stay in the first-level cache


@kernel(types.void(I64, I64, I32, OUT_I64_ROWS))
def pair_up(firsts, seconds, order, out):  # type: ignore[no-untyped-def]
    """Two columns side by side, in the given order."""
    for i in range(len(order)):
        row = U(order[i])
        out[i, 0] = firsts[row]
        out[i, 1] = seconds[row]


@kernel(types.void(I32, I64, I64, I32, OUT_I32, OUT_I64, OUT_I64, OUT_I32))
def fill_cells(cells, firsts, seconds, ids, offsets, out_firsts, out_seconds, out_ids):  # type: ignore[no-untyped-def]
    """Distribute rows, which come in the order of the second key, to their cells; it stays so within each."""
    count = len(offsets) - 1
    offsets[:] = 0
    for i in range(len(cells)):
        offsets[U(cells[i]) + ONE] += 1
    for c in range(count):
        offsets[c + 1] += offsets[c]
    for i in range(len(cells)):
        cell = U(cells[i])
        place = U(offsets[cell])
        offsets[cell] += 1
        out_firsts[place] = firsts[i]
        out_seconds[place] = seconds[i]
        out_ids[place] = ids[i]
    for c in range(count):  # each was moved on to the next one's beginning
        offsets[count - c] = offsets[count - c - 1]
    offsets[0] = 0


@kernel(
    types.void(
        I32, I64, I64, I32, I32, I64, I64, I32, types.int64, types.int64, OUT_I32, OUT_I64, OUT_I64, OUT_I32
    )
)  # fmt: skip
def merge_cells(  # type: ignore[no-untyped-def]
    offsets_a, firsts_a, seconds_a, ids_a, offsets_b, firsts_b, seconds_b, ids_b, begin, end,
    offsets, out_firsts, out_seconds, out_ids,
):  # fmt: skip
    """Merge two runs of the same cells, cell by cell, from ``begin`` up to ``end``. O(rows + cells)."""
    at = U(offsets_a[begin]) + U(offsets_b[begin])
    for c in range(begin, end):
        offsets[c] = at
        a, end_a = U(offsets_a[c]), U(offsets_a[c + 1])
        b, end_b = U(offsets_b[c]), U(offsets_b[c + 1])
        while a < end_a and b < end_b:
            key_a, key_b = seconds_a[a], seconds_b[b]
            take_b = key_b < key_a
            out_seconds[at] = key_b if take_b else key_a
            out_firsts[at] = firsts_b[b] if take_b else firsts_a[a]
            out_ids[at] = ids_b[b] if take_b else ids_a[a]
            b += U(take_b)
            a += U(not take_b)
            at += ONE
        while a < end_a:
            out_firsts[at], out_seconds[at], out_ids[at] = firsts_a[a], seconds_a[a], ids_a[a]
            a += ONE
            at += ONE
        while b < end_b:
            out_firsts[at], out_seconds[at], out_ids[at] = firsts_b[b], seconds_b[b], ids_b[b]
            b += ONE
            at += ONE
    offsets[end] = at


@kernel(types.void(I32, I64, I64, I32, types.int32, types.int32, OUT_I32, OUT_I64, OUT_I64, OUT_I32))
def keep_in_cells(  # type: ignore[no-untyped-def]
    offsets, firsts, seconds, ids, first, shift, out_offsets, out_firsts, out_seconds, out_ids
):
    """The rows whose ids are at least ``first``, less by ``shift``, in the same cells; the output has room for just these."""
    to, room = ZERO, U(len(out_ids))
    for c in range(len(offsets) - 1):
        out_offsets[c] = to
        for i in range(U(offsets[c]), U(offsets[c + 1])):
            at = U(i)
            if to == room:
                break
            out_firsts[to], out_seconds[to], out_ids[to] = firsts[at], seconds[at], ids[at] - shift
            to += U(ids[at] >= first)
    out_offsets[len(offsets) - 1] = to


@kernel(types.void(I32, I64, OUT_I64, OUT_I64))
def measure_cells(offsets, firsts, least, most):  # type: ignore[no-untyped-def]
    """The least and greatest first key of every cell."""
    for c in range(len(offsets) - 1):
        low = np.int64(GREATEST)
        high = np.int64(LEAST)
        for i in range(U(offsets[c]), U(offsets[c + 1])):
            low = min(low, firsts[U(i)])
            high = max(high, firsts[U(i)])
        least[c] = low
        most[c] = high


@kernel(types.uint64(I64, types.uint64, types.uint64, types.int64))
def place_of(values, begin, end, want):  # type: ignore[no-untyped-def]
    """The first place from ``begin`` to ``end`` whose value is not below ``want``."""
    at = begin
    left = end - begin
    while left > ZERO:
        half = (left + ONE) >> ONE
        at += is_below(values[at + half - ONE], want) & half
        left -= half
    return at


@kernel(types.void(I32, I64, I64_ROWS, I32, I32, types.uint64, types.uint64, OUT_I32))
def search_cells(offsets, seconds, lows, probes, cells, count, longest, out):  # type: ignore[no-untyped-def]
    """``out[t]`` = where the second keys of a cell are not below those of a probe any more, for ``count`` tasks.

    Four at a time: each step waits for memory, four waits overlap; and in steps that all four take, since a branch on
    which way to go would be a coin toss. ``longest`` is the length of the longest cell; tasks are padded to a multiple
    of four.
    """
    for number in range(ZERO, count, FOUR):
        t = U(number)
        cell_a, cell_b, cell_c, cell_d = (
            U(cells[t]),
            U(cells[t + ONE]),
            U(cells[t + TWO]),
            U(cells[t + THREE]),
        )
        want_a = lows[U(probes[t]), ONE]
        want_b = lows[U(probes[t + ONE]), ONE]
        want_c = lows[U(probes[t + TWO]), ONE]
        want_d = lows[U(probes[t + THREE]), ONE]
        a, b, c, d = U(offsets[cell_a]), U(offsets[cell_b]), U(offsets[cell_c]), U(offsets[cell_d])
        left_a, left_b = U(offsets[cell_a + ONE]) - a, U(offsets[cell_b + ONE]) - b
        left_c, left_d = U(offsets[cell_c + ONE]) - c, U(offsets[cell_d + ONE]) - d
        step = longest
        while step > ZERO:
            step >>= ONE
            half_a, half_b = (left_a + ONE) >> ONE, (left_b + ONE) >> ONE
            half_c, half_d = (left_c + ONE) >> ONE, (left_d + ONE) >> ONE
            # A search that is over looks at the place that it has found, adds nothing, and may look beyond the rows.
            below_a = is_below(seconds[a + half_a - U(half_a > ZERO)], want_a)
            below_b = is_below(seconds[b + half_b - U(half_b > ZERO)], want_b)
            below_c = is_below(seconds[c + half_c - U(half_c > ZERO)], want_c)
            below_d = is_below(seconds[d + half_d - U(half_d > ZERO)], want_d)
            a += below_a & half_a
            b += below_b & half_b
            c += below_c & half_c
            d += below_d & half_d
            left_a -= half_a
            left_b -= half_b
            left_c -= half_c
            left_d -= half_d
        out[t], out[t + ONE], out[t + TWO], out[t + THREE] = a, b, c, d


@kernel(
    types.UniTuple(types.int64, 2)(
        I64, I32, I64, I64, I64, I64, I64_ROWS, I64_ROWS, types.boolean, types.int64, types.int64,
        OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def meet_cells(  # type: ignore[no-untyped-def]
    splitters, offsets, least, most, firsts, seconds, lows, highs, dense, at, cell, probes, cells, last
):
    """The cells that probes from ``at`` on meet, as tasks, as many as there is room for.

    ``cell`` is where probe ``at`` was left, -1 if it was not begun; ``last[0]`` gets the number of tasks. Where the batch
    is ``dense``, so that most rows of a cell are going to be looked at, the cell is asked for line by line: the searches
    would ask for the same lines in random order, and wait for each. Returns (probe and cell to go on with).
    """
    asked = ZERO  # rows below this have been asked for
    last_cell = U(len(offsets) - 2)
    room = U(len(probes))
    count = ZERO
    before = np.int64(GREATEST)  # the lower bound of the probe before, which began in cell `start`
    start = ZERO
    while at < len(lows):
        i = U(at)
        low, high = lows[i, ZERO], highs[i, ZERO]
        if low > high or lows[i, ONE] > highs[i, ONE]:
            at += 1
            continue
        if low < before:
            start = bisect(splitters, low)
        while (
            start < last_cell and splitters[start] < low
        ):  # probes mostly ascend: this cell, or one of the next
            start += ONE
        before = low
        c = start if cell < 0 else U(cell)
        cell = -1
        while True:
            if count == room:
                last[0] = count
                return at, np.int64(c)
            probes[count] = at
            cells[count] = c
            count += U(offsets[c] < offsets[c + ONE]) & U(most[c] >= low) & U(least[c] <= high)
            if dense and asked < U(offsets[c + ONE]):
                asked = max(asked, U(offsets[c]))
                while asked < U(offsets[c + ONE]):
                    prefetch(seconds, asked)
                    prefetch(firsts, asked)
                    asked += EIGHT
            if c == last_cell or splitters[c] >= high:
                break
            c += ONE
        at += 1
    last[0] = count
    return at, -1


@kernel(
    types.UniTuple(types.int64, 3)(
        I32, I64, I64, I64, I64, I64_ROWS, I64_ROWS, I32, I32, I32, I32, types.int64, types.int64, types.uint64,
        OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def look_through(  # type: ignore[no-untyped-def]
    offsets, least, most, firsts, seconds, lows, highs, rows, probes, cells, places, at, count, kept,
    out_rows, out_starts, out_ends,
):  # fmt: skip
    """The ranges of rows within the bounds of the first two keys, for tasks from ``at`` to ``count``.

    The tasks were searched by ``search_cells``. A stretch of fewer than four rows, as most are, is looked at without
    branches, since which rows pass is a coin toss. Of a longer one in a cell that lies wholly within the first key's
    bounds, all rows are the answer; elsewhere it is looked through, and neighbours that pass are one range. Ranges are
    written from place ``kept`` on, at least 1. Stops when the output might not have room for another task, which takes half its cell's
    rows and six; returns (task to go on with, places used, pairs).
    """
    room = U(len(out_rows))
    pairs = ZERO
    while at < count:
        t = U(at)
        i = U(probes[t])
        c = U(cells[t])
        begin, end = U(places[t]), U(offsets[c + ONE])
        low, high, high_second = lows[i, ZERO], highs[i, ZERO], highs[i, ONE]
        row = rows[i]
        inside = (
            U(seconds[begin] <= high_second)
            + U(seconds[begin + ONE] <= high_second)
            + U(seconds[begin + TWO] <= high_second)
            + U(seconds[begin + THREE] <= high_second)
        )
        if kept + SIX > room:
            return at, np.int64(kept), np.int64(pairs)
        if inside < FOUR or begin + FOUR > end:
            end = min(end, begin + FOUR)
            for number in range(4):
                place = begin + U(number)
                key = firsts[place]
                passes = U(place < end) & U(seconds[place] <= high_second) & U(key >= low) & U(key <= high)
                out_rows[kept] = row
                out_starts[kept] = place
                out_ends[kept] = place + ONE
                kept += passes
                pairs += passes
            at += 1
            continue
        if high_second < GREATEST:
            end = place_of(seconds, begin, end, high_second + 1)
        if kept + ((end - begin) >> ONE) + SIX > room:
            return at, np.int64(kept), np.int64(pairs)
        at += 1
        if least[c] >= low and most[c] <= high:
            out_rows[kept] = row
            out_starts[kept] = begin
            out_ends[kept] = end
            kept += U(end > begin)
            pairs += end - begin
            continue
        running = ZERO  # whether the row before passed
        for number in range(begin, end):
            place = U(number)
            key = firsts[place]
            passes = U(key >= low) & U(key <= high)
            out_rows[kept] = row
            out_starts[kept] = place
            kept += passes & (ONE - running)
            out_ends[kept - ONE] = place + ONE if passes else U(out_ends[kept - ONE])
            pairs += passes
            running = passes
    return at, np.int64(kept), np.int64(pairs)


@kernel(
    types.UniTuple(types.int64, 2)(
        I64, I32, I64, I64, I64, I64, I64_ROWS, I64_ROWS, I32, types.boolean, types.int64, OUT_I64,
        OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def find_in_cells(  # type: ignore[no-untyped-def]
    splitters, offsets, least, most, firsts, seconds, lows, highs, rows, dense, longest, state,
    probes, cells, places, out_rows, out_starts, out_ends,
):  # fmt: skip
    """The ranges of rows within the bounds of the first two keys, from place 1 on, until there is no room.

    Some tasks at a time, as many as the cache holds: the cells that are met, then where the searches end, then the rows.
    ``state`` is where it was left: probe, cell of it, task, tasks; the probe is behind the last when all is done. Returns
    (places used, pairs).
    """
    last = np.empty(1, dtype=np.int32)
    kept, pairs = np.int64(1), np.int64(0)
    while True:
        if state[2] == state[3]:
            if state[0] >= len(lows):
                return kept, pairs
            state[0], state[1] = meet_cells(
                splitters, offsets, least, most, firsts, seconds, lows, highs, dense, state[0], state[1],
                probes[:TASKS], cells[:TASKS], last,
            )  # fmt: skip
            state[2], state[3] = 0, last[0]
            search_cells(offsets, seconds, lows, probes, cells, state[3], longest, places)
        state[2], kept, more = look_through(
            offsets, least, most, firsts, seconds, lows, highs, rows, probes, cells, places, state[2], state[3], U(kept),
            out_rows, out_starts, out_ends,
        )  # fmt: skip
        pairs += more
        if state[2] < state[3]:
            return kept, pairs
