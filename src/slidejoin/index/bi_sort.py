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

from slidejoin.index.by_key import ByKey, SortedAhead
from slidejoin.index.protocol import Entries, Int32s, Int64s, Keys, Probes, Ranges
from slidejoin.index.runs import Runs
from slidejoin.kernels.bits import fits_32
from slidejoin.kernels.chores import Chores, add_up, place_of, write_collect, write_find, write_sample
from slidejoin.kernels.search import BLOCK, RUN_WORDS, SPARE, find_in_runs
from slidejoin.pools import ALONE, Ahead, Crew

NONE = np.empty(0, dtype=np.int64)


class _Room(local):
    """The thread's own memory for what is looked for and found: fresh memory costs more than the search."""

    def __init__(self) -> None:
        self.found = np.empty((4, 0), dtype=np.int32)
        self.bounds = np.empty((2, 0), dtype=np.int64)
        self.unfinished: Ahead | None = None  # what was found the last time is still being taken out


_room = _Room()


def room_for_found(columns: int) -> Int32s:
    """Four rows of at least so many columns: what a search needs for itself, and what it finds."""
    if _room.unfinished is not None:
        _room.unfinished.settle()
        _room.unfinished = None
    if _room.found.shape[1] < columns:
        _room.found = np.empty((4, columns), dtype=np.int32)
    return _room.found


def room_for_bounds(rows: int) -> tuple[Int64s, Int64s]:
    """Lower and upper bounds of so many rows."""
    if _room.bounds.shape[1] < rows:
        _room.bounds = np.empty((2, rows), dtype=np.int64)
    lows, highs = _room.bounds[:, :rows]
    return lows, highs


class Found(NamedTuple):
    """The counts of each run, as ``find_in_runs`` has them, and the ranges: probing rows, starts and ends, run after run.

    Of several pieces, what else ``Ranges`` tell of them: ``cuts`` run by run.
    """

    counts: list[int]
    ranges: Int32s
    unfinished: Ahead | None = None
    cuts: Int64s | None = None


def found_in(places: Int64s, probes: Probes, crew: Crew) -> Found:
    """What probes find in runs.

    The probes are cut where they are sorted, by key: then each thread reads its own part of every run. What the pieces
    have found is brought together by another thread, which may not be done with it.
    """
    asked, runs = len(probes), len(places) // RUN_WORDS
    scratch = room_for_found((runs + SPARE) * asked)
    pieces = crew.pieces(asked)
    # Bounds around centres are made where they are used; by several threads, each makes its own in its cache.
    probing_rows, centres = probes.places
    bounds = probes.ends if centres is None else room_for_bounds(asked)
    around = (places, NONE if centres is None else centres, probes.below, probes.above)
    if pieces == 1:
        counts = np.empty(3 * runs, dtype=np.int64)
        room = (NONE, NONE) if centres is None else bounds
        probes.settle()
        total = find_in_runs(*around, *room, *bounds, probing_rows, *scratch, counts)
        return Found(counts.tolist(), scratch[1:, :total].copy())
    counts, targets = np.empty(3 * runs * pieces, dtype=np.int64), np.empty(runs * pieces, dtype=np.int64)
    totals, cuts = np.empty(3 * runs, dtype=np.int64), np.empty((runs, 2 * pieces), dtype=np.int64)
    own, rows, starts, ends = scratch
    finding, collecting = Chores(), Chores()
    finds = finding.room(pieces)
    write_find(finds, *around, *bounds, probing_rows, own, rows, starts, ends, counts)
    probes.settle()
    crew.share(finding)
    out = np.empty((3, add_up(counts, targets, totals, cuts.ravel())), dtype=np.int32)
    write_collect(collecting.room(pieces), finds, counts, targets, rows, starts, ends, *out)
    collecting.hold(scratch, counts, targets, out)
    _room.unfinished = crew.ahead(collecting)
    if _room.unfinished is None:
        crew.share(collecting)
    return Found(totals.tolist(), out, _room.unfinished, cuts)


class SampledRun(NamedTuple):
    """``place``: where keys, samples and ids lie in memory, how many and how wide; for kernels over many runs."""

    keys: Keys
    ids: Int32s
    samples: Keys
    place: tuple[int, int, int, int, int, int]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.samples.nbytes

    @staticmethod
    def build(entries: Entries, chores: Chores) -> SampledRun:
        """Of entries that are there when the chores so far are done."""
        keys, ids = entries
        samples = np.empty(len(keys) // BLOCK, dtype=keys.dtype)
        chores.hold(keys, samples)
        write_sample(chores.room(), keys, samples)
        where = (place_of(keys), len(keys), place_of(samples), len(samples), keys.itemsize, place_of(ids))
        return SampledRun(keys, ids, samples, where)


class BiSort(ByKey):
    name: ClassVar[str] = "bi_sort"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    shares: ClassVar[bool] = True
    narrow: ClassVar[bool] = True
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})

    def __init__(self) -> None:
        self._runs = Runs(SampledRun.build)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        self._runs.insert(entries.narrowed(), crew)

    def insert_ahead(self, ahead: SortedAhead, first: int, crew: Crew) -> None:
        fitting = np.int32 if fits_32(ahead.least, ahead.most) else np.int64
        if ahead.entries.keys.dtype == fitting:
            # What is to be done can be written down without reading a key.
            self._runs.insert(ahead.entries, crew, first, ahead.unfinished)
        else:
            super().insert_ahead(ahead, first, crew)

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        return BiSort.probe_all([self], probes)[0]

    @staticmethod
    def probe_all(
        indexes: Sequence[Any], probes: Probes, crew: Crew = ALONE, first: Sequence[int] | None = None
    ) -> list[Sequence[Ranges]]:
        held = [index.runs for index in indexes]  # kept here: the kernel reads them by address
        asked = first or [0] * len(held)
        places = [
            word
            for runs, least in zip(held, asked, strict=True)
            for run in runs
            for word in (*run.place, least)
        ]
        if len(probes) == 0 or not places:
            return [[] for _ in indexes]
        counts, (rows, starts, ends), unfinished, cuts = found_in(np.array(places), probes, crew)
        found: list[Sequence[Ranges]] = []
        at, numbers = 0, enumerate(zip(*[iter(counts)] * 3, strict=True))
        for each in held:
            answers = []
            for run in each:
                number, (kept, pairs, cut) = next(numbers)
                if kept:
                    some = slice(at, at + kept)
                    whose = (run.ids, pairs, first is not None and cut > 0)
                    pieces = None if cuts is None else cuts[number]
                    answers.append(Ranges(rows[some], starts[some], ends[some], *whose, unfinished, pieces))
                    at += kept
            found.append(answers)
        return found

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        self._runs.drop_below(first, shift, crew)

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
