"""From ranges to pairs: all of them, some of them, or those inside the window.

Most ranges are short, and how short each is nobody can foresee. So four pairs are written at once, however many there
are, and the next ones over those that were too many; only a longer range, or the end of an array, is gone through.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, inlined, kernel, types
from slidejoin.kernels.bits import cut_to_32
from slidejoin.kernels.prefetch import prefetch
from slidejoin.kernels.vector import add_to_4, move_of_4, repeat_of_4, within_of_4

U = np.uint64  # unsigned indices: see search.py
ONE, FOUR = U(1), U(4)
AHEAD = 48  # ranges: about the time that one miss takes
SOON = 8


@kernel(types.int64(I32, I32, types.int64, types.int64))
def pairs_of(starts, ends, begin, end):  # type: ignore[no-untyped-def]
    """How many pairs some ranges have."""
    pairs = np.int64(0)
    for i in range(U(begin), U(end)):
        pairs += np.int64(ends[i] - starts[i])
    return pairs


@inlined
def last_end(ends):  # type: ignore[no-untyped-def]
    """Where the last range ends: ids up to there can be read, whoever's array it is."""
    return U(ends[len(ends) - 1]) if len(ends) else U(0)


@kernel(types.int64(I32, I32, I32, I32, types.int64, types.int64, OUT_I32, OUT_I32))
def expand(rows, starts, ends, ids, at, offset, out_rows, out_ids):  # type: ignore[no-untyped-def]
    """Write pairs from range ``at`` on, skipping its first ``offset``, until the output is full.

    Returns how many were written. The caller finds where to go on from prefix sums of the range lengths.
    """
    room = len(out_rows)
    written = 0
    for i in range(at, len(rows)):
        row = rows[i]
        for j in range(starts[i] + offset, ends[i]):
            if written == room:
                return written
            out_rows[written] = row
            out_ids[written] = ids[j]
            written += 1
        offset = 0
    return written


@kernel(types.void(I32, I32, I32, I32, I64, types.int64, I64, types.int64, OUT_I64, OUT_I64))
def expand_numbers(  # type: ignore[no-untyped-def]
    rows, starts, ends, ids, row_numbers, first_row, id_numbers, first_id, out_rows, out_ids
):
    """Write the row numbers of all pairs. Numbers are explicit, or (empty) count up from ``first``."""
    at = U(0)
    counted_rows = len(row_numbers) == 0
    counted_ids = len(id_numbers) == 0
    held, room = last_end(ends), U(len(out_rows))
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            prefetch(ids, U(starts[i + AHEAD]))
        row = rows[i]
        number = first_row + row if counted_rows else row_numbers[row]
        start, end = U(starts[i]), U(ends[i])
        if counted_ids and start + FOUR <= held and at + FOUR <= room:
            repeat_of_4(number, out_rows, at)
            add_to_4(ids, start, first_id, out_ids, at)
            at += min(end - start, FOUR)
            start += FOUR
        while start < end:
            entry = ids[start]
            out_rows[at] = number
            out_ids[at] = first_id + entry if counted_ids else id_numbers[entry]
            at += ONE
            start += ONE


@kernel(types.int64(I32, I32, I32, I32, types.int64, types.int64, OUT_I32, OUT_I32))
def expand_counted(rows, starts, ends, ids, low, high, out_rows, out_ids):  # type: ignore[no-untyped-def]
    """The pairs whose id is within ``[low, high]``, the same for all rows; returns how many."""
    written = U(0)
    held, room = last_end(ends), U(len(out_ids))
    low, high = cut_to_32(low), cut_to_32(high)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            prefetch(ids, U(starts[i + AHEAD]))
        row = rows[i]
        start, end = U(starts[i]), U(ends[i])
        if start + FOUR <= held and written + FOUR <= room:
            asked = (ONE << min(end - start, FOUR)) - ONE
            repeat_of_4(row, out_rows, written)
            written += move_of_4(ids, start, within_of_4(ids, start, low, high) & asked, out_ids, written)
            start += FOUR
        while start < end:
            entry = ids[start]
            out_rows[written] = row
            out_ids[written] = entry
            written += U((entry >= low) & (entry <= high))
            start += ONE
    return written


