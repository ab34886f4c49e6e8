"""A mutable B+-tree in flat arrays: descend, insert, split, and read the leaves in order.

Leaf ``n`` has its rows from ``n * leaf`` on, in ascending order, and knows the next leaf; node ``n`` has its
children from ``n * fan`` on, and ``separators[n * fan + i]`` lies between children i and i + 1: not below any
key left of it, not above any key right of it. Equal keys may lie on both sides of a separator, so inserting
goes right of an equal separator and reading starts left of it.

Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U64, kernel, types

U = np.uint64
ZERO, ONE = U(0), U(1)
ROOT, HEIGHT, LEAVES, NODES, LEAF, FAN, ROWS = (U(n) for n in range(7))  # places in `state`
PATH = 128  # two words a level: more levels than a tree of 2^31 rows can have
NO_LEAF = -1


class Tree(NamedTuple):
    """The arrays of one tree; without nodes the root is leaf 0."""

    keys: NDArray[np.int64]
    ids: NDArray[np.int32]
    sizes: NDArray[np.int32]
    nexts: NDArray[np.int32]
    separators: NDArray[np.int64]
    children: NDArray[np.int32]
    fills: NDArray[np.int32]
    state: NDArray[np.uint64]


TREE = types.NamedTuple((OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I64, OUT_I32, OUT_I32, OUT_U64), Tree)


@kernel(types.uint64(OUT_I64, types.uint64, types.uint64, types.int64), borrows=True)
def count_below(values, begin, size, key):  # type: ignore[no-untyped-def]
    """How many of ``size`` ascending values from ``begin`` on are below ``key``; no branch to mispredict."""
    at = ZERO
    left = size
    while left > ZERO:
        half = (left + ONE) >> ONE
        at += U(values[begin + at + half - ONE] < key) * half
        left -= half
    return at


@kernel(types.uint64(OUT_I64, types.uint64, types.uint64, types.int64), borrows=True)
def count_up_to(values, begin, size, key):  # type: ignore[no-untyped-def]
    """How many of ``size`` ascending values from ``begin`` on are not above ``key``."""
    at = ZERO
    left = size
    while left > ZERO:
        half = (left + ONE) >> ONE
        at += U(values[begin + at + half - ONE] <= key) * half
        left -= half
    return at


@kernel(types.uint64(TREE, types.int64), borrows=True)
def find_first(tree, key):  # type: ignore[no-untyped-def]
    """The leftmost leaf that may hold a key that is not below ``key``."""
    child = tree.state[ROOT]
    fan = tree.state[FAN]
    for _ in range(tree.state[HEIGHT]):
        at = count_below(tree.separators, child * fan, U(tree.fills[child]) - ONE, key)
        child = U(tree.children[child * fan + at])
    return child


@kernel(types.float64(TREE, types.int64), borrows=True)
def share_below(tree, key):  # type: ignore[no-untyped-def]
    """About which share of the rows is below ``key``: as if all children of a node had as many."""
    child = tree.state[ROOT]
    fan = tree.state[FAN]
    below = 0.0
    each = 1.0  # of the rows are under the node
    for _ in range(tree.state[HEIGHT]):
        size = U(tree.fills[child])
        at = count_below(tree.separators, child * fan, size - ONE, key)
        each /= np.float64(size)
        below += each * np.float64(at)
        child = U(tree.children[child * fan + at])
    return below


@kernel(types.void(TREE, OUT_U64, types.int64, types.int64), borrows=True)
def add_child(tree, path, separator, child):  # type: ignore[no-untyped-def]
    """Hang a new child right of the path's lowest step, splitting nodes that are full on the way up."""
    fan = tree.state[FAN]
    half = fan >> ONE
    level = ZERO
    while level < tree.state[HEIGHT]:
        node = path[level + level]
        at = path[level + level + ONE]
        size = U(tree.fills[node])
        raised = np.int64(0)
        new = ZERO
        full = size == fan
        if full:
            new = tree.state[NODES]
            tree.state[NODES] += ONE
            for place in range(half, fan):
                tree.children[new * fan + U(place) - half] = tree.children[node * fan + U(place)]
            for place in range(half, fan - ONE):
                tree.separators[new * fan + U(place) - half] = tree.separators[node * fan + U(place)]
            raised = tree.separators[node * fan + half - ONE]
            tree.fills[node] = half
            tree.fills[new] = fan - half
            if at >= half:
                node = new
                at -= half
            size = U(tree.fills[node])
        first = node * fan
        i = size
        while i > at + ONE:
            tree.children[first + i] = tree.children[first + i - ONE]
            tree.separators[first + i - ONE] = tree.separators[first + i - ONE - ONE]
            i -= ONE
        tree.children[first + at + ONE] = child
        tree.separators[first + at] = separator
        tree.fills[node] += 1
        if not full:
            return
        separator = raised
        child = np.int64(new)
        level += ONE
    root = tree.state[NODES]
    tree.state[NODES] += ONE
    tree.children[root * fan] = tree.state[ROOT]
    tree.children[root * fan + ONE] = child
    tree.separators[root * fan] = separator
    tree.fills[root] = 2
    tree.state[ROOT] = root
    tree.state[HEIGHT] += ONE


