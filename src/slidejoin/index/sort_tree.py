"""Sort-tree: two inequalities at once, each of which alone keeps much of the window.

Design      sorted runs with logarithmic merging; each run is a merge-sort tree: the order of the first key cut into
            blocks, blocks of blocks, and so on, and the rows of every block in the order of the second key. A stretch
            of the first key is a few blocks of each level, and what a stretch of the second key has in common with a
            block is a range: so an answer is O(log n) ranges, however many rows they hold. The stretch of the second
            key is searched for once, at the top; on the way down, counts say where it goes on in each child, and a
            child in which nothing is left of it is not entered: where the two keys run together, most are not. Of
            further keys every block knows the least and the greatest: a block that is wholly within their bounds, or
            wholly beyond, needs no looking; of the others the rows are looked at one by one. Until a bound cuts
            something off, further keys are only kept.
Invariants  both orders ascend; each level has every row once, by rank within its blocks; counts and turns agree.
Cost        insert O(log n) amortised for each level and row; probe O(fan log n / log fan) counts a row and run; both
            keys once, an id for each level and row, and a byte and a half for each level between.
Reference   none of the seeds: what PO-Join's permutation (seed 002) becomes if it is kept for every block instead of
            being written into a bit array for every probe. The counts are those of a wavelet tree.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from slidejoin import kernels
from slidejoin.index.merging import AT_ONCE, GROWTH, PIECE, Merging, OverRuns, Steps, finished
from slidejoin.index.protocol import Entries, Int32s, Int64s, Probes, Ranges, in_order
from slidejoin.kernels.order import ascends, sort_order
from slidejoin.kernels.sort_tree import (
    ALL,
    SOME,
    Tree,
    bound_blocks,
    bound_leaves,
    distribute,
    filter_ranges,
    find_ends,
    find_ranges,
    judge_blocks,
    keep_by_id,
    merge_firsts,
    merge_seconds,
    most_ranges,
    note_places,
)
from slidejoin.pools import ALONE, Crew

LEAF = 6  # exponent: 64 rows of the smallest block; looking through more costs more than asking for another level
FAN = 4  # exponent: 16 children; fewer make more levels to keep ids for, more make more children to ask
CHUNK = 6  # exponent: places that share a word
ROOM = 1 << 14  # ranges found at a time
LISTED = 1 << 18  # ids listed at a time, where there are more than two keys
LEAST, GREATEST = -(2**63), 2**63 - 1


class Further(NamedTuple):
    """The third key and more, by id, and the ends of each over all rows."""

    keys: Int64s  # of id - base; what stands where there is no row is never read
    base: int
    least: Int64s
    most: Int64s

    @staticmethod
    def of(keys: Int64s, ids: Int32s) -> Further:
        """Of rows in any order, which come with their first two keys."""
        base = int(ids.min())
        by_id = np.empty((int(ids.max()) - base + 1, keys.shape[1] - 2), dtype=np.int64)
        keep_by_id(keys, ids, base, by_id)
        return Further(by_id, base, *ends_of(keys))

    def with_younger(self, other: Further) -> Further:
        """Of the rows of both."""
        span = other.base + len(other.keys) - self.base
        keys = np.empty((span, self.keys.shape[1]), dtype=np.int64)
        keys[: len(self.keys)], keys[other.base - self.base :] = self.keys, other.keys
        return Further(
            keys, self.base, np.minimum(self.least, other.least), np.maximum(self.most, other.most)
        )

    def without(self, ids: Int32s, shift: int) -> Further:
        """Of these rows alone, whose ids are less by ``shift``."""
        low, high = int(ids.min()), int(ids.max())
        keys = self.keys[low - self.base : high + 1 - self.base].copy()
        some = keys[ids - low] if keys.shape[1] else np.empty((1, 0), dtype=np.int64)
        return Further(keys, low - shift, some.min(axis=0), some.max(axis=0))

    def within(self, tightest: tuple[Int64s, Int64s]) -> bool:
        """Whether no row is beyond the bounds of any probe."""
        lows, highs = tightest
        return bool((lows <= self.least).all() and (highs >= self.most).all())


def ends_of(keys: Int64s) -> tuple[Int64s, Int64s]:
    """The least and the greatest of each further key."""
    least, most = (np.empty(keys.shape[1] - 2, dtype=np.int64) for _ in range(2))
    find_ends(keys, least, most)
    return least, most


class Bounds(NamedTuple):
    """The least and the greatest further keys of every block; those of level j stand from ``begins[j]`` on."""

    begins: Int64s
    least: Int64s
    most: Int64s


class TreeRun:
    """A run: both orders, the tree between them, and the further keys."""

    def __init__(self, firsts: Int64s, seconds: Int64s, tree: Tree, further: Further) -> None:
        self.firsts, self.seconds, self.tree, self.further = firsts, seconds, tree, further
        self.bounds: Bounds | None = None  # made when a probe first asks for them

    @staticmethod
    def of(entries: Entries, shape: tuple[int, int]) -> TreeRun:
        """From a batch in the order of the first key."""
        keys, ids = entries
        seconds, positions = sort_order(np.ascontiguousarray(keys[:, 1]))
        firsts = np.ascontiguousarray(keys[:, 0])
        tree = planted(len(ids), shape)
        top(tree)[:] = ids[positions]
        return finished(grown(firsts, seconds, tree, positions, Further.of(keys, ids)))

    def merged(self, other: TreeRun) -> Steps[TreeRun]:
        """This and a younger one as one; O(rows) for each level, nothing is sorted."""
        rows, base = self.rows + other.rows, self.further.base
        tree = planted(rows, (self.tree.leaf, self.tree.fan))
        passes = tree.levels + 4
        pieces = [(at, min(rows, at + PIECE)) for at in range(0, rows, PIECE)]
        firsts, seconds = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        places = [np.empty(run.rows, dtype=np.int32) for run in (self, other)]
        i = j = 0
        for _, end in pieces:
            i, j = merge_firsts(self.firsts, other.firsts, i, j, end, firsts, *places)
            yield PIECE // passes
        further = self.further.with_younger(other.further)
        new = np.empty(len(further.keys), dtype=np.int32)
        for run, place in zip((self, other), places, strict=True):
            for at in range(0, run.rows, PIECE):
                end = min(run.rows, at + PIECE)
                note_places(run.tree.ids, run.tree.offsets, place, run.tree.leaf, base, at, end, new)
                yield PIECE // passes
        ids, positions = top(tree), np.empty(rows, dtype=np.int32)
        mine, theirs = top(self.tree), top(other.tree)
        i = j = 0
        for _, end in pieces:
            i, j = merge_seconds(
                self.seconds, mine, other.seconds, theirs, new, base, i, j, end, seconds, ids, positions
            )
            yield PIECE // passes
        run = yield from grown(firsts, seconds, tree, positions, further)
        if self.bounds is not None or other.bounds is not None:  # they will be asked for again
            run.bounds = yield from run.bounded()
        return run

    def without(self, first: int, shift: int = 0) -> TreeRun | None:
        """The rows whose ids are at least ``first``, less by ``shift``; None if there are none."""
        ids, positions = top(self.tree), self.positions
        by_rank = ids >= first
        kept = np.empty_like(by_rank)
        kept[positions] = by_rank
        if not by_rank.any():
            return None
        moved = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        tree = planted(int(by_rank.sum()), (self.tree.leaf, self.tree.fan))
        left = ids[by_rank]
        top(tree)[:] = left - np.int32(shift)
        further = self.further.without(left, shift)
        return finished(
            grown(self.firsts[kept], self.seconds[by_rank], tree, moved[positions[by_rank]], further)
        )

    def probe(self, probes: Probes, tightest: tuple[Int64s, Int64s]) -> list[Ranges]:
        """``tightest``: the greatest lower and the least upper bound of each further key."""
        room = max(ROOM, most_ranges(self.tree) + 1)
        numbers, starts, ends = (np.empty(room, dtype=np.int32) for _ in range(3))
        lows, highs = probes.lows, probes.highs
        judged = not self.further.within(tightest)
        found: list[Ranges] = []
        at = 0
        while at < len(probes):
            at, kept, pairs = find_ranges(
                self.tree, self.firsts, self.seconds, lows, highs, at, numbers, starts, ends
            )
            if kept == 1:
                continue
            some = slice(1, kept)
            if judged:
                found += self._judged(probes, numbers[some], starts[some], ends[some])
            else:
                answer = (probes.rows[numbers[some]], starts[some].copy(), ends[some].copy())
                found.append(Ranges(*answer, self.tree.ids, pairs))
        return found

    def _judged(self, probes: Probes, numbers: Int32s, starts: Int32s, ends: Int32s) -> list[Ranges]:
        """Of ranges that two keys found, what the further keys leave: all, nothing, or what must be looked at."""
        if self.bounds is None:
            self.bounds = finished(self.bounded())
        verdicts = np.empty(len(numbers), dtype=np.uint8)
        judge_blocks(self.tree, numbers, starts, *self.bounds, probes.lows, probes.highs, verdicts)
        found = []
        whole = np.flatnonzero(verdicts == ALL)
        if len(whole):
            pairs = int((ends[whole].astype(np.int64) - starts[whole]).sum())
            found.append(
                Ranges(probes.rows[numbers[whole]], starts[whole], ends[whole], self.tree.ids, pairs)
            )
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
            at, kept, pairs = filter_ranges(
                numbers, starts, ends, self.tree.ids, self.further.keys, self.further.base,
                probes.lows, probes.highs, probes.rows, at, rows, begins, stops, ids,
            )  # fmt: skip
            if kept:
                listed = (rows[:kept].copy(), begins[:kept].copy(), stops[:kept].copy(), ids[:pairs].copy())
                found.append(Ranges(*listed, pairs))
        return found

    def bounded(self) -> Steps[Bounds]:
        """The ends of the further keys of every block."""
        tree, (keys, base, *_) = self.tree, self.further
        blocks = [-(-self.rows >> (tree.leaf + tree.fan * level)) for level in range(tree.levels + 1)]
        begins = np.cumsum([0, *blocks], dtype=np.int64)
        bounds = Bounds(
            begins, *(np.empty((int(begins[-1]), keys.shape[1]), dtype=np.int64) for _ in range(2))
        )
        leaves = max(1, PIECE >> tree.leaf)
        for leaf in range(0, blocks[0], leaves):
            bound_leaves(
                tree, keys, base, begins, leaf, min(blocks[0], leaf + leaves), bounds.least, bounds.most
            )
            yield PIECE
        bound_blocks(tree, *bounds)
        return bounds

    @property
    def rows(self) -> int:
        return self.tree.rows

    @property
    def ids(self) -> Int32s:
        return self.tree.ids

    @property
    def positions(self) -> Int32s:
        """Where each rank stands in the order of the first key."""
        tree, base = self.tree, self.further.base
        by_id, same = np.empty(len(self.further.keys), dtype=np.int32), np.arange(self.rows, dtype=np.int32)
        note_places(tree.ids, tree.offsets, same, tree.leaf, base, 0, self.rows, by_id)
        positions: Int32s = by_id[top(tree) - np.int32(base)]
        return positions

    @property
    def nbytes(self) -> int:
        bounds = () if self.bounds is None else self.bounds
        tree, (keys, _, least, most) = self.tree, self.further
        held = (tree.ids, tree.offsets, tree.counts, tree.planes, keys, least, most, *bounds)
        return self.firsts.nbytes + self.seconds.nbytes + sum(int(array.nbytes) for array in held)

    def check(self) -> None:
        tree, rows, positions = self.tree, self.rows, self.positions
        for keys in (self.firsts, self.seconds):
            assert bool(np.all(keys[1:] >= keys[:-1])), "both orders ascend"
        assert np.array_equal(np.sort(positions), np.arange(rows)), "positions are distinct"
        rank_of = dict(zip(top(tree).tolist(), range(rows), strict=True))
        assert len(rank_of) == rows, "an id is held once"
        for level in range(tree.levels + 1):
            size = 1 << (tree.leaf + tree.fan * level)
            ids = tree.ids[level * rows : (level + 1) * rows].tolist()
            for at in range(0, rows, size):
                ranks = [rank_of[row] for row in ids[at : at + size]]
                assert ranks == sorted(ranks), "a block is by rank"
                here = np.sort(positions[ranks])
                assert np.array_equal(here, np.arange(at, min(rows, at + size))), "a block has its positions"
        assert size >= rows, "the levels reach the whole"
        others = self.further.keys[top(tree) - self.further.base]
        if others.shape[1]:
            assert np.array_equal(self.further.least, others.min(axis=0)), "the ends of further keys"
            assert np.array_equal(self.further.most, others.max(axis=0)), "the ends of further keys"
        if self.bounds is not None:
            begins, least, most = self.bounds
            for level in range(tree.levels + 1):
                size = 1 << (tree.leaf + tree.fan * level)
                for number, at in enumerate(range(0, rows, size)):
                    known = int(begins[level]) + number
                    some = others[(positions >= at) & (positions < at + size)]
                    assert np.array_equal(least[known], some.min(axis=0)), "blocks know their least"
                    assert np.array_equal(most[known], some.max(axis=0)), "and their greatest"


def planted(rows: int, shape: tuple[int, int]) -> Tree:
    """Room for the levels of so many rows."""
    leaf, fan = shape
    levels = 0
    while rows > 1 << (leaf + fan * levels):
        levels += 1
    chunk = min(CHUNK, leaf + fan)
    chunks = levels * -(-rows >> chunk)
    return Tree(
        rows, levels, leaf, fan, chunk,
        np.empty((levels + 1) * rows, dtype=np.int32),
        np.empty(rows, dtype=np.uint8),
        np.empty((chunks, 1 << fan), dtype=np.int32),
        np.empty((chunks, fan), dtype=np.uint64),
    )  # fmt: skip


def top(tree: Tree) -> Int32s:
    """The ids by rank."""
    return tree.ids[tree.levels * tree.rows :]


def grown(firsts: Int64s, seconds: Int64s, tree: Tree, positions: Int32s, further: Further) -> Steps[TreeRun]:
    """A run whose top is filled, with the levels below filled from the positions of its ranks."""
    rows, passes = tree.rows, tree.levels + 4
    spare = np.empty_like(positions)
    cursors = np.empty(1 << tree.fan, dtype=np.int64)
    for level in range(tree.levels, 0, -1):
        for at in range(0, rows, PIECE):
            distribute(tree, level, at, min(rows, at + PIECE), positions, spare, cursors)
            yield PIECE // passes
        positions, spare = spare, positions
    tree.offsets[:] = positions & np.int32((1 << tree.leaf) - 1)
    return TreeRun(firsts, seconds, tree, further)


class SortTree(OverRuns[TreeRun]):
    name: ClassVar[str] = "sort_tree"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = True
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    leaf: ClassVar[int] = LEAF
    fan: ClassVar[int] = FAN
    growth: ClassVar[int] = GROWTH
    at_once: ClassVar[int] = AT_ONCE

    def __init__(self, before: SortTree | None = None) -> None:
        """``before``: of the subwindow before."""
        kernels.ready("sort_tree")
        runs = None if before is None else before._runs  # noqa: SLF001 - of its own kind
        self._runs: Merging[TreeRun] = Merging(TreeRun.merged, self.growth, self.at_once, runs)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        del crew  # not worth sharing
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
        tightest = ends_of(probes.lows)[1], ends_of(probes.highs)[0]
        return [ranges for run in self._runs.runs for ranges in run.probe(probes, tightest)]

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        del crew  # one pass of copying
        self._runs.keep(lambda run: run.without(first, shift))

    def successor(self) -> SortTree:
        return type(self)(self)


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
