"""Backlog: one push that spans a thousand windows, as when a day is read again.

The same rows are joined three ways, in turn: in one push; in one push for each side, so that nothing is known of the second
while the first is stored; and in pushes of 1,024 rows a side, cut by hand. Each join is new, and counts its pairs. Beside
the loose condition there is a tight one, for which cutting is of no use.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import slidejoin as sj
from bench.report import Figure, Section, middle
from bench.stage import alone
from bench.workloads import SEED

ROWS, QUICK_ROWS = 200_000, 20_000
LENGTH = 50  # rows of a side, about: a window's length
LATENESS = 100 * LENGTH  # by how much the streams run apart, at most
BY_HAND = 1024
KEYS = 1 << 30
LOOSE, TIGHT = KEYS >> 6, KEYS >> 18  # half of the band: a 32nd of all pairs, and next to none
WAYS = ("one push", "one push a side", "cut by hand")


def measure(say: Callable[[str], None], *, quick: bool) -> Section:
    figures, detail = [], {}
    rows = QUICK_ROWS if quick else ROWS
    for name, reach in (("a loose band", LOOSE), ("a tight band", TIGHT)):
        say(f"a push that spans {rows // (2 * LENGTH):,} windows: {name}")
        run = alone("bench.backlog:rounds", rows=rows, reach=reach, count=1 if quick else 5)
        detail[name] = run
        what = f"a push of {rows:,} rows a side that spans {rows // (2 * LENGTH):,} windows, {name}"
        speed, spread = middle([2 * rows / turn["one push"] for turn in run["seconds"]])
        figures.append(Figure(f"backlog.{name}", what, speed, "rows/s", spread=spread))
        for way in WAYS[1:]:
            ratio, spread = middle([turn[way] / turn["one push"] for turn in run["seconds"]])
            figures.append(
                Figure(f"backlog.{name}.{way}", f"{what}: against {way}", ratio, "x", spread=spread)
            )
    return Section(figures, detail)


def rounds(rows: int, reach: int, count: int) -> dict[str, Any]:
    """In a fresh process."""
    rng = np.random.default_rng(SEED)
    sides = [{"ts": np.sort(rng.integers(0, rows, rows)), "x": rng.integers(0, KEYS, rows)} for _ in range(2)]
    seconds, pairs = [], set()
    for number in range(count + 1):
        turn = {}
        for way in WAYS:
            turn[way], found = joined(sides, reach, way)
            pairs.add(found)
        if number:  # the first round warms up
            seconds.append(turn)
    if len(pairs) > 1:
        raise ValueError(f"the ways found different numbers of pairs: {sorted(pairs)}")
    return {"rows": rows, "length": LENGTH, "pairs": pairs.pop(), "seconds": seconds}


def joined(sides: list[dict[str, Any]], reach: int, way: str) -> tuple[float, int]:
    """How long it took, and how many pairs there are."""
    join = sj.Join(f"abs(l.x - r.x) <= {reach}", window=sj.Time(LENGTH, on="ts"), lateness=LATENESS)
    rows = len(sides[0]["ts"])
    size = BY_HAND if way == "cut by hand" else rows
    pairs, start = 0, perf_counter()
    for at in range(0, rows, size):
        left, right = ({name: column[at : at + size] for name, column in side.items()} for side in sides)
        if way == "one push a side":
            pairs += join.push(left=left).num_rows + join.push(right=right).num_rows
        else:
            pairs += join.push(left=left, right=right).num_rows
    return perf_counter() - start, pairs
