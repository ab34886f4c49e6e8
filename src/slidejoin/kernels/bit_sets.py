"""Sets of row ids as bits: filled from trees or lists, combined word by word, listed by their lowest bits."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I32, I64, OUT_I32, kernel, types
from slidejoin.kernels.bits import lowest_bit
from slidejoin.kernels.bplus_tree import NO_LEAF, TREE, count_below, count_up_to, find_first, share_below

U = np.uint64
ZERO, ONE, SIX, WORD = U(0), U(1), U(6), U(63)
LEAF = U(4)  # the place of the leaf width in a tree's state

LEAST, GREATEST = -(2**63), 2**63 - 1
MOST = 0.5  # share of the rows outside of a stretch up to which there is less to mark there than inside

SET = types.Array(types.uint64, 1, "C")
ALL_ROWS = types.Array(types.uint64, 1, "C", readonly=True)
SETS = types.Array(types.uint64, 2, "C")  # a set a row
SETS_OF_SEVERAL = types.Array(types.uint64, 3, "C", readonly=True)


@kernel(types.void(TREE, types.uint64, types.int64, types.int64, types.int64, SET))
def mark_stretch(tree, leaf, low, high, base, some):  # type: ignore[no-untyped-def]
    """The bits ``id - base`` of the keys within ``[low, high]``, from the leaf on where they begin.

    Only the leaves at both ends are searched; those between are taken as they lie.
    """
    width = tree.state[LEAF]
    while True:
        first = leaf * width
        size = U(tree.sizes[leaf])
        slot = ZERO
        end = size
        if size > ZERO:
            if tree.keys[first] < low:
                slot = count_below(tree.keys, first, size, low)
            if tree.keys[first + size - ONE] > high:
                end = count_up_to(tree.keys, first, size, high)
        for place in range(first + slot, first + end):
            bit = U(tree.ids[U(place)] - base)
            some[bit >> SIX] |= ONE << (bit & WORD)
        if end < size or tree.nexts[leaf] == NO_LEAF:
            break
        leaf = U(tree.nexts[leaf])


@kernel(types.void(TREE, I64, I64, types.int64, ALL_ROWS, SETS))
def mark_tree(tree, lows, highs, base, present, sets):  # type: ignore[no-untyped-def]
    """``sets[i]`` gets the bits ``id - base`` of the keys within ``[lows[i], highs[i]]``.

    ``present`` has the bits of all rows: where most of them are within, the others are marked and the set is turned over.
    """
    for i in range(len(lows)):
        low, high = lows[i], highs[i]
        if low > high:
            continue
        outside = share_below(tree, low) if low > LEAST else 0.0
        outside += 1 - share_below(tree, high) if high < GREATEST else 0.0
        if outside > MOST:
            mark_stretch(tree, find_first(tree, low), low, high, base, sets[i])
            continue
        if low > LEAST:
            mark_stretch(tree, ZERO, LEAST, low - 1, base, sets[i])
        if high < GREATEST:
            mark_stretch(tree, find_first(tree, high + 1), high + 1, GREATEST, base, sets[i])
        for word in range(len(present)):
            sets[i, word] ^= present[word]


@kernel(types.void(I32, types.int64, SET))
def mark_ids(ids, base, some):  # type: ignore[no-untyped-def]
    """The bits ``id - base``."""
    for i in range(U(len(ids))):
        bit = U(ids[U(i)] - base)
        some[bit >> SIX] |= ONE << (bit & WORD)


@kernel(types.void(I32, I32, I32, types.int64, SETS))
def mark_slices(ids, starts, ends, base, sets):  # type: ignore[no-untyped-def]
    """``sets[i]`` gets the bits ``id - base`` of ``ids[starts[i]:ends[i]]``."""
    for i in range(len(starts)):
        for place in range(U(starts[i]), U(max(starts[i], ends[i]))):
            bit = U(ids[U(place)] - base)
            sets[i, bit >> SIX] |= ONE << (bit & WORD)


@kernel(types.int64(SETS_OF_SEVERAL, types.int64, OUT_I32, OUT_I32))
def list_common(several, base, out_ids, out_ends):  # type: ignore[no-untyped-def]
    """The ids whose bits are in ``several[j][i]`` for every j; set i's end at ``out_ends[i]``. Returns how many.

    ``out_ids`` must have room for all the bits of the sets.
    """
    kinds, count, words = several.shape
    at = ZERO
    for i in range(count):
        for w in range(words):
            word = several[0, i, w]
            for j in range(1, kinds):
                word &= several[j, i, w]
            first = base + 64 * w
            while word != ZERO:
                out_ids[at] = first + np.int64(lowest_bit(word))
                at += ONE
                word &= word - ONE
        out_ends[i] = at
    return np.int64(at)
