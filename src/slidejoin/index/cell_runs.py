"""Cell-runs: several keys at once, the first of which is narrow: a band or an equality.

Design      runs with logarithmic merging, each sorted by the cell of the first key, and within a cell by the second.
            Cells are quantiles of the first key, about as wide as the probes' intervals, so a probe meets two or three
            of them; in each, the second key's stretch is bisected and looked through for the first key's bounds and
            those of further keys. A cell that lies wholly within the first key's bounds (with an equality, the cell of
            one key) answers with the stretch itself. How wide the intervals are is learnt from the probes, and new
            runs are cut accordingly.
Invariants  the rows of a cell are in the order of the second key; ``least`` and ``most`` bound the first keys of a
            cell; runs get shorter.
Cost        insert O(log n) amortised a row; probe O(log(cell)) for each cell that the interval meets and run, and the
            rows that are looked through, about twice those that match.
Reference   none of the seeds: 001 and 004 measure the two-dimensional band with nested loops, 002 with bit arrays.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slidejoin import kernels
from slidejoin.index.merging import GROWTH, Merging
from slidejoin.index.protocol import Entries, Int32s, Int64s, Probes, Ranges
from slidejoin.index.sort_tree import at_least_two, by_first_key
from slidejoin.kernels.cell_runs import fill_cells, find_in_cells, measure_cells, merge_cells
from slidejoin.kernels.order import sort_order
from slidejoin.kernels.search import bisect_all

ROWS_PER_CELL = 8  # the fewest worth a cell: a bisection costs about as much as looking at so many
MOST_CELLS = 1 << 16
SAMPLE = 4096  # rows that quantiles are taken from
WATCHED = 64  # probes that the width of intervals is learnt from
EVERY = 32  # batches of probes between two looks
ROOM = 1 << 14  # ranges found at a time
STALE = 3  # times too few or too many cells before new ones are cut


class CellRun:
    """A run: rows by cell and second key."""

    def __init__(self, splitters: Int64s, offsets: Int32s, keys: Int64s, ids: Int32s) -> None:
        self.splitters, self.offsets, self.keys, self.ids = splitters, offsets, keys, ids
        cells = len(offsets) - 1
        self.seconds: Int64s = np.empty(len(ids), dtype=np.int64)
        self.least: Int64s = np.empty(cells, dtype=np.int64)
        self.most: Int64s = np.empty(cells, dtype=np.int64)
        measure_cells(offsets, keys, self.seconds, self.least, self.most)
        self.longest = int(np.diff(offsets).max())

    @staticmethod
    def cut(keys: Int64s, ids: Int32s, splitters: Int64s) -> CellRun:
        """From rows in the order of the second key."""
        cells = np.empty(len(ids), dtype=np.int32)
        bisect_all(splitters, np.ascontiguousarray(keys[:, 0]), cells)
        offsets = np.empty(len(splitters) + 2, dtype=np.int32)
        out_keys, out_ids = np.empty_like(keys), np.empty_like(ids)
        fill_cells(cells, keys, ids, offsets, out_keys, out_ids)
        return CellRun(splitters, offsets, out_keys, out_ids)

    def recut(self, splitters: Int64s) -> CellRun:
        """The same rows in other cells."""
        if splitters is self.splitters:
            return self
        order = sort_order(self.seconds)[1]
        return CellRun.cut(self.keys[order], self.ids[order], splitters)

    def merged(self, other: CellRun) -> CellRun:
        """Both as one, in the cells of this."""
        other = other.recut(self.splitters)
        rows = self.rows + other.rows
        offsets = np.empty_like(self.offsets)
        keys, ids = np.empty((rows, self.keys.shape[1]), dtype=np.int64), np.empty(rows, dtype=np.int32)
        merge_cells(self.offsets, self.keys, self.ids, other.offsets, other.keys, other.ids, offsets, keys, ids)
        return CellRun(self.splitters, offsets, keys, ids)

    def without(self, first: int) -> CellRun | None:
        """The rows whose ids are at least ``first``; None if there are none."""
        kept = self.ids >= first
        if not kept.any():
            return None
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets].astype(np.int32)
        return CellRun(self.splitters, offsets, self.keys[kept], self.ids[kept])

    def probe(self, probes: Probes) -> list[Ranges]:
        room = max(ROOM, self.longest // 2 + 2)
        rows, starts, ends = (np.empty(room, dtype=np.int32) for _ in range(3))
        found: list[Ranges] = []
        at, cell = 0, -1
        while at < len(probes):
            at, cell, kept, pairs = find_in_cells(
                self.splitters, self.offsets, self.least, self.most, self.keys, self.seconds,
                probes.lows, probes.highs, probes.rows, at, cell, rows, starts, ends,
            )  # fmt: skip
            if kept:
                found.append(Ranges(rows[:kept].copy(), starts[:kept].copy(), ends[:kept].copy(), self.ids, pairs))
        return found

    def width(self, lows: Int64s, highs: Int64s) -> float:
        """The share of the rows whose first keys lie between, on average; interpolated within cells."""
        shares = self._share_below(highs) - self._share_below(lows)
        return float(np.maximum(shares, 0).mean())

    def _share_below(self, keys: Int64s) -> np.ndarray:
        cells = np.searchsorted(self.splitters, keys)
        least, most = self.least[cells].astype(np.float64), self.most[cells].astype(np.float64)
        inside = np.clip((keys.astype(np.float64) - least) / np.maximum(most - least, 1.0), 0.0, 1.0)
        begin, end = self.offsets[cells], self.offsets[cells + 1]
        return (begin + inside * (end - begin)) / self.rows

    @property
    def rows(self) -> int:
        return len(self.ids)

    @property
    def cells(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        held = (self.splitters, self.offsets, self.keys, self.ids, self.seconds, self.least, self.most)
        return sum(array.nbytes for array in held)

    def check(self) -> None:
        assert self.offsets[0] == 0, "cells begin at nought"
        assert self.offsets[-1] == self.rows, "every row is in a cell"
        assert bool(np.all(np.diff(self.splitters) > 0)), "splitters ascend and are distinct"
        assert np.array_equal(self.seconds, self.keys[:, 1]), "second keys are those of the rows"
        bounds = [-(2**63) - 1, *self.splitters.tolist(), 2**63 - 1]
        for cell in range(self.cells):
            here = self.keys[self.offsets[cell] : self.offsets[cell + 1]]
            assert bool(np.all(here[1:, 1] >= here[:-1, 1])), "a cell is in the order of the second key"
            if len(here):
                assert (self.least[cell], self.most[cell]) == (here[:, 0].min(), here[:, 0].max()), "bounds are exact"
                assert bounds[cell] < int(self.least[cell]), "first keys are above the splitter before"
                assert int(self.most[cell]) <= bounds[cell + 1], "first keys are not above their own splitter"


class CellRuns:
    name: ClassVar[str] = "cell_runs"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = True
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    rows_per_cell: ClassVar[int] = ROWS_PER_CELL
    growth: ClassVar[int] = GROWTH

    def __init__(self) -> None:
        kernels.ready("cell_runs")
        self._runs = Merging(self._merged, self.growth)
        self._width: float | None = None  # the share of the rows between a probe's bounds of the first key
        self._batches = 0  # of probes

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s) -> Entries:
        keys = at_least_two(keys)
        _, order = sort_order(np.ascontiguousarray(keys[:, 1]))
        return Entries(keys[order], ids[order])

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        del hint  # entries are in the order of the second key
        lows, highs = at_least_two(lows), at_least_two(highs)
        order = by_first_key(lows, highs, None)
        return Probes(order if rows is None else rows[order], lows[order], highs[order])

    def insert(self, entries: Entries) -> None:
        keys, ids = entries
        if len(ids) == 0:
            return
        longest = self._runs.runs[0] if self._runs.runs else None
        # Cells of the longest run, if there are not many more of them than rows: then merging need not cut anew.
        if longest is not None and longest.cells <= 2 * len(ids) and not self._stale(longest, longest.rows):
            splitters = longest.splitters
        else:
            splitters = quantiles(np.ascontiguousarray(keys[:, 0]), self._wanted(len(ids)))
        self._runs.insert(CellRun.cut(keys, ids, splitters))

    def _wanted(self, rows: int) -> int:
        """How many cells a run of so many rows should have: each as wide as an interval, or its root if unknown."""
        cells = rows**0.5 if not self._width else 1 / self._width
        return int(max(1, min(cells, rows // self.rows_per_cell, MOST_CELLS)))

    def _stale(self, run: CellRun, rows: int) -> bool:
        wanted = self._wanted(rows)
        return run.cells * STALE < wanted or (run.cells > STALE * wanted and wanted * STALE < rows)

    def _merged(self, older: CellRun, younger: CellRun) -> CellRun:
        if older.rows < younger.rows:
            older, younger = younger, older
        rows = older.rows + younger.rows
        if self._stale(older, rows):
            firsts = np.concatenate([older.keys[:, 0], younger.keys[:, 0]])
            splitters = quantiles(firsts, self._wanted(rows))
            if len(splitters) != len(older.splitters):  # few distinct keys make no more cells
                older = older.recut(splitters)
        return older.merged(younger)

    def probe(self, probes: Probes) -> list[Ranges]:
        runs = self._runs.runs
        if len(probes) == 0 or not runs:
            return []
        if self._batches % EVERY == 0:
            some = slice(None, None, len(probes) // WATCHED + 1)
            width = runs[0].width(probes.lows[some, 0], probes.highs[some, 0])
            self._width = max(width, 0.5 / runs[0].rows)
        self._batches += 1
        return [ranges for run in runs for ranges in run.probe(probes)]

    def drop_below(self, first: int) -> None:
        self._runs.keep(lambda run: run.without(first))

    def merge(self) -> None:
        self._runs.merge()

    def successor(self) -> CellRuns:
        new = type(self)()
        new._width = self._width
        return new

    def check(self) -> None:
        self._runs.check()

    @property
    def entries(self) -> int:
        return self._runs.entries

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes


def quantiles(keys: Int64s, cells: int) -> Int64s:
    """Distinct splitters that cut the keys into about so many cells of equal size."""
    if cells < 2:
        return np.empty(0, dtype=np.int64)
    sample = keys[:: max(1, len(keys) // max(SAMPLE, 4 * cells))]
    ascending = np.sort(sample)
    places = (np.arange(1, cells) * len(ascending)) // cells
    splitters = np.unique(ascending[np.minimum(places, len(ascending) - 1)])
    return splitters[splitters < ascending[-1]] if len(splitters) else splitters
