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

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U8, kernel, types
from slidejoin.kernels.search import bisect

U = np.uint64
ZERO, ONE = U(0), U(1)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT_I64_ROWS = types.Array(types.int64, 2, "C")
LEAST, GREATEST = -(2**63), 2**63 - 1
SIGN = 63
NONE, SOME, ALL = 0, 1, 2  # what of a block is within bounds


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
        position = U(positions[U(r)])
        out_ranks[position] = r
        out_ids[position] = ids[U(r)]
    size = U(leaf)
    for level in range(levels):
        first = (U(level) + ONE) * n
        blocks = (n + size - ONE) // size
        for number in range(blocks):
            cursors[U(number)] = first + U(number) * size
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


@kernel(types.UniTuple(types.uint64, 2)(I64, types.int64, types.int64))
def stretch(keys, low, high):  # type: ignore[no-untyped-def]
    """Where the keys within ``[low, high]`` begin and end."""
    begin, end = ZERO, U(len(keys))
    if low > LEAST:
        begin = bisect(keys, low)
    if high < GREATEST:
        end = bisect(keys, high + 1)
    return begin, end


@kernel(
    types.uint64(
        I32, types.uint64, types.uint64, types.uint64, types.int64, types.int64, types.uint64, types.uint64,
        types.int64, types.int64, types.uint64, OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def climb(  # type: ignore[no-untyped-def]
    ranks, n, p, q, low, high, size, fan, levels, probe, kept, out_probes, out_starts, out_ends
):
    """Ranges of the blocks between positions ``p`` and ``q``, both at the beginning of a block of level 0.

    Level by level: the blocks that do not fill one of the next level, on both sides. Returns how many ranges there are.
    """
    for level in range(levels):
        above = size * fan
        shift = (U(level) + ONE) * n
        while p < q and (p % above != ZERO or q % above != ZERO):
            if p % above != ZERO:
                block = p
                p += size
            else:
                q -= size
                block = q
            if block >= n:
                continue
            start = shift + block
            end = shift + min(n, block + size)
            if ranks[end - ONE] < low or ranks[start] >= high:
                continue
            if low > 0:
                start = ranks_below(ranks, start, end, low)
            if U(high) < n:
                end = ranks_below(ranks, start, end, high)
            out_probes[kept], out_starts[kept], out_ends[kept] = probe, start, end
            kept += U(end > start)
        size = above
    if p < q:  # the block of all
        top = (U(levels) + ONE) * n
        out_probes[kept], out_starts[kept], out_ends[kept] = probe, top + U(low), top + U(high)
        kept += ONE
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
    size = U(leaf)
    whole = size
    for _ in range(levels):
        whole *= U(fan)
    most = U(2 * (leaf + fan * (levels + 1)))
    room = U(len(out_probes))
    kept = ZERO
    pairs = ZERO
    while at < len(lows) and kept + most <= room:
        i = at
        at += 1
        if lows[i, 0] > highs[i, 0] or lows[i, 1] > highs[i, 1]:
            continue
        p, q = stretch(firsts, lows[i, 0], highs[i, 0])
        low_rank, high_rank = stretch(seconds, lows[i, 1], highs[i, 1])
        if p >= q or low_rank >= high_rank:
            continue
        begin = kept
        if high_rank - low_rank == n:  # every row of the stretch
            out_probes[kept], out_starts[kept], out_ends[kept] = i, p, q
            kept += ONE
        else:
            low, high = np.int64(low_rank), np.int64(high_rank)
            # Both ends, up to the next block of level 0, are looked through row by row.
            edge = (p + size - ONE) // size * size
            kept = scan_rows(
                ranks, p, min(q, edge), low, high, i, begin, kept, out_probes, out_starts, out_ends
            )
            back = q // size * size
            if q == n:
                back = whole  # the last block counts as full, and those beyond it are empty
            elif edge < q:
                kept = scan_rows(ranks, back, q, low, high, i, begin, kept, out_probes, out_starts, out_ends)
            if edge < back:
                kept = climb(
                    ranks,
                    n,
                    edge,
                    back,
                    low,
                    high,
                    size,
                    U(fan),
                    levels,
                    i,
                    kept,
                    out_probes,
                    out_starts,
                    out_ends,
                )
        for place in range(begin, kept):
            pairs += U(out_ends[U(place)] - out_starts[U(place)])
    return at, np.int64(kept), np.int64(pairs)


@kernel(types.void(I32, I64_ROWS, types.int64, types.int64, types.int64, I64, OUT_I64_ROWS, OUT_I64_ROWS))
def bound_blocks(positions, others, leaf, fan, levels, begins, least, most):  # type: ignore[no-untyped-def]
    """The least and the greatest further keys of every block; those of level j stand from ``begins[j]`` on.

    ``others`` are in the order of ranks. The block of all is the last.
    """
    for j in range(others.shape[1]):
        for block in range(len(least)):
            least[block, j] = GREATEST
            most[block, j] = LEAST
        last = len(least) - 1
        for r in range(len(positions)):
            key = others[r, j]
            block = np.int64(positions[r]) // leaf if levels > 0 else last
            least[block, j] = min(least[block, j], key)
            most[block, j] = max(most[block, j], key)
        for level in range(1, levels + 1):
            begin = begins[level] if level < levels else last
            below = begins[level - 1]
            count = (begins[level] if level < levels else last) - below
            for child in range(count):
                block = begin + child // fan if level < levels else last
                least[block, j] = min(least[block, j], least[below + child, j])
                most[block, j] = max(most[block, j], most[below + child, j])


@kernel(
    types.void(
        I32, I32, I32, types.int64, types.int64, types.int64, types.int64, I64, I64_ROWS, I64_ROWS, I64_ROWS, I64_ROWS,
        OUT_U8,
    )
)  # fmt: skip
def judge_blocks(  # type: ignore[no-untyped-def]
    probes, starts, ends, n, leaf, fan, levels, begins, least, most, lows, highs, verdicts
):
    """Whether the further keys of a range's block are ``NONE``, ``SOME`` or ``ALL`` within the probe's bounds.

    Rows in the order of positions are of their block of level 0; where they are of several, they must be looked at.
    """
    for number in range(len(starts)):
        i = probes[number]
        level = np.int64(starts[number]) // n - 1
        block = len(least) - 1
        if level < levels and levels > 0:
            size = leaf
            for _ in range(level):
                size *= fan
            first, last = np.int64(starts[number]) % n // size, np.int64(ends[number] - 1) % n // size
            if first != last:
                verdicts[number] = SOME
                continue
            block = begins[max(level, 0)] + first
        verdict = ALL
        for j in range(least.shape[1]):
            low, high = lows[i, j + 2], highs[i, j + 2]
            if least[block, j] > high or most[block, j] < low:
                verdict = NONE
                break
            if least[block, j] < low or most[block, j] > high:
                verdict = SOME
        verdicts[number] = verdict


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
