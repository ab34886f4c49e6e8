"""Figure 15 and the goals: whole joins through the public API, a C++ B+-tree, and a vectorised nested loop.

Contenders that are compared take turns, batch by batch or round by round, in one process; every figure is a median of
the rounds. A turn of the goals during which the host took a core away is taken again, and threads are compared push by
push. The nested loop compares every
key of the window with a probe's bounds, vectorised by the compiler and on all cores; it is measured on a sample of a
batch, as a whole one would take minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

import slidejoin as sj
from bench.panjoin.structures import FULL, LEAF, QUICK, Bench, Lines
from bench.quiet import undisturbed
from bench.report import Figure, middle
from bench.workloads import DOMAIN, Workload

SOURCE = Path(__file__).with_name("anchor.cpp")
STRUCTURES = ("rap_table", "wib_tree", "bi_sort_paper", "bi_sort")
TURN = 32  # batches of each side: the first ones find the caches full of what the contender before them had
SAMPLE = 128  # rows of a batch that the nested loop is measured on


class Running:
    """A join with full windows, pushed batch by batch."""

    def __init__(self, work: Workload, **options: Any) -> None:
        self.work, self.at = work, work.filling
        self.join = sj.Join(work.condition, window=sj.Rows(work.window), **options)
        for push in work.pushes(0, work.filling, batch=1 << 15):
            self._push(push)

    def _push(self, push: Any) -> sj.Matches:
        return self.join.push(left=push.batch) if push.side == 0 else self.join.push(right=push.batch)

    def speed(self, batches: int, batch: int | None = None) -> float:
        """Rows a second over the next batches of each side; nobody asks for the matches."""
        size = batch or self.work.batch
        pushes = list(self.work.pushes(self.at, batches * size, batch=size))
        self.at += batches * size
        start = perf_counter()
        for push in pushes:
            self._push(push)
        return sum(push.batch.num_rows for push in pushes) / (perf_counter() - start)

    def turn(self, batches: int) -> list[float]:
        """Seconds that each push of the next batches took, with taking the row numbers of all matches."""
        pushes = list(self.work.pushes(self.at, batches * self.work.batch))
        self.at += batches * self.work.batch
        taken = []
        for push in pushes:
            start = perf_counter()
            self._push(push).indices()
            taken.append(perf_counter() - start)
        return taken


# -- figure 15 -----------------------------------------------------------------------------------------


def by_batch(window: int, batches: tuple[int, ...], rounds: int, say: Callable[[str], None]) -> Lines:
    """15a: equality, one match a row."""
    speeds: dict[str, dict[int, list[float]]] = {}
    running = {}
    for kind in STRUCTURES:
        say(f"figure 15a: {kind}")
        running[kind] = Running(
            Workload("equality", window, match_rate=1), index=kind, flow="panjoin", threads=2
        )
        speeds[kind] = {batch: [] for batch in batches}
    for _ in range(rounds):
        for batch in batches:
            for kind, one in running.items():
                speeds[kind][batch].append(one.speed(max(2, min(64, (1 << 17) // batch)), batch))
    return {
        kind: [(batch, median(taken)) for batch, taken in points.items()] for kind, points in speeds.items()
    }


def by_selectivity(
    window: int,
    selectivities: tuple[int, ...],
    rounds: int,
    say: Callable[[str], None],
    kinds: tuple[str, ...] = STRUCTURES,
    batches: int = 16,  # so many that every turn has pushes that complete a subwindow
) -> Lines:
    """15b: a band, batches of 32 K, more and more matches; only counts are asked for."""
    running: dict[tuple[str, int], Running] = {}
    for selectivity in selectivities:
        say(f"figure 15: w = {window:,}, selectivity {selectivity}")
        for kind in kinds:
            work = Workload("band", window, match_rate=selectivity)
            running[kind, selectivity] = Running(work, index=kind, flow="panjoin", threads=2)
    taken: dict[tuple[str, int], list[float]] = {point: [] for point in running}
    for _ in range(rounds):
        for point, one in running.items():
            taken[point].append(one.speed(batches))
    return {kind: [(at, median(taken[kind, at])) for at in selectivities] for kind in kinds}


@numba.njit(nogil=True, boundscheck=False)
def count_all(keys: NDArray[np.int32], lows: NDArray[np.int32], highs: NDArray[np.int32]) -> int:
    """The nested loop: every key against every probe."""
    pairs = 0
    for i in range(len(lows)):
        low, high = lows[i], highs[i]
        found = 0
        for j in range(len(keys)):
            found += (keys[j] >= low) & (keys[j] <= high)
        pairs += found
    return pairs


def nested_loop(window: int, threads: int = 2) -> float:
    """Rows a second of a join that compares each row with the whole window, on several threads."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, DOMAIN, window, dtype=np.int32)
    lows = rng.integers(0, DOMAIN - 4096, SAMPLE, dtype=np.int32)
    highs = lows + np.int32(2048)
    shares = np.array_split(keys, threads)
    with ThreadPoolExecutor(threads) as pool:
        best = []
        for _ in range(3):
            start = perf_counter()
            list(pool.map(lambda share: count_all(share, lows, highs), shares))
            best.append(SAMPLE / (perf_counter() - start))
    return median(best)


# -- goals ---------------------------------------------------------------------------------------------


