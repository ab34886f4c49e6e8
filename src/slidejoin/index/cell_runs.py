"""Cell-runs: several keys at once, the first of which is narrow: a band or an equality.

Design      runs with logarithmic merging, each sorted by the cell of the first key, and within a cell by the second.
            Cells are quantiles of the first key; in each that a probe meets, the second key's stretch is bisected and
            looked through for the first key's bounds and those of further keys. A cell that lies wholly within the
            first key's bounds (with an equality, the cell of one key) answers with the stretch itself. More cells make
            more bisections, fewer make more rows to look through in the two cells at the interval's ends: how wide the
            intervals of both keys are is learnt from the probes, and new runs are cut so that the two cost the same.
Invariants  the rows of a cell are in the order of the second key; ``least`` and ``most`` bound the first keys of a
            cell; runs get shorter.
Cost        insert O(log n) amortised a row; probe O(log(cell)) for each cell that the interval meets and run, and the
            rows that are looked through, about twice those that match.
Reference   none of the seeds: 001 and 004 measure the two-dimensional band with nested loops, 002 with bit arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin import kernels
from slidejoin.index.further_keys import Ends, FurtherKeys, at_least_two, in_columns
from slidejoin.index.merging import PIECE, OverRuns, Steps
from slidejoin.index.protocol import Entries, Int32s, Int64s, Probes, Ranges, in_order, numbered
from slidejoin.index.sort_tree import by_first_key
from slidejoin.kernels.cell_runs import (
    PADDING,
    TASKS,
    fill_cells,
    find_in_cells,
    keep_in_cells,
    measure_cells,
    merge_cells,
    pair_up,
)
from slidejoin.kernels.further_keys import sift
from slidejoin.kernels.merge import count_from
from slidejoin.kernels.order import sort_order
from slidejoin.kernels.search import bisect_all
from slidejoin.pools import ALONE, Crew

ROWS_PER_CELL = 8  # the fewest worth a cell: a bisection costs about as much as looking at so many
MOST_CELLS = 1 << 16
SAMPLE = 4096  # rows that quantiles are taken from
LOOKED = 2  # rows looked through in the time of half a bisection
WATCHED = 64  # probes that the widths of intervals are learnt from
EVERY = 32  # batches of probes between two looks
ROOM = 1 << 15  # ranges found at a time
DENSE = 32  # rows for each probe up to which nearly every cache line of a run is going to be met
STALE = 3  # times too few or too many cells before new ones are cut

Bounds = tuple[Int64s, Int64s]  # the lower and the upper ones
I64_MIN, I64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Boxes(Probes):
    """Probes in the order of the first key. ``ends`` are those of the first two keys, which stand close together.

    The bounds of further keys are put in order if they are asked for: mostly few rows, or none, are looked at by them.
    """

    __slots__ = ("_further", "_order", "_others", "tightest")

    def __init__(self, rows: Int32s, order: Int32s, ends: Bounds, others: Bounds, tightest: Ends) -> None:
        super().__init__(rows, *ends)
        self._order, self._others, self.tightest = order, others, tightest
        self._further: Bounds | None = None

    @staticmethod
    def of(rows: Int32s | None, lows: Int64s, highs: Int64s) -> Boxes:
        """From bounds with a column for each key."""
        lows, highs = in_columns(at_least_two(lows)), in_columns(at_least_two(highs))
        order = by_first_key(lows.T, highs.T, None)
        ends = np.empty((len(order), 2), dtype=np.int64), np.empty((len(order), 2), dtype=np.int64)
        for given, out in zip((lows, highs), ends, strict=True):
            pair_up(given[0], given[1], order, out)
        others = lows[2:], highs[2:]
        tightest = Ends(others[1].min(axis=1, initial=I64_MAX), others[0].max(axis=1, initial=I64_MIN))
        return Boxes(in_order(rows, order), order, ends, others, tightest)

    def part(self, which: slice | Int64s) -> Boxes:
        ends = self.lows[which], self.highs[which]
        return Boxes(self.rows[which], self._order[which], ends, self._others, self.tightest)

    @property
    def further(self) -> Bounds:
        """The bounds of further keys, a row for each probe."""
        if self._further is None:
            lows, highs = (np.ascontiguousarray(given.take(self._order, axis=1).T) for given in self._others)
            self._further = lows, highs
        return self._further


class Columns(NamedTuple):
    """The rows of a run, by cell and second key."""

    offsets: Int32s
    firsts: Int64s
    seconds: Int64s
    ids: Int32s

    @staticmethod
    def of(rows: int, cells: int) -> Columns:
        """Room for so many rows."""
        firsts, seconds = np.empty(rows + PADDING, dtype=np.int64), np.empty(rows + PADDING, dtype=np.int64)
        firsts[rows:] = seconds[rows:] = 0
        return Columns(
            np.empty(cells + 1, dtype=np.int32),
            firsts,
            seconds,
            np.empty(rows, dtype=np.int32),
        )

    def piece(self, cell: int, end: int, at: int, rows: int) -> Columns:
        """Room for so many rows of some of the cells, from row ``at`` on; offsets are a copy."""
        here = slice(at, at + rows)
        offsets = self.offsets[cell : end + 1].copy()
        return Columns(offsets, self.firsts[here], self.seconds[here], self.ids[here])


class CellRun:
    """A run: rows by cell and second key. ``firsts`` and ``seconds`` are padded for the kernels.

    ``further`` has the further keys of its ids, and of others.
    """

    def __init__(self, splitters: Int64s, columns: Columns, further: FurtherKeys) -> None:
        self.splitters, self.columns, self.further = splitters, columns, further
        cells = len(columns.offsets) - 1
        self.least: Int64s = np.empty(cells, dtype=np.int64)
        self.most: Int64s = np.empty(cells, dtype=np.int64)
        measure_cells(columns.offsets, columns.firsts, self.least, self.most)
        self.longest = int(np.diff(columns.offsets).max())

    @staticmethod
    def cut(firsts: Int64s, seconds: Int64s, ids: Int32s, splitters: Int64s, further: FurtherKeys) -> CellRun:
        """From rows in the order of the second key."""
        out = Columns.of(len(ids), len(splitters) + 1)
        fill(firsts, seconds, ids, splitters, out)
        return CellRun(splitters, out, further)

    def recut(self, splitters: Int64s) -> Steps[CellRun]:
        """The same rows in other cells: a few of those at a time are gathered from the cells that they overlap."""
        if splitters is self.splitters:
            return self
        held, cells = self.columns, len(splitters) + 1
        out = Columns.of(self.rows, cells)
        many = max(1, cells * PIECE // self.rows)
        at = 0
        for cell in range(0, cells, many):
            end = min(cells, cell + many)
            first, last = 0, self.cells - 1
            if cell > 0:
                first = int(np.searchsorted(self.splitters, splitters[cell - 1], side="right"))
            if end < cells:
                last = int(np.searchsorted(self.splitters, splitters[end - 1]))
            rows = np.arange(held.offsets[first], held.offsets[last + 1])
            if cell > 0:
                rows = rows[held.firsts[rows] > splitters[cell - 1]]
            if end < cells:
                rows = rows[held.firsts[rows] <= splitters[end - 1]]
            seconds, order = sort_order(held.seconds[rows])
            rows = rows[order]
            piece = out.piece(cell, end, at, len(rows))
            fill(held.firsts[rows], seconds, held.ids[rows], splitters[cell : end - 1], piece)
            out.offsets[cell : end + 1] = at + piece.offsets
            at += len(rows)
            yield len(rows)
        return CellRun(splitters, out, self.further)

    def merged(self, other: CellRun) -> Steps[CellRun]:
        """Both as one, in the cells of this."""
        other = yield from other.recut(self.splitters)
        rows = self.rows + other.rows
        out = Columns.of(rows, self.cells)
        many = max(1, self.cells * PIECE // rows)
        for cell in range(0, self.cells, many):
            end = min(self.cells, cell + many)
            merge_cells(*self.columns, *other.columns, cell, end, *out)
            yield int(out.offsets[end] - out.offsets[cell])
        return CellRun(self.splitters, out, self.further)

    def without(self, first: int, shift: int, further: FurtherKeys) -> CellRun | None:
        """The rows whose ids are at least ``first``, less by ``shift``; None if there are none.

        ``further`` has the further keys of what is left, by what the ids are then.
        """
        rows = count_from(self.ids, first)
        if rows == 0:
            return None
        out = Columns.of(rows, self.cells)
        keep_in_cells(*self.columns, first, shift, *out)
        return CellRun(self.splitters, out, further)

    def probe(self, probes: Boxes, *, by_further: bool) -> Iterator[Ranges]:
        """The answers by the first two keys, or by the further ones as well."""
        held = self.columns
        room = max(ROOM, self.longest // 2 + 7)
        rows, starts, ends = (np.empty(room, dtype=np.int32) for _ in range(3))
        numbers, cells, places = (
            np.zeros(TASKS + 3, dtype=np.int32) for _ in range(3)
        )  # searched four at a time
        named = np.arange(len(probes), dtype=np.int32) if by_further else probes.rows
        dense = DENSE * len(probes) > self.rows
        state = np.array([0, -1, 0, 0])
        while state[0] < len(probes) or state[2] < state[3]:
            kept, pairs = find_in_cells(
                self.splitters, held.offsets, self.least, self.most, held.firsts, held.seconds, *probes.ends, named,
                dense, self.longest, state, numbers, cells, places, rows, starts, ends,
            )  # fmt: skip
            if kept > 1 and by_further:
                yield from self._sifted(probes, rows[1:kept], starts[1:kept], ends[1:kept], room)
            elif kept > 1:
                yield taken(rows, starts, ends, kept, held.ids, pairs)

    def _sifted(
        self, probes: Boxes, numbers: Int32s, starts: Int32s, ends: Int32s, room: int
    ) -> Iterator[Ranges]:
        """What passes by the further keys of ranges that were found by the first two; ``numbers`` are of probes."""
        held, asked, at = self.columns, (*probes.further, probes.rows), 0
        keys = (self.further.keys, self.further.base, held.ids)
        rows, begins, stops = (np.empty(room, dtype=np.int32) for _ in range(3))
        while at < len(numbers):
            at, kept, pairs = sift(*keys, *asked, numbers, starts, ends, at, rows, begins, stops)
            if kept > 1:
                yield taken(rows, begins, stops, kept, held.ids, pairs)

    def widths(self, lows: Int64s, highs: Int64s) -> tuple[float, float]:
        """The shares of the rows that lie between the bounds of either key, on average: estimates.

        That of the first key is interpolated within cells, that of the second taken from the longest cell alone.
        """
        first = self._share_below(highs[:, 0]) - self._share_below(lows[:, 0])
        offsets = self.columns.offsets
        cell = int(np.argmax(np.diff(offsets)))
        seconds = self.columns.seconds[offsets[cell] : offsets[cell + 1]]
        ends = np.searchsorted(seconds, highs[:, 1], side="right")
        second = (ends - np.searchsorted(seconds, lows[:, 1])) / len(seconds)
        return float(np.maximum(first, 0).mean()), float(np.maximum(second, 0).mean())

    def _share_below(self, keys: Int64s) -> NDArray[np.float64]:
        cells = np.searchsorted(self.splitters, keys)
        least, most = self.least[cells].astype(np.float64), self.most[cells].astype(np.float64)
        inside = np.clip((keys.astype(np.float64) - least) / np.maximum(most - least, 1.0), 0.0, 1.0)
        begin, end = self.columns.offsets[cells], self.columns.offsets[cells + 1]
        share: NDArray[np.float64] = (begin + inside * (end - begin)) / self.rows
        return share

    @property
    def ids(self) -> Int32s:
        return self.columns.ids

    @property
    def rows(self) -> int:
        return len(self.columns.ids)

    @property
    def cells(self) -> int:
        return len(self.least)

    @property
    def nbytes(self) -> int:
        held = (self.splitters, self.least, self.most, *self.columns)
        return sum(array.nbytes for array in held)

    def check(self) -> None:
        offsets, firsts, seconds, _ = self.columns
        assert offsets[0] == 0, "cells begin at nought"
        assert offsets[-1] == self.rows, "every row is in a cell"
        assert len(firsts) == len(seconds) == self.rows + PADDING, "keys are padded"
        assert bool(np.all(self.splitters[1:] > self.splitters[:-1])), "splitters ascend and are distinct"
        bounds = [-(2**63) - 1, *self.splitters.tolist(), 2**63 - 1]
        for cell in range(self.cells):
            here = slice(offsets[cell], offsets[cell + 1])
            assert bool(np.all(np.diff(seconds[here].astype(object)) >= 0)), "a cell is in order"
            if offsets[cell] < offsets[cell + 1]:
                least, most = int(firsts[here].min()), int(firsts[here].max())
                assert (self.least[cell], self.most[cell]) == (least, most), "bounds are exact"
                assert bounds[cell] < least, "first keys are above the splitter before"
                assert most <= bounds[cell + 1], "first keys are not above their own splitter"


def fill(firsts: Int64s, seconds: Int64s, ids: Int32s, splitters: Int64s, out: Columns) -> None:
    """Put rows, which come in the order of the second key, into their cells."""
    cells = np.empty(len(ids), dtype=np.int32)
    bisect_all(splitters, firsts, cells)
    fill_cells(cells, firsts, seconds, ids, *out)


def taken(rows: Int32s, starts: Int32s, ends: Int32s, kept: int, ids: Int32s, pairs: int) -> Ranges:
    """What a kernel has found, which wrote it from place 1 on."""
    return Ranges(rows[1:kept].copy(), starts[1:kept].copy(), ends[1:kept].copy(), ids, pairs)


class CellRuns(OverRuns[CellRun]):
    name: ClassVar[str] = "cell_runs"
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    rows_per_cell: ClassVar[int] = ROWS_PER_CELL

    def __init__(self, before: CellRuns | None = None) -> None:
        """``before``: of the subwindow before, whose probes have shown how wide intervals are."""
        kernels.ready("further_keys", "cell_runs")
        super().__init__(before)
        # How much wider, in rows, the second key's intervals are than the first's.
        self._shape: float = 1.0 if before is None else before._shape  # noqa: SLF001 - of its own kind
        self._batches = 0  # of probes
        self._ends: Ends | None = None  # of the further keys, if there are any

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        """As they are: of three keys, two would be put in order only to be put back, since the third are held by id."""
        del crew  # there is nothing to share
        return Entries(keys, numbered(ids, len(keys)))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        del hint  # entries are in no order
        return Boxes.of(rows, lows, highs)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # merging goes from cell to cell
        columns, ids = in_columns(at_least_two(entries.keys)), entries.ids
        if len(ids) == 0:
            return
        longest = self._runs.runs[0] if self._runs.runs else None
        # Cells of the longest run, if there are not many more of them than rows: then merging need not cut anew.
        if longest is not None and longest.cells <= 2 * len(ids) and not self._stale(longest, longest.rows):
            splitters = longest.splitters
        else:
            splitters = quantiles(columns[0], self._wanted(len(ids)))
        if len(columns) > 2:
            base, last = int(ids.min()), int(ids.max())
            self._further.add(columns, ids, base, last - base + 1)
            ends = Ends.of(columns[2:])
            self._ends = ends if self._ends is None else self._ends.with_those(ends)
        seconds, order = sort_order(columns[1])
        run = CellRun.cut(columns[0].take(order), seconds, ids.take(order), splitters, self._further)
        self._runs.insert(run)

    def _wanted(self, rows: int) -> int:
        """How many cells a run of so many rows should have."""
        cells = (rows * self._shape / LOOKED) ** 0.5
        return int(max(1, min(cells, rows // self.rows_per_cell, MOST_CELLS)))

    def _stale(self, run: CellRun, rows: int) -> bool:
        wanted = self._wanted(rows)
        return run.cells * STALE < wanted or (run.cells > STALE * wanted and wanted * STALE < rows)

    def _merged(self, older: CellRun, younger: CellRun) -> Steps[CellRun]:
        if older.rows < younger.rows:
            older, younger = younger, older
        rows = older.rows + younger.rows
        if self._stale(older, rows):
            step = max(1, rows // max(SAMPLE, 4 * self._wanted(rows)))
            firsts = np.concatenate([run.columns.firsts[: run.rows : step] for run in (older, younger)])
            splitters = quantiles(firsts, self._wanted(rows))
            if len(splitters) != len(older.splitters):  # few distinct keys make no more cells
                older = yield from older.recut(splitters)
        return (yield from older.merged(younger))

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        assert isinstance(probes, Boxes)
        return list(self._found(probes))

    def _found(self, probes: Boxes) -> Iterator[Ranges]:
        runs = self._runs.runs
        if not runs or len(probes) == 0:
            return
        if self._batches % EVERY == 0:
            some = slice(None, None, len(probes) // WATCHED + 1)
            first, second = runs[0].widths(probes.lows[some], probes.highs[some])
            least = 0.5 / runs[0].rows  # estimates of less are none
            self._shape = max(second, least) / max(first, least)
        self._batches += 1
        by_further = self._ends is not None and not self._ends.within(probes.tightest)
        for run in runs:
            yield from run.probe(probes, by_further=by_further)


def quantiles(keys: Int64s, cells: int) -> Int64s:
    """Distinct splitters that cut the keys into about so many cells of equal size."""
    if cells < 2:
        return np.empty(0, dtype=np.int64)
    sample = keys[:: max(1, len(keys) // max(SAMPLE, 4 * cells))]
    ascending = np.sort(sample)
    places = (np.arange(1, cells) * len(ascending)) // cells
    splitters = np.unique(ascending[np.minimum(places, len(ascending) - 1)])
    return splitters[splitters < ascending[-1]] if len(splitters) else splitters
