"""What each structure costs, and so which one the next subwindow gets.

Design      a small table of measured costs (``costs.json``, written by bench/calibrate.py): nanoseconds a row for
            inserting into a structure and for probing it, growing and complete, over batch sizes, subwindow sizes,
            selectivities and whether keys drift. From what a stream has shown while its last subwindow grew, the nearest
            entries give the cost of a stored row over its life: inserted once, then met by the other stream's probes,
            first in the growing subwindow and then in the complete ones.
Caution     BI-Sort is the plan unless another structure is cheaper by a clear margin: the table is of one machine, and
            plans that change for a few per cent cost more than they gain.
Reference   seed 000, the end of V-A4, which has the same inputs and gives the choice as a rule of thumb.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import numpy as np

from slidejoin.index.protocol import Int64s
from slidejoin.index.sizes import OWN, Sizes

USUAL = "bi_sort"
MARGIN = 0.8  # another structure must cost at most this part of the usual one: machines differ by less
DRIFTING = 0.5  # of the keys outside of where the subwindow before had nearly all of its own
SAMPLE = 16  # keys of a batch that drift is measured on
SUBWINDOWS = (2, 4, 8)  # to a window: what is weighed
PUSH = 200_000  # nanoseconds of a push whatever the index: what a structure saves of small batches is to be seen beside it


Weighed = TypeVar("Weighed")


class Seen:
    """What one side has shown since its last subwindow was completed."""

    def __init__(self) -> None:
        self.batches = self.rows = self.probes = self.pairs = 0
        self._keys: list[Int64s] = []
        self._before: tuple[int, int] | None = (
            None  # between these lay nearly all keys of the subwindow before
        )

    def stored(self, rows: int, keys: Int64s | None) -> None:
        """Rows were stored; ``keys`` in ascending order."""
        self.batches += 1
        self.rows += rows
        if keys is not None and keys.ndim == 1 and len(keys):  # the table is of indexes on one key
            self._keys.append(keys[:: max(1, len(keys) // SAMPLE)].copy())

    def probed(self, probes: int, pairs: int) -> None:
        """The other side's rows have probed, and found so many pairs."""
        self.probes += probes
        self.pairs += pairs

    def summed_up(self, window: int) -> Figures:
        """What there is to know, and begin anew; ``window`` is how many rows the side holds."""
        drift = 0.0
        if self._keys:
            keys = np.sort(np.concatenate(self._keys))
            if self._before is not None:
                low, high = self._before
                drift = float(np.mean((keys < low) | (keys > high)))
            edge = len(keys) // 20
            self._before = int(keys[edge]), int(keys[-1 - edge])
        figures = Figures(
            window=window,
            batch=max(1, round(self.rows / max(1, self.batches))),
            matches=self.pairs / max(1, self.probes),
            drift=drift,
            probes=self.probes / max(1, self.rows),
        )
        self.batches = self.rows = self.probes = self.pairs = 0
        self._keys = []
        return figures


class Figures(NamedTuple):
    """The planner's inputs: rows held, rows a batch, matches a probe, share of keys that drift, probes a stored row."""

    window: int
    batch: int
    matches: float
    drift: float
    probes: float

    def rounded(self) -> Figures:
        """The same for most plans: no choice hangs on the third digit."""
        matches, probes = (float(f"{figure:.2g}") for figure in (self.matches, self.probes))
        window, batch = (int(float(f"{figure:.2g}")) for figure in (self.window, self.batch))
        return Figures(window, batch, matches, round(self.drift, 1), probes)

    def __str__(self) -> str:
        keys = f"{self.drift:.0%} of the keys drift" if self.drift > DRIFTING else "keys steady"
        return f"batches of {self.batch:,}, {self.matches:,.3g} matches a probe, {keys}, {self.window:,} rows held"


class Choice(NamedTuple):
    """The structure of the next subwindow, how many subwindows make a window, why, and the sizes inside it."""

    kind: str
    subwindows: int
    reason: str
    sizes: Sizes = OWN


class Cost(NamedTuple):
    """One entry of the table: nanoseconds a row."""

    kind: str
    drifting: bool
    rows: int
    batch: int
    insert: float
    growing: dict[int, float]
    complete: dict[int, float]
    sizes: Sizes = OWN  # of partitions or a buffer, where they are not the structure's own choice


