"""Merge-sort trees: blocks of one key's order, each sorted by another key, block upon block.

The rows of a run have a *position* in the order of the first key and a *rank* in that of the second, both distinct.
Level 0 cuts the positions into blocks of ``leaf`` rows, level j + 1 joins ``fan`` blocks of level j; the rows of a block
lie in the order of their ranks. So a stretch of positions is a few blocks of each level, and what a stretch of ranks has
in common with a block is a range. ``ids`` and ``ranks`` have the levels one after the other, n rows each: first the
order of positions, then the levels, and ``ids`` last the order of ranks, which is the block of all.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types
from slidejoin.kernels.search import bisect

U = np.uint64
ZERO, ONE = U(0), U(1)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
LEAST, GREATEST = -(2**63), 2**63 - 1
SIGN = 63


@kernel(types.void(I64, I64, OUT_I64, OUT_I32, OUT_I32))
def merge_orders(a, b, out, places_a, places_b):  # type: ignore[no-untyped-def]
    """Merge two ascending runs; also where each row of both goes. Equal keys of ``a`` come first."""
    n = U(len(a))
    m = U(len(b))
    i = ZERO
    j = ZERO
    while i < n and j < m:
        key_a = a[i]
        key_b = b[j]
        take_b = key_b < key_a
        out[i + j] = key_b if take_b else key_a
        if take_b:
            places_b[j] = i + j
            j += ONE
        else:
            places_a[i] = i + j
            i += ONE
    while i < n:
        out[i + j] = a[i]
        places_a[i] = i + j
        i += ONE
    while j < m:
        out[i + j] = b[j]
        places_b[j] = i + j
        j += ONE


@kernel(types.void(I32, I32, types.int64, types.int64, types.int64, OUT_I32, OUT_I32, OUT_I32))
def build_levels(positions, ids, leaf, fan, levels, cursors, out_ranks, out_ids):  # type: ignore[no-untyped-def]
    """Fill the levels from the rows in the order of ranks: rank r has ``positions[r]`` and ``ids[r]``.

    Each level is one pass that appends every row to its block. ``cursors`` is scratch, a word a block of level 0.
    """
    n = U(len(positions))
    for r in range(n):
        place = U(positions[U(r)])
        out_ranks[place] = r
        out_ids[place] = ids[U(r)]
    size = U(leaf)
    for level in range(levels):
        first = (U(level) + ONE) * n
        blocks = (n + size - ONE) // size
        for block in range(blocks):
            cursors[U(block)] = first + U(block) * size
        for r in range(n):
            block = U(positions[U(r)]) // size
            place = U(cursors[block])
            out_ranks[place] = r
            out_ids[place] = ids[U(r)]
            cursors[block] = place + ONE
        size *= U(fan)
    first = (U(levels) + ONE) * n
    for r in range(n):
        out_ids[first + U(r)] = ids[U(r)]


@kernel(types.uint64(I32, types.uint64, types.uint64, types.int64))
def ranks_below(ranks, begin, end, want):  # type: ignore[no-untyped-def]
    """The first place from ``begin`` to ``end`` whose rank is not below ``want``.

    The sign of a difference, spread over all bits, stands for the comparison, which would be compiled to a branch.
    """
    at = begin
    left = end - begin
    while left > ZERO:
        half = (left + ONE) >> ONE
        at += U((np.int64(ranks[at + half - ONE]) - want) >> SIGN) & half
        left -= half
    return at


@kernel(
    types.uint64(
        I32, types.uint64, types.uint64, types.int64, types.int64, types.int64, types.uint64, types.uint64,
        OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def scan_rows(  # type: ignore[no-untyped-def]
    ranks, place, stop, low, high, probe, begin, kept, out_probes, out_starts, out_ends
):
    """Ranges of the places up to ``stop`` whose rank is at least ``low`` and below ``high``; neighbours are joined.

    The probe's ranges are those from ``begin`` on; returns how many there are now.
    """
    while place < stop:
        rank = ranks[place]
        if rank >= low and rank < high:
            if kept > begin and U(out_ends[kept - ONE]) == place:
                out_ends[kept - ONE] = place + ONE
            else:
                out_probes[kept], out_starts[kept], out_ends[kept] = probe, place, place + ONE
                kept += ONE
        place += ONE
    return kept


@kernel(
    types.UniTuple(types.int64, 3)(
        I64, I64, I32, types.int64, types.int64, types.int64, I64_ROWS, I64_ROWS, types.int64,
        OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def find_blocks(  # type: ignore[no-untyped-def]
    firsts, seconds, ranks, leaf, fan, levels, lows, highs, at, out_probes, out_starts, out_ends
):
    """The ranges of ``ids`` that hold the rows within both bounds, for probes from ``at`` on.

    ``firsts`` and ``seconds`` are the two keys, each in its own order. Stops when the output might not have room for
    another probe, which takes ``2 * (leaf + fan * (levels + 1))`` ranges at most; returns (probe to go on with, ranges,
    pairs).
    """
    n = U(len(firsts))
    whole = U(leaf)
    for _ in range(levels):
        whole *= U(fan)
    top = (U(levels) + ONE) * n
    most = U(2 * (leaf + fan * (levels + 1)))
    room = U(len(out_probes))
    kept = ZERO
    pairs = ZERO
    while at < len(lows) and kept + most <= room:
        i = at
        at += 1
        if lows[i, 0] > highs[i, 0] or lows[i, 1] > highs[i, 1]:
            continue
        p, q, low_rank, high_rank = ZERO, n, ZERO, n
        if lows[i, 0] > LEAST:
            p = bisect(firsts, lows[i, 0])
        if highs[i, 0] < GREATEST:
            q = bisect(firsts, highs[i, 0] + 1)
        if lows[i, 1] > LEAST:
            low_rank = bisect(seconds, lows[i, 1])
        if highs[i, 1] < GREATEST:
            high_rank = bisect(seconds, highs[i, 1] + 1)
        if p >= q or low_rank >= high_rank:
            continue
        if high_rank - low_rank == n:  # every row of the stretch
            out_probes[kept], out_starts[kept], out_ends[kept] = i, p, q
            kept += ONE
            pairs += q - p
            continue
        low = np.int64(low_rank)
        high = np.int64(high_rank)
        # Both ends, up to the next block of level 0, are looked through row by row.
        size = U(leaf)
        edge = (p + size - ONE) // size * size
        begin = kept
        kept = scan_rows(ranks, p, min(q, edge), low, high, i, begin, kept, out_probes, out_starts, out_ends)
        if q == n:  # the last block counts as full, and those beyond it are empty
            p, q = edge, whole
        elif edge >= q:
            p = q
        else:
            back = q // size * size
            kept = scan_rows(ranks, back, q, low, high, i, begin, kept, out_probes, out_starts, out_ends)
            p, q = edge, back
        for place in range(begin, kept):
            pairs += U(out_ends[U(place)] - out_starts[U(place)])
        for level in range(levels):
            if p >= q:
                break
            above = size * U(fan)
            shift = (U(level) + ONE) * n
            while p < q:
                if p % above != ZERO:
                    block = p
                    p += size
                elif q % above != ZERO:
                    q -= size
                    block = q
                else:
                    break
                if block >= n:
                    continue
                start = shift + block
                end = shift + min(n, block + size)
                if ranks[end - ONE] < low or ranks[start] >= high:
                    continue
                if low > 0:
                    start = ranks_below(ranks, start, end, low)
                if high_rank < n:
                    end = ranks_below(ranks, start, end, high)
                out_probes[kept], out_starts[kept], out_ends[kept] = i, start, end
                kept += U(end > start)
                pairs += end - start
            size = above
        if p < q:
            out_probes[kept], out_starts[kept], out_ends[kept] = i, top + low_rank, top + high_rank
            kept += ONE
            pairs += high_rank - low_rank
    return at, np.int64(kept), np.int64(pairs)


@kernel(
    types.UniTuple(types.int64, 3)(
        I32, I32, I32, types.int64, I32, I32, I64_ROWS, I64_ROWS, I64_ROWS, I32, types.int64,
        OUT_I32, OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def filter_blocks(  # type: ignore[no-untyped-def]
    probes, starts, ends, top, ids, ranks, others, lows, highs, rows, at,
    out_rows, out_starts, out_ends, out_ids,
):  # fmt: skip
    """Of the ranges from ``at`` on, list the ids whose other keys are within bounds too.

    ``others[r]`` are the further keys of rank r; the places from ``top`` on have their ranks in order. Stops when
    ``out_ids`` might not have room for another range; returns (range to go on with, ranges, pairs).
    """
    room = U(len(out_ids))
    kept = 0
    pairs = ZERO
    more = others.shape[1]
    while at < len(starts):
        begin, end = U(starts[at]), U(ends[at])
        if pairs + (end - begin) > room:
            break
        i = probes[at]
        at += 1
        first = pairs
        for place in range(begin, end):
            rank = U(ranks[U(place)]) if U(place) < U(top) else U(place) - U(top)
            passes = True
            for j in range(more):
                key = others[rank, j]
                passes = passes and key >= lows[i, j + 2] and key <= highs[i, j + 2]
            out_ids[pairs] = ids[U(place)]
            pairs += U(passes)
        if pairs > first:
            if kept > 0 and out_rows[kept - 1] == rows[i] and U(out_ends[kept - 1]) == first:
                out_ends[kept - 1] = pairs
            else:
                out_rows[kept], out_starts[kept], out_ends[kept] = rows[i], first, pairs
                kept += 1
    return at, kept, np.int64(pairs)
