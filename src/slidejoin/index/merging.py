"""Runs that hold several keys and grow by logarithmic merging, by the meter: what Sort-tree and Cell-runs share.

Design      as in ``runs``: a new run is merged with the one before it while that one is at most ``growth`` times as
            long, so there are O(log n) runs and each row is merged O(log n) times. Short runs are merged at once. A
            longer merge is made in steps, a few rows for each row that is inserted, and until it is ready the runs that
            it is made of answer probes: no insertion pays for a whole merge. When a subwindow is complete, the rest of
            its merging is left to the insertions into the next one.
Invariants  runs are never changed, only replaced; ids ascend from run to run; at most one merge is in the making, of
            two neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from threading import Lock
from typing import Generic, Protocol, TypeVar

import numpy as np

from slidejoin.index.protocol import Int32s

GROWTH = 4  # as in runs.py
AT_ONCE = 1 << 13  # rows of a merge that is over in a fraction of a millisecond
PACE = 8  # rows merged for each row inserted: more than the number of times that a row is merged after that
PIECE = 4096  # rows moved in a step: some ten microseconds


class Run(Protocol):
    """An immutable run; how it is ordered is its index's affair."""

    @property
    def ids(self) -> Int32s:
        """Every id, once or in several orders."""

    @property
    def rows(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def check(self) -> None: ...


AnyRun = TypeVar("AnyRun", bound=Run)
Steps = Generator[int, None, AnyRun]  # says after each step how many rows were merged; returns the run


class Merging(Generic[AnyRun]):
    """A tuple of runs from old to young; replaced whole, since other threads may be probing."""

    def __init__(
        self,
        merged: Callable[[AnyRun, AnyRun], Steps[AnyRun]],
        growth: int = GROWTH,
        at_once: int = AT_ONCE,
        before: Merging[AnyRun] | None = None,
    ) -> None:
        """``before``: of the subwindow before this one, which has no insertions of its own any more."""
        self._merged, self._growth, self._at_once = merged, growth, at_once
        self._before = before if before is not None and before.behind else None
        self._making: tuple[tuple[AnyRun, AnyRun], Steps[AnyRun]] | None = None
        self._complete = False
        self._lock = Lock()  # the next subwindow's insertions merge here while a probe may be compacting
        self.runs: tuple[AnyRun, ...] = ()

    def insert(self, run: AnyRun) -> None:
        """Add a run; O(log n) merges amortised for each row, and ``PACE`` at the most."""
        rows = run.rows
        with self._lock:
            runs = list(self.runs)
            while runs and self._at_once_with(runs[-1], run):
                run = finished(self._merged(runs.pop(), run))
            self.runs = (*runs, run)
        self.advance(PACE * rows)

    def _at_once_with(self, older: AnyRun, run: AnyRun) -> bool:
        busy = self._making is not None and older in self._making[0]
        short = older.rows + run.rows <= self._at_once
        return short and not busy and older.rows < self._growth * run.rows

    def advance(self, budget: int) -> int:
        """Go on merging until about ``budget`` rows were merged; returns how much of the budget is left."""
        if self._before is not None:
            budget = self._before.advance(budget)
            if not self._before.behind:
                self._before = None
        with self._lock:
            while budget > 0:
                pair = self._due() if self._making is None else self._making[0]
                if pair is None:
                    break
                if self._making is None:
                    self._making = pair, self._merged(*pair)
                try:
                    budget -= next(self._making[1])
                except StopIteration as done:
                    at = self.runs.index(pair[0])
                    self.runs = (*self.runs[:at], done.value, *self.runs[at + 2 :])
                    self._making = None
                except BaseException:
                    self._making = None  # steps that have failed would look as if they had ended
                    raise
        return budget

    def _due(self) -> tuple[AnyRun, AnyRun] | None:
        """The youngest neighbours that should be one; of a complete subwindow all should."""
        for younger, older in itertools.pairwise(reversed(self.runs)):
            if self._complete or older.rows < self._growth * younger.rows:
                return older, younger
        return None

    def merge(self) -> None:
        """No more runs will come: all should be one. What is not done at once is left to the next subwindow."""
        self._complete = True
        self.advance(self._at_once)

    @property
    def behind(self) -> bool:
        """Whether something waits to be merged, here or before."""
        return (self._complete and len(self.runs) > 1) or self._before is not None

    def keep(self, kept: Callable[[AnyRun], AnyRun | None]) -> None:
        """Replace each run by what is kept of it, None if nothing is."""
        with self._lock:
            self._making = None
            self.runs = tuple(run for run in map(kept, self.runs) if run is not None)

    def check(self) -> None:
        last = -1
        for run in self.runs:
            assert run.rows > 0, "a run has rows"
            run.check()
            ids = np.unique(run.ids)
            assert len(ids) == run.rows, "an id is held once"
            assert last < ids[0], "ids ascend from run to run"
            last = int(ids[-1])
        if self._making is not None:
            assert self._making[0] in itertools.pairwise(self.runs), "neighbours are merged"

    @property
    def entries(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def nbytes(self) -> int:
        """With what is in the making: about as much as what it is made of."""
        making = () if self._making is None else self._making[0]
        return sum(run.nbytes for run in (*self.runs, *making))


def finished(steps: Steps[AnyRun]) -> AnyRun:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            run: AnyRun = done.value
            return run
