"""Chains of entries: appending sorted runs to them, packing, scanning and listing them.

An entry is a row of the table: where its slots start, where the filled ones end, the next entry of its chain,
and (in a chain's first entry) the chain's last one. A row of 16 bytes, so that reaching a chain costs one cache
line. A sorted batch touches each chain once, in one run; the lines of later runs are asked for ahead of time.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types
from slidejoin.kernels.prefetch import prefetch

TABLE = types.Array(types.int32, 2, "C", readonly=True)
OUT_TABLE = types.Array(types.int32, 2, "C")

START, END, NEXT, LAST = 0, 1, 2, 3  # columns of the table
NONE = -1  # no next entry

U = np.uint64
FAR = 24  # runs or probes ahead at which an entry's line is asked for,
NEAR = 12  # and, when that is there, the lines of its slots
ZERO, ONE, TWO, FOUR, LINE = U(0), U(1), U(2), U(4), U(8)


@kernel(
    types.UniTuple(types.int64, 3)(
        OUT_TABLE,
        OUT_I64,
        OUT_I32,
        types.int64,
        I32,
        types.int64,
        I32,
        I32,
        I64,
        I32,
        types.int64,
        types.int64,
    )
)
def append_runs(  # type: ignore[no-untyped-def]
    table, slot_keys, slot_ids, width, spare, pointer, chains, bounds, keys, ids, run, row
):
    """Append rows ``bounds[r]:bounds[r + 1]`` to ``chains[r]`` for each run from ``run``, beginning at ``row``.

    A full entry is linked to the next spare one. Returns where it got to, ``(run, row, pointer)``: short of the
    end when no spare entry is left.
    """
    runs = len(chains)
    while run < runs:
        if run + FAR < runs:
            prefetch(table, U(chains[run + FAR]) * FOUR)
        if run + NEAR < runs:
            later = U(table[U(table[U(chains[run + NEAR]), LAST]), END])
            prefetch(slot_keys, later)
            prefetch(slot_ids, later)
        chain = U(chains[run])
        stop = U(bounds[run + 1])
        at_row = U(row)
        last = U(table[chain, LAST])
        while True:
            at = U(table[last, END])
            count = min(U(table[last, START]) + U(width) - at, stop - at_row)
            for _ in range(count):
                slot_keys[at] = keys[at_row]
                slot_ids[at] = ids[at_row]
                at += ONE
                at_row += ONE
            table[last, END] = at
            if at_row == stop:
                break
            if pointer == len(spare):
                return run, np.int64(at_row), pointer
            fresh = U(spare[pointer])
            pointer += 1
            table[last, NEXT] = fresh
            table[chain, LAST] = fresh
            last = fresh
        row = np.int64(stop)
        run += 1
    return run, row, pointer


@kernel(types.int64(TABLE, I64, I32, I32, types.int32, OUT_I64, OUT_I32, OUT_TABLE))
def pack_chains(table, keys, ids, chains, first, out_keys, out_ids, out_table):  # type: ignore[no-untyped-def]
    """Copy chains one after the other, rows whose id is at least ``first``; chain ``k`` becomes entry ``k``.

    Returns the number of rows. The outputs must have room for all rows of the chains.
    """
    to = ZERO
    for k in range(len(chains)):
        out_table[k, START] = to
        entry = np.int64(chains[k])
        while entry != NONE:
            at = U(table[U(entry), START])
            end = U(table[U(entry), END])
            while at < end:
                out_keys[to] = keys[at]
                out_ids[to] = ids[at]
                to += U(ids[at] >= first)
                at += ONE
            entry = np.int64(table[U(entry), NEXT])
        out_table[k, END] = to
        out_table[k, NEXT] = NONE
        out_table[k, LAST] = k
    return np.int64(to)


@kernel(types.int64(TABLE, I32))
def count_rows(table, chains):  # type: ignore[no-untyped-def]
    """How many rows the chains hold together."""
    rows = np.int64(0)
    for k in range(len(chains)):
        entry = np.int64(chains[k])
        while entry != NONE:
            rows += np.int64(table[U(entry), END]) - np.int64(table[U(entry), START])
            entry = np.int64(table[U(entry), NEXT])
    return rows


@kernel(
    types.UniTuple(types.int64, 3)(
        TABLE, I64, I32, I32, I32, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32
    )
)
def scan_chains(  # type: ignore[no-untyped-def]
    table, keys, ids, chains, probes, lows, highs, rows, out_rows, out_starts, out_ends, out_ids
):
    """For each item, copy the ids of ``chains[k]`` whose keys are within the bounds of probe ``probes[k]``.

    Items that ask the same as the one before share its copy. Returns ``(ranges, pairs, ids copied)``.
    """
    items = len(chains)
    kept = ZERO
    pairs = ZERO
    to = ZERO
    start = ZERO
    chain_before = np.int64(NONE)
    low_before = np.int64(0)
    high_before = np.int64(0)
    for k in range(items):
        if k + FAR < items:
            prefetch(table, U(chains[k + FAR]) * FOUR)
        if k + NEAR < items:
            later = U(table[U(chains[k + NEAR]), START])
            prefetch(keys, later)
            prefetch(keys, later + LINE)
            prefetch(keys, later + TWO * LINE)
            prefetch(ids, later)
            prefetch(ids, later + TWO * LINE)
        chain = np.int64(chains[k])
        probe = U(probes[k])
        low = lows[probe]
        high = highs[probe]
        if chain != chain_before or low != low_before or high != high_before:
            chain_before = chain
            low_before = low
            high_before = high
            start = to
            entry = chain
            while entry != NONE:
                at = U(table[U(entry), START])
                end = U(table[U(entry), END])
                while at < end:
                    key = keys[at]
                    out_ids[to] = ids[at]
                    to += U((key >= low) & (key <= high))
                    at += ONE
                entry = np.int64(table[U(entry), NEXT])
        out_rows[kept] = rows[probe]
        out_starts[kept] = start
        out_ends[kept] = to
        kept += U(to > start)
        pairs += to - start
    return np.int64(kept), np.int64(pairs), np.int64(to)


@kernel(types.int64(TABLE, I32, I32, I32))
def count_ranges(table, order, firsts, lasts):  # type: ignore[no-untyped-def]
    """An upper bound of the ranges that ``list_chains`` writes for a table that is not packed."""
    ranges = 0
    for k in range(len(firsts)):
        for position in range(firsts[k], lasts[k] + 1):
            entry = np.int64(order[position])
            while entry != NONE:
                ranges += 1
                entry = np.int64(table[U(entry), NEXT])
    return ranges


@kernel(
    types.UniTuple(types.int64, 2)(TABLE, I32, I32, I32, I32, I32, types.boolean, OUT_I32, OUT_I32, OUT_I32)
)
def list_chains(  # type: ignore[no-untyped-def]
    table, order, firsts, lasts, probes, rows, packed, out_rows, out_starts, out_ends
):
    """The ranges of all rows of chains ``order[firsts[k]..lasts[k]]``, for probe ``probes[k]``.

    Returns ``(ranges, pairs)``. Entries that lie one after the other are one range; so the chains of a
    ``packed`` table, which are in order, are one range however many they are.
    """
    kept = ZERO
    pairs = ZERO
    for k in range(len(firsts)):
        row = rows[U(probes[k])]
        if packed:
            start = U(table[U(firsts[k]), START])
            end = U(table[U(lasts[k]), END])
        else:
            start = U(table[U(order[U(firsts[k])]), START])
            end = start
            for position in range(firsts[k], lasts[k] + 1):
                entry = np.int64(order[U(position)])
                while entry != NONE:
                    here = U(table[U(entry), START])
                    if here != end:
                        out_rows[kept] = row
                        out_starts[kept] = start
                        out_ends[kept] = end
                        kept += U(end > start)
                        pairs += end - start
                        start = here
                    end = U(table[U(entry), END])
                    entry = np.int64(table[U(entry), NEXT])
        if end > start:
            out_rows[kept] = row
            out_starts[kept] = start
            out_ends[kept] = end
            kept += ONE
            pairs += end - start
    return np.int64(kept), np.int64(pairs)
