"""Figures 10 to 13: one subwindow of each structure, filled and probed as the paper does.

Where ours would put a RaP-Table or a WiB+-Tree in order rather than look through it again and again, that is switched
off here: the figures are about the structures as the paper has them. These two copy what matches, so for high
selectivities their batches of probes are smaller, and a point copies 2^26 ids at most.

A batch is sorted before the clock starts (in PanJoin the manager does that), so inserting and probing are the
structure's own work, on one thread. Where a subwindow is large and the batch small, the subwindow starts out with
most of its rows and only the last ones are timed. The rounds of one figure take turns; every point is a median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedKeyList

from slidejoin.index import BiSort, BiSortPaper, BPlusTree, Index, RapTable, WibTree
from slidejoin.index.rap_table import spread

Int64s = NDArray[np.int64]
Lines = dict[str, list[tuple[float, float]]]  # label: (x, rows a second)

DOMAIN = 1 << 32
TIMED_BATCHES = 256  # batches that are timed for a point, at most
NEVER = 1 << 30  # rows looked through for each row held, before they are put in order
COPYING = ("rap_table", "wib_tree")
COPIED = 1 << 26  # ids that the probes of a batch may match
PROBED = 1 << 16  # rows that are probed for a point, at most
LEAF = 64  # rows a leaf on average where the paper compares with a B-tree: 8 M in 128 K leaves


@dataclass(frozen=True)
class Sizes:
    """How large: ``rows`` is the subwindow where the paper has 8 M."""

    rows: int
    batches: tuple[int, ...]
    selectivities: tuple[int, ...]
    rounds: int

    @property
    def partitions(self) -> tuple[int, ...]:
        """P: 1/1024, 1/128 and 1/16 of the rows; the paper's 8 K, 64 K and 512 K of 8 M."""
        return (self.rows >> 10, self.rows >> 7, self.rows >> 4)


FULL = Sizes(1 << 20, (32, 256, 2048, 1 << 14, 1 << 17), (1, 16, 256, 4096, 1 << 14), 3)
QUICK = Sizes(1 << 17, (32, 512, 1 << 13), (1, 64, 4096), 1)


def power(number: int) -> str:
    return f"2^{number.bit_length() - 1}" if number & (number - 1) == 0 else f"{number:,}"


