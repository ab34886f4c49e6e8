"""The leaves of a WiB+-Tree: taking in a sorted batch, and splitting where it does not fit.

A leaf is a chain of the table underneath (see llat.py), unsorted, and knows the greatest key it may hold and
the leaf to its right. The rows of a batch that go to one leaf are one run. A run that fits is appended as it
is. A short one that does not fit has the leaf cut in the middle of what its keys span: what lies in a leaf is close
together, so that this is near the middle of its rows as a rule, and nothing need be sorted. Where it is not, the leaf's
rows are sorted now, merged with the run and cut into as many leaves as it takes, only between distinct keys. A key with
more rows than a leaf has room for gets a leaf of its own: a chain of several entries holds one key alone, so it is never
sorted and is set apart from other keys without being moved.

The kernels borrow their arrays, and what every split calls is inlined: there are so many that handing them from function to
function has a cost, and counting who holds them took half of a split.
Indices are unsigned in the inner loops: see search.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, inlined, kernel, types
from slidejoin.kernels.llat import END, LAST, NEXT, NONE, OUT_TABLE, START
from slidejoin.kernels.order import unsigned
from slidejoin.kernels.prefetch import prefetch
from slidejoin.kernels.wib_nodes import HEIGHT, NODES, OUT_U64, USED, add_child, seek_first

U = np.uint64
ZERO, ONE, TWO, THREE, FOUR = (U(n) for n in range(5))
POINTER, WIDTH = ZERO, ONE  # places in `state`
RUN = 4  # leaves' worth of rows taken in at a time; bounds the scratch and the room that must be there
ENTRIES_ROOM = 32  # entries that one run may take: 5 leaves' worth of rows, cut no smaller than quarters
NODES_ROOM = 24  # nodes that it may take at each level
RANKED = 256  # rows up to which counting the smaller ones is the fastest way to sort
FAR, NEAR = U(24), U(12)  # rows ahead at which a leaf's entry is asked for, and its slots when that is there
LINE, LINES = U(8), U(8)  # int64 in a cache line; lines of keys asked for
EVEN, ABOVE, BELOW = ZERO, ONE, TWO  # how to cut: see `cut`


class Leaves(NamedTuple):
    """The chains' arrays, and for the first entry of each chain what the tree knows of the leaf."""

    keys: NDArray[np.int64]
    ids: NDArray[np.int32]
    table: NDArray[np.int32]
    spare: NDArray[np.int32]
    tops: NDArray[np.int64]  # the greatest key that the leaf may hold
    after: NDArray[np.int32]  # the leaf to the right
    state: NDArray[np.uint64]


class Scratch(NamedTuple):
    path: NDArray[np.uint64]
    tail_keys: NDArray[np.int64]
    tail_ids: NDArray[np.int32]
    sorted_keys: NDArray[np.int64]
    sorted_ids: NDArray[np.int32]
    merged_keys: NDArray[np.int64]
    merged_ids: NDArray[np.int32]


LEAVES = types.NamedTuple((OUT_I64, OUT_I32, OUT_TABLE, OUT_I32, OUT_I64, OUT_I32, OUT_U64), Leaves)
SCRATCH = types.NamedTuple((OUT_U64, OUT_I64, OUT_I32, OUT_I64, OUT_I32, OUT_I64, OUT_I32), Scratch)


