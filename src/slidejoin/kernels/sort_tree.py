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

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U8, U8, inlined, kernel, types
from slidejoin.kernels.bits import count_bits
from slidejoin.kernels.order import ascends
from slidejoin.kernels.search import bisect_all, find_starts
from slidejoin.kernels.vector import move_of_16, within_of_16

U = np.uint64
ZERO, ONE, SIXTEEN, ALL_16 = U(0), U(1), U(16), U(0xFFFF)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
I32_ROWS = types.Array(types.int32, 2, "C", readonly=True)
OUT_I64_ROWS = types.Array(types.int64, 2, "C")
OUT_I32_ROWS = types.Array(types.int32, 2, "C")
OUT_U64_ROWS = types.Array(types.uint64, 2, "C")
LEAST, GREATEST = -(2**63), 2**63 - 1
NEAR = 256  # keys a probe, up to which those in between are stepped over faster than bisected
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


class Further(NamedTuple):
    """What a run knows of the third key and more; without any, where they need no looking at."""

    begins: NDArray[np.int64]  # where the blocks of each level begin in the two that follow
    least: NDArray[np.int64]  # of each key a row, a column for each block
    most: NDArray[np.int64]
    by_place: NDArray[np.int64]  # a column for each row, as level 0 lies
    by_id: NDArray[np.int64]  # a column for each id, from `base` on
    base: int


FURTHER = types.NamedTuple(
    (OUT_I64, OUT_I64_ROWS, OUT_I64_ROWS, OUT_I64_ROWS, OUT_I64_ROWS, types.int64), Further
)


class Found(NamedTuple):
    """Answers: row ``rows[i]`` has ``ids[starts[i]:ends[i]]``."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    ids: NDArray[np.int32]


FOUND = types.NamedUniTuple(OUT_I32, 4, Found)


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


@kernel(types.void(I32, U8, I64, types.int64, types.int32, OUT_I32, OUT_I64))
def keep_firsts(ids, offsets, firsts, leaf, first, places, out):  # type: ignore[no-untyped-def]
    """Keep rows whose ids are at least ``first``: their first keys, and ``places[position]`` = the new position."""
    for number in range(len(firsts)):
        at = U(number)
        position = (at >> U(leaf) << U(leaf)) + U(offsets[at])
        places[position] = ids[at] >= first
    to, room = ZERO, U(len(out))
    for number in range(len(firsts)):
        at = U(number)
        if to == room:
            break
        kept = U(places[at])
        out[to], places[at] = firsts[at], to
        to += kept


@kernel(types.void(I32, I64, types.int32, types.int32, I32, types.int64, OUT_I32, OUT_I64, OUT_I32))
def keep_seconds(  # type: ignore[no-untyped-def]
    ids, seconds, first, shift, places, base, out_ids, out_seconds, out_positions
):
    """Of the same rows by rank: ids less by ``shift``, second keys, and the positions that ``note_places`` noted."""
    to, room = ZERO, U(len(out_ids))
    for number in range(len(ids)):
        at = U(number)
        if to == room:
            break
        row = ids[at]
        out_ids[to], out_seconds[to] = row - shift, seconds[at]
        out_positions[to] = places[U(row - base)]
        to += U(row >= first)


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


@inlined
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


@inlined
def descend(tree, low, high, begin, end, starts, ends):  # type: ignore[no-untyped-def]
    """Ranges of the rows whose ranks are from ``low`` up to ``high`` and whose positions from ``begin`` up to ``end``.

    A block within the positions is taken as it is; of the others, the two at the ends, the children are looked at, until
    one is without such rows. A leaf at an end is taken too, with rows whose positions are beyond. Returns how many ranges
    there are.
    """
    n, fan = U(tree.rows), U(tree.fan)
    level, start, stop = U(tree.levels), ZERO, n  # of the block
    other_start, other_low, other_high, other_level = ZERO, ZERO, ZERO, ZERO  # the second of the two
    waits = False
    kept = ZERO
    if begin == ZERO and end == n:
        starts[kept], ends[kept] = level * n + low, level * n + high
        return ONE
    while True:
        goes_on = False
        if level == ZERO:
            starts[kept], ends[kept] = low, high
            kept += ONE
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
                    starts[kept], ends[kept] = shift + from_, shift + to
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


@kernel(types.void(I64, I64, OUT_I32))
def find_places(keys, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = the first place whose key is not below ``wanted[i]``: stepped to from the one before, if they ascend."""
    if len(keys) <= NEAR * len(wanted) and ascends(wanted):
        find_starts(keys, wanted, out)
    else:
        bisect_all(keys, wanted, out)