@dataclass
class Bench:
    sizes: Sizes
    say: Callable[[str], None]
    _kept: dict[Any, Index] = field(default_factory=dict)

    # -- making ----------------------------------------------------------------------------------------

    @staticmethod
    def make(
        kind: str, rows: int, partitions: int | None = None, domain: int = DOMAIN, **options: Any
    ) -> Index:
        """An empty structure for a subwindow of so many rows in so many partitions, of keys below ``domain``."""
        if kind == "rap_table":
            count = partitions or rows >> 4
            splitters = spread(count, 0, max(1, domain - 1))
            return RapTable(partitions=count, splitters=splitters, expected=rows, sorting=NEVER)
        if kind == "wib_tree":
            # A leaf is cut when it is full, so it holds about three quarters of its width.
            width = max(8, round(rows / partitions * 4 / 3)) if partitions else 64
            return WibTree(leaf_width=width, patience=NEVER, expected=rows)
        if kind == "bi_sort_paper":
            return BiSortPaper(partitions=partitions, **options)
        if kind == "bplus_tree":
            return BPlusTree(expected=rows)
        return BiSort()

    def filled(self, kind: str, rows: int, partitions: int | None, domain: int) -> Index:
        """A full subwindow that still grows, as the newest does; kept for the next figure."""
        key = (kind, rows, partitions, domain)
        if key not in self._kept:
            keys = np.random.default_rng(rows).integers(0, domain, rows)
            index = self.make(kind, rows, partitions, domain)
            for at in range(0, rows, 1 << 14):
                some = keys[at : at + (1 << 14)]
                index.insert(index.arrange_entries(some, np.arange(at, at + len(some), dtype=np.int32)))
            self._kept[key] = index
        return self._kept[key]

    # -- one point -------------------------------------------------------------------------------------

    def insertion(
        self, kind: str, rows: int, batch: int, partitions: int | None = None, **options: Any
    ) -> float:
        """Rows inserted a second until the subwindow is full."""
        speeds = []
        for seed in range(self.sizes.rounds):
            keys = np.random.default_rng(seed).integers(0, DOMAIN, rows)
            index = self.make(kind, rows, partitions, **options)
            timed = min(rows, batch * TIMED_BATCHES)
            first = rows - timed
            for at in range(0, first, 1 << 16):
                some = keys[at : min(first, at + (1 << 16))]
                index.insert(index.arrange_entries(some, np.arange(at, at + len(some), dtype=np.int32)))
            seconds = 0.0
            for at in range(first, rows, batch):
                some = keys[at : min(rows, at + batch)]
                entries = index.arrange_entries(some, np.arange(at, at + len(some), dtype=np.int32))
                start = perf_counter()
                index.insert(entries)
                seconds += perf_counter() - start
            speeds.append(timed / seconds)
        return median(speeds)

    def probing(
        self,
        kind: str,
        rows: int,
        batch: int,
        selectivity: int,
        partitions: int | None = None,
        *,
        equal: bool = False,
    ) -> float:
        """Rows probed a second; ``selectivity`` is the matches of a probe in a full subwindow."""
        domain = max(1, rows // selectivity) if equal else DOMAIN
        reach = 0 if equal else max(0, selectivity * DOMAIN // rows // 2)
        index = self.filled(kind, rows, partitions, domain)
        most = COPIED // selectivity if kind in COPYING else PROBED
        batch = max(1, min(batch, most))
        count = max(batch, min(PROBED, batch * 64, most))
        speeds = []
        for seed in range(self.sizes.rounds):
            centres = np.random.default_rng(seed + 99).integers(0, domain, count)
            seconds = 0.0
            for at in range(0, count, batch):
                some = centres[at : at + batch]
                probes = index.arrange_probes(None, some - reach, some + reach, None)
                start = perf_counter()
                type(index).probe_all([index], probes)
                seconds += perf_counter() - start
            speeds.append(count / seconds)
        return median(speeds)

    # -- figures ---------------------------------------------------------------------------------------

    def by_batch(self, point: Callable[[int], float]) -> list[tuple[float, float]]:
        return [(batch, point(batch)) for batch in self.sizes.batches]

    def by_selectivity(self, point: Callable[[int], float]) -> list[tuple[float, float]]:
        return [(s, point(s)) for s in self.sizes.selectivities]

    def of_one(self, number: int, kind: str) -> Iterator[tuple[str, Lines]]:
        """Figures a to e, which are alike for the three structures."""
        rows, sizes = self.sizes.rows, self.sizes
        batch = 1 << 15 if rows > 1 << 17 else 1 << 12
        smaller = (rows >> 6, rows >> 3, rows)
        self.say(f"figure {number}: {kind}, insertion")
        yield (
            f"{number}a",
            {
                f"P = {power(p)}": self.by_batch(lambda n, p=p: self.insertion(kind, rows, n, p))
                for p in sizes.partitions
            },
        )
        yield (
            f"{number}b",
            {
                f"N_sub = {power(r)}": [
                    (n, self.insertion(kind, r, n, rows >> 10)) for n in sizes.batches if n < r
                ]
                for r in smaller
            },
        )
        self.say(f"figure {number}: {kind}, probing")
        yield (
            f"{number}c",
            {
                f"N_P = {rows // p}": self.by_batch(
                    lambda n, p=p: self.probing(kind, rows, n, 1, p, equal=True)
                )
                for p in sizes.partitions
            },
        )
        for letter, equal in (("d", True), ("e", False)):
            yield (
                f"{number}{letter}",
                {
                    f"P = {power(p)}": self.by_selectivity(
                        lambda s, p=p, equal=equal: self.probing(kind, rows, batch, s, p, equal=equal)
                    )
                    for p in sizes.partitions
                },
            )
        self._kept.clear()

    def adjustments(self) -> Lines:
        """Figure 10f: the normalised mean error of the partitions, subwindow after subwindow."""
        self.say("figure 10f: adjustments")
        rng = np.random.default_rng(10)
        rows = min(self.sizes.rows, 1 << 17)

        def normal(modes: int, sigma: float) -> Int64s:
            centres = (np.arange(modes) + 0.5) / modes * DOMAIN
            keys = rng.choice(centres, rows) + rng.normal(0, sigma * DOMAIN, rows)
            return np.clip(keys, 0, DOMAIN - 1).astype(np.int64)

        def ranked() -> Int64s:
            """View counts: 99 % of the rows in 0.01 % of the range."""
            return np.clip(
                429_496 * 0.01 ** (1 / rng.pareto(1.2, rows).clip(1e-9)) + rng.pareto(0.55, rows) * 100,
                0,
                DOMAIN - 1,
            ).astype(np.int64)

        data: dict[str, tuple[Callable[[], Int64s], int]] = {
            "U(1, 1, 1024)": (lambda: rng.integers(0, DOMAIN, rows), 1024),
            "U(0.01, 1, 1024)": (lambda: rng.integers(0, DOMAIN // 100, rows), 1024),
            "N(0.01, 1, 1024)": (lambda: normal(1, 0.01), 1024),
            "N(0.001, 16, 1024)": (lambda: normal(16, 0.001), 1024),
            "N(0.001, 16, 64)": (lambda: normal(16, 0.001), 64),
            "rank-size, 1024": (ranked, 1024),
        }
        lines: Lines = {}
        for label, (keys, partitions) in data.items():
            table = RapTable(
                partitions=partitions, splitters=spread(partitions, 0, DOMAIN - 1), expected=rows
            )
            lines[label] = []
            for iteration in range(6):
                table.insert(table.arrange_entries(keys(), np.arange(rows, dtype=np.int32)))
                lines[label].append((iteration, table.imbalance))
                table = table.successor()
        return lines

    def speedup(self) -> Lines:
        """Figure 11f: WiB+-Tree over a mutable sorted list with the same rows, by selectivity."""
        self.say("figure 11f: against sortedcontainers")
        rows = min(self.sizes.rows, 1 << 18)
        batch = 1 << 12
        keys = np.random.default_rng(1).integers(0, DOMAIN, rows)
        baseline = SortedKeyList(zip(keys.tolist(), range(rows), strict=True), key=lambda row: row[0])
        more = np.random.default_rng(2).integers(0, DOMAIN, batch)
        start = perf_counter()
        baseline.update(zip(more.tolist(), range(rows, rows + batch), strict=True))
        inserting = batch / (perf_counter() - start)
        mine = self.insertion("wib_tree", rows, batch, rows // LEAF)
        lines: Lines = {"insertion": [], "band probing": []}
        for s in self.sizes.selectivities:
            reach = s * DOMAIN // rows // 2
            asked = more[: max(16, min(512, (1 << 16) // s))].tolist()
            start = perf_counter()
            found = sum(len(list(baseline.irange_key(at - reach, at + reach))) for at in asked)
            theirs = len(asked) / (perf_counter() - start)
            assert found > 0
            lines["insertion"].append((s, mine / inserting))
            lines["band probing"].append((s, self.probing("wib_tree", rows, batch, s, rows // LEAF) / theirs))
        return lines

    def compared(self) -> Iterator[tuple[str, Lines]]:
        """Figure 13: all structures, insertion by batch size and band probing by selectivity."""
        self.say("figure 13: comparison")
        kinds = ("rap_table", "wib_tree", "bi_sort_paper", "bi_sort")
        rows = self.sizes.rows
        partitions = rows >> 7
        batch = 1 << 15 if rows > 1 << 17 else 1 << 12
        yield "13a", {k: self.by_batch(lambda n, k=k: self.insertion(k, rows, n, partitions)) for k in kinds}
        yield (
            "13b",
            {
                k: self.by_selectivity(lambda s, k=k: self.probing(k, rows, batch, s, partitions))
                for k in kinds
            },
        )

    def buffers(self) -> Lines:
        """Figure 12f: the paper's BI-Sort with buffers of several sizes, 64 K rows, small batches."""
        self.say("figure 12f: buffers")
        rows = min(self.sizes.rows, 1 << 16)
        small = (1, 8, 64, 512)
        return {
            f"B = {buffer}": [
                (n, self.insertion("bi_sort_paper", rows, n, rows >> 7, buffer=buffer)) for n in small
            ]
            for buffer in (1, 64, 1024, 8192)
        } | {"bi_sort (ours)": [(n, self.insertion("bi_sort", rows, n)) for n in small]}

    def all(self) -> Iterator[tuple[str, Lines]]:
        yield from self.of_one(10, "rap_table")
        yield "10f", self.adjustments()
        yield from self.of_one(11, "wib_tree")
        yield "11f", self.speedup()
        yield from self.of_one(12, "bi_sort_paper")
        yield "12f", self.buffers()
        yield from self.compared()
