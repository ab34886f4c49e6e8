"""SPO-Join: trees that take rows, merged into immutable permutation entries that are quick to probe.

Design      rows go to the mutable part, a B+-tree for each key; a probe of it sets a bit for each row of its stretch
            of each tree, or for each row outside where those are fewer, and combines the bit arrays. Every
            ``merge_rows`` rows (the paper's delta), and when the subwindow is complete, the mutable part takes no more rows and waits to be merged into a
            PO-Join entry: the leaves are in order already, so that permutations take linear time and nothing is sorted.
            The merge is metered: each insertion moves a few rows for each row that it adds, also for the subwindow
            before, so no push pays for a whole merge. Meanwhile the waiting trees answer probes and a new mutable part
            takes the rows that arrive, so that none is lost or met twice.
Invariants  the ids of entries, waiting parts and the mutable part ascend from one to the next; every tree of a part
            has the same ids; at most one entry is in the making.
Cost        insert O(k log delta) a row, and O(k) for merging; probe O(stretches) a row, of which entries cost a bit
            for each row of all keys but the first.
Reference   seed 002. We differ: a tuple that arrives during a merge does not wait in a queue for its answer, since the
            push that brought it returns it; bits of the fewer rows are set and turned over if need be; OR is the
            condition's affair (each alternative has its own index); rows of a subwindow expire together, which is the
            paper's coarse expiry of whole entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slidejoin import kernels
from slidejoin.index.bplus_tree import FAN_OUT, LEAF_SLOTS, KeyTree
from slidejoin.index.css_tree import (
    CssBitsMerge,
    CssEntry,
    CssMerge,
    common_by_bits,
    common_by_hash,
)
from slidejoin.index.po_join import Entry, Merge, spelled_out
from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges, numbered
from slidejoin.kernels.bit_sets import mark_ids, mark_tree
from slidejoin.kernels.bplus_tree import copy_ranges
from slidejoin.kernels.order import sort_order
from slidejoin.pools import ALONE, Crew

MERGE_ROWS = (
    1 << 14
)  # the paper's delta: a mutable part and its bits stay in the cache, and a subwindow has a handful of entries
PACE = 4  # rows moved for each row added and key: a merge moves two a key, so it is over well before the next is due
PIECE = 4096  # rows moved between two looks at the meter: some ten microseconds
SET_BYTES = 1 << 18  # of bit arrays made at a time: a part of the second-level cache


class Mutable:
    """A tree for each key, over the same rows; answers are bit arrays."""

    def __init__(self, keys: int, base: int, widths: tuple[int, int]) -> None:
        self.trees = [KeyTree(*widths) for _ in range(keys)]
        self.base = base  # the least id
        self.last = base  # the greatest
        self._present = np.zeros(0, dtype=np.uint64)  # a bit for each row, from the least id on

    def insert(self, keys: Int64s, ids: Int32s) -> None:
        for j, tree in enumerate(self.trees):
            ascending, order = sort_order(np.ascontiguousarray(keys[:, j]))
            tree.insert(ascending, ids[order])
        self.last = int(ids[-1])
        words = self.span // 64 + 1
        if words > len(self._present):
            self._present = np.append(
                self._present, np.zeros(2 * words - len(self._present), dtype=np.uint64)
            )
        mark_ids(ids, self.base, self._present)

    def probe(self, probes: Probes) -> list[Ranges]:
        words = self.span // 64 + 1
        together = max(1, SET_BYTES // (8 * words * len(self.trees)))
        found = []
        for at in range(0, len(probes), together):
            lows, highs = probes.lows[at : at + together], probes.highs[at : at + together]
            sets = np.zeros((len(self.trees), len(lows), words), dtype=np.uint64)
            for j, (tree, some) in enumerate(zip(self.trees, sets, strict=True)):
                mark_tree(
                    tree.arrays, lows[:, j].copy(), highs[:, j].copy(), self.base, self._present[:words], some
                )
            ids, ends = common_by_bits(sets, self.base, len(lows) * self.rows)
            found += spelled_out(probes.rows[at : at + together], ends, ids)
        return found

    @property
    def rows(self) -> int:
        return self.trees[0].rows

    @property
    def span(self) -> int:
        return self.last - self.base + 1

    @property
    def nbytes(self) -> int:
        return self._present.nbytes + sum(tree.nbytes for tree in self.trees)

    def check(self) -> None:
        expected = np.sort(self.trees[0].in_order()[1])
        for tree in self.trees:
            tree.check()
            assert np.array_equal(np.sort(tree.in_order()[1]), expected), "all trees have the same ids"
        assert (int(expected[0]), int(expected[-1])) == (self.base, self.last), "the ids are known"
        bits = np.unpackbits(self._present.view(np.uint8), bitorder="little")
        assert np.array_equal(np.flatnonzero(bits) + self.base, expected), "a bit for each row"


class HashMutable(Mutable):
    """The same trees; answers are hash sets, as seed 002 has them for comparison."""

    def probe(self, probes: Probes) -> list[Ranges]:
        together = max(1, SET_BYTES // (8 * self.rows * len(self.trees)))
        found = []
        for at in range(0, len(probes), together):
            lows, highs = probes.lows[at : at + together], probes.highs[at : at + together]
            lists = [
                _listed(tree, lows[:, j].copy(), highs[:, j].copy()) for j, tree in enumerate(self.trees)
            ]
            ids, ends = common_by_hash(lists)
            found += spelled_out(probes.rows[at : at + together], ends, ids)
        return found


def _listed(tree: KeyTree, lows: Int64s, highs: Int64s) -> tuple[Int32s, Int32s, Int32s]:
    """The ids within each interval: ``(ids, starts, ends)``."""
    count = len(lows)
    numbers = np.arange(count, dtype=np.int32)
    rows, starts, ends = (np.empty(count, dtype=np.int32) for _ in range(3))
    ids = np.empty(count * tree.rows, dtype=np.int32)
    kept, _ = copy_ranges(tree.arrays, lows, highs, numbers, rows, starts, ends, ids)
    begins, stops = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    begins[rows[:kept]], stops[rows[:kept]] = starts[:kept], ends[:kept]
    return ids, begins, stops


class Held(NamedTuple):
    """All rows, oldest first. Replaced whole: other threads may be probing."""

    entries: tuple[Entry | CssEntry, ...] = ()
    waiting: tuple[Mutable, ...] = ()
    mutable: Mutable | None = None

    @property
    def parts(self) -> list[Entry | CssEntry | Mutable]:
        return [*self.entries, *self.waiting, *([] if self.mutable is None else [self.mutable])]


class SpoJoin(InTurn):
    name: ClassVar[str] = "spo_join"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = True
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    part: ClassVar[type[Mutable]] = Mutable
    merging: ClassVar[type[Merge | CssMerge]] = Merge
    merge_rows: ClassVar[int] = MERGE_ROWS
    piece: ClassVar[int] = PIECE
    widths: ClassVar[tuple[int, int]] = (LEAF_SLOTS, FAN_OUT)

    def __init__(self) -> None:
        kernels.ready("bplus_tree", "bit_sets", "id_sets", "css_tree", "po_join")
        self._held = Held()
        self._merge: tuple[Merge | CssMerge, Iterator[int]] | None = None  # of the first that waits
        self._before: SpoJoin | None = None  # the subwindow before, while it waits to be merged

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        del crew  # not worth sharing
        return Entries(keys, numbered(ids, len(keys)))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        del hint  # no order is better than another
        return Probes(numbered(rows, len(lows)), lows, highs)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # trees are one thread's work
        keys, ids = entries
        self.advance(PACE * keys.size)
        at = 0
        while at < len(ids):
            held = self._held
            part = held.mutable
            if part is None:
                part = self.part(keys.shape[1], int(ids[at]), self.widths)
            room = self.merge_rows - part.rows
            part.insert(keys[at : at + room], ids[at : at + room])
            at += room
            self._held = held._replace(mutable=part)
            if part.rows >= self.merge_rows:
                self.merge()

    def merge(self, crew: Crew = ALONE) -> None:
        """The mutable part takes no more rows; merging it is left to the insertions that follow."""
        del crew  # which work alone
        held = self._held
        if held.mutable is not None:
            self._held = Held(held.entries, (*held.waiting, held.mutable), None)

    def advance(self, budget: int) -> int:
        """Go on merging until about ``budget`` rows were moved; returns how much of the budget is left."""
        if self._before is not None:
            budget = self._before.advance(budget)
            if not self._before.behind:
                self._before = None
        while budget > 0 and self._held.waiting:
            if self._merge is None:
                oldest = self._held.waiting[0]
                made = self.merging(oldest.trees, oldest.base, oldest.span)
                self._merge = (made, made.steps(self.piece))
            made, steps = self._merge
            try:
                moved = next(steps, None)
            except BaseException:
                self._merge = None  # a generator that has failed would look as if it had ended
                raise
            if moved is None:
                held = self._held
                self._held = Held((*held.entries, made.result()), held.waiting[1:], held.mutable)
                self._merge = None
            else:
                budget -= moved
        return budget

    @property
    def behind(self) -> bool:
        """Whether something waits to be merged, here or before."""
        return bool(self._held.waiting) or self._before is not None

    def probe(self, probes: Probes) -> list[Ranges]:
        if len(probes) == 0:
            return []
        return [ranges for part in self._held.parts for ranges in part.probe(probes)]

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        """Entries that are gone are dropped whole; what a part keeps of its rows, or calls otherwise, is an entry."""
        del crew  # one pass of copying
        held = self._held
        self._merge = None
        entries: list[Any] = []
        waiting: list[Mutable] = []
        for entry in held.entries:
            if entry.lowest >= first and shift == 0:
                entries.append(entry)
            elif entry.highest >= first:
                entries.append(entry.without(first, shift))
        parts = [*held.waiting, *([] if held.mutable is None else [held.mutable])]
        for part in parts:
            if part.base >= first and shift == 0:
                waiting.append(part)
            elif part.last >= first:
                entries.append(self._merged(part).without(first, shift))
        mutable = waiting.pop() if waiting and waiting[-1] is held.mutable else None
        self._held = Held(tuple(entries), tuple(waiting), mutable)

    def _merged(self, part: Mutable) -> Entry | CssEntry:
        made = self.merging(part.trees, part.base, part.span)
        for _ in made.steps(part.rows + 1):
            pass
        return made.result()

    def successor(self) -> SpoJoin:
        new = type(self)()
        new._before = self if self.behind else None  # noqa: SLF001 - of its own kind
        return new

    def check(self) -> None:
        held = self._held
        for part in held.parts:
            part.check()
            assert part.rows > 0, "no part is empty"
        bounds = [
            (part.base, part.last) if isinstance(part, Mutable) else (part.lowest, part.highest)
            for part in held.parts
        ]
        flat = [end for ends in bounds for end in ends]
        assert flat == sorted(flat), "ids ascend from part to part"
        assert self._merge is None or held.waiting, "what is in the making is of a part that waits"
        assert held.mutable is None or held.mutable.rows < self.merge_rows, "a full part waits to be merged"

    @property
    def entries(self) -> int:
        return sum(part.rows for part in self._held.parts)

    @property
    def nbytes(self) -> int:
        making = 0 if self._merge is None else self._merge[0].nbytes
        return making + sum(part.nbytes for part in self._held.parts)


class SpoHash(SpoJoin):
    """SPO-Join whose mutable part intersects hash sets."""

    name: ClassVar[str] = "spo_hash"
    part: ClassVar[type[Mutable]] = HashMutable


class SpoCss(SpoJoin):
    """SPO-Join whose immutable part is a CSS-tree for each key, intersected as hash sets."""

    name: ClassVar[str] = "spo_css"
    merging: ClassVar[type[Merge | CssMerge]] = CssMerge


class SpoCssBits(SpoJoin):
    """SPO-Join whose immutable part is a CSS-tree for each key, intersected as bit arrays."""

    name: ClassVar[str] = "spo_css_bits"
    merging: ClassVar[type[Merge | CssMerge]] = CssBitsMerge
