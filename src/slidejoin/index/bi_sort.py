"""BI-Sort: a subwindow kept sorted, probed by ranges.

Design      sorted runs with logarithmic merging; beside each run a sample of every 16th key, the index array
            of the paper, small enough for the cache. A batch of probes is sorted too, so that each search
            rebounds from the one before.
Invariants  a run's keys ascend; ``samples[j] == keys[16 * j + 15]``; runs get shorter.
Cost        insert O(log n) amortised a row; probe O(log(n / batch)) a row and run; ranges, so the number of
            matches costs nothing.
Reference   seed 000, III-D and III-E. We differ: no unsorted insertion buffer (a batch of one row is a run of
            one row) and no single main array, because merging it for each batch costs O(n).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from slidejoin.index.protocol import Entries, Int32s, Int64s, Probes, Ranges
from slidejoin.index.runs import Runs
from slidejoin.kernels.order import ascends, sort_order
from slidejoin.kernels.search import BLOCK, find_ranges


class SampledRun(NamedTuple):
    keys: Int64s
    ids: Int32s
    samples: Int64s

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.samples.nbytes

    @staticmethod
    def build(keys: Int64s, ids: Int32s) -> SampledRun:
        return SampledRun(keys, ids, keys[BLOCK - 1 :: BLOCK].copy())


class BiSort:
    name: ClassVar[str] = "bi_sort"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})

    def __init__(self) -> None:
        self._runs = Runs(SampledRun.build)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s) -> Entries:
        keys, order = sort_order(keys)
        return Entries(keys, ids[order])

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        if hint is not None and rows is None and len(hint) == len(lows):
            # A band's lower bounds are usually in the order of the batch's own keys, which is known.
            hinted = lows[hint]
            if ascends(hinted):
                return Probes(hint, hinted, highs[hint])
        lows, order = sort_order(lows)
        return Probes(order if rows is None else rows[order], lows, highs[order])

    def insert(self, entries: Entries) -> None:
        self._runs.insert(entries.keys, entries.ids)

    def probe(self, probes: Probes) -> list[Ranges]:
        if len(probes) == 0:
            return []
        found = []
        blocks, rows, starts, ends = probes.scratch
        for run in self._runs.runs:
            kept, pairs = find_ranges(
                run.keys, run.samples, probes.lows, probes.highs, probes.rows, blocks, rows, starts, ends
            )
            if kept:
                found.append(probes.found(kept, run.ids, pairs))
        return found

    def drop_below(self, first: int) -> None:
        self._runs.drop_below(first)

    def merge(self) -> None:
        self._runs.merge()

    def successor(self) -> BiSort:
        return BiSort()

    def check(self) -> None:
        self._runs.check()
        for run in self._runs.runs:
            assert np.array_equal(run.samples, run.keys[BLOCK - 1 :: BLOCK]), "samples are every 16th key"

    @property
    def entries(self) -> int:
        return self._runs.entries

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes
