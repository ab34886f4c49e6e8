"""Values of rows, wherever they lie, written one after the other."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, inlined, kernel, types
from slidejoin.kernels.memory import int32s_at, int64s_at

U = np.uint64
ONE = U(1)


@inlined
def piece_of(ends, row):  # type: ignore[no-untyped-def]
    """The piece that a row is in; ``ends`` has how many rows there are up to the end of each."""
    low, pieces = U(0), U(len(ends))
    while pieces > ONE:
        half = pieces // U(2)
        low += half * U(ends[low + half - ONE] <= row)
        pieces -= half
    return low


@kernel(types.void(I64, I64, I32, OUT_I64))
def gather_64(places, ends, rows, out):  # type: ignore[no-untyped-def]
    """``out[i]`` is what a column has in ``rows[i]``; it lies in one piece or several, whose addresses are given."""
    if len(ends) == 1:
        values = int64s_at(places[0], ends[0])
        for i in range(U(len(rows))):
            out[i] = values[U(rows[i])]
        return
    for i in range(U(len(rows))):
        piece = piece_of(ends, rows[i])
        begin = ends[piece - ONE] if piece > U(0) else np.int64(0)
        out[i] = int64s_at(places[piece], ends[piece] - begin)[U(rows[i] - begin)]


@kernel(types.void(I64, I64, I32, OUT_I32))
def gather_32(places, ends, rows, out):  # type: ignore[no-untyped-def]
    """The same for values of 32 bits."""
    if len(ends) == 1:
        values = int32s_at(places[0], ends[0])
        for i in range(U(len(rows))):
            out[i] = values[U(rows[i])]
        return
    for i in range(U(len(rows))):
        piece = piece_of(ends, rows[i])
        begin = ends[piece - ONE] if piece > U(0) else np.int64(0)
        out[i] = int32s_at(places[piece], ends[piece] - begin)[U(rows[i] - begin)]
