"""B+-tree: the mutable tree that the literature starts from, in flat arrays.

Design      sorted leaves with links to the next, small sorted nodes above them. A batch is sorted, so the rows of
            one leaf share a descent; a batch of one row is the tuple-at-a-time insertion of the papers. Answers
            must outlive later insertions, so what matches is copied, until that would cost more than reading all
            leaves in order once; a complete subwindow is read in order for good and answered as a BI-Sort.
Invariants  keys ascend within and across leaves; separators lie between their children; every leaf but the last is
            at least half full; all leaves are equally deep; an id is held once.
Cost        insert O(log n) a row, half a leaf moved; probe O(log n + matches) a row; build from a sorted run O(n).
Reference   the index of seeds 002 and 003 and the baseline of both. We differ: no deletion, because a subwindow is
            dropped whole; and rows added at the very end leave full leaves behind instead of half empty ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin import kernels
from slidejoin.index.bi_sort import BiSort
from slidejoin.index.by_key import ByKey
from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges
from slidejoin.kernels.bplus_tree import (
    FAN,
    HEIGHT,
    LEAF,
    LEAVES,
    NO_LEAF,
    NODES,
    PATH,
    ROOT,
    ROWS,
    Tree,
    build_tree,
    copy_ranges,
    insert_batch,
    read_leaves,
)
from slidejoin.pools import ALONE, Crew

LEAF_SLOTS = 64  # eight cache lines of keys: half of them move for an insertion, and six steps find a place
FAN_OUT = 64  # a million rows need three levels, the upper two of which stay in the cache
PATIENCE = 1  # copied ids for each row held, about what reading all leaves in order costs


class KeyTree:
    """One key's tree: grows its arrays, so that the kernels need not. Not to be probed while it takes rows."""

    def __init__(self, leaf: int = LEAF_SLOTS, fan: int = FAN_OUT, expected: int = 0) -> None:
        if leaf < 2 or fan < 4:
            raise ValueError(
                f"a tree of leaves of {leaf} and nodes of {fan}; expected leaves of at least 2 rows and nodes of at "
                "least 4 children; leave the widths out for the usual ones"
            )
        self.leaf, self.fan = leaf, fan
        state = np.zeros(7, dtype=np.uint64)
        state[LEAF], state[FAN], state[LEAVES] = leaf, fan, 1
        self.arrays = self._sized(state, self._most_leaves(expected))
        self.arrays.nexts[0] = NO_LEAF
        self.arrays.sizes[0] = 0
        self._path = np.empty(PATH, dtype=np.uint64)

    @staticmethod
    def build(keys: Int64s, ids: Int32s, leaf: int = LEAF_SLOTS, fan: int = FAN_OUT) -> KeyTree:
        """A tree with full leaves from an ascending run; O(n)."""
        tree = KeyTree(leaf, fan)
        tree.arrays = tree._sized(tree.arrays.state, -(-len(keys) // leaf) + 1)
        build_tree(tree.arrays, keys, ids)
        return tree

    def insert(self, keys: Int64s, ids: Int32s) -> None:
        """Add an ascending batch."""
        wanted = self._most_leaves(self.rows + len(keys))
        if wanted > len(self.arrays.sizes):
            before, self.arrays = self.arrays, self._sized(self.arrays.state, wanted * 3 // 2)
            grown: list[tuple[NDArray[Any], NDArray[Any]]] = list(
                zip(before[:-1], self.arrays[:-1], strict=True)
            )
            for old, new in grown:
                new[: len(old)] = old
        insert_batch(self.arrays, keys, ids, self._path)

    def _most_leaves(self, rows: int) -> int:
        """Every leaf but the last is at least half full, which bounds how many there can be."""
        return 2 * rows // self.leaf + 2

    def _sized(self, state: NDArray[np.uint64], leaves: int) -> Tree:
        nodes = leaves // (self.fan // 2 - 1) + 16  # at least half full too, level upon level
        return Tree(
            np.empty(leaves * self.leaf, dtype=np.int64),
            np.empty(leaves * self.leaf, dtype=np.int32),
            np.empty(leaves, dtype=np.int32),
            np.empty(leaves, dtype=np.int32),
            np.empty(nodes * self.fan, dtype=np.int64),
            np.empty(nodes * self.fan, dtype=np.int32),
            np.empty(nodes, dtype=np.int32),
            state,
        )

    def in_order(self) -> tuple[Int64s, Int32s]:
        """All rows by key; O(n)."""
        keys, ids = np.empty(self.rows, dtype=np.int64), np.empty(self.rows, dtype=np.int32)
        read_leaves(self.arrays, 0, 0, self.rows + 1, keys, ids)
        return keys, ids

    @property
    def rows(self) -> int:
        return int(self.arrays.state[ROWS])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def check(self) -> None:
        tree, leaf, fan = self.arrays, self.leaf, self.fan
        height, leaves = int(tree.state[HEIGHT]), int(tree.state[LEAVES])
        met: list[int] = []

        def walk(node: int, depth: int, low: int, high: int) -> None:
            if depth == height:
                keys = tree.keys[node * leaf : node * leaf + int(tree.sizes[node])]
                assert bool(np.all(keys[1:] >= keys[:-1])), "keys of a leaf ascend"
                assert len(keys) == 0 or low <= keys[0] <= keys[-1] <= high, "keys lie between separators"
                met.append(node)
                return
            fill = int(tree.fills[node])
            assert 2 <= fill <= fan, "a node has two children or more, and no more than its width"
            between = tree.separators[node * fan : node * fan + fill - 1].tolist()
            bounds = [low, *between, high]
            assert bounds == sorted(bounds), "separators ascend"
            for i in range(fill):
                walk(int(tree.children[node * fan + i]), depth + 1, bounds[i], bounds[i + 1])

        walk(int(tree.state[ROOT]), 0, -(2**63), 2**63 - 1)
        assert len(met) == leaves, "every leaf is reached once"
        assert sorted(met) == list(range(leaves)), "leaves are numbered from nought"
        links = [int(tree.nexts[number]) for number in met]
        assert links == [*met[1:], NO_LEAF], "leaves are linked in order"
        sizes = [int(tree.sizes[number]) for number in met]
        assert sum(sizes) == self.rows, "rows are counted"
        assert all(2 * size >= leaf for size in sizes[:-1]), "leaves are at least half full"
        assert int(tree.state[NODES]) <= len(tree.fills), "nodes fit their arrays"
        ids = self.in_order()[1]
        assert len(np.unique(ids)) == len(ids), "an id is held once"


class Ordered(NamedTuple):
    """All rows of a tree in order, with a BI-Sort that has just them."""

    keys: Int64s
    ids: Int32s
    sorted: BiSort

    @staticmethod
    def of(keys: Int64s, ids: Int32s) -> Ordered:
        index = BiSort()
        index.insert(Entries(keys, ids))
        return Ordered(keys, ids, index)


class BPlusTree(ByKey, InTurn):
    name: ClassVar[str] = "bplus_tree"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    widths: ClassVar[tuple[int, int]] = (LEAF_SLOTS, FAN_OUT)

    def __init__(self, *, expected: int = 0) -> None:
        kernels.ready("bplus_tree")
        # Replaced whole: other threads may be probing.
        self._held: KeyTree | Ordered = KeyTree(*self.widths, expected)
        self._read: Ordered | None = None  # the tree's rows in order, until it takes more

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # a tree is one thread's work
        if len(entries.keys) == 0:
            return
        held = self._held
        if isinstance(held, Ordered):  # complete, but somebody has more rows
            held = KeyTree.build(held.keys, held.ids, *self.widths)
        held.insert(entries.keys, entries.ids)
        self._held, self._read = held, None

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        held = self._held
        if len(probes) == 0 or self.entries == 0:
            return []
        if isinstance(held, Ordered):
            return held.sorted.probe(probes)
        if self._read is None:
            _, rows, starts, ends = probes.scratch
            ids = np.empty(PATIENCE * held.rows + len(probes), dtype=np.int32)
            kept, pairs = copy_ranges(
                held.arrays, probes.lows, probes.highs, probes.rows, rows, starts, ends, ids
            )
            if pairs >= 0:
                return [probes.found(kept, ids[:pairs].copy(), pairs)] if kept else []
        self._read = self._read or Ordered.of(*held.in_order())
        return self._read.sorted.probe(probes)

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        del crew  # one pass of copying
        keys, ids = self._in_order()
        kept = ids >= first
        self._held, self._read = Ordered.of(keys[kept], ids[kept] - np.int32(shift)), None

    def merge(self, crew: Crew = ALONE) -> None:
        del crew  # reading the leaves in order is nothing to share
        if isinstance(self._held, KeyTree):
            self._held, self._read = Ordered.of(*self._held.in_order()), None

    def _in_order(self) -> tuple[Int64s, Int32s]:
        held = self._held
        return held.in_order() if isinstance(held, KeyTree) else (held.keys, held.ids)

    def successor(self) -> BPlusTree:
        return type(self)(expected=self.entries)

    def check(self) -> None:
        if isinstance(self._held, KeyTree):
            self._held.check()
        else:
            self._held.sorted.check()

    @property
    def entries(self) -> int:
        held = self._held
        return held.rows if isinstance(held, KeyTree) else len(held.ids)

    @property
    def nbytes(self) -> int:
        held = self._held
        read = 0 if self._read is None else self._read.sorted.nbytes
        return read + (held.nbytes if isinstance(held, KeyTree) else held.sorted.nbytes)
