"""A workload that changes in the middle: what the planner makes of it, beside each fixed choice.

Every push goes to all contenders in turn, so that a slow moment of the machine hits all of them. A phase is long enough
for the windows to turn over; the rows of the phase before are still there when it begins, and that is timed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import slidejoin as sj
from bench.report import Figure

REACH = 1 << 11
FIXED = ("bi_sort", "rap_table", "wib_tree")
GOAL = 1.3  # times as slow as the best fixed choice, at most

Int64s = NDArray[np.int64]


def phases(window: int) -> Iterator[tuple[str, int, int, Callable[[np.random.Generator, int, int], Int64s]]]:
    """Name, rows a batch, rows a side, and keys; the band stays, so the spread of the keys sets the selectivity."""
    domain = window * 2 * REACH  # one match a row
    dense = max(1, domain // 4096)

    def uniform(rng: np.random.Generator, _at: int, rows: int) -> Int64s:
        return rng.integers(0, domain, rows)

    def growing(_rng: np.random.Generator, at: int, rows: int) -> Int64s:
        return domain + np.arange(at, at + rows) * 2 * REACH

    def many(rng: np.random.Generator, _at: int, rows: int) -> Int64s:
        return rng.integers(0, dense, rows)

    yield "uniform keys, batches of 32 K", 1 << 15, 3 * window, uniform
    yield "increasing ids", 1 << 15, 3 * window, growing
    yield "small batches (256)", 256, window // 2, uniform
    yield "large batches (128 K)", 1 << 17, 3 * window, uniform
    yield "4 K matches a row", 1 << 15, 3 * window, many


def run(*, quick: bool, say: Callable[[str], None]) -> tuple[list[Figure], dict[str, Any]]:
    window = 1 << 15 if quick else 1 << 18
    contenders = {
        name: sj.Join(f"abs(l.k - r.k) <= {REACH}", window=sj.Rows(window), index=name, threads=1)
        for name in ("auto", *FIXED)
    }
    rng = np.random.default_rng(9)
    figures, detail = [], {}
    turn = 0
    for name, batch, rows, keys in phases(window):
        say(f"phases: {name}")
        taken: dict[str, list[float]] = {contender: [] for contender in contenders}
        for at in range(0, rows, batch):
            for side in ("left", "right"):
                some = {"k": keys(rng, at, batch)}
                counts = set()
                turn = (turn + 1) % len(contenders)  # nobody is always the first to see a batch
                for contender in [*contenders][turn:] + [*contenders][:turn]:
                    join = contenders[contender]
                    start = perf_counter()
                    found = join.push(**{side: some}).num_rows
                    taken[contender].append(perf_counter() - start)
                    counts.add(found)
                assert len(counts) == 1, "all find the same"
        speeds = {contender: batch / median(seconds) for contender, seconds in taken.items()}
        best = max(FIXED, key=speeds.__getitem__)
        slower = speeds[best] / speeds["auto"]
        what = f"{name}: best fixed ({best}) over auto"
        figures.append(Figure(f"phases.{len(figures)}", what, slower, "x", GOAL, at_most=True))
        plan = next(
            line for line in contenders["auto"].explain().splitlines() if line.startswith("find left")
        )
        detail[name] = {
            "rows_per_second": speeds,
            "seconds": {c: sum(s) for c, s in taken.items()},
            "plan": plan,
        }
    return figures, detail