@kernel(types.uint64(TREE, types.uint64, types.uint64), borrows=True)
def split_leaf(tree, leaf, at):  # type: ignore[no-untyped-def]
    """Give the upper half of a full leaf to a new one; where rows are added at the very end, keep it full."""
    width = tree.state[LEAF]
    new = tree.state[LEAVES]
    tree.state[LEAVES] += ONE
    keep = width >> ONE
    if at > keep:  # the row that is coming goes right: both shall be at least half full afterwards
        keep = width - keep
    if at == width and tree.nexts[leaf] == NO_LEAF:
        keep = width
    for i in range(keep, width):
        tree.keys[new * width + U(i) - keep] = tree.keys[leaf * width + U(i)]
        tree.ids[new * width + U(i) - keep] = tree.ids[leaf * width + U(i)]
    tree.sizes[leaf] = keep
    tree.sizes[new] = width - keep
    tree.nexts[new] = tree.nexts[leaf]
    tree.nexts[leaf] = np.int32(new)
    return keep


@kernel(types.void(TREE, types.uint64, types.uint64, types.int64, types.int32), borrows=True)
def put_row(tree, leaf, at, key, entry):  # type: ignore[no-untyped-def]
    """Put a row at place ``at`` of a leaf that has room."""
    first = leaf * tree.state[LEAF]
    i = U(tree.sizes[leaf])
    while i > at:
        tree.keys[first + i] = tree.keys[first + i - ONE]
        tree.ids[first + i] = tree.ids[first + i - ONE]
        i -= ONE
    tree.keys[first + at] = key
    tree.ids[first + at] = entry
    tree.sizes[leaf] += 1


@kernel(types.void(TREE, I64, I32, OUT_U64), borrows=True)
def insert_batch(tree, keys, ids, path):  # type: ignore[no-untyped-def]
    """Insert an ascending batch: rows of one leaf share the descent. There must be room for new leaves."""
    width = tree.state[LEAF]
    fan = tree.state[FAN]
    leaf = ZERO
    known = False  # whether `leaf` is where the key belongs
    bounded = False
    fence = np.int64(0)
    for row in range(len(keys)):
        key = keys[row]
        if not known or (bounded and key >= fence):
            child = tree.state[ROOT]
            bounded = False
            level = tree.state[HEIGHT]
            while level > ZERO:
                level -= ONE
                size = U(tree.fills[child])
                at = count_up_to(tree.separators, child * fan, size - ONE, key)
                path[level + level] = child
                path[level + level + ONE] = at
                if at + ONE < size:
                    bounded = True
                    fence = tree.separators[child * fan + at]
                child = U(tree.children[child * fan + at])
            leaf = child
            known = True
        size = U(tree.sizes[leaf])
        at = count_up_to(tree.keys, leaf * width, size, key)
        if size == width:
            new = tree.state[LEAVES]
            keep = split_leaf(tree, leaf, at)
            known = False  # the path has changed
            if at > width >> ONE:
                leaf = new
                at -= keep
            put_row(tree, leaf, at, key, ids[row])
            add_child(tree, path, tree.keys[new * width], np.int64(new))
            continue
        put_row(tree, leaf, at, key, ids[row])
    tree.state[ROWS] += U(len(keys))


