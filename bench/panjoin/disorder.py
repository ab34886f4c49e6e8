"""Rows out of order: what they cost a band join over event time, whose window lets them reach back by half of it.

Joins with more and more of them take turns, push by push, so that a slow moment of the machine hits all of them. The
row numbers of all matches are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import slidejoin as sj
from bench.report import Figure, middle
from bench.workloads import DOMAIN, Workload

BATCH = 1 << 15
STRAYS = (0, 10_000, 1000, 100, 10, 2)  # one row in so many is out of order; 0: none
TURNS = 3  # windows that pass; the first two fill the state, as rows wait for late ones


def run(*, quick: bool, say: Callable[[str], None]) -> tuple[list[Figure], dict[str, Any]]:
    window = 1 << 17 if quick else 1 << 20
    condition = f"abs(l.k - r.k) <= {Workload('band', window).reach}"
    joins = {
        one_in: sj.Join(condition, window=sj.Time(window, on="t"), lateness=window // 2, threads=1)
        for one_in in STRAYS
    }
    rng = np.random.default_rng(11)
    speeds: dict[int, list[float]] = {one_in: [] for one_in in STRAYS}
    say(f"rows out of order: w = {window:,}")
    for at in range(0, TURNS * window, BATCH):
        for side in ("left", "right"):
            keys = rng.integers(0, DOMAIN, BATCH, dtype=np.int32)
            back, chance = rng.integers(0, window // 2, BATCH), rng.random(BATCH)
            for one_in, join in joins.items():
                times = np.arange(at, at + BATCH)
                if one_in:
                    times = np.where(chance < 1 / one_in, np.maximum(0, times - back), times)
                batch = pa.RecordBatch.from_arrays([pa.array(times), pa.array(keys)], names=["t", "k"])
                push = {side: batch}
                start = perf_counter()
                join.push(**push).indices()
                if at >= (TURNS - 1) * window:
                    speeds[one_in].append(BATCH / (perf_counter() - start))
    figures = []
    for one_in in STRAYS:
        what = f"one row in {one_in:,} out of order" if one_in else "in order"
        value, spread = middle(speeds[one_in])
        figures.append(Figure(f"disorder.{one_in}", what, value, "rows/s", spread=spread))
    shares = {one_in: median(speeds[one_in]) / median(speeds[0]) for one_in in STRAYS}
    return figures, {"shares": {str(one_in): share for one_in, share in shares.items()}}