class Anchor:
    """The C++ B+-tree join, compiled here and now; without a compiler it is left out, and the page says so."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "anchor"
        compiler = shutil.which("g++")
        self.there = compiler is not None
        if compiler:
            command = [compiler, "-O3", "-march=native", "-o", str(self._program), str(SOURCE)]
            subprocess.run(command, check=True)

    def speed(self, work: Workload, tuples: int) -> tuple[float, float]:
        """Tuples a second joined, and rows a second inserted while its windows fill."""
        arguments = [str(number) for number in (work.window, work.reach, tuples, 1)]
        done = subprocess.run([str(self._program), *arguments], check=True, capture_output=True, text=True)
        joined, _, inserted, _ = done.stdout.split()
        return float(joined), float(inserted)


def goals(*, quick: bool, say: Callable[[str], None]) -> tuple[list[Figure], dict[str, Any]]:
    """Every figure with a goal, and what it was made from."""
    window, large = (1 << 17, 1 << 19) if quick else (1 << 20, 1 << 23)
    rounds, turns = (2, 2) if quick else (5, 50)
    figures: list[Figure] = []
    work = Workload("band", window)
    anchor = Anchor()
    say(f"goals: w = {window:,}")
    plans = {
        "one": {"threads": 1},
        "two": {"threads": 2},
        "panjoin": {"threads": 2, "flow": "panjoin"},
    }
    running = {name: Running(work, **options) for name, options in plans.items()}
    taken: dict[str, list[list[float]]] = {name: [] for name in plans}
    speeds: dict[str, list[float]] = {name: [] for name in (*plans, "anchor")}
    for number in range(turns + 1):
        for name, one in running.items():
            turn = undisturbed(partial(one.turn, TURN))
            if number:
                taken[name].append(turn)
                speeds[name].append(len(turn) * work.batch / sum(turn))
        if anchor.there and number:
            speeds["anchor"].append(undisturbed(lambda: anchor.speed(work, 100_000)[0]))
    at = f"w = 2^{window.bit_length() - 1}"

    def note(
        key: str,
        what: str,
        values: list[float],
        unit: str,
        goal: float | None = None,
        *,
        at_most: bool = False,
    ) -> None:
        value, spread = middle(values)
        figures.append(
            Figure(key, what, value, unit, None if quick else goal, at_most=at_most, spread=spread)
        )

    note("speed.one", f"{at}, batches of 32 K, 1 thread", speeds["one"], "rows/s", 10e6)
    note("speed.two", f"{at}, 2 threads", speeds["two"], "rows/s")
    note("speed.panjoin", f"{at}, 2 threads, flow panjoin", speeds["panjoin"], "rows/s")
    bench = Bench(QUICK if quick else FULL, say)
    inserting: dict[str, list[float]] = {"wib_tree": [], "bplus_tree": []}
    for _ in range(rounds):
        for kind, found in inserting.items():
            found.append(bench.insertion(kind, window, 1 << 12, window // LEAF))
    what = f"WiB+-Tree insertion, {at}, batches of 4 K, {LEAF} rows a leaf, against our own B+-tree's"
    note("speed.wib_against_own", what, ratios(inserting["wib_tree"], inserting["bplus_tree"]), "x", 3)
    if anchor.there:
        note("speed.anchor", f"{at}, C++ B+-tree, a tuple at a time", speeds["anchor"], "rows/s")
        note(
            "speed.vs_anchor",
            f"{at}, 1 thread against the C++ B+-tree",
            ratios(speeds["one"], speeds["anchor"]),
            "x",
            15,
        )
        what = f"WiB+-Tree insertion, {at}, batches of 4 K, {LEAF} rows a leaf, against the C++ B+-tree's"
        theirs = [anchor.speed(work, 100_000)[1] for _ in range(rounds)]
        note("speed.wib_insertion", what, ratios(inserting["wib_tree"], theirs), "x")
    one_thread, two_threads, manager = (by_place(taken[name], rounds) for name in ("one", "two", "panjoin"))
    note("speed.threads", f"{at}, 2 threads against 1", ratios(one_thread, two_threads), "x", 1.7)
    note("speed.flow", f"{at}, flow panjoin against single, 2 threads", ratios(two_threads, manager), "x")
    running.clear()
    say(f"goals: w = {large:,}")
    one = Running(Workload("band", large, match_rate=1), threads=2)
    many = [one.speed(4) for _ in range(rounds)]
    name = f"w = 2^{large.bit_length() - 1}"
    note("speed.large", f"{name}, batches of 32 K, 2 threads", many, "rows/s", 4e6)
    loop = nested_loop(large)
    note("speed.nested_loop", f"{name}: vectorised nested loop, 2 threads, {SAMPLE} rows", [loop], "rows/s")
    note(
        "speed.vs_nested_loop",
        f"{name}, against the nested loop",
        [speed / loop for speed in many],
        "x",
        1000,
    )
    del one
    say("goals: selectivity")
    flat = by_selectivity(window, (1, 16, 256, 4096, 1 << 14), rounds, say, ("bi_sort",), 8)["bi_sort"]
    values = [speed for _, speed in flat]
    note(
        "speed.flat",
        f"{at}, selectivity 2^0 to 2^14, counts: fastest over slowest",
        [max(values) / min(values)],
        "x",
        2,
        at_most=True,
    )
    detail = {"rounds": speeds, "flat": flat, "large": many, "compiler": anchor.there}
    return figures, detail


def by_place(turns: list[list[float]], groups: int) -> list[float]:
    """Seconds of a turn whose pushes each take as long as the middle one at its place, of as many groups of turns.

    Pushes are not alike: some merge long runs, at the same places of every turn. What the host does meanwhile falls on a
    few of those at a place, and so on none of their middles.
    """
    shares = [turns[group::groups] for group in range(groups)]
    return [float(np.median(np.array(share), axis=0).sum()) for share in shares]


def ratios(above: list[float], below: list[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]
