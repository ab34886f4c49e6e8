"""Runs that hold several keys and grow by logarithmic merging, by the meter: what Sort-tree and Cell-runs share.

Design      as in ``runs``: a new run is merged with the one before it while that one is at most ``growth`` times as
            long, so there are O(log n) runs and each row is merged O(log n) times. Short runs are merged at once. A
            longer merge is made in steps, a few rows for each row that is inserted, and until it is ready the runs that
            it is made of answer probes: no insertion pays for a whole merge. A shorter merge that becomes due goes
            first, or what arrives during a long one would lie in ever more runs. When a subwindow is complete, the
            rest of its merging is left to the insertions into the next one.
Invariants  runs are never changed, only replaced; ids ascend from run to run; merges in the making are of neighbours,
            from old to young, and have no run in common.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from threading import Lock
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from slidejoin.index.further_keys import FurtherKeys
from slidejoin.index.protocol import Int32s, InTurn
from slidejoin.pools import ALONE, Crew

GROWTH = 4  # as in runs.py
AT_ONCE = 1 << 13  # rows of a merge that is over in a fraction of a millisecond
PACE = (
    12  # rows merged for each row inserted: more than the number of times that a row is merged in long runs
)
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

    def without(self: Self, first: int, shift: int, further: FurtherKeys) -> Self | None:
        """The rows whose ids are at least ``first``, less by ``shift``, with their further keys; None if there are none."""

    def check(self) -> None: ...


AnyRun = TypeVar("AnyRun", bound=Run)
Made = TypeVar("Made")
Steps = Generator[int, None, Made]  # says after each step how many rows were merged; returns what was made


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
        self._making: list[tuple[tuple[AnyRun, AnyRun], Steps[AnyRun]]] = []
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
        short = older.rows + run.rows <= self._at_once
        return short and older.rows < self._growth * run.rows and older in self._free()

    def _free(self) -> tuple[AnyRun, ...]:
        """The runs younger than those in the making."""
        if not self._making:
            return self.runs
        _, youngest = self._making[-1][0]
        return self.runs[self.runs.index(youngest) + 1 :]

    def advance(self, budget: int) -> int:
        """Go on merging until about ``budget`` rows were merged; returns how much of the budget is left."""
        if self._before is not None:
            budget = self._before.advance(budget)
            if not self._before.behind:
                self._before = None
        with self._lock:
            while budget > 0:
                due = self._due()
                if due is not None:
                    self._making.append((due, self._merged(*due)))
                if not self._making:
                    break
                pair, steps = self._making[-1]
                try:
                    budget -= next(steps)
                except StopIteration as done:
                    at = self.runs.index(pair[0])
                    self.runs = (*self.runs[:at], done.value, *self.runs[at + 2 :])
                    self._making.pop()
                except BaseException:
                    self._making.pop()  # steps that have failed would look as if they had ended
                    raise
        return budget

    def _due(self) -> tuple[AnyRun, AnyRun] | None:
        """The youngest neighbours that should be one and are not in the making; if no more runs come, all should."""
        for younger, older in itertools.pairwise(reversed(self._free())):
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
            self._making = []
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
        neighbours = list(itertools.pairwise(self.runs))
        places = [neighbours.index(pair) for pair, _ in self._making]
        assert all(b - a > 1 for a, b in itertools.pairwise(places)), "old to young, no run in common"

    @property
    def entries(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def nbytes(self) -> int:
        """With what is in the making: about as much as what it is made of."""
        making = [run for pair, _ in self._making for run in pair]
        return sum(run.nbytes for run in (*self.runs, *making))


def finished(steps: Steps[Made]) -> Made:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: Made = done.value
            return made


class OverRuns(InTurn, ABC, Generic[AnyRun]):
    """An index of such runs, and of further keys beside them, apart from how it arranges, merges and answers."""

    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = True
    growth: ClassVar[int] = GROWTH
    at_once: ClassVar[int] = AT_ONCE

    def __init__(self, before: Self | None = None) -> None:
        """``before``: of the subwindow before."""
        runs = None if before is None else before._runs  # noqa: SLF001 - of its own kind
        self._runs: Merging[AnyRun] = Merging(self._merged, self.growth, self.at_once, runs)
        self._further: FurtherKeys = FurtherKeys() if before is None else before._further.successor()  # noqa: SLF001 - of its own kind

    @abstractmethod
    def _merged(self, older: AnyRun, younger: AnyRun) -> Steps[AnyRun]:
        """Two neighbours as one."""

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        del crew  # one pass of copying
        # In another place, since runs that are being probed go on with the ids that they have.
        left = self._further.without(first, shift)
        self._runs.keep(lambda run: run.without(first, shift, left))
        self._further = left

    def merge(self, crew: Crew = ALONE) -> None:
        del crew  # what is left of it is done in steps
        self._runs.merge()

    def successor(self) -> Self:
        return type(self)(self)

    def check(self) -> None:
        self._runs.check()

    @property
    def entries(self) -> int:
        return self._runs.entries

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes + self._further.keys.nbytes
