"""WiB+-Tree: a B+-tree with wide, unsorted leaves, for keys whose distribution drifts.

Design      small sorted internal nodes, which stay in the cache, over wide leaves, which are chains of an LLAT.
            A batch is sorted, so its rows share the descent: each starts from the path of the one before, and
            the rows of one leaf are appended together, unsorted. A leaf that is overfull is cut in the middle of
            what its keys span. Only if that is far from the middle of its rows, or the run that overfills it is long,
            it is sorted, merged with the run and cut into several. Probes look through the leaves that their
            bounds reach into and copy what matches. A complete subwindow, and one that is probed so widely that
            looking through leaves would cost more, is put in order once and answered as a BI-Sort.
Invariants  separators ascend and are distinct: the rows of a key are in one leaf; a leaf has at most
            ``leaf_width`` rows or one key alone; leaf 0 is the leftmost and each knows the next; depth is even.
Cost        insert O(log n / rows a leaf gets + log leaf_width) amortised a row, whatever the keys' order; probe
            O(leaf_width) a row; matches are copied until that would cost more than putting all rows in order.
Reference   seed 000, III-C and III-E. We differ: a split sorts only where keys are unevenly spread; a leaf is split
            into as many as the batch needs; ascending or
            descending keys leave full leaves behind instead of half empty ones; a key's overflow chain holds
            that key alone, so it is never sorted; and putting in order, because copies of wide bands
            (leaves times probes) have no bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from threading import Lock
from typing import ClassVar, NamedTuple

import numpy as np

from slidejoin import kernels
from slidejoin.index.bi_sort import BiSort
from slidejoin.index.by_key import ByKey
from slidejoin.index.llat import Llat
from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges
from slidejoin.kernels.llat import NEXT, NONE
from slidejoin.kernels.wib_leaves import (
    ENTRIES_ROOM,
    NODES_ROOM,
    RUN,
    Leaves,
    Scratch,
    insert_batch,
    scan_leaves,
    sort_all,
)
from slidejoin.kernels.wib_nodes import FAN, GREATEST, HEIGHT, LEVELS, ROOT, USED, Nodes, find_leaves
from slidejoin.pools import ALONE, Crew

NODE_WIDTH = 64  # eight cache lines of separators; a million rows need about 500 nodes, half a megabyte
LEAF_WIDTH = 64  # rows a probe looks through: eight vectors; wider ones take longer to probe and to split
PATIENCE = 16  # rows looked through for each row held, about what putting them all in order costs


class WibTree(ByKey, InTurn):
    name: ClassVar[str] = "wib_tree"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})

    def __init__(
        self,
        *,
        node_width: int = NODE_WIDTH,
        leaf_width: int = LEAF_WIDTH,
        patience: int = PATIENCE,
        expected: int = 0,
    ) -> None:
        if node_width < 4 or leaf_width < 2:
            raise ValueError(
                f"a tree of nodes of {node_width} and leaves of {leaf_width}; expected nodes of at least 4 "
                "children and leaves of at least 2 rows; leave the widths out for the usual ones"
            )
        kernels.ready()
        self._shape = (node_width, leaf_width, patience)
        # Replaced whole: other threads may be probing.
        self._held: Tree | Ordered = Tree(*self._shape, expected)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # one thread fills it: rows of one target follow each other
        if len(entries.keys) == 0:
            return
        tree = self._held
        if isinstance(tree, Ordered):  # complete, but somebody has more rows
            before, tree = tree.entries.widened(), Tree(*self._shape, 0)
            tree.insert(before)
        tree.insert(entries)
        self._held = tree

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        held = self._held
        if len(probes) == 0:
            return []
        if isinstance(held, Tree):
            found = held.probe(probes)
            if found is not None:
                return found
            held = held.ordered()
        return held.sorted.probe(probes)

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        del crew  # one pass of copying
        self._held = self._ordered().without(first, shift)

    def merge(self, crew: Crew = ALONE) -> None:
        del crew  # reading the leaves in order is nothing to share
        self._held = self._ordered()

    def successor(self) -> WibTree:
        node_width, leaf_width, patience = self._shape
        return WibTree(node_width=node_width, leaf_width=leaf_width, patience=patience, expected=self.entries)

    def _ordered(self) -> Ordered:
        held = self._held
        return held.ordered() if isinstance(held, Tree) else held

    def check(self) -> None:
        self._held.check()

    @property
    def entries(self) -> int:
        held = self._held
        return held.leaves.rows if isinstance(held, Tree) else len(held.entries.keys)

    @property
    def nbytes(self) -> int:
        return self._held.nbytes


class Ordered(NamedTuple):
    """All rows in the order of their keys, and a BI-Sort over the same arrays to answer probes."""

    entries: Entries
    sorted: BiSort

    @staticmethod
    def build(entries: Entries) -> Ordered:
        entries, answers = entries.narrowed(), BiSort()
        answers.insert(entries)
        return Ordered(entries, answers)

    def without(self, first: int, shift: int) -> Ordered:
        """The rows with ids from ``first`` on, less ``shift``."""
        return Ordered.build(self.entries.without(first, shift))

    def check(self) -> None:
        self.sorted.check()
        assert self.sorted.entries == len(self.entries.keys) == len(self.entries.ids), "the same rows twice"

    @property
    def nbytes(self) -> int:
        return self.sorted.nbytes  # the same arrays, and its samples


class LeafTable(Llat):
    """An LLAT that also knows what the tree knows of its leaves, and is filled by the tree's kernels.

    Answers never point into it, so a leaf that is split is written over.
    """

    def __init__(self, width: int, expected: int) -> None:
        # Leaves are between half full and full; room that stays unused is never touched.
        super().__init__(width=width, chains=0, reserved=ENTRIES_ROOM + 3 * expected // (2 * width))
        self.tops: Int64s = np.empty(len(self.table), dtype=np.int64)
        self.after: Int32s = np.empty(len(self.table), dtype=np.int32)
        self.tops[0], self.after[0] = GREATEST, NONE
        self.allocate()

    def view(self) -> Leaves:
        state = np.array([self._pointer, self.width], dtype=np.uint64)
        return Leaves(self.keys, self.ids, self.table, self._spare, self.tops, self.after, state)

    def note(self, view: Leaves, rows: int) -> None:
        """A kernel has put this many rows in."""
        self._pointer = int(view.state[0])
        self.rows += rows

    def make_room(self) -> None:
        while len(self._spare) - self._pointer < ENTRIES_ROOM:
            self._grow()
            self.tops = lengthened(self.tops, len(self.table))
            self.after = lengthened(self.after, len(self.table))

    def in_order(self) -> Int32s:
        """The leaves from left to right."""
        leaves = [0]
        while self.after[leaves[-1]] != NONE:
            leaves.append(int(self.after[leaves[-1]]))
            assert len(leaves) <= len(self.table), "leaves are linked without a circle"
        return np.array(leaves, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.tops.nbytes + self.after.nbytes


class Tree:
    """The growing tree."""

    def __init__(self, node_width: int, leaf_width: int, patience: int, expected: int) -> None:
        self._patience = patience
        self.leaves = LeafTable(leaf_width, expected)
        self.nodes = Nodes(
            np.empty(NODES_ROOM * node_width, dtype=np.int64),
            np.empty(NODES_ROOM * node_width, dtype=np.int32),
            np.empty(NODES_ROOM, dtype=np.int32),
            np.array([0, 0, 0, node_width], dtype=np.uint64),  # root, height, nodes used, children a node
        )
        self._scratch = Scratch(
            np.empty(2 * LEVELS, dtype=np.uint64),
            *rows_of(leaf_width),
            *rows_of(leaf_width),
            *rows_of((RUN + 1) * leaf_width),
        )
        self._looked = 0  # rows looked through since the last insertion
        self._ordered: Ordered | None = None
        self._ordering = Lock()

    def insert(self, entries: Entries) -> None:
        self._ordered, self._looked = None, 0
        row, rows = 0, len(entries.keys)
        found = np.empty(rows, dtype=np.int32)
        find_leaves(self.nodes, self._scratch.path, entries.keys, found)
        while row < rows:
            self.leaves.make_room()
            self._make_room()
            view = self.leaves.view()
            before = row
            row = insert_batch(view, self.nodes, self._scratch, found, entries.keys, entries.ids, row)
            self.leaves.note(view, row - before)

    def probe(self, probes: Probes) -> list[Ranges] | None:
        """The ids that the probes match, copied; None if putting all rows in order has become cheaper."""
        if self._ordered is not None:
            return None
        view, (firsts, rows, starts, ends) = self.leaves.view(), probes.scratch
        find_leaves(self.nodes, np.empty(2 * LEVELS, dtype=np.uint64), probes.lows, firsts)
        patience = before = self._patience * self.leaves.rows - self._looked
        probe, kept, pairs = 0, 0, 0
        ids = np.empty(2 * len(probes) + self.leaves.width, dtype=np.int32)
        while True:
            probe, kept, pairs, patience = scan_leaves(
                view, firsts, probes.lows, probes.highs, probes.rows, probe, kept, pairs, patience,
                rows, starts, ends, ids,
            )  # fmt: skip
            if patience < 0:
                return None
            if probe == len(probes):
                break
            ids = lengthened(ids, 2 * len(ids))
        self._looked += before - patience  # threads that lose each other's count only order a little later
        if kept == 0:
            return []
        return [probes.found(kept, ids[:pairs].copy(), pairs)]

    def ordered(self) -> Ordered:
        """All rows in order; kept until the next insertion."""
        with self._ordering:
            if self._ordered is None:
                entries = rows_of(self.leaves.rows)
                sort_all(self.leaves.view(), self._scratch, *entries)
                self._ordered = Ordered.build(entries)
            return self._ordered

    def _make_room(self) -> None:
        separators, children, sizes, state = self.nodes
        if int(state[USED]) + NODES_ROOM * (int(state[HEIGHT]) + 1) > len(sizes):
            count = 2 * len(sizes) + NODES_ROOM
            fan = int(state[FAN])
            self.nodes = Nodes(
                lengthened(separators, count * fan),
                lengthened(children, count * fan),
                lengthened(sizes, count),
                state,
            )

    def check(self) -> None:
        leaves = self.leaves
        order = leaves.in_order()
        leaves.check(order)
        assert [*self._under(int(self.nodes.state[ROOT]), int(self.nodes.state[HEIGHT]), GREATEST)] == [
            (int(leaf), int(leaves.tops[leaf])) for leaf in order
        ], "the nodes lead to the leaves in their order"
        assert int(leaves.tops[order[-1]]) == GREATEST, "no key is beyond the last leaf"
        floor = -(2**63)
        for leaf in order.tolist():
            keys, ids = leaves.content(leaf)
            assert len(ids) > 0 or leaves.rows == 0, "a leaf has rows"
            if len(keys):
                assert floor <= int(keys.min()), "a key is not below its leaf's interval"
                assert int(keys.max()) <= int(leaves.tops[leaf]), "a key is not above its leaf's interval"
            assert leaves.table[leaf, NEXT] == NONE or int(keys.min()) == int(keys.max()), (
                "a chain is of one key"
            )
            floor = int(leaves.tops[leaf]) + 1
        ids = np.concatenate([leaves.content(leaf)[1] for leaf in order.tolist()])
        assert len(np.unique(ids)) == len(ids) == leaves.rows, "an id is held once"
        if self._ordered is not None:
            self._ordered.check()

    def _under(self, node: int, level: int, top: int) -> list[tuple[int, int]]:
        """The leaves under a node with the greatest key each may hold; each node is checked on the way."""
        if level == 0:
            return [(node, top)]
        fan, size = int(self.nodes.state[FAN]), int(self.nodes.sizes[node])
        assert node < int(self.nodes.state[USED]), "a child is a node"
        assert 1 <= size <= fan, "a node has children, at most its width"
        separators = self.nodes.separators[node * fan : node * fan + size].tolist()
        assert all(a < b for a, b in itertools.pairwise(separators)), "separators ascend"
        assert separators[-1] == top, "a node reaches as far as its parent says"
        children = self.nodes.children[node * fan : node * fan + size].tolist()
        return [
            leaf
            for child, reach in zip(children, separators, strict=True)
            for leaf in self._under(child, level - 1, reach)
        ]

    @property
    def nbytes(self) -> int:
        arrays = (*self.nodes, *self._scratch)
        ordered = 0 if self._ordered is None else self._ordered.nbytes
        return self.leaves.nbytes + sum(array.nbytes for array in arrays) + ordered


def rows_of(count: int) -> Entries:
    """Room for some rows."""
    return Entries(np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32))


def lengthened(array: np.ndarray, length: int) -> np.ndarray:
    """The array with room at its end."""
    longer = np.empty(length, dtype=array.dtype)
    longer[: len(array)] = array
    return longer
