"""Cells of a range dealt to workers: whose a cell is, and whom a row's band touches.

Neighbouring cells take turns, so that few cells are dealt evenly; each round of turns begins elsewhere, so that a pattern
in the keys does not meet the same worker every time. Where each cell goes is part of what a checkpoint holds: it must not
change.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I64, OUT_I64, inlined, kernel, types

OUT_FLAGS = types.Array(types.boolean, 2, "C")

U = np.uint64
FIRST, SECOND = (
    U(0xBF58476D1CE4E5B9),
    U(0x94D049BB133111EB),
)  # splitmix64's finaliser, as in condition/ordinals.py


@inlined
def worker_of(cell, shift, workers):  # type: ignore[no-untyped-def]
    """The worker of a cell; ``shift``, below ``workers``, moves all cells of a key on."""
    turns = cell // workers
    mixed = U(turns)
    mixed = (mixed ^ (mixed >> U(30))) * FIRST
    mixed = (mixed ^ (mixed >> U(27))) * SECOND
    mixed ^= mixed >> U(31)
    worker = cell - turns * workers + np.int64(mixed % U(workers))
    if worker >= workers:
        worker -= workers
    worker += shift
    if worker >= workers:
        worker -= workers
    return worker


@kernel(types.void(I64, I64, types.int64, OUT_I64))
def deal(cells, shifts, workers, out):  # type: ignore[no-untyped-def]
    """The worker of every cell; ``shifts`` may be empty."""
    shift = np.int64(0)
    for i in range(len(cells)):
        if len(shifts) > 0:
            shift = shifts[i]
        out[i] = worker_of(cells[i], shift, workers)


@kernel(types.void(I64, I64, I64, I64, types.int64, types.int64, OUT_I64, OUT_FLAGS))
def touch(rows, firsts, lasts, shifts, workers, spread, home, copied):  # type: ignore[no-untyped-def]
    """Note copies of rows for the workers of the cells from the first to the last that each touches.

    ``home`` and ``shifts`` have an element for every row of the batch; a row whose home is negative has it in its first
    cell. ``spread`` workers, one after the other, share a cell.
    """
    shift = np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        if len(shifts) > 0:
            shift = shifts[row]
        # Cells beyond twice the workers add nothing: within two rounds every worker has had a turn.
        more = min(U(lasts[i]) - U(firsts[i]), U(2 * workers))
        for step in range(np.int64(more) + 1):
            worker = worker_of(firsts[i] + step, shift, workers)
            if home[row] < 0:
                home[row] = worker
            for _ in range(spread):
                if worker != home[row]:
                    copied[row, worker] = True
                worker += 1
                if worker == workers:
                    worker = 0
