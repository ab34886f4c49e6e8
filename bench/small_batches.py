"""Small batches: 128 rows a push over large windows; rows a second, and how long a push keeps its caller waiting.

A push is timed with its ``indices()``. The pushes of one round turn the whole window over, so every merge and every
change of subwindow that there is falls into it; the 99th percentile is taken over all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, Section, middle
from bench.stage import Stage
from bench.workloads import Workload

WORK = Workload("band", window=1 << 20, batch=128)
RATE_GOAL = 300_000
P99_GOAL = 2.0  # ms
WARM = 1024  # batches of each side before the clock counts


def measure(say: Callable[[str], None], *, quick: bool) -> Section:
    rounds = 1 if quick else 3
    batches = 2048 if quick else WORK.window // WORK.batch
    turns: list[dict[str, Any]] = []
    with Stage("bench.ours:Slidejoin", workload=asdict(WORK), threads=1) as stage:
        say("filling the windows for batches of 128")
        filling = stage.call("fill")
        warming = stage.call("turn", batches=WARM)
        for number in range(rounds):
            say(f"batches of 128: round {number + 1} of {rounds}")
            turns.append(stage.call("turn", batches=batches))
    speed, speeds = middle([turn["rows_per_second"] for turn in turns])
    waits = np.array([wait for turn in turns for wait in turn["pushes"]]) * 1e3
    work = np.array([cpu for turn in turns for cpu in turn["pushes_cpu"]]) * 1e3
    per_round = [np.percentile(np.array(turn["pushes"]) * 1e3, (50, 99)) for turn in turns]
    p50, p99 = (float(value) for value in np.percentile(waits, (50, 99)))
    spreads = [(float(min(column)), float(max(column))) for column in zip(*per_round, strict=True)]
    what = "batches of 128, w = 2^20"
    return Section(
        [
            Figure("small.rate", f"{what}: 1 thread", speed, "rows/s", RATE_GOAL, spread=speeds),
            Figure("small.p50", f"{what}: a push, median (p50)", p50, "ms", spread=spreads[0]),
            Figure("small.p99", f"{what}: a push, p99", p99, "ms", P99_GOAL, at_most=True, spread=spreads[1]),
        ],
        {
            **asdict(WORK),
            "condition": WORK.condition,
            "pushes": len(waits),
            "cpu_milliseconds_per_push": float(work.mean()),
            "fill_seconds": filling,
            "warm_up_seconds": warming["seconds"],
            "milliseconds": percentiles(waits),
            "cpu_milliseconds": percentiles(work),
        },
    )


def percentiles(values: NDArray[np.float64]) -> dict[str, float]:
    return {str(p): float(np.percentile(values, p)) for p in (1, 10, 50, 90, 99, 99.9, 99.99, 100)}