@kernel(types.void(TREE, I64, I32), borrows=True)
def build_tree(tree, keys, ids):  # type: ignore[no-untyped-def]
    """Fill an empty tree from an ascending run: full leaves, then level upon level. O(n)."""
    width = tree.state[LEAF]
    fan = tree.state[FAN]
    n = U(len(keys))
    leaves = max(ONE, (n + width - ONE) // width)
    for leaf in range(leaves):
        begin = U(leaf) * width
        end = min(n, begin + width)
        for i in range(begin, end):
            tree.keys[i] = keys[i]
            tree.ids[i] = ids[i]
        tree.sizes[leaf] = end - begin
        tree.nexts[leaf] = leaf + 1 if U(leaf) + ONE < leaves else NO_LEAF
    tree.state[LEAVES] = leaves
    tree.state[ROWS] = n
    tree.state[ROOT] = ZERO
    tree.state[HEIGHT] = ZERO
    tree.state[NODES] = ZERO
    # `first` and `count` are the children of the level that is being made; their least keys are found by
    # going down their leftmost children.
    first = ZERO
    count = leaves
    while count > ONE:
        made = tree.state[NODES]
        parents = (count + fan - ONE) // fan
        at = ZERO
        for parent in range(parents):
            # Spread evenly, so that no node has fewer than two children.
            size = count // parents + U(U(parent) < count % parents)
            node = made + U(parent)
            tree.fills[node] = size
            for i in range(size):
                child = first + at
                tree.children[node * fan + U(i)] = child
                if U(i) > ZERO:
                    leftmost = child
                    for _ in range(tree.state[HEIGHT]):
                        leftmost = U(tree.children[leftmost * fan])
                    tree.separators[node * fan + U(i) - ONE] = tree.keys[leftmost * width]
                at += ONE
        tree.state[NODES] += parents
        tree.state[HEIGHT] += ONE
        tree.state[ROOT] = made
        first = made
        count = parents


@kernel(
    types.UniTuple(types.int64, 2)(TREE, types.int64, types.int64, types.int64, OUT_I64, OUT_I32),
    borrows=True,
)
def read_leaves(tree, leaf, at, budget, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Copy rows in order from ``leaf`` on to position ``at`` of the output, about ``budget`` of them.

    Returns (the leaf to go on with, or -1; the position to go on at).
    """
    width = tree.state[LEAF]
    stop = at + budget
    while leaf != NO_LEAF and at < stop:
        first = U(leaf) * width
        size = U(tree.sizes[leaf])
        for i in range(size):
            out_keys[U(at) + U(i)] = tree.keys[first + U(i)]
            out_ids[U(at) + U(i)] = tree.ids[first + U(i)]
        at += np.int64(size)
        leaf = np.int64(tree.nexts[leaf])
    return leaf, at


@kernel(types.UniTuple(types.int64, 2)(TREE, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32), borrows=True)
def copy_ranges(tree, lows, highs, rows, out_rows, out_starts, out_ends, out_ids):  # type: ignore[no-untyped-def]
    """Copy the ids of keys within ``[lows[i], highs[i]]``; returns (ranges, pairs), pairs < 0 if out of room."""
    width = tree.state[LEAF]
    room = U(len(out_ids))
    kept = 0
    at = ZERO
    for i in range(len(lows)):
        low = lows[i]
        high = highs[i]
        if low > high:
            continue
        begin = at
        leaf = find_first(tree, low)
        first = leaf * width
        slot = count_below(tree.keys, first, U(tree.sizes[leaf]), low)
        while True:
            size = U(tree.sizes[leaf])
            end = size
            if size > ZERO and tree.keys[first + size - ONE] > high:
                end = count_up_to(tree.keys, first, size, high)
            if slot < end:
                if at + end - slot > room:
                    return kept, -1
                while slot < end:
                    out_ids[at] = tree.ids[first + slot]
                    at += ONE
                    slot += ONE
            if end < size or tree.nexts[leaf] == NO_LEAF:
                break
            leaf = U(tree.nexts[leaf])
            first = leaf * width
            slot = count_below(tree.keys, first, U(tree.sizes[leaf]), low)
        if at > begin:
            out_rows[kept] = rows[i]
            out_starts[kept] = begin
            out_ends[kept] = at
            kept += 1
    return kept, np.int64(at)
