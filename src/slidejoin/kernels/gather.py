"""Values of rows, wherever they lie, written one after the other."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, inlined, kernel, types
from slidejoin.kernels.memory import values_at

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


@kernel(types.void(I64, I64, I32, OUT_I64), types.void(I64, I64, I32, OUT_I32))
def gather(places, ends, rows, out):  # type: ignore[no-untyped-def]
    """``out[i]`` is what a column has in ``rows[i]``; it lies in one piece or several, whose addresses are given."""
    if len(ends) == 1:
        values = values_at(places[0], ends[0], out)
        for i in range(U(len(rows))):
            out[i] = values[U(rows[i])]
        return
    for i in range(U(len(rows))):
        piece = piece_of(ends, rows[i])
        begin = ends[piece - ONE] if piece > U(0) else np.int64(0)
        out[i] = values_at(places[piece], ends[piece] - begin, out)[U(rows[i] - begin)]