@kernel(types.void(I64, I64, I64, OUT_I32, OUT_I32))
def find_stretches(keys, lows, highs, begins, ends):  # type: ignore[no-untyped-def]
    """Where the keys within each ``[lows[i], highs[i]]`` begin and end; empty where they begin no earlier than they end.

    Of an inequality, one bound is the least or the greatest there is, and the same for all.
    """
    least, greatest = True, True
    for i in range(len(lows)):
        least &= lows[i] == LEAST
        greatest &= highs[i] == GREATEST
    if least:
        begins[:] = 0
    else:
        find_places(keys, lows, begins)
    if greatest:
        ends[:] = len(keys)
        return
    after = np.empty(len(highs), dtype=np.int64)
    for i in range(len(highs)):
        after[i] = highs[i] + np.int64(highs[i] < GREATEST)
    find_places(keys, after, ends)
    for i in range(len(highs)):
        if highs[i] == GREATEST:
            ends[i] = len(keys)


@kernel(types.int64(TREE))
def most_ranges(tree):  # type: ignore[no-untyped-def]
    """How many ranges a probe may have: two leaves, and the children of two blocks a level."""
    return 2 + 2 * (tree.levels << tree.fan)


# -- further keys -----------------------------------------------------------------------------------------


@kernel(
    types.void(
        TREE, I64_ROWS, types.int64, types.int64, types.int64, OUT_I64_ROWS, OUT_I64_ROWS, OUT_I64_ROWS
    )
)
def bound_leaves(tree, others, base, begin, end, by_place, least, most):  # type: ignore[no-untyped-def]
    """The further keys of the leaves from ``begin`` up to ``end`` as they lie, and the ends of each leaf's.

    ``others[:, id - base]`` are a row's further keys.
    """
    size = 1 << tree.leaf
    for leaf in range(begin, end):
        for j in range(len(others)):
            low, high = np.int64(GREATEST), np.int64(LEAST)
            for place in range(leaf * size, min(tree.rows, leaf * size + size)):
                key = others[j, tree.ids[place] - base]
                by_place[j, place] = key
                low, high = min(low, key), max(high, key)
            least[j, leaf], most[j, leaf] = low, high


@kernel(types.void(TREE, I64, OUT_I64_ROWS, OUT_I64_ROWS))
def bound_blocks(tree, begins, least, most):  # type: ignore[no-untyped-def]
    """Those of the levels above from those of the leaves; the blocks of level j stand from ``begins[j]`` on."""
    for level in range(1, tree.levels + 1):
        below = begins[level - 1]
        for block in range(begins[level], begins[level + 1]):
            begin = below + ((block - begins[level]) << tree.fan)
            for j in range(len(least)):
                low, high = np.int64(GREATEST), np.int64(LEAST)
                for child in range(begin, min(begin + (1 << tree.fan), begins[level])):
                    low, high = min(low, least[j, child]), max(high, most[j, child])
                least[j, block], most[j, block] = low, high


@inlined
def judge_block(further, block, lows, highs, probe):  # type: ignore[no-untyped-def]
    """Whether ``NONE``, ``SOME`` or ``ALL`` of a block's further keys are within the probe's bounds."""
    verdict = ALL
    for j in range(len(further.least)):
        low, high = lows[j + 2, probe], highs[j + 2, probe]
        if further.least[j, block] > high or further.most[j, block] < low:
            return NONE
        if further.least[j, block] < low or further.most[j, block] > high:
            verdict = SOME
    return verdict


@inlined
def list_of_leaf(  # type: ignore[no-untyped-def]
    tree, further, lows, highs, probe, begin, end, least, most, at, out
):
    """List the ids from place ``begin`` up to ``end`` of a leaf that pass, from ``out[at]`` on; returns where they end.

    The leaf's offsets are to be from ``least`` to ``most``, and all further keys within the probe's bounds. Sixteen rows at
    a time and without a branch, since which row passes is a coin toss.
    """
    for number in range(begin, end, SIXTEEN):
        place = U(number)
        passing = ALL_16 >> (SIXTEEN - min(SIXTEEN, end - place))
        passing &= within_of_16(tree.offsets, place, np.int64(least), np.int64(most))
        for j in range(len(further.by_place)):
            passing &= within_of_16(further.by_place[j], place, lows[j + 2, probe], highs[j + 2, probe])
        at += move_of_16(tree.ids, place, passing, out, at)
    return at


