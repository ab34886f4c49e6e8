"""The internal nodes of a WiB+-Tree: descending, neighbours sharing the way, and taking in new children.

A node keeps for each child the greatest key that may lie under it, so the last separator of the rightmost
node is the greatest int64 and no interval is open: the extremes of int64 need no special case. Keys come in
ascending order, and ``seek`` goes on from the path of the key before (seed 000, III-E): up only as far as the
subtree no longer reaches the key, then down again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I64, OUT_I32, OUT_I64, kernel, types

U = np.uint64
ZERO, ONE = U(0), U(1)
ROOT, HEIGHT, USED, FAN = (U(n) for n in range(4))  # places in `state`
LEVELS = 32  # deeper than a tree of 2^31 leaves with four children a node
GREATEST = 2**63 - 1
DENSE = U(4)  # up to this many children a key, stepping through all of them is the cheapest


class Nodes(NamedTuple):
    """Node ``n`` has its ``sizes[n]`` children from ``n * fan`` on; without nodes the root is leaf 0."""

    separators: NDArray[np.int64]  # the greatest key that may lie under the child; they ascend
    children: NDArray[np.int32]  # nodes; in nodes of the lowest level leaves
    sizes: NDArray[np.int32]
    state: NDArray[np.uint64]


OUT_U64 = types.Array(types.uint64, 1, "C")
NODES = types.NamedTuple((OUT_I64, OUT_I32, OUT_I32, OUT_U64), Nodes)


@kernel(types.uint64(NODES, types.uint64, types.uint64, types.int64), borrows=True)
def choose_child(nodes, node, at, key):  # type: ignore[no-untyped-def]
    """The first child from ``at`` on that reaches ``key``; the last one does. Without mispredicted branches."""
    place = node * nodes.state[FAN] + at
    left = U(nodes.sizes[node]) - at - ONE
    while left > ZERO:
        half = (left + ONE) >> ONE
        below = U(nodes.separators[place + half - ONE] < key) * half
        at += below
        place += below
        left -= half
    return at


@kernel(types.uint64(NODES, OUT_U64, types.uint64, types.uint64, types.int64), borrows=True)
def descend(nodes, path, level, child, key):  # type: ignore[no-untyped-def]
    """The leaf of ``key`` under ``child``, which is above ``level`` levels of nodes; the path is noted."""
    while level > ZERO:
        level -= ONE
        at = choose_child(nodes, child, ZERO, key)
        path[level + level] = child
        path[level + level + ONE] = at
        child = U(nodes.children[child * nodes.state[FAN] + at])
    return child


@kernel(types.uint64(NODES, OUT_U64, types.int64), borrows=True)
def seek_first(nodes, path, key):  # type: ignore[no-untyped-def]
    """The leaf of ``key``, from the root."""
    return descend(nodes, path, nodes.state[HEIGHT], nodes.state[ROOT], key)


@kernel(types.uint64(NODES, OUT_U64, types.int64), borrows=True)
def seek(nodes, path, key):  # type: ignore[no-untyped-def]
    """The leaf of ``key``, from the path of a key that was not greater."""
    height = nodes.state[HEIGHT]
    fan = nodes.state[FAN]
    if height == ZERO:
        return nodes.state[ROOT]
    level = ZERO
    node = path[ZERO]
    while level + ONE < height and nodes.separators[node * fan + U(nodes.sizes[node]) - ONE] < key:
        level += ONE
        node = path[level + level]
    at = path[level + level + ONE]
    # Batches are dense more often than not: this child or the next, before bisecting.
    if nodes.separators[node * fan + at] < key:
        at += ONE
        if nodes.separators[node * fan + at] < key:
            at = choose_child(nodes, node, at, key)
        path[level + level + ONE] = at
    return descend(nodes, path, level, U(nodes.children[node * fan + at]), key)


@kernel(types.void(NODES, types.uint64, types.uint64, I64, types.uint64, types.uint64, OUT_I32), borrows=True)
def find_children(nodes, node, at, keys, i, end, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = the child of ``keys[i]``, for keys that all lie under the node, from child ``at`` on."""
    place = node * nodes.state[FAN]
    size = U(nodes.sizes[node])
    if (end - i) * DENSE >= size - at:
        while i < end:  # as a merge would: one step is to the next child or to the next key
            below = nodes.separators[place + at] < keys[i]
            out[i] = nodes.children[place + at]
            at += U(below)
            i += U(not below)
        return
    while i < end:  # anew for each key, so that the searches of several keys overlap
        out[i] = nodes.children[place + choose_child(nodes, node, ZERO, keys[i])]
        i += ONE


