"""CSS-trees: a sorted array for each key under a directory without pointers; what PO-Join is compared with.

Design      for each key the rows in ascending order and a directory above them, two cache lines a node, a child's
            place following from its parent's. A probe finds its stretch of every key's leaves, makes a set of each
            stretch's ids, a hash table or a bit array, and intersects the sets.
Invariants  keys ascend; each level of a directory has the last key of every full node below; all orders have the
            same ids.
Cost        made from sorted orders in O(k n); probe O(log n + the stretches of all keys).
Reference   seed 002, 5.4: the alternative to PO-Join, with hash sets or bit arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slidejoin.index.bplus_tree import KeyTree
from slidejoin.index.po_join import GREATEST, spelled_out
from slidejoin.index.protocol import Int32s, Int64s, Probes, Ranges
from slidejoin.kernels import bit_sets, id_sets
from slidejoin.kernels.bplus_tree import NO_LEAF, read_leaves
from slidejoin.kernels.css_tree import NODE, descend_all

TOGETHER = 8  # probes whose sets are made at a time: they stay in the cache


class CssTree:
    """One key's rows."""

    def __init__(self, keys: Int64s, ids: Int32s) -> None:
        self.keys, self.ids = keys, ids
        levels = [keys[int(NODE) - 1 :: int(NODE)]]
        while len(levels[-1]) > int(NODE):
            levels.append(levels[-1][int(NODE) - 1 :: int(NODE)])
        self.directory = np.concatenate(levels)
        self.levels = np.cumsum([len(level) for level in levels], dtype=np.int64)

    def stretches(self, lows: Int64s, highs: Int64s) -> tuple[Int32s, Int32s]:
        """Where the keys within each ``[low, high]`` begin and end; an empty interval's end is its start."""
        starts, ends = np.empty(len(lows), dtype=np.int32), np.empty(len(lows), dtype=np.int32)
        descend_all(self.directory, self.levels, self.keys, np.ascontiguousarray(lows), starts)
        descend_all(
            self.directory,
            self.levels,
            self.keys,
            np.where(highs < GREATEST, highs + (highs < GREATEST), highs),
            ends,
        )
        ends[highs == GREATEST] = len(self.keys)
        return starts, np.maximum(starts, ends)

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.directory.nbytes + self.levels.nbytes

    def check(self) -> None:
        assert bool(np.all(self.keys[1:] >= self.keys[:-1])), "keys ascend"
        below = self.keys
        for begin, end in zip([0, *self.levels[:-1]], self.levels, strict=True):
            level = self.directory[begin:end]
            assert np.array_equal(level, below[int(NODE) - 1 :: int(NODE)]), "the last key of every full node"
            below = level


class CssEntry:
    """One interval of rows, immutable; ids are intersected as hash tables."""

    def __init__(self, trees: Sequence[CssTree], base: int, span: int) -> None:
        self.trees, self.base, self.span = tuple(trees), base, span

    def probe(self, probes: Probes) -> list[Ranges]:
        bounds = [tree.stretches(probes.lows[:, j], probes.highs[:, j]) for j, tree in enumerate(self.trees)]
        found = []
        for at in range(0, len(probes), TOGETHER):
            some = slice(at, at + TOGETHER)
            ids, ends = self.intersect([(starts[some], stops[some]) for starts, stops in bounds])
            found += spelled_out(probes.rows[some], ends, ids)
        return found

    def intersect(self, bounds: list[tuple[Int32s, Int32s]]) -> tuple[Int32s, Int32s]:
        """The ids that lie in every key's stretch, probe after probe, and where each probe's end."""
        lists = [(tree.ids, *stretch) for tree, stretch in zip(self.trees, bounds, strict=True)]
        return common_by_hash(lists)

    def without(self, first: int, shift: int = 0) -> CssEntry:
        """The rows whose ids are at least ``first``, less by ``shift``."""
        trees = []
        for tree in self.trees:
            kept = tree.ids >= first
            trees.append(CssTree(tree.keys[kept], tree.ids[kept] - np.int32(shift)))
        return type(self)(trees, self.base - shift, self.span)

    @property
    def ids(self) -> Int32s:
        return self.trees[0].ids

    @property
    def rows(self) -> int:
        return len(self.ids)

    @property
    def highest(self) -> int:
        return int(self.ids.max())

    @property
    def lowest(self) -> int:
        return int(self.ids.min())

    @property
    def nbytes(self) -> int:
        return sum(tree.nbytes for tree in self.trees)

    def check(self) -> None:
        expected = np.sort(self.ids)
        assert len(np.unique(expected)) == len(expected) > 0, "an id is held once, and some are"
        for tree in self.trees:
            tree.check()
            assert np.array_equal(np.sort(tree.ids), expected), "all orders have the same ids"