@inlined
def list_of_block(tree, further, lows, highs, probe, begin, end, at, out):  # type: ignore[no-untyped-def]
    """List the ids from place ``begin`` up to ``end`` whose further keys are within bounds; returns where they end."""
    first = at
    low, high = lows[2, probe], highs[2, probe]
    for number in range(begin, end):
        row = tree.ids[U(number)]
        key = further.by_id[ZERO, U(row - further.base)]
        out[at] = row
        at += U(key >= low) & U(key <= high)
    for j in range(1, len(further.by_id)):  # key by key, so that each pass has one thing to do
        low, high = lows[j + 2, probe], highs[j + 2, probe]
        last, at = at, first
        for number in range(first, last):
            row = out[U(number)]
            key = further.by_id[U(j), U(row - further.base)]
            out[at] = row
            at += U(key >= low) & U(key <= high)
    return at


@kernel(
    types.UniTuple(types.int64, 5)(
        TREE, I32_ROWS, FURTHER, I64_ROWS, I64_ROWS, I32, types.int64, OUT_I32, OUT_I32, FOUND, FOUND
    )
)
def find_rows(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912 - handing all on to another costs a fifth
    tree, stretches, further, lows, highs, rows, at, starts, ends, whole, listed
):
    """The rows within all bounds, for probes from ``at`` on: as ranges of the tree's ids, and listed.

    ``stretches`` are of both keys, each in its own order: where the first's begins and ends, and the second's. Found
    beforehand, as searches that do not wait for each other. Bounds have a row for each key. Listed are the rows
    of leaves at an end of the first key's stretch; with further keys also those of other leaves, which are looked through
    sooner than thought about, and of blocks of which their bounds leave a part. ``starts`` and ``ends`` are scratch for a
    probe. Stops when the outputs might not have room for another probe; returns (probe to go on with, whole ranges, their
    pairs, listed ranges, their pairs).
    """
    n, leaf, more = U(tree.rows), U(tree.leaf), len(further.by_place) > 0
    wholes, lists, whole_pairs, pairs = ZERO, ZERO, ZERO, ZERO
    while at < len(rows) and wholes + U(len(starts)) <= U(len(whole.rows)):
        i = at
        begin, end, low, high = U(stretches[0, i]), U(stretches[1, i]), U(stretches[2, i]), U(stretches[3, i])
        if begin >= end or low >= high:
            at += 1
            continue
        count = descend(tree, low, high, begin, end, starts, ends)
        looked_through = U(2) << leaf
        if more:
            looked_through = ZERO
            for number in range(count):
                looked_through += U(ends[U(number)] - starts[U(number)])
        if pairs + looked_through > U(len(listed.ids)):
            break
        at += 1
        first = pairs
        for number in range(count):
            from_, to = U(starts[U(number)]), U(ends[U(number)])
            level, place = ZERO, from_
            while place >= n:
                place -= n
                level += ONE
            verdict = ALL
            if level == ZERO:
                start = place >> leaf << leaf
                stop = min(n, start + (ONE << leaf))
                if more or start < begin or end < stop:
                    least, most = max(begin, start) - start, min(end, stop) - ONE - start
                    pairs = list_of_leaf(
                        tree, further, lows, highs, i, from_, to, least, most, pairs, listed.ids
                    )
                    continue
            elif more:
                block = U(further.begins[level]) + (place >> (leaf + U(tree.fan) * level))
                verdict = judge_block(further, block, lows, highs, i)
            if verdict == ALL:
                whole.rows[wholes], whole.starts[wholes], whole.ends[wholes] = rows[i], from_, to
                wholes += ONE
                whole_pairs += to - from_
            elif verdict == SOME:
                pairs = list_of_block(tree, further, lows, highs, i, from_, to, pairs, listed.ids)
        if pairs > first:
            listed.rows[lists], listed.starts[lists], listed.ends[lists] = rows[i], first, pairs
            lists += ONE
    return at, np.int64(wholes), np.int64(whole_pairs), np.int64(lists), np.int64(pairs)
