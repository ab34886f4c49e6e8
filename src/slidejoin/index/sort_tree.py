"""Sort-tree: two inequalities at once, each of which alone keeps much of the window.

Design      sorted runs with logarithmic merging; each run is a merge-sort tree: the order of the first key cut into
            blocks, blocks of blocks, and so on, and the rows of every block in the order of the second key. A stretch
            of the first key is a few blocks of each level, and what a stretch of the second key has in common with a
            block is a range: so an answer is O(log n) ranges, however many rows they hold. The stretch of the second
            key is searched for once, at the top; on the way down, counts say where it goes on in each child, and a
            child in which nothing is left of it is not entered: where the two keys run together, most are not. A leaf
            at an end of the stretch is looked through, and what passes is listed. Of further keys every block knows the
            least and the greatest: a block that is wholly within their bounds, or wholly beyond, needs no looking; the
            rows of others are looked through, those of leaves sixteen at a time. Until a bound cuts something off,
            further keys are only kept.
Invariants  both orders ascend; each level has every row once, by rank within its blocks; counts and turns agree.
Cost        insert O(log n) amortised for each level and row; probe O(fan log n / log fan) counts a row and run; both
            keys once, an id for each level and row, and a byte and a half for each level between; a further key once
            by id, and once more as leaves lie from when it is looked at.
Reference   none of the seeds: what PO-Join's permutation (seed 002) becomes if it is kept for every block instead of
            being written into a bit array for every probe. The counts are those of a wavelet tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin import kernels
from slidejoin.index.further_keys import NO_KEYS, Ends, FurtherKeys, at_least_two, in_columns
from slidejoin.index.merging import PIECE, OverRuns, Steps, finished
from slidejoin.index.protocol import Entries, Int32s, Int64s, Probes, Ranges, in_order
from slidejoin.kernels.merge import count_from
from slidejoin.kernels.order import ascends, sort_order
from slidejoin.kernels.sort_tree import (
    Found,
    Further,
    Tree,
    bound_blocks,
    bound_leaves,
    distribute,
    find_rows,
    find_stretches,
    keep_firsts,
    keep_seconds,
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
SPARE = 16  # places after the last that are read or written and not used, where sixteen go together
LISTED = 1 << 18  # ids listed at a time, where there are more than two keys
NOTHING_FURTHER = Further(np.empty(0, dtype=np.int64), NO_KEYS, NO_KEYS, NO_KEYS, NO_KEYS, 0)


class Bounds(NamedTuple):
    """The least and the greatest further keys of every block; those of level j stand from ``begins[j]`` on.

    And the keys themselves, a row each, as level 0 lies: most of what is looked through lies there.
    """

    begins: Int64s
    least: Int64s
    most: Int64s
    by_place: Int64s


class TreeRun:
    """A run: both orders, the tree between them, and what there is to know of the further keys."""

    def __init__(self, firsts: Int64s, seconds: Int64s, tree: Tree, further: FurtherKeys, ends: Ends) -> None:
        self.firsts, self.seconds, self.tree = firsts, seconds, tree
        self.further, self.ends = further, ends
        self.bounds: Bounds | None = None  # made when a probe first asks for them
        ids = top(tree)
        self.base = int(ids.min())  # the least id
        self.span = int(ids.max()) + 1 - self.base

    @staticmethod
    def of(entries: Entries, shape: tuple[int, int], further: FurtherKeys) -> TreeRun:
        """From a batch in the order of the first key; ``further`` is going to have its further keys."""
        columns, ids = in_columns(entries.keys), entries.ids
        firsts = columns[0].copy()
        seconds, positions = sort_order(columns[1])
        tree = planted(len(ids), shape)
        top(tree)[:] = ids[positions]
        return finished(grown(firsts, seconds, tree, positions, further, Ends.of(columns[2:])))

    def merged(self, other: TreeRun) -> Steps[TreeRun]:
        """This and a younger one as one; O(rows) for each level, nothing is sorted."""
        rows, base = self.rows + other.rows, self.base
        tree = planted(rows, (self.tree.leaf, self.tree.fan))
        passes = tree.levels + 4
        pieces = [(at, min(rows, at + PIECE)) for at in range(0, rows, PIECE)]
        firsts, seconds = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        places = [np.empty(run.rows, dtype=np.int32) for run in (self, other)]
        i = j = 0
        for _, end in pieces:
            i, j = merge_firsts(self.firsts, other.firsts, i, j, end, firsts, *places)
            yield PIECE // passes
        new = np.empty(other.base + other.span - base, dtype=np.int32)
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
        ends = self.ends.with_those(other.ends)
        run = yield from grown(firsts, seconds, tree, positions, self.further, ends)
        if self.bounds is not None or other.bounds is not None:  # they will be asked for again
            run.bounds = yield from run.bounded()
        return run

    def without(self, first: int, shift: int, further: FurtherKeys) -> TreeRun | None:
        """The rows whose ids are at least ``first``, less by ``shift``; None if there are none.

        ``further`` has the further keys of what is left, by what the ids are then.
        """
        held, ids = self.tree, top(self.tree)
        rows = count_from(ids, first)
        if rows == 0:
            return None
        tree = planted(rows, (held.leaf, held.fan))
        firsts, seconds = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        places, positions = np.empty(self.rows, dtype=np.int32), np.empty(rows, dtype=np.int32)
        keep_firsts(held.ids, held.offsets, self.firsts, held.leaf, first, places, firsts)
        by_id = np.empty(self.span, dtype=np.int32)
        note_places(held.ids, held.offsets, places, held.leaf, self.base, 0, self.rows, by_id)
        keep_seconds(ids, self.seconds, first, shift, by_id, self.base, top(tree), seconds, positions)
        return finished(grown(firsts, seconds, tree, positions, further, self.ends))

    def probe(self, rows: Int32s, lows: Int64s, highs: Int64s, tightest: Ends) -> list[Ranges]:
        """Bounds have a row for each key; ``tightest`` are those of the further keys."""
        all_within = self.ends.within(tightest)
        further = NOTHING_FURTHER if all_within else self._looked_at()
        a_probe = most_ranges(self.tree)
        whole = room_for(min(max(ROOM, a_probe), len(rows) * a_probe), self.tree.ids)
        looked_through = 2 << self.tree.leaf if all_within else self.rows  # by a probe, at most
        ids = padded(min(max(LISTED, looked_through), len(rows) * looked_through), np.int32)
        listed = room_for(len(rows), ids)
        starts, ends = (np.empty(a_probe, dtype=np.int32) for _ in range(2))
        stretches = np.empty((4, len(rows)), dtype=np.int32)
        find_stretches(self.firsts, lows[0], highs[0], *stretches[:2])
        find_stretches(self.seconds, lows[1], highs[1], *stretches[2:])
        found: list[Ranges] = []
        at = 0
        while at < len(rows):
            at, wholes, whole_pairs, lists, pairs = find_rows(
                self.tree, stretches, further, lows, highs, rows, at, starts, ends, whole, listed,
            )  # fmt: skip
            if wholes:
                found.append(taken(whole, wholes, whole.ids, whole_pairs))
            if lists:
                found.append(taken(listed, lists, listed.ids[:pairs].copy(), pairs))
        return found

    def _looked_at(self) -> Further:
        """The further keys, where some of them may be beyond the bounds of a probe."""
        if self.bounds is None:
            self.bounds = finished(self.bounded())
        return Further(*self.bounds, self.further.keys, self.further.base)

    def bounded(self) -> Steps[Bounds]:
        """The further keys of level 0, and their ends in every block."""
        tree, keys, base = self.tree, self.further.keys, self.further.base
        blocks = [-(-self.rows >> (tree.leaf + tree.fan * level)) for level in range(tree.levels + 1)]
        begins = np.cumsum([0, *blocks], dtype=np.int64)
        least, most = (np.empty((len(keys), begins[-1]), dtype=np.int64) for _ in range(2))
        by_place = np.empty((len(keys), self.rows + SPARE), dtype=np.int64)  # each key padded
        leaves = max(1, PIECE >> tree.leaf)
        for leaf in range(0, blocks[0], leaves):
            bound_leaves(tree, keys, base, leaf, min(blocks[0], leaf + leaves), by_place, least, most)
            yield PIECE
        bound_blocks(tree, begins, least, most)
        return Bounds(begins, least, most, by_place)

    @property
    def rows(self) -> int:
        return self.tree.rows

    @property
    def ids(self) -> Int32s:
        return self.tree.ids

    @property
    def positions(self) -> Int32s:
        """Where each rank stands in the order of the first key."""
        tree, base = self.tree, self.base
        by_id, same = np.empty(self.span, dtype=np.int32), np.arange(self.rows, dtype=np.int32)
        note_places(tree.ids, tree.offsets, same, tree.leaf, base, 0, self.rows, by_id)
        positions: Int32s = by_id[top(tree) - np.int32(base)]
        return positions

    @property
    def nbytes(self) -> int:
        bounds = () if self.bounds is None else self.bounds
        tree = self.tree
        held = (tree.ids, tree.offsets, tree.counts, tree.planes, *self.ends, *bounds)
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
        if len(self.ends.least) == 0:
            return
        others = self.further.of(top(tree))
        assert np.array_equal(self.ends, self.ends.with_those(Ends.of(others))), (
            "further keys between their ends"
        )
        if self.bounds is not None:
            begins, least, most, by_place = self.bounds
            assert np.array_equal(by_place[:, :rows], self.further.of(tree.ids[:rows])), "as level 0 lies"
            for level in range(tree.levels + 1):
                size = 1 << (tree.leaf + tree.fan * level)
                for number, at in enumerate(range(0, rows, size)):
                    known = int(begins[level]) + number
                    theirs = Ends.of(others[:, (positions >= at) & (positions < at + size)])
                    assert np.array_equal((least[:, known], most[:, known]), theirs), "blocks know their ends"


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
        padded((levels + 1) * rows, np.int32),
        padded(rows, np.uint8),
        np.empty((chunks, 1 << fan), dtype=np.int32),
        np.empty((chunks, fan), dtype=np.uint64),
    )  # fmt: skip


def padded(length: int, kind: Any) -> NDArray[Any]:
    """An array that may be read and written beyond its end where sixteen places go together."""
    return np.empty(length + SPARE, dtype=kind)[:length]


def room_for(ranges: int, ids: Int32s) -> Found:
    """For so many ranges of ids."""
    rows, starts, ends = (np.empty(ranges, dtype=np.int32) for _ in range(3))
    return Found(rows, starts, ends, ids)


def taken(found: Found, count: int, ids: Int32s, pairs: int) -> Ranges:
    """The first ranges, taken out of what is going to be written over."""
    rows, starts, ends = (some[:count].copy() for some in (found.rows, found.starts, found.ends))
    return Ranges(rows, starts, ends, ids, pairs)


def top(tree: Tree) -> Int32s:
    """The ids by rank."""
    return tree.ids[tree.levels * tree.rows :]


def grown(
    firsts: Int64s, seconds: Int64s, tree: Tree, positions: Int32s, further: FurtherKeys, ends: Ends
) -> Steps[TreeRun]:
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
    return TreeRun(firsts, seconds, tree, further, ends)


class SortTree(OverRuns[TreeRun]):
    name: ClassVar[str] = "sort_tree"
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    leaf: ClassVar[int] = LEAF
    fan: ClassVar[int] = FAN

    def __init__(self, before: SortTree | None = None) -> None:
        kernels.ready("further_keys", "sort_tree")
        super().__init__(before)

    def _merged(self, older: TreeRun, younger: TreeRun) -> Steps[TreeRun]:
        return older.merged(younger)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        del crew  # not worth sharing
        columns = in_columns(at_least_two(keys))
        _, order = sort_order(columns[0])
        return Entries(columns.take(order, axis=1).T, in_order(ids, order))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        lows, highs = at_least_two(lows), at_least_two(highs)
        order = by_first_key(lows, highs, hint if rows is None else None)
        lows, highs = (in_columns(ends).take(order, axis=1).T for ends in (lows, highs))
        return Probes(in_order(rows, order), lows, highs)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # levels are passes over the whole run
        if len(entries.ids) == 0:
            return
        run = TreeRun.of(entries, (self.leaf, self.fan), self._further)
        if entries.keys.shape[1] > 2:
            self._further.add(in_columns(entries.keys), entries.ids, run.base, run.span)
        self._runs.insert(run)

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        return self.probe_all([self], probes)[0]

    @staticmethod
    def probe_all(
        indexes: Sequence[SortTree], probes: Probes, crew: Crew = ALONE, first: Sequence[int] | None = None
    ) -> list[Sequence[Ranges]]:
        del crew, first  # threads have probes of their own; ids are looked at later
        if len(probes) == 0:
            return [[] for _ in indexes]
        lows, highs = in_columns(probes.lows), in_columns(probes.highs)
        asked = (probes.rows, lows, highs, Ends(highs[2:].min(axis=1), lows[2:].max(axis=1)))
        return [
            [ranges for run in index._runs.runs for ranges in run.probe(*asked)]  # noqa: SLF001 - its own kind
            for index in indexes
        ]


def by_first_key(lows: Int64s, highs: Int64s, hint: Int32s | None) -> Int32s:
    """The order of the probes by whichever bound of the first key they differ in: neighbours meet the same blocks."""
    if len(lows) == 0:
        return np.empty(0, dtype=np.int32)
    bounds = lows[:, 0] if lows[0, 0] != lows[-1, 0] else highs[:, 0]
    if hint is not None and len(hint) == len(bounds) and ascends(bounds[hint]):
        return hint
    return sort_order(np.ascontiguousarray(bounds))[1]