class CssBitsEntry(CssEntry):
    """The same with bit arrays."""

    def intersect(self, bounds: list[tuple[Int32s, Int32s]]) -> tuple[Int32s, Int32s]:
        count = len(bounds[0][0])
        sets = np.zeros((len(bounds), count, self.span // 64 + 1), dtype=np.uint64)
        for tree, (starts, ends), some in zip(self.trees, bounds, sets, strict=True):
            bit_sets.mark_slices(tree.ids, starts, ends, self.base, some)
        return common_by_bits(sets, self.base, count * self.rows)


class CssMerge:
    """An entry in the making, from trees that take no more rows, a few rows at a time."""

    entry: ClassVar[type[CssEntry]] = CssEntry

    def __init__(self, trees: Sequence[KeyTree], base: int, span: int) -> None:
        self._trees, self._base, self._span = trees, base, span
        self._orders = [
            (np.empty(tree.rows, dtype=np.int64), np.empty(tree.rows, dtype=np.int32)) for tree in trees
        ]

    def steps(self, piece: int) -> Iterator[int]:
        """Work until the next ``yield``, which says how many rows were moved."""
        for tree, (keys, ids) in zip(self._trees, self._orders, strict=True):
            leaf = at = 0
            while leaf != NO_LEAF:
                before = at
                leaf, at = read_leaves(tree.arrays, leaf, at, piece, keys, ids)
                yield at - before

    def result(self) -> CssEntry:
        """The entry, when all steps are done."""
        return self.entry([CssTree(*order) for order in self._orders], self._base, self._span)

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes + ids.nbytes for keys, ids in self._orders)


class CssBitsMerge(CssMerge):
    entry: ClassVar[type[CssEntry]] = CssBitsEntry


def common_by_hash(lists: list[tuple[Int32s, Int32s, Int32s]]) -> tuple[Int32s, Int32s]:
    """The ids that lists ``(ids, starts, ends)`` have in common, probe after probe, by hash tables."""
    ids, starts, ends = lists[0]
    if len(lists) == 1:
        flat = [ids[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate(flat), np.cumsum([len(one) for one in flat], dtype=np.int32)
    for more, begins, stops in lists[1:]:
        lengths, others = ends - starts, stops - begins
        tables = [np.empty(_room(one), dtype=np.int32) for one in (lengths, others)]
        common = np.empty(int(np.minimum(lengths, others).sum(dtype=np.int64)) + 1, dtype=np.int32)
        until = np.empty(len(starts), dtype=np.int32)
        count = id_sets.list_common(ids, starts, ends, more, begins, stops, *tables, common, until)
        ids, ends = common[:count].copy(), until
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, ends[:-1]
    return ids, ends


def common_by_bits(sets: NDArray[np.uint64], base: int, room: int) -> tuple[Int32s, Int32s]:
    """The ids whose bits are in every key's set, probe after probe, and where each probe's end."""
    ids, ends = np.empty(room + 1, dtype=np.int32), np.empty(sets.shape[1], dtype=np.int32)
    count = bit_sets.list_common(sets, base, ids, ends)
    return ids[:count].copy(), ends


def _room(lengths: Int32s) -> int:
    """Slots of the largest table: a power of two, at least twice its ids."""
    return 2 << max(1, 2 * int(lengths.max(initial=1))).bit_length()
