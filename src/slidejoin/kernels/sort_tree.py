"""Merge-sort trees: blocks of one key's order, each sorted by another key, block upon block.

The rows of a run have a *position* in the order of the first key and a *rank* in that of the second, both distinct.
Level 0 cuts the positions into blocks of ``leaf`` rows, level j + 1 joins ``fan`` blocks of level j, and the top is one
block of all. The rows of a block lie in the order of their ranks, so what a stretch of ranks has in common with a block
is a stretch of its places. ``ids`` has the levels one after the other, n rows each, the top last.

A row's *turn* at a level says which of the block's children it belongs to. How many rows before a place take each turn is
where the same stretch begins in each child: it is noted for every chunk of places (``counts``, as a place of the level
below), and within a chunk it is counted in bits (``planes``, a word for each bit of the turns). So one search at the top
is enough, and no level repeats a key or a rank. Leaves know their rows' positions: ``offsets``, a byte a row.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U8, U8, kernel, types
from slidejoin.kernels.bits import count_bits
from slidejoin.kernels.search import bisect

U = np.uint64
ZERO, ONE = U(0), U(1)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT_I64_ROWS = types.Array(types.int64, 2, "C")
OUT_I32_ROWS = types.Array(types.int32, 2, "C")
OUT_U64_ROWS = types.Array(types.uint64, 2, "C")
LEAST, GREATEST = -(2**63), 2**63 - 1
NONE, SOME, ALL = 0, 1, 2  # what of a block is within bounds


class Tree(NamedTuple):
    """The levels of a run. Sizes are powers of two, given by their exponents."""

    rows: int
    levels: int  # above level 0
    leaf: int  # exponent: rows of a block of level 0
    fan: int  # exponent: children of a block
    chunk: int  # exponent: places that share a word; a chunk is never of two blocks
    ids: NDArray[np.int32]
    offsets: NDArray[np.uint8]
    counts: NDArray[np.int32]  # a row for each chunk and level from 1 on, a column for each turn
    planes: NDArray[np.uint64]


TREE = types.NamedTuple(
    (
        types.int64, types.int64, types.int64, types.int64, types.int64,
        OUT_I32, OUT_U8, OUT_I32_ROWS, OUT_U64_ROWS,
    ),
    Tree,
)  # fmt: skip


# -- making -----------------------------------------------------------------------------------------------


@kernel(
    types.UniTuple(types.int64, 2)(I64, I64, types.int64, types.int64, types.int64, OUT_I64, OUT_I32, OUT_I32)
)
def merge_firsts(a, b, i, j, stop, out, places_a, places_b):  # type: ignore[no-untyped-def]
    """Go on merging two ascending runs from ``a[i]`` and ``b[j]`` to ``out[stop]``; also where each row goes.

    Equal keys of ``a`` come first. Returns how far both are.
    """
    n, m = U(len(a)), U(len(b))
    x, y = U(i), U(j)
    while x + y < U(stop):
        take_b = x == n or (y < m and b[y] < a[x])
        if take_b:
            out[x + y] = b[y]
            places_b[y] = x + y
            y += ONE
        else:
            out[x + y] = a[x]
            places_a[x] = x + y
            x += ONE
    return np.int64(x), np.int64(y)


@kernel(types.void(I32, U8, I32, types.int64, types.int64, types.int64, types.int64, OUT_I32))
def note_places(ids, offsets, places, leaf, base, begin, end, out):  # type: ignore[no-untyped-def]
    """``out[id - base]`` = the new position of each row from ``begin`` to ``end`` of level 0."""
    for number in range(U(begin), U(end)):
        at = U(number)
        position = (at >> U(leaf) << U(leaf)) + U(offsets[at])
        out[U(ids[at] - base)] = places[position]


@kernel(
    types.UniTuple(types.int64, 2)(
        I64, I32, I64, I32, I32, types.int64, types.int64, types.int64, types.int64, OUT_I64, OUT_I32, OUT_I32
    )
)
def merge_seconds(  # type: ignore[no-untyped-def]
    a, ids_a, b, ids_b, places, base, i, j, stop, out, out_ids, out_positions
):
    """As ``merge_firsts``, by rank: keys, ids, and the positions that ``note_places`` noted."""
    n, m = U(len(a)), U(len(b))
    x, y = U(i), U(j)
    while x + y < U(stop):
        at = x + y
        take_b = x == n or (y < m and b[y] < a[x])
        if take_b:
            out[at] = b[y]
            row = ids_b[y]
            y += ONE
        else:
            out[at] = a[x]
            row = ids_a[x]
            x += ONE
        out_ids[at] = row
        out_positions[at] = places[U(row - base)]
    return np.int64(x), np.int64(y)


@kernel(types.void(TREE, types.int64, types.int64, types.int64, I32, OUT_I32, OUT_I64))
def distribute(tree, level, begin, end, positions, out_positions, cursors):  # type: ignore[no-untyped-def]
    """Hand the rows from place ``begin`` to ``end`` of a level, whose positions are given, to the level below.

    ``begin`` is where a chunk begins; ``cursors``, a word a turn, are kept from one call to the next.
    """
    n, fan, chunk = U(tree.rows), U(tree.fan), U(tree.chunk)
    small = U(tree.leaf) + fan * (U(level) - ONE)  # exponents: of a child's rows, of a block's
    within = (ONE << (small + fan)) - ONE
    inside = (ONE << chunk) - ONE
    turns = (ONE << fan) - ONE
    here, below = U(level) * n, (U(level) - ONE) * n
    chunks = (n + inside) >> chunk
    first = (U(level) - ONE) * chunks
    for number in range(U(begin), U(end)):
        at = U(number)
        row = first + (at >> chunk)
        if at & inside == ZERO:
            if at & within == ZERO:
                for child in range(turns + ONE):
                    cursors[U(child)] = at + (U(child) << small)
            for child in range(turns + ONE):
                tree.counts[row, U(child)] = cursors[U(child)]
            for bit in range(fan):
                tree.planes[row, U(bit)] = ZERO
        position = U(positions[at])
        turn = (position >> small) & turns
        place = U(cursors[turn])
        cursors[turn] += 1
        out_positions[place] = position
        tree.ids[below + place] = tree.ids[here + at]
        for bit in range(fan):
            tree.planes[row, U(bit)] |= ((turn >> U(bit)) & ONE) << (at & inside)


# -- finding ----------------------------------------------------------------------------------------------


@kernel(types.uint64(TREE, types.uint64, types.uint64, types.uint64, types.uint64))
def place_below(tree, level, place, turn, stop):  # type: ignore[no-untyped-def]
    """Where a stretch that begins at ``place``, which is no block's end, begins in the child of this turn.

    ``stop`` is the child's end: where all of its rows come before the chunk, nothing is counted.
    """
    chunk = U(tree.chunk)
    inside = (ONE << chunk) - ONE
    row = (level - ONE) * ((U(tree.rows) + inside) >> chunk) + (place >> chunk)
    before = U(tree.counts[row, turn])
    if before == stop:
        return stop
    word = (ONE << (place & inside)) - ONE
    for number in range(U(tree.fan)):
        bit = U(number)
        # The plane where the turn has this bit, else its opposite.
        word &= tree.planes[row, bit] ^ (((turn >> bit) & ONE) - ONE)
    return before + count_bits(word)


@kernel(
    types.uint64(
        TREE, types.uint64, types.uint64, types.int64, types.int64, types.int64, types.uint64, OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def scan_leaf(  # type: ignore[no-untyped-def]
    tree, low, high, least, most, probe, kept, out_probes, out_starts, out_ends
):
    """Ranges of the places of a leaf whose offsets are from ``least`` up to but not ``most``; neighbours are joined.

    Without a branch, since which row passes is a coin toss. There must be a range before the first. Returns how many
    there are now.
    """
    running = ZERO  # whether the row before passed
    for number in range(low, high):
        place = U(number)
        offset = np.int64(tree.offsets[place])
        passes = U(offset >= least) & U(offset < most)
        out_probes[kept], out_starts[kept] = probe, place
        kept += passes & (ONE - running)
        out_ends[kept - ONE] = place + ONE if passes else U(out_ends[kept - ONE])
        running = passes
    return kept


@kernel(
    types.uint64(
        TREE, types.uint64, types.uint64, types.uint64, types.uint64, types.int64, types.uint64, OUT_I32, OUT_I32, OUT_I32
    )
)  # fmt: skip
def descend(  # type: ignore[no-untyped-def]
    tree, low, high, begin, end, probe, kept, out_probes, out_starts, out_ends
):
    """Ranges of the rows whose ranks are from ``low`` up to ``high`` and whose positions from ``begin`` up to ``end``.

    A block within the positions is taken as it is; of the others, the two at the ends, the children are looked at, until
    one is without such rows. Returns how many ranges there are.
    """
    n, fan = U(tree.rows), U(tree.fan)
    level, start, stop = U(tree.levels), ZERO, n  # of the block
    other_start, other_low, other_high, other_level = ZERO, ZERO, ZERO, ZERO  # the second of the two
    waits = False
    if begin == ZERO and end == n:
        out_probes[kept], out_starts[kept], out_ends[kept] = probe, level * n + low, level * n + high
        return kept + ONE
    while True:
        goes_on = False
        if level == ZERO:
            least, most = np.int64(begin) - np.int64(start), np.int64(end) - np.int64(start)
            kept = scan_leaf(tree, low, high, least, most, probe, kept, out_probes, out_starts, out_ends)
        else:
            small = U(tree.leaf) + fan * (level - ONE)
            first, last = (max(begin, start) - start) >> small, (min(end, stop) - ONE - start) >> small
            shift = (level - ONE) * n
            new_start, new_low, new_high = ZERO, ZERO, ZERO
            for number in range(first, last + ONE):
                turn = U(number)
                child = start + (turn << small)
                child_stop = min(stop, child + (ONE << small))
                from_ = child if low == start else place_below(tree, level, low, turn, child_stop)
                to = child_stop if high == stop else place_below(tree, level, high, turn, child_stop)
                if from_ == to:
                    continue
                if begin <= child and child_stop <= end:
                    out_probes[kept], out_starts[kept], out_ends[kept] = probe, shift + from_, shift + to
                    kept += ONE
                elif not goes_on:
                    goes_on = True
                    new_start, new_low, new_high = child, from_, to
                else:
                    waits = True
                    other_level, other_start, other_low, other_high = level - ONE, child, from_, to
            if goes_on:
                level, start, low, high = level - ONE, new_start, new_low, new_high
        if not goes_on:
            if not waits:
                return kept
            waits = False
            level, start, low, high = other_level, other_start, other_low, other_high
        stop = min(n, start + (ONE << (U(tree.leaf) + fan * level)))


@kernel(types.UniTuple(types.uint64, 2)(I64, types.int64, types.int64))
def stretch(keys, low, high):  # type: ignore[no-untyped-def]
    """Where the keys within ``[low, high]`` begin and end."""
    begin, end = ZERO, U(len(keys))
    if low > LEAST:
        begin = bisect(keys, low)
    if high < GREATEST:
        end = bisect(keys, high + 1)
    return begin, end


@kernel(types.int64(TREE))
def most_ranges(tree):  # type: ignore[no-untyped-def]
    """How many ranges a probe may have: half of two leaves, and the children of two blocks a level."""
    return (1 << tree.leaf) + 2 + 2 * (tree.levels << tree.fan)


@kernel(
    types.UniTuple(types.int64, 3)(TREE, I64, I64, I64_ROWS, I64_ROWS, types.int64, OUT_I32, OUT_I32, OUT_I32)
)
def find_ranges(  # type: ignore[no-untyped-def]
    tree, firsts, seconds, lows, highs, at, out_probes, out_starts, out_ends
):
    """The ranges of ``ids`` that hold the rows within both bounds, for probes from ``at`` on.

    ``firsts`` and ``seconds`` are the two keys, each in its own order. Ranges are written from place 1 on. Stops when the
    output might not have room for another probe; returns (probe to go on with, places used, pairs).
    """
    most = U(most_ranges(tree))
    room = U(len(out_probes))
    kept = ONE
    pairs = ZERO
    while at < len(lows) and kept + most <= room:
        i = at
        at += 1
        if lows[i, 0] > highs[i, 0] or lows[i, 1] > highs[i, 1]:
            continue
        begin, end = stretch(firsts, lows[i, 0], highs[i, 0])
        low, high = stretch(seconds, lows[i, 1], highs[i, 1])
        if begin >= end or low >= high:
            continue
        before = kept
        kept = descend(tree, low, high, begin, end, i, kept, out_probes, out_starts, out_ends)
        for place in range(before, kept):
            pairs += U(out_ends[U(place)] - out_starts[U(place)])
    return at, np.int64(kept), np.int64(pairs)


# -- further keys -----------------------------------------------------------------------------------------


@kernel(types.void(I64_ROWS, OUT_I64, OUT_I64))
def find_ends(keys, least, most):  # type: ignore[no-untyped-def]
    """The least and the greatest of each column from the third on."""
    for j in range(len(least)):
        low, high = np.int64(GREATEST), np.int64(LEAST)
        for i in range(len(keys)):
            low, high = min(low, keys[i, j + 2]), max(high, keys[i, j + 2])
        least[j], most[j] = low, high


@kernel(types.void(I64_ROWS, I32, types.int64, OUT_I64_ROWS))
def keep_by_id(keys, ids, base, out):  # type: ignore[no-untyped-def]
    """``out[id - base]`` = the columns from the third on."""
    for i in range(len(ids)):
        for j in range(out.shape[1]):
            out[ids[i] - base, j] = keys[i, j + 2]


@kernel(types.void(TREE, I64_ROWS, types.int64, I64, types.int64, types.int64, OUT_I64_ROWS, OUT_I64_ROWS))
def bound_leaves(tree, others, base, begins, begin, end, least, most):  # type: ignore[no-untyped-def]
    """The least and the greatest further keys of the leaves from ``begin`` up to ``end``.

    ``others[id - base]`` are a row's further keys.
    """
    size = 1 << tree.leaf
    for leaf in range(begin, end):
        for j in range(others.shape[1]):
            low, high = np.int64(GREATEST), np.int64(LEAST)
            for place in range(leaf * size, min(tree.rows, leaf * size + size)):
                key = others[tree.ids[place] - base, j]
                low, high = min(low, key), max(high, key)
            least[begins[0] + leaf, j], most[begins[0] + leaf, j] = low, high


@kernel(types.void(TREE, I64, OUT_I64_ROWS, OUT_I64_ROWS))
def bound_blocks(tree, begins, least, most):  # type: ignore[no-untyped-def]
    """Those of the levels above from those of the leaves; the blocks of level j stand from ``begins[j]`` on."""
    for level in range(1, tree.levels + 1):
        below = begins[level - 1]
        for block in range(begins[level], begins[level + 1]):
            begin = below + ((block - begins[level]) << tree.fan)
            for j in range(least.shape[1]):
                low, high = np.int64(GREATEST), np.int64(LEAST)
                for child in range(begin, min(begin + (1 << tree.fan), begins[level])):
                    low, high = min(low, least[child, j]), max(high, most[child, j])
                least[block, j], most[block, j] = low, high


@kernel(types.void(TREE, I32, I32, I64, I64_ROWS, I64_ROWS, I64_ROWS, I64_ROWS, OUT_U8))
def judge_blocks(tree, probes, starts, begins, least, most, lows, highs, verdicts):  # type: ignore[no-untyped-def]
    """Whether the further keys of a range's block are ``NONE``, ``SOME`` or ``ALL`` within the probe's bounds."""
    for number in range(len(starts)):
        i = probes[number]
        level = np.int64(starts[number]) // tree.rows
        place = np.int64(starts[number]) - level * tree.rows
        block = begins[level] + (place >> (tree.leaf + tree.fan * level))
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
        I32, I32, I32, I32, I64_ROWS, types.int64, I64_ROWS, I64_ROWS, I32, types.int64,
        OUT_I32, OUT_I32, OUT_I32, OUT_I32,
    )
)  # fmt: skip
def filter_ranges(  # type: ignore[no-untyped-def]
    probes, starts, ends, ids, others, base, lows, highs, rows, at, out_rows, out_starts, out_ends, out_ids
):
    """Of the ranges from ``at`` on, list the ids whose further keys are within bounds too.

    Stops when ``out_ids`` might not have room for another range; returns (range to go on with, ranges, pairs).
    """
    room = U(len(out_ids))
    kept = 0
    pairs = ZERO
    while at < len(starts):
        begin, end = U(starts[at]), U(ends[at])
        if pairs + (end - begin) > room:
            break
        i = probes[at]
        at += 1
        first = pairs
        low, high = lows[i, 2], highs[i, 2]
        for place in range(begin, end):
            row = ids[U(place)]
            key = others[U(row - base), ZERO]
            out_ids[pairs] = row
            pairs += U(key >= low) & U(key <= high)
        for j in range(1, others.shape[1]):  # key by key, so that each pass has one thing to do
            low, high = lows[i, j + 2], highs[i, j + 2]
            last, pairs = pairs, first
            for place in range(first, last):
                row = out_ids[U(place)]
                key = others[U(row - base), U(j)]
                out_ids[pairs] = row
                pairs += U(key >= low) & U(key <= high)
        if pairs > first:
            if kept > 0 and out_rows[kept - 1] == rows[i] and U(out_ends[kept - 1]) == first:
                out_ends[kept - 1] = pairs
            else:
                out_rows[kept], out_starts[kept], out_ends[kept] = rows[i], first, pairs
                kept += 1
    return at, kept, np.int64(pairs)
