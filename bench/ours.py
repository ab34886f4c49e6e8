"""slidejoin as a contender: push a batch, take the row numbers of its matches."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import slidejoin as sj
from bench.contender import Contender, Pairs
from bench.workloads import BLOCK, Push, Workload


class Slidejoin(Contender):
    def __init__(self, workload: dict[str, Any] | Workload, threads: int = 1) -> None:
        super().__init__(workload)
        start = perf_counter()
        self.join = sj.Join(self.workload.condition, window=sj.Rows(self.workload.window), threads=threads)
        self.loading = perf_counter() - start  # kernels from the cache, or compiled

    def fill(self) -> float:
        work = self.workload
        seconds = 0.0
        for push in work.pushes(0, work.filling, batch=max(work.batch, BLOCK)):
            start = perf_counter()
            self._push(push)
            seconds += perf_counter() - start
        self.at = work.filling
        return seconds

    def step(self, push: Push) -> Callable[[], Pairs]:
        pairs = self._push(push).indices()
        return lambda: pairs

    def _push(self, push: Push) -> sj.Matches:
        return self.join.push(left=push.batch) if push.side == 0 else self.join.push(right=push.batch)

    def setup(self) -> dict[str, Any]:
        """What came before the first batch, and the plan."""
        return {"kernels_seconds": self.loading, "plan": self.join.explain()}