@kernel(types.void(NODES, OUT_U64, I64, OUT_I32), borrows=True)
def find_leaves(nodes, path, keys, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = the leaf of ``keys[i]``; keys ascend. The keys of one node share the way to it."""
    rows = U(len(keys))
    if nodes.state[HEIGHT] == ZERO or rows == ZERO:
        out[:] = nodes.state[ROOT]
        return
    seek_first(nodes, path, keys[0])
    i = ZERO
    while True:
        node = path[0]
        top = nodes.separators[node * nodes.state[FAN] + U(nodes.sizes[node]) - ONE]
        end = i + ONE
        while end < rows and keys[end] <= top:
            end += ONE
        find_children(nodes, node, path[1], keys, i, end, out)
        if end == rows:
            return
        i = end
        seek(nodes, path, keys[i])


@kernel(types.void(NODES, types.uint64, types.uint64, types.uint64), borrows=True)
def move_children(nodes, source, first, target):  # type: ignore[no-untyped-def]
    """The children of ``source`` from ``first`` on become those of ``target``, which has none."""
    fan = nodes.state[FAN]
    moved = U(nodes.sizes[source]) - first
    for i in range(moved):
        nodes.separators[target * fan + i] = nodes.separators[source * fan + first + i]
        nodes.children[target * fan + i] = nodes.children[source * fan + first + i]
    nodes.sizes[source] = first
    nodes.sizes[target] = moved


@kernel(types.void(NODES, types.uint64, types.uint64, types.int64, types.uint64), borrows=True)
def put_child(nodes, node, at, separator, child):  # type: ignore[no-untyped-def]
    """Make room at ``at`` in a node that is not full, and put a child there."""
    fan = nodes.state[FAN]
    place = node * fan + U(nodes.sizes[node])
    stop = node * fan + at
    while place > stop:
        nodes.separators[place] = nodes.separators[place - ONE]
        nodes.children[place] = nodes.children[place - ONE]
        place -= ONE
    nodes.separators[stop] = separator
    nodes.children[stop] = child
    nodes.sizes[node] += 1


@kernel(types.void(NODES, OUT_U64, types.int64, types.uint64), borrows=True)
def add_child(nodes, path, separator, child):  # type: ignore[no-untyped-def]
    """Put a new leaf to the right of the path's leaf, which keeps the keys up to ``separator``.

    A full node is split in the middle; at its right end, where ascending keys arrive, it stays full and the
    new child begins a node of its own. The path is not valid afterwards.
    """
    state = nodes.state
    fan = state[FAN]
    level = ZERO
    while level < state[HEIGHT]:
        node = path[level + level]
        at = path[level + level + ONE]
        top = nodes.separators[node * fan + at]
        nodes.separators[node * fan + at] = separator
        at += ONE
        if U(nodes.sizes[node]) < fan:
            put_child(nodes, node, at, top, child)
            return
        right = state[USED]
        state[USED] += ONE
        keep = fan if at == fan else fan >> ONE
        move_children(nodes, node, keep, right)
        if at >= keep:
            put_child(nodes, right, at - keep, top, child)
        else:
            put_child(nodes, node, at, top, child)
        separator = nodes.separators[node * fan + U(nodes.sizes[node]) - ONE]
        child = right
        level += ONE
    root = state[USED]
    state[USED] += ONE
    nodes.sizes[root] = 0
    put_child(nodes, root, ZERO, separator, state[ROOT])
    put_child(nodes, root, ONE, GREATEST, child)
    state[ROOT] = root
    state[HEIGHT] += ONE
