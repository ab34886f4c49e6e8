"""Sorted runs that grow by logarithmic merging: the part that BI-Sort and Hash share.

Each inserted batch is a run. A new run is merged with the one before it while that one is at most
``GROWTH`` times as long, so a subwindow of n rows has O(log n) runs and each row is merged O(log n) times,
where one ever-growing main array would copy all n rows for every batch (seed 000, III-D). Runs are never
changed, only replaced: a result may keep pointing into one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from slidejoin import kernels
from slidejoin.index.entries import Entries, Int32s, Keys
from slidejoin.kernels.chores import Chores
from slidejoin.pools import Ahead, Aside, Crew

GROWTH = 4  # fewer runs to probe for a little more merging; batches of any size gain from it


class Run(Protocol):
    """An immutable ascending run; what else it carries is its index's affair."""

    @property
    def keys(self) -> Keys: ...

    @property
    def ids(self) -> Int32s: ...

    @property
    def nbytes(self) -> int: ...


AnyRun = TypeVar("AnyRun", bound=Run)


class Runs(Generic[AnyRun]):
    """A list of runs from long to short."""

    def __init__(self, build: Callable[[Entries, Chores], AnyRun]) -> None:
        kernels.ready()
        self._build = build
        self._runs: tuple[AnyRun, ...] = ()
        self._unfinished: Aside | None = None

    @property
    def runs(self) -> tuple[AnyRun, ...]:
        """The runs, whole: if another thread is still merging, this waits for it."""
        unfinished = self._unfinished
        if unfinished is not None:
            unfinished.settle()
            self._unfinished = None
        return self._runs

    def insert(self, entries: Entries, crew: Crew, first: int = 0, after: Ahead | None = None) -> None:
        """Add a sorted batch with ids from ``first`` on; O(log n) amortised per row.

        Another thread of the crew may do the merging. ``after``: until these are done, the batch is not there.
        """
        if len(entries.keys) == 0:
            return
        runs = list(self.runs)
        rows, absorbed = len(entries.keys), []
        while runs and len(runs[-1].keys) < GROWTH * rows:
            run = runs.pop()
            absorbed.append(Entries(run.keys, run.ids))
            rows += len(run.keys)
        if after is not None and any(run.keys.dtype != entries.keys.dtype for run in absorbed):
            after.settle()  # keys of another width are copied here and now
        chores = Chores()
        self._replace(runs, entries.shifting(first, chores), absorbed, chores, crew, after)

    def merge(self, crew: Crew) -> None:
        """Make one run of all; from the shortest up, so that each row moves as little as possible."""
        if len(self.runs) < 2:
            return
        newest, *older = (Entries(run.keys, run.ids) for run in reversed(self.runs))
        self._replace([], newest, older, Chores(), crew)

    def _replace(
        self,
        kept: list[AnyRun],
        newest: Entries,
        older: Sequence[Entries],
        chores: Chores,
        crew: Crew,
        after: Ahead | None = None,
    ) -> None:
        """Hold some runs as they are and one of the others, which another thread may be merging for a while."""
        merged = self._build(merged_in_turn(newest, older, chores), chores)
        self._runs = (*kept, merged)
        self._unfinished = crew.aside(chores, after)

    def drop_below(self, first: int, shift: int, crew: Crew) -> None:
        kept = []
        for run in self.runs:
            rest = Entries(run.keys, run.ids).without(first, shift, crew)
            if len(rest.keys):
                kept.append(self._built(rest))
        self._runs = tuple(kept)
        self.merge(crew)  # what is left may no longer shorten from run to run

    def _built(self, entries: Entries) -> AnyRun:
        chores = Chores()
        run = self._build(entries, chores)
        chores.perform()
        return run

    def check(self) -> None:
        for run in self.runs:
            assert len(run.keys) == len(run.ids) > 0, "a run has rows"
            assert bool(np.all(run.keys[1:] >= run.keys[:-1])), "keys ascend"
        lengths = [len(run.keys) for run in self.runs]
        assert all(long > short for long, short in itertools.pairwise(lengths)), "runs shorten"
        ids = np.concatenate([run.ids for run in self.runs]) if self.runs else np.empty(0, np.int32)
        assert len(np.unique(ids)) == len(ids), "an id is held once"

    @property
    def entries(self) -> int:
        return sum(len(run.keys) for run in self.runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)


def merged_in_turn(entries: Entries, older: Sequence[Entries], chores: Chores) -> Entries:
    """Entries merged with ever older and longer ones, as soon as the chores are done."""
    if len({one.keys.dtype for one in (entries, *older)}) > 1:
        entries, older = entries.widened(), [one.widened() for one in older]
    for one in older:
        entries = one.merging(entries, chores)
    return entries