@cache
def table() -> tuple[Cost, ...]:
    """The measured costs."""
    text = files("slidejoin.plan").joinpath("costs.json").read_text(encoding="utf-8")
    return tuple(
        Cost(
            entry["kind"],
            entry["move"] == "increasing",
            entry["rows"],
            entry["batch"],
            entry["insert"],
            growing=by_selectivity(entry, "growing"),
            complete=by_selectivity(entry, "complete"),
            sizes=Sizes(**entry.get("sizes", {})),
        )
        for entry in json.loads(text)["costs"]
    )


@cache
def measured() -> tuple[tuple[str, Sizes], ...]:
    """The structures in the table, each with the sizes that it was measured with."""
    return tuple(dict.fromkeys((entry.kind, entry.sizes) for entry in table()))


def by_selectivity(entry: dict[str, Any], state: str) -> dict[int, float]:
    """The costs of probing in one state, by matches a probe."""
    return {
        int(matches): cost
        for name, cost in entry.items()
        for begin, _, matches in [name.partition(" ")]
        if begin == state
    }


@lru_cache(maxsize=64)  # a stream is much the same from subwindow to subwindow
def pick(figures: Figures, kinds: tuple[str, ...]) -> Choice:
    """The structure for rows like these, and its sizes, among those that can serve the condition."""
    able = set(kinds)
    costs = {
        (kind, sizes, subwindows): lifetime(kind, figures, subwindows, sizes)
        for kind, sizes in measured()
        if kind in able
        for subwindows in SUBWINDOWS
    }
    usual = (USUAL, OWN, SUBWINDOWS[0])
    if usual not in costs:
        return Choice(USUAL, SUBWINDOWS[0], "")
    kind, sizes, subwindows = clearly_best(costs, usual)
    cheapest: dict[str, str] = {}  # of each structure the sizes that suit it best
    for (name, inside, number), cost in sorted(costs.items(), key=lambda weighed: weighed[1]):
        if number == subwindows:
            cheapest.setdefault(name, f"{name}{said(inside)} {cost:,.0f}")
    return Choice(kind, subwindows, f"ns a row: {', '.join(cheapest.values())}; {figures}", sizes)


def suiting(kind: str, figures: Figures) -> Sizes:
    """The sizes of a structure that somebody has asked for; its own, unless others are better by a clear margin."""
    costs = {
        sizes: lifetime(kind, figures, SUBWINDOWS[0], sizes) for name, sizes in measured() if name == kind
    }
    return clearly_best(costs, OWN) if costs else OWN


def clearly_best(costs: dict[Weighed, float], usual: Weighed) -> Weighed:
    """What costs the least, if that is less by the margin than what is usual."""
    best = min(costs, key=costs.__getitem__)
    return best if costs[best] <= MARGIN * costs[usual] else usual


def said(sizes: Sizes) -> str:
    """Sizes in words."""
    words = [f"{name.replace('_', ' ')} {rows:,}" for name, rows in sizes.given.items()]
    return f" ({', '.join(words)})" if words else ""


def lifetime(kind: str, figures: Figures, subwindows: int, sizes: Sizes = OWN) -> float:
    """Nanoseconds that a stored row costs over its life, inserted and met by the probes of the other side."""
    rows = max(1, figures.window // subwindows)
    entry = nearest(kind, sizes, figures.drift > DRIFTING, rows, figures.batch)
    matches = figures.matches / subwindows
    growing, complete = (at_selectivity(costs, matches) for costs in (entry.growing, entry.complete))
    return PUSH / figures.batch + entry.insert + figures.probes * (growing + subwindows * complete)


@lru_cache(maxsize=1024)  # circumstances repeat, subwindow after subwindow
def nearest(kind: str, sizes: Sizes, drifting: bool, rows: int, batch: int) -> Cost:
    """The entry measured under the most similar circumstances."""

    def distance(entry: Cost) -> float:
        return abs(math.log(entry.rows / rows)) + abs(math.log(entry.batch / min(batch, rows)))

    return min(alike(kind, sizes, drifting), key=distance)


@cache
def alike(kind: str, sizes: Sizes, drifting: bool) -> tuple[Cost, ...]:
    """The entries of a structure of these sizes, of one kind of keys."""
    return tuple(e for e in table() if (e.kind, e.sizes, e.drifting) == (kind, sizes, drifting))


def at_selectivity(costs: dict[int, float], matches: float) -> float:
    """The cost of a probe with so many matches, by straight lines between those measured."""
    points = list(costs)  # in ascending order
    above = bisect_left(points, matches)
    if above in (0, len(points)):
        return costs[points[max(above - 1, 0)]]
    few, many = points[above - 1], points[above]
    return costs[few] + (costs[many] - costs[few]) * (matches - few) / (many - few)
