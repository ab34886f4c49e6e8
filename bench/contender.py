"""What every contender does: fill its windows, then take its turns, timed batch by batch.

A turn makes its batches before the clock starts and looks at the results after it has stopped. The pairs of every
batch are folded into one number that does not depend on their order, so that contenders can be compared on the
very batches that were timed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.workloads import Push, Workload

Int64s = NDArray[np.int64]
Pairs = tuple[Int64s, Int64s]  # row numbers: left, right


class Contender(ABC):
    """One engine on one workload."""

    def __init__(self, workload: dict[str, Any] | Workload) -> None:
        self.workload = workload if isinstance(workload, Workload) else Workload(**workload)
        self.at = 0  # rows of each side that have been pushed

    @abstractmethod
    def fill(self) -> float:
        """Put a window's rows in on both sides; the seconds it took."""

    @abstractmethod
    def step(self, push: Push) -> Callable[[], Pairs]:
        """Join one batch, all of it; what is returned only hands over the pairs, for checking."""

    def turn(self, batches: int) -> dict[str, Any]:
        """Join the next batches of each side; how long each took and what was found."""
        work = self.workload
        pushes = list(work.pushes(self.at, batches * work.batch))
        seconds, cpu, pairs, prints = [], [], 0, []
        for push in pushes:
            start, start_cpu = perf_counter(), process_time()
            result = self.step(push)
            seconds.append(perf_counter() - start)
            cpu.append(process_time() - start_cpu)
            left, right = result()
            pairs += len(left)
            prints.append(fingerprint(left, right))
        self.at += batches * work.batch
        rows = sum(push.batch.num_rows for push in pushes)
        return {
            "rows": rows,
            "seconds": sum(seconds),
            "cpu_seconds": sum(cpu),  # of all threads: what the work costs however busy the machine is
            "rows_per_second": rows / sum(seconds),
            "pairs": pairs,
            "prints": prints,
            "pushes": seconds,
            "pushes_cpu": cpu,
        }

    def results(self, batches: int) -> list[Pairs]:
        """The pairs of the next batches, in one agreed order."""
        found = []
        for push in self.workload.pushes(self.at, batches * self.workload.batch):
            left, right = self.step(push)()
            order = np.lexsort((right, left))
            found.append((left[order], right[order]))
        self.at += batches * self.workload.batch
        return found


def fingerprint(left: Int64s, right: Int64s) -> int:
    """The multiset of pairs as one number: a mixed word a pair, summed without regard to order."""
    word = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + right.astype(np.uint64)
    word = (word ^ (word >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(29)
    return int(word.sum(dtype=np.uint64))
