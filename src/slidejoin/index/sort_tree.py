"""Sort-tree: two inequalities at once, each of which alone keeps much of the window.

Design      sorted runs with logarithmic merging; each run is a merge-sort tree: the order of the first key cut into
            blocks, blocks of blocks, and so on, and the rows of every block in the order of the second key. A stretch
            of the first key is a few blocks of each level, and what a stretch of the second key has in common with a
            block is a range, found by bisecting ranks: so an answer is O(log n) ranges, however many rows they hold,
            and where the two keys run together most blocks are seen to be empty by one look at their ends. Of further
            keys every block knows the least and the greatest: a block that is wholly within their bounds, or wholly
            beyond, needs no looking; of the others the rows are looked at one by one.
Invariants  both orders ascend; each level has every row once, by rank within its blocks; runs get shorter.
Cost        insert O(log n) amortised for each level and row; probe O(fan log n) bisections a row and run; four bytes
            twice for each level and row.
Reference   none of the seeds: what PO-Join's permutation (seed 002) becomes if it is kept for every block instead of
            being written into a bit array for every probe.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slidejoin import kernels
from slidejoin.index.merging import GROWTH, Merging
from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges, in_order
from slidejoin.kernels.order import ascends, sort_order
from slidejoin.kernels.sort_tree import (
    ALL,
    SOME,
    bound_blocks,
    build_levels,
    filter_blocks,
    find_blocks,
    judge_blocks,
    merge_orders,
)
from slidejoin.pools import ALONE, Crew

LEAF = (
    64  # rows of the smallest block: looking through two of them costs as much as bisecting a few larger ones
)
FAN = 4  # blocks of one level in one of the next: fewer make more levels to keep, more make more blocks to bisect
ROOM = 1 << 14  # ranges found at a time
LISTED = 1 << 18  # ids listed at a time, where there are more than two keys


class TreeRun:
    """A run: both orders, the levels between them, and the further keys in the order of ranks."""

    def __init__(
        self,
        firsts: Int64s,
        seconds: Int64s,
        positions: Int32s,
        ids: Int32s,
        others: Int64s,
        shape: tuple[int, int],
    ) -> None:
        """``positions``, ``ids`` and ``others`` are in the order of the second key."""
        leaf, fan = shape
        rows = len(firsts)
        levels, size = 0, leaf
        while size < rows:
            levels, size = levels + 1, size * fan
        self.firsts, self.seconds, self.others, self.shape, self.levels = (
            firsts,
            seconds,
            others,
            shape,
            levels,
        )
        self.ranks: Int32s = np.empty((levels + 1) * rows, dtype=np.int32)
        self.ids: Int32s = np.empty((levels + 2) * rows, dtype=np.int32)
        cursors = np.empty(-(-rows // leaf), dtype=np.int32)
        build_levels(positions, ids, leaf, fan, levels, cursors, self.ranks, self.ids)
        blocks = [-(-rows // (leaf * fan**level)) for level in range(levels)]
        self.begins: Int64s = np.cumsum([0, *blocks], dtype=np.int64)
        self.least, self.most = (
            np.empty((sum(blocks) + 1, others.shape[1]), dtype=np.int64) for _ in range(2)
        )
        bound_blocks(positions, others, leaf, fan, levels, self.begins, self.least, self.most)

    @staticmethod
    def of(entries: Entries, shape: tuple[int, int]) -> TreeRun:
        """From a batch in the order of the first key."""
        keys, ids = entries
        seconds, positions = sort_order(np.ascontiguousarray(keys[:, 1]))
        firsts = np.ascontiguousarray(keys[:, 0])
        others = np.ascontiguousarray(keys[positions, 2:])
        return TreeRun(firsts, seconds, positions, ids[positions], others, shape)

    def merged(self, other: TreeRun) -> TreeRun:
        """Both as one; O(rows) for each level, nothing is sorted."""
        rows = self.rows + other.rows
        firsts, seconds = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        places, ranks = [[np.empty(run.rows, dtype=np.int32) for run in (self, other)] for _ in range(2)]
        merge_orders(self.firsts, other.firsts, firsts, *places)
        merge_orders(self.seconds, other.seconds, seconds, *ranks)
        positions, ids = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int32)
        others = np.empty((rows, self.others.shape[1]), dtype=np.int64)
        for run, place, rank in zip((self, other), places, ranks, strict=True):
            positions[rank] = place[run.positions]
            ids[rank] = run.ids_by_rank
            if others.shape[1]:
                others[rank] = run.others
        return TreeRun(firsts, seconds, positions, ids, others, self.shape)

    def without(self, first: int, shift: int = 0) -> TreeRun | None:
        """The rows whose ids are at least ``first``, less by ``shift``; None if there are none."""
        kept, by_rank = self.ids[: self.rows] >= first, self.ids_by_rank >= first
        if not kept.any():
            return None
        moved = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        return TreeRun(
            self.firsts[kept],
            self.seconds[by_rank],
            moved[self.positions[by_rank]],
            self.ids_by_rank[by_rank] - np.int32(shift),
            self.others[by_rank],
            self.shape,
        )

    def probe(self, probes: Probes) -> list[Ranges]:
        leaf, fan = self.shape
        room = max(ROOM, 2 * (leaf + fan * (self.levels + 1)))
        numbers, starts, ends = (np.empty(room, dtype=np.int32) for _ in range(3))
        found: list[Ranges] = []
        further = probes.lows[:, 2:], probes.highs[:, 2:]
        judged = bool((further[0] > self.least[-1]).any() or (further[1] < self.most[-1]).any())
        at = 0
        while at < len(probes):
            at, kept, pairs = find_blocks(
                self.firsts, self.seconds, self.ranks, leaf, fan, self.levels, probes.lows, probes.highs, at,
                numbers, starts, ends,
            )  # fmt: skip
            if kept == 0:
                continue
            some = slice(kept)
            if judged:
                found += self._judged(probes, numbers[some], starts[some], ends[some])
            else:
                found.append(
                    Ranges(
                        probes.rows[numbers[some]], starts[some].copy(), ends[some].copy(), self.ids, pairs
                    )
                )
        return found

    def _judged(self, probes: Probes, numbers: Int32s, starts: Int32s, ends: Int32s) -> list[Ranges]:
        """Of ranges that two keys found, what the further keys leave: all, nothing, or what must be looked at."""
        leaf, fan = self.shape
        verdicts = np.empty(len(numbers), dtype=np.uint8)
        judge_blocks(
            numbers, starts, ends, self.rows, leaf, fan, self.levels, self.begins, self.least, self.most,
            probes.lows, probes.highs, verdicts,
        )  # fmt: skip
        found = []
        whole = np.flatnonzero(verdicts == ALL)
        if len(whole):
            pairs = int((ends[whole].astype(np.int64) - starts[whole]).sum())
            found.append(Ranges(probes.rows[numbers[whole]], starts[whole], ends[whole], self.ids, pairs))
        partly = np.flatnonzero(verdicts == SOME)
        if len(partly):
            found += self._filtered(probes, numbers[partly], starts[partly], ends[partly])
        return found

    def _filtered(self, probes: Probes, numbers: Int32s, starts: Int32s, ends: Int32s) -> list[Ranges]:
        """The rows of the ranges whose further keys are within their bounds too, listed."""
        rows, begins, stops = (np.empty(len(numbers), dtype=np.int32) for _ in range(3))
        longest = int((ends - starts).max())
        ids = np.empty(max(LISTED, longest), dtype=np.int32)
        found = []
        at = 0
        while at < len(numbers):
            at, kept, pairs = filter_blocks(
                numbers, starts, ends, (self.levels + 1) * self.rows, self.ids, self.ranks, self.others,
                probes.lows, probes.highs, probes.rows, at, rows, begins, stops, ids,
            )  # fmt: skip
            if kept:
                listed = (rows[:kept].copy(), begins[:kept].copy(), stops[:kept].copy(), ids[:pairs].copy())
                found.append(Ranges(*listed, pairs))
        return found

    @property
    def rows(self) -> int:
        return len(self.firsts)

    @property
    def ids_by_rank(self) -> Int32s:
        return self.ids[(self.levels + 1) * self.rows :]

    @property
    def positions(self) -> Int32s:
        """Where each rank stands in the order of the first key."""
        positions = np.empty(self.rows, dtype=np.int32)
        positions[self.ranks[: self.rows]] = np.arange(self.rows, dtype=np.int32)
        return positions

    @property
    def nbytes(self) -> int:
        held: tuple[NDArray[np.int64] | Int32s, ...] = (
            self.firsts, self.seconds, self.ranks, self.ids, self.others, self.begins, self.least, self.most,
        )  # fmt: skip
        return sum(array.nbytes for array in held)

    def check(self) -> None:
        rows, (leaf, fan) = self.rows, self.shape
        for keys in (self.firsts, self.seconds):
            assert bool(np.all(keys[1:] >= keys[:-1])), "both orders ascend"
        ranks = self.ranks[:rows]
        assert np.array_equal(np.sort(ranks), np.arange(rows)), "ranks are distinct"
        size = leaf
        for level in range(1, self.levels + 1):
            here = slice(level * rows, (level + 1) * rows)
            for at in range(0, rows, size):
                block = self.ranks[here][at : at + size]
                assert np.array_equal(block, np.sort(ranks[at : at + size])), "a block has its rows by rank"
            assert np.array_equal(self.ids[here], self.ids_by_rank[self.ranks[here]]), (
                "ids follow their ranks"
            )
            size *= fan
        assert size >= rows, "the levels reach the whole"
        assert np.array_equal(self.ids[:rows], self.ids_by_rank[ranks]), "ids follow their ranks"
        by_position = self.others[ranks]
        for level in range(self.levels):
            size = leaf * fan**level
            for number, at in enumerate(range(0, rows, size)):
                some, known = by_position[at : at + size], int(self.begins[level]) + number
                assert np.array_equal(self.least[known], some.min(axis=0)), (
                    "blocks know their least further keys"
                )
                assert np.array_equal(self.most[known], some.max(axis=0)), "and their greatest"
        assert np.array_equal(self.least[-1], by_position.min(axis=0)), "so does the block of all"
        assert np.array_equal(self.most[-1], by_position.max(axis=0)), "so does the block of all"


class SortTree(InTurn):
    name: ClassVar[str] = "sort_tree"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = True
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    leaf: ClassVar[int] = LEAF
    fan: ClassVar[int] = FAN
    growth: ClassVar[int] = GROWTH

    def __init__(self) -> None:
        kernels.ready("sort_tree")
        self._runs = Merging(TreeRun.merged, self.growth)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None) -> Entries:
        keys = at_least_two(keys)
        _, order = sort_order(np.ascontiguousarray(keys[:, 0]))
        return Entries(keys[order], in_order(ids, order))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        lows, highs = at_least_two(lows), at_least_two(highs)
        order = by_first_key(lows, highs, hint if rows is None else None)
        return Probes(order if rows is None else rows[order], lows[order], highs[order])

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # levels are passes over the whole run
        if len(entries.ids):
            self._runs.insert(TreeRun.of(entries, (self.leaf, self.fan)))

    def probe(self, probes: Probes) -> list[Ranges]:
        if len(probes) == 0:
            return []
        return [ranges for run in self._runs.runs for ranges in run.probe(probes)]

    def drop_below(self, first: int, shift: int = 0) -> None:
        self._runs.keep(lambda run: run.without(first, shift))

    def merge(self, crew: Crew = ALONE) -> None:
        del crew  # levels are passes over the whole run
        self._runs.merge()

    def successor(self) -> SortTree:
        return type(self)()

    def check(self) -> None:
        self._runs.check()

    @property
    def entries(self) -> int:
        return self._runs.entries

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes


def at_least_two(keys: Int64s) -> Int64s:
    """A single key stands for both: a row within its bounds once is so twice."""
    return np.repeat(keys, 2, axis=1) if keys.shape[1] == 1 else keys


def by_first_key(lows: Int64s, highs: Int64s, hint: Int32s | None) -> Int32s:
    """The order of the probes by whichever bound of the first key they differ in: neighbours meet the same blocks."""
    if len(lows) == 0:
        return np.empty(0, dtype=np.int32)
    bounds = lows[:, 0] if lows[0, 0] != lows[-1, 0] else highs[:, 0]
    if hint is not None and len(hint) == len(bounds) and ascends(bounds[hint]):
        return hint
    return sort_order(np.ascontiguousarray(bounds))[1]