@kernel(types.int64(I32, I32, I32, I32, I64, I64, I64, OUT_I32, OUT_I32))
def expand_timed(rows, starts, ends, ids, positions, lows, highs, out_rows, out_ids):  # type: ignore[no-untyped-def]
    """The pairs whose id has a position within the bounds of their row, or of all rows; returns how many."""
    written, room = U(0), U(len(out_ids))
    own = U(len(lows) > 1)  # each row its bounds
    last = U(max(len(rows), 1)) - ONE
    for number in range(len(rows)):
        i = U(number)
        prefetch(ids, U(starts[min(i + U(AHEAD), last)]))
        later, soon = min(i + U(2 * SOON), last), min(i + U(SOON), last)
        # By now the id is there, and says where the position is.
        prefetch(positions, U(ids[U(starts[later])]))
        prefetch(lows, U(rows[soon]) * own)
        prefetch(highs, U(rows[soon]) * own)
        row, start, end = rows[i], U(starts[i]), U(ends[i])
        low, high = lows[U(row) * own], highs[U(row) * own]
        entry = ids[start]
        position = positions[U(entry)]
        out_rows[written], out_ids[written] = row, entry
        written += U((position >= low) & (position <= high))
        if written < room:
            # Whether there is a second one nobody can foresee, so it is written in any case.
            second = start + U(end - start > ONE)
            entry = ids[second]
            position = positions[U(entry)]
            out_rows[written], out_ids[written] = row, entry
            written += U((position >= low) & (position <= high) & (second > start))
        start += U(2)
        while start < end:
            entry = ids[start]
            position = positions[U(entry)]
            out_rows[written], out_ids[written] = row, entry
            written += U((position >= low) & (position <= high))
            start += ONE
    return written


@kernel(
    types.int64(
        I32,
        I32,
        I32,
        I32,
        I64,
        types.int64,
        I64,
        I64,
        types.int64,
        types.int64,
        types.int64,
        OUT_I32,
        OUT_I32,
    )
)
def expand_visible(  # type: ignore[no-untyped-def]
    rows, starts, ends, ids, positions, base, lows, highs, at, offset, candidates, out_rows, out_ids
):
    """As ``expand`` over the next ``candidates`` pairs, keeping those inside the probing row's window.

    A stored row is inside when its position is within ``[lows[row], highs[row]]``; a single bound is that of every
    row. ``positions`` may be empty: then the position of id ``k`` is ``base + k`` (count windows).
    """
    contiguous = len(positions) == 0
    if at + offset == 0 and pairs_of(starts, ends, 0, len(rows)) <= candidates:
        if not contiguous:
            return expand_timed(rows, starts, ends, ids, positions, lows, highs, out_rows, out_ids)
        if len(lows) == 1:
            return expand_counted(rows, starts, ends, ids, lows[0] - base, highs[0] - base, out_rows, out_ids)
    written = 0
    own = np.int64(
        len(lows) > 1
    )  # each row its bounds: looked up row by row, they would be missed in the cache
    for i in range(at, len(rows)):
        if i + AHEAD < len(rows):
            prefetch(ids, U(starts[i + AHEAD]))
            if not contiguous:  # by now the id is there, and says where the position is
                prefetch(positions, U(ids[U(starts[i + SOON])]))
        row = rows[i]
        low = lows[row * own]
        high = highs[row * own]
        for j in range(starts[i] + offset, ends[i]):
            if candidates == 0:
                return written
            candidates -= 1
            entry = ids[j]
            position = base + entry if contiguous else positions[entry]
            out_rows[written] = row
            out_ids[written] = entry
            written += (position >= low) & (position <= high)
        offset = 0
    return written
