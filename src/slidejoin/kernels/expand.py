"""From ranges to pairs: all of them, some of them, or those inside the window."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types
from slidejoin.kernels.prefetch import prefetch

U = np.uint64  # unsigned indices: see search.py
AHEAD = 16  # ranges: about the time that one miss takes
SOON = 8


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
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            prefetch(ids, U(starts[i + AHEAD]))
        row = rows[i]
        number = first_row + row if counted_rows else row_numbers[row]
        for j in range(U(starts[i]), U(ends[i])):
            entry = ids[j]
            out_rows[at] = number
            out_ids[at] = first_id + entry if counted_ids else id_numbers[entry]
            at += U(1)


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
    written = 0
    contiguous = len(positions) == 0
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