@kernel(types.void(OUT_I64, OUT_I32, types.uint64, types.uint64, OUT_I64, OUT_I32))
def sort_rows(keys, ids, start, end, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Rows ``start`` to ``end``, sorted into the output; equal keys keep their order.

    They are few, so counting for each row those that come before it, a loop over vectors without branches, is
    faster than a sort that compares and moves.
    """
    if end - start <= U(RANKED):
        for i in range(start, end):
            key = keys[i]
            rank = ZERO
            for j in range(start, i):
                rank += U(keys[j] <= key)
            for j in range(i + ONE, end):
                rank += U(keys[j] < key)
            out_keys[rank] = key
            out_ids[rank] = ids[i]
        return
    order = np.argsort(keys[start:end], kind="mergesort")
    for i in range(len(order)):
        out_keys[i] = keys[start + U(order[i])]
        out_ids[i] = ids[start + U(order[i])]


@kernel(
    types.void(
        I64, I32, types.uint64, types.uint64, I64, I32, types.uint64, types.uint64,
        OUT_I64, OUT_I32, types.uint64,
    ),
    borrows=True,
)  # fmt: skip
def merge_rows(keys_a, ids_a, a, end_a, keys_b, ids_b, b, end_b, out_keys, out_ids, at):  # type: ignore[no-untyped-def]
    """Merge two sorted stretches of rows into the output from ``at`` on; equal keys of the first come first."""
    while a < end_a and b < end_b:
        key_a = keys_a[a]
        key_b = keys_b[b]
        take_b = key_b < key_a
        out_keys[at] = key_b if take_b else key_a
        out_ids[at] = ids_b[b] if take_b else ids_a[a]
        b += U(take_b)
        a += U(not take_b)
        at += ONE
    while a < end_a:
        out_keys[at] = keys_a[a]
        out_ids[at] = ids_a[a]
        a += ONE
        at += ONE
    while b < end_b:
        out_keys[at] = keys_b[b]
        out_ids[at] = ids_b[b]
        b += ONE
        at += ONE


@kernel(
    types.void(
        OUT_I64, OUT_I32, types.uint64, types.uint64, OUT_I64, OUT_I32, OUT_I64, OUT_I32, types.uint64
    ),
    borrows=True,
)
def sort_leaf(keys, ids, start, end, tail_keys, tail_ids, out_keys, out_ids, at):  # type: ignore[no-untyped-def]
    """Rows ``start`` to ``end``, sorted into the output from ``at`` on.

    What a leaf was split off with is in order still; only what was appended since has to be sorted.
    """
    middle = start + ONE
    while middle < end and keys[middle - ONE] <= keys[middle]:
        middle += ONE
    middle = min(middle, end)
    sort_rows(keys, ids, middle, end, tail_keys, tail_ids)
    merge_rows(keys, ids, start, middle, tail_keys, tail_ids, ZERO, end - middle, out_keys, out_ids, at)


@kernel(types.uint64(OUT_I64, types.uint64, types.uint64, types.uint64, types.uint64), borrows=True)
def cut(keys, start, total, width, how):  # type: ignore[no-untyped-def]
    """Where the leaf that begins at ``start`` ends: between distinct keys, at most a width away if it can.

    EVEN leaves room everywhere. Rows that came ABOVE or BELOW all others are followed by more of the kind,
    so the leaves they move away from are filled: ascending and descending keys waste no room.
    """
    rest = total - start
    if rest <= width:
        return total
    size = width
    if how == EVEN:
        pieces = (rest * FOUR + width * THREE - ONE) // (width * THREE)
        size = (rest + pieces - ONE) // pieces
    elif how == BELOW:
        size = rest - width * ((rest - ONE) // width)
    end = start + size
    while end > start and keys[end - ONE] == keys[end]:
        end -= ONE
    if end == start:
        while end < total and keys[end] == keys[start]:
            end += ONE
    return end


@inlined
def take_entry(leaves):  # type: ignore[no-untyped-def]
    """The entry that the global pointer points at."""
    entry = U(leaves.spare[leaves.state[POINTER]])
    leaves.state[POINTER] += ONE
    return entry


@kernel(types.void(LEAVES, types.uint64), borrows=True)
def empty_leaf(leaves, leaf):  # type: ignore[no-untyped-def]
    leaves.table[leaf, END] = leaves.table[leaf, START]
    leaves.table[leaf, NEXT] = NONE
    leaves.table[leaf, LAST] = leaf


@kernel(types.void(LEAVES, types.uint64, I64, I32, types.uint64, types.uint64), borrows=True)
def append(leaves, leaf, keys, ids, row, end):  # type: ignore[no-untyped-def]
    """Append rows ``row`` to ``end`` to a leaf; where its last entry is full, another is linked to it."""
    table = leaves.table
    entry = U(table[leaf, LAST])
    while True:
        at = U(table[entry, END])
        count = min(U(table[entry, START]) + leaves.state[WIDTH] - at, end - row)
        for i in range(count):
            leaves.keys[at + i] = keys[row + i]
            leaves.ids[at + i] = ids[row + i]
        table[entry, END] = at + count
        row += count
        if row == end:
            return
        fresh = take_entry(leaves)
        table[entry, NEXT] = fresh
        table[leaf, LAST] = fresh
        entry = fresh


@inlined
def add_leaf(leaves, nodes, path, leaf, separator):  # type: ignore[no-untyped-def]
    """A new empty leaf to the right of the path's leaf, for its keys above ``separator``."""
    fresh = take_entry(leaves)
    leaves.tops[fresh] = leaves.tops[leaf]
    leaves.after[fresh] = leaves.after[leaf]
    leaves.tops[leaf] = separator
    leaves.after[leaf] = fresh
    add_child(nodes, path, separator, fresh)
    return fresh


@inlined
def halve(leaves, nodes, path, leaf, keys, ids, row, end):  # type: ignore[no-untyped-def]
    """Cut the path's leaf in the middle of what its keys span, and take rows ``row`` to ``end`` into both.

    False, and nothing is done, if less than a quarter of its rows would be on one side, if there might be no room, or if
    the rows that come are above or below all others, as those after them are going to be.
    """
    start, stop = U(leaves.table[leaf, START]), U(leaves.table[leaf, END])
    held, leaf_keys, leaf_ids = stop - start, leaves.keys, leaves.ids
    if held == ZERO:
        return False
    least = most = leaf_keys[start]
    for i in range(start, stop):
        least = min(least, leaf_keys[i])
        most = max(most, leaf_keys[i])
    if most < keys[row] or keys[end - ONE] < least:
        return False
    middle = least + np.int64((unsigned(most) - unsigned(least)) >> ONE)
    below = ZERO
    for i in range(start, stop):
        below += U(leaf_keys[i] <= middle)
    fewer, more = min(below, held - below), max(below, held - below)
    if FOUR * fewer < held or more + (end - row) > leaves.state[WIDTH]:
        return False
    right = add_leaf(leaves, nodes, path, leaf, middle)
    at, to = start, U(leaves.table[right, START])
    # Each is written to both places, and the one that it does not belong to is written over.
    for i in range(start, stop):
        key, entry = leaf_keys[i], leaf_ids[i]
        leaf_keys[at], leaf_ids[at] = key, entry
        leaf_keys[to], leaf_ids[to] = key, entry
        at += U(key <= middle)
        to += U(key > middle)
    for i in range(row, end):
        key, entry = keys[i], ids[i]
        if key <= middle:
            leaf_keys[at], leaf_ids[at] = key, entry
            at += ONE
        else:
            leaf_keys[to], leaf_ids[to] = key, entry
            to += ONE
    leaves.table[leaf, END], leaves.table[right, END] = at, to
    return True


@kernel(types.void(LEAVES, NODES, SCRATCH, types.uint64, I64, I32, types.uint64, types.uint64), borrows=True)
def split(leaves, nodes, scratch, leaf, keys, ids, row, end):  # type: ignore[no-untyped-def]
    """Take rows ``row`` to ``end`` into the path's leaf, which they overfill, and leaves to its right."""
    held = U(leaves.table[leaf, END]) - U(leaves.table[leaf, START])
    start = U(leaves.table[leaf, START])
    sort_leaf(
        leaves.keys, leaves.ids, start, start + held, scratch.tail_keys, scratch.tail_ids,
        scratch.sorted_keys, scratch.sorted_ids, ZERO,
    )  # fmt: skip
    how = EVEN
    if held == ZERO or scratch.sorted_keys[held - ONE] < keys[row]:
        how = ABOVE
    elif keys[end - ONE] < scratch.sorted_keys[0]:
        how = BELOW
    merged, merged_ids = scratch.merged_keys, scratch.merged_ids
    merge_rows(
        scratch.sorted_keys, scratch.sorted_ids, ZERO, held, keys, ids, row, end, merged, merged_ids, ZERO
    )
    total = held + (end - row)
    top = leaves.tops[leaf]
    empty_leaf(leaves, leaf)
    start = ZERO
    while start < total:
        if start > ZERO:
            separator = merged[start] - 1 if how == BELOW else merged[start - ONE]
            leaf = add_leaf(leaves, nodes, scratch.path, leaf, separator)
            seek_first(nodes, scratch.path, top)  # the new leaf's path: it reaches to the old one's top
        stop = cut(merged, start, total, leaves.state[WIDTH], how)
        append(leaves, leaf, merged, merged_ids, start, stop)
        start = stop


@kernel(types.void(LEAVES, NODES, OUT_U64, types.uint64, types.int64), borrows=True)
def set_apart(leaves, nodes, path, leaf, key):  # type: ignore[no-untyped-def]
    """Give ``key`` a leaf beside the path's, which is a chain of one other key and stays where it is."""
    table = leaves.table
    start = U(table[leaf, START])
    alone = leaves.keys[start]
    if key > alone:
        add_leaf(leaves, nodes, path, leaf, alone)
        return
    # Only the first entry moves, so that the leaf to the left need not be told of another neighbour.
    fresh = add_leaf(leaves, nodes, path, leaf, alone - 1)
    to = U(table[fresh, START])
    for i in range(leaves.state[WIDTH]):
        leaves.keys[to + i] = leaves.keys[start + i]
        leaves.ids[to + i] = leaves.ids[start + i]
    table[fresh, END] = to + leaves.state[WIDTH]
    table[fresh, NEXT] = table[leaf, NEXT]
    table[fresh, LAST] = table[leaf, LAST]
    empty_leaf(leaves, leaf)


@inlined
def has_room(leaves, nodes):  # type: ignore[no-untyped-def]
    """Whether there is room for whatever one run may need."""
    entries = leaves.state[POINTER] + U(ENTRIES_ROOM) <= U(len(leaves.spare))
    needed = U(NODES_ROOM) * (nodes.state[HEIGHT] + ONE)
    return entries and nodes.state[USED] + needed <= U(len(nodes.sizes))


@kernel(
    types.uint64(LEAVES, NODES, SCRATCH, types.uint64, I64, I32, types.uint64, types.uint64), borrows=True
)
def overfill(leaves, nodes, scratch, leaf, keys, ids, row, end):  # type: ignore[no-untyped-def]
    """Take in rows for which the leaf has no room, or which it cannot share; returns where they end.

    If there is nothing left to make room from, that is where they begin. The leaf may have been split: the
    next row's is this one or to its right.
    """
    if not has_room(leaves, nodes):
        return row
    key = keys[row]
    seek_first(nodes, scratch.path, key)
    if leaves.table[leaf, NEXT] == NONE:
        if not halve(leaves, nodes, scratch.path, leaf, keys, ids, row, end):
            split(leaves, nodes, scratch, leaf, keys, ids, row, end)
        return end
    alone = leaves.keys[U(leaves.table[leaf, START])]
    if key != alone:
        set_apart(leaves, nodes, scratch.path, leaf, key)
        stop = row + ONE  # the new leaf has room for at least one
        while stop < end and stop - row < leaves.state[WIDTH] and (keys[stop] < alone) == (key < alone):
            stop += ONE
        append(leaves, leaf if key < alone else U(leaves.after[leaf]), keys, ids, row, stop)
        return stop
    stop = row + ONE
    while stop < end and keys[stop] == key:
        stop += ONE
    append(leaves, leaf, keys, ids, row, stop)
    return stop


@kernel(types.int64(LEAVES, NODES, SCRATCH, I32, I64, I32, types.int64), borrows=True)
def insert_batch(leaves, nodes, scratch, found, keys, ids, begin):  # type: ignore[no-untyped-def]
    """Insert the rows from ``begin`` on; keys ascend. Returns the row it got to, short of the end for room.

    ``found[i]`` was the leaf of ``keys[i]`` before the batch; since then it may only have been split, so that
    the row's leaf is it or to its right.
    """
    table, tops, after = leaves.table, leaves.tops, leaves.after
    leaf_keys, leaf_ids, width = leaves.keys, leaves.ids, leaves.state[WIDTH]
    rows = U(len(keys))
    row = U(begin)
    leaf = U(0)
    before = np.int32(NONE)
    while row < rows:
        if row + FAR < rows:
            prefetch(table, U(found[row + FAR]) * FOUR)
            prefetch(tops, U(found[row + FAR]))
            later = U(table[U(found[row + NEAR]), END])
            prefetch(leaf_keys, later)
            prefetch(leaf_ids, later)
        if found[row] != before:
            before = found[row]
            leaf = U(before)
        while tops[leaf] < keys[row]:
            leaf = U(after[leaf])
        top = tops[leaf]
        limit = min(rows, row + U(RUN) * width)
        end = row + ONE
        while end < limit and keys[end] <= top:
            end += ONE
        at = U(table[leaf, END])
        if table[leaf, NEXT] != NONE or at + (end - row) > U(table[leaf, START]) + width:
            stop = overfill(leaves, nodes, scratch, leaf, keys, ids, row, end)
            if stop == row:
                break
            row = stop
            continue
        table[leaf, END] = at + (end - row)
        while row < end:
            leaf_keys[at] = keys[row]
            leaf_ids[at] = ids[row]
            at += ONE
            row += ONE
    return np.int64(row)


@kernel(types.void(LEAVES, SCRATCH, OUT_I64, OUT_I32), borrows=True)
def sort_all(leaves, scratch, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Every row, in the order of its key. Leaf 0 is the leftmost."""
    table, keys, ids, after = leaves.table, leaves.keys, leaves.ids, leaves.after
    tail_keys, tail_ids = scratch.tail_keys, scratch.tail_ids
    leaf = np.int64(0)
    at = ZERO
    while leaf != NONE:
        start = U(table[U(leaf), START])
        end = U(table[U(leaf), END])
        sort_leaf(keys, ids, start, end, tail_keys, tail_ids, out_keys, out_ids, at)
        at += end - start
        entry = np.int64(table[U(leaf), NEXT])
        while entry != NONE:  # more of the same key
            for i in range(U(table[U(entry), START]), U(table[U(entry), END])):
                out_keys[at] = keys[i]
                out_ids[at] = ids[i]
                at += ONE
            entry = np.int64(table[U(entry), NEXT])
        leaf = np.int64(after[U(leaf)])


@kernel(
    types.uint64(
        OUT_I64, OUT_I32, types.uint64, types.uint64, types.int64, types.int64, OUT_I32, types.uint64
    ),
    borrows=True,
)
def copy_within(keys, ids, at, end, low, high, out, to):  # type: ignore[no-untyped-def]
    """Copy the ids of the rows ``at`` to ``end`` whose keys are within the bounds; returns where they end.

    Counting them first is a loop over vectors, and tells when the slow one is done.
    """
    hits = ZERO
    for i in range(at, end):
        hits += U((keys[i] >= low) & (keys[i] <= high))
    stop = to + hits
    while to < stop:
        key = keys[at]
        out[to] = ids[at]
        to += U((key >= low) & (key <= high))
        at += ONE
    return to


@kernel(
    types.UniTuple(types.int64, 4)(
        LEAVES, I32, I64, I64, I32, types.int64, types.int64, types.int64, types.int64,
        OUT_I32, OUT_I32, OUT_I32, OUT_I32,
    ),
    borrows=True,
)  # fmt: skip
def scan_leaves(  # type: ignore[no-untyped-def]
    leaves, firsts, lows, highs, rows, probe, kept, pairs, patience, out_rows, out_starts, out_ends, out_ids
):
    """Look through the leaves that each probe reaches into, from ``firsts[i]``, where its lower bound belongs.

    The ids that match are copied. Goes on from ``probe``, after ``kept`` ranges of ``pairs`` ids, and returns
    ``(probe, kept, pairs, patience)`` where it got to: short of the end when the output is full, or when there
    were more than ``patience`` rows to look through.
    """
    table, keys, ids, tops, after = leaves.table, leaves.keys, leaves.ids, leaves.tops, leaves.after
    width = leaves.state[WIDTH]
    probes = U(len(lows))
    room = U(len(out_ids))
    i = U(probe)
    at = U(kept)
    to = U(pairs)
    while i < probes:
        if i + FAR < probes:
            prefetch(table, U(firsts[i + FAR]) * FOUR)
            prefetch(tops, U(firsts[i + FAR]))
            later = U(firsts[i + NEAR]) * width
            for line in range(LINES):
                prefetch(keys, later + line * LINE)
        low = lows[i]
        high = highs[i]
        start = to
        leaf = U(firsts[i])
        reached = high < low
        while not reached:
            entry = np.int64(leaf)
            while entry != NONE:
                begin = U(table[U(entry), START])
                end = U(table[U(entry), END])
                patience -= np.int64(end - begin)
                if to + (end - begin) >= room or patience < 0:
                    return np.int64(i), np.int64(at), np.int64(start), patience
                to = copy_within(keys, ids, begin, end, low, high, out_ids, to)
                entry = np.int64(table[U(entry), NEXT])
            reached = tops[leaf] >= high
            leaf = U(after[leaf])
        out_rows[at] = rows[i]
        out_starts[at] = start
        out_ends[at] = to
        at += U(to > start)
        i += ONE
    return np.int64(i), np.int64(at), np.int64(to), patience
