"""BI-Sort: a subwindow kept sorted, probed by ranges.

Design      sorted runs with logarithmic merging; beside each run a sample of every 16th key, the index array
            of the paper, small enough for the cache. A batch of probes is sorted too, so that each search
            rebounds from the one before. A run whose keys fit 32 bits holds them so: probing and merging large
            runs is a matter of memory.
Invariants  a run's keys ascend; ``samples[j] == keys[16 * j + 15]``; runs get shorter.
Cost        insert O(log n) amortised a row; probe O(log(n / batch)) a row and run; ranges, so the number of
            matches costs nothing.
Reference   seed 000, III-D and III-E. We differ: no unsorted insertion buffer (a batch of one row is a run of
            one row) and no single main array, because merging it for each batch costs O(n).
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slidejoin.index.protocol import Entries, Int32s, Int64s, Keys, Probes, Ranges, in_order
from slidejoin.index.runs import Runs
from slidejoin.kernels.order import gather_ascending, sort_order
from slidejoin.kernels.search import BLOCK, find_in_runs
from slidejoin.pools import ALONE, Crew

_scratch = local()


def room(columns: int) -> Int32s:
    """Four int32 rows of at least so many columns, the thread's own: fresh memory costs more than the search."""
    held: Int32s | None = getattr(_scratch, "room", None)
    if held is None or held.shape[1] < columns:
        held = _scratch.room = np.empty((4, columns), dtype=np.int32)
    return held


class SampledRun(NamedTuple):
    """``place`` is where keys and samples lie in memory, how many there are and how wide, for kernels over many runs."""

    keys: Keys
    ids: Int32s
    samples: Keys
    place: tuple[int, int, int, int, int]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.samples.nbytes

    @staticmethod
    def build(keys: Keys, ids: Int32s) -> SampledRun:
        samples = keys[BLOCK - 1 :: BLOCK].copy()
        place = (keys.ctypes.data, len(keys), samples.ctypes.data, len(samples), keys.itemsize)
        return SampledRun(keys, ids, samples, place)


class BiSort:
    name: ClassVar[str] = "bi_sort"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})

    def __init__(self) -> None:
        self._runs = Runs(SampledRun.build)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None) -> Entries:
        keys, order = sort_order(keys)
        return Entries(keys, in_order(ids, order))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        if hint is not None and rows is None and len(hint) == len(lows):
            # A band's lower bounds are usually in the order of the batch's own keys, which is known.
            hinted, hinted_highs = np.empty_like(lows), np.empty_like(highs)
            if gather_ascending(lows, highs, hint, hinted, hinted_highs):
                return Probes(hint, hinted, hinted_highs)
        lows, order = sort_order(lows)
        return Probes(order if rows is None else rows[order], lows, highs[order])

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        self._runs.insert(entries.narrowed(), crew)

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        return BiSort.probe_all([self], probes)[0]

    @staticmethod
    def probe_all(indexes: Sequence[Any], probes: Probes) -> list[Sequence[Ranges]]:
        asked = len(probes)
        held = [index.runs for index in indexes]  # kept here: the kernel reads them by address
        places = [word for runs in held for run in runs for word in run.place]
        if asked == 0 or not places:
            return [[] for _ in indexes]
        runs = len(places) // 5
        blocks, rows, starts, ends = room(runs * asked)
        counts = np.empty(2 * runs, dtype=np.int64)
        total = find_in_runs(
            np.array(places), probes.lows, probes.highs, probes.rows, blocks, rows, starts, ends, counts
        )
        rows, starts, ends = rows[:total].copy(), starts[:total].copy(), ends[:total].copy()
        found: list[Sequence[Ranges]] = []
        at, numbers = 0, iter(counts.tolist())
        for each in held:
            answers = []
            for run in each:
                kept, pairs = next(numbers), next(numbers)
                if kept:
                    some = slice(at, at + kept)
                    answers.append(Ranges(rows[some], starts[some], ends[some], run.ids, pairs))
                    at += kept
            found.append(answers)
        return found

    def drop_below(self, first: int, shift: int = 0) -> None:
        self._runs.drop_below(first, shift)

    def merge(self, crew: Crew = ALONE) -> None:
        self._runs.merge(crew)

    def successor(self) -> BiSort:
        return BiSort()

    def check(self) -> None:
        self._runs.check()
        for run in self._runs.runs:
            assert np.array_equal(run.samples, run.keys[BLOCK - 1 :: BLOCK]), "samples are every 16th key"

    @property
    def runs(self) -> tuple[SampledRun, ...]:
        return self._runs.runs

    @property
    def entries(self) -> int:
        return self._runs.entries

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes
