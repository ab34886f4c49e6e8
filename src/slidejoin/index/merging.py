"""Runs that hold several keys and grow by logarithmic merging: the part that Sort-tree and Cell-runs share.

As in ``runs``: a new run is merged with the one before it while that one is at most ``growth`` times as long, so there
are O(log n) runs and each row is merged O(log n) times. Runs are never changed, only replaced.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from slidejoin.index.protocol import Int32s

GROWTH = 4  # as in runs.py


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


class Merging(Generic[AnyRun]):
    """A tuple of runs from long to short; replaced whole, since other threads may be probing."""

    def __init__(self, merged: Callable[[AnyRun, AnyRun], AnyRun], growth: int = GROWTH) -> None:
        self._merged, self._growth = merged, growth
        self.runs: tuple[AnyRun, ...] = ()

    def insert(self, run: AnyRun) -> None:
        """Add a run; O(log n) merges amortised for each row."""
        runs = list(self.runs)
        while runs and runs[-1].rows < self._growth * run.rows:
            run = self._merged(runs.pop(), run)
        self.runs = (*runs, run)

    def merge(self) -> None:
        """Make one run of all; from the shortest up, so that each row moves as little as possible."""
        if len(self.runs) > 1:
            run = self.runs[-1]
            for longer in reversed(self.runs[:-1]):
                run = self._merged(longer, run)
            self.runs = (run,)

    def keep(self, kept: Callable[[AnyRun], AnyRun | None]) -> None:
        """Replace each run by what is kept of it, None if nothing is."""
        left = [run for run in map(kept, self.runs) if run is not None]
        self.runs = tuple(left)
        self.merge()  # what is left may no longer shorten from run to run

    def check(self) -> None:
        for run in self.runs:
            assert run.rows > 0, "a run has rows"
            run.check()
        lengths = [run.rows for run in self.runs]
        assert all(long > short for long, short in itertools.pairwise(lengths)), "runs shorten"
        ids = (
            np.concatenate([np.unique(run.ids) for run in self.runs]) if self.runs else np.empty(0, np.int32)
        )
        assert len(np.unique(ids)) == len(ids) == sum(lengths), "an id is held once"

    @property
    def entries(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)
