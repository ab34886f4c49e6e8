"""Many pairs: a push that matches ten thousand million pairs; how soon ``num_rows`` is known, and in what memory.

Both streams' rows all match each other. What is timed is the second push with its ``num_rows``; beside it, the first
record batch of the result. Memory is the process's highest, less what it was before the push.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import psutil

import slidejoin as sj
from bench.report import Figure, Section
from bench.stage import alone

ROWS = 100_000
SECONDS_GOAL = 1.0  # "at once"
MEMORY_GOAL = 64.0  # MB, "little": the pairs themselves would be 160 GB
MB = 1 << 20


def measure(say: Callable[[str], None], *, quick: bool) -> Section:
    del quick  # it takes no time
    say("a push of ten thousand million pairs")
    run = alone("bench.many_pairs:push", rows=ROWS)
    what = "a push that matches 10^10 pairs"
    return Section(
        [
            Figure(
                "pairs.seconds", f"{what}: num_rows within", run["seconds"], "s", SECONDS_GOAL, at_most=True
            ),
            Figure("pairs.memory", f"{what}: memory", run["growth_mb"], "MB", MEMORY_GOAL, at_most=True),
            Figure(
                "pairs.first_batch", f"{what}: its first 65,536 rows within", run["first_batch_seconds"], "s"
            ),
        ],
        run,
    )


def push(rows: int) -> dict[str, Any]:
    """In a fresh process."""
    condition = "l.x <= r.x"
    warm = sj.Join(condition, window=sj.Rows(8), threads=1)
    warm.push(left={"x": [1]})
    next(iter(warm.push(right={"x": [2]})))
    join = sj.Join(condition, window=sj.Rows(rows), threads=1)
    rng = np.random.default_rng(1)
    join.push(left={"x": rng.integers(0, 1000, rows)})
    arriving = {"x": rng.integers(1000, 2000, rows)}
    before = psutil.Process().memory_info().rss
    start = perf_counter()
    matches = join.push(right=arriving)
    pairs = matches.num_rows
    known = perf_counter()
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    batch = next(iter(matches))
    built = perf_counter()
    return {
        "rows": rows,
        "pairs": pairs,
        "seconds": known - start,
        "growth_mb": (highest - before) / MB,
        "first_batch_rows": batch.num_rows,
        "first_batch_seconds": built - known,
    }
