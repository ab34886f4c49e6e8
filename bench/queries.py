"""What is joined on several keys: the two-dimensional band of seeds 001 and 004, and Q1 and Q3 of seed 002.

As in ``workloads``: streams from a seed, made in blocks, pushes of the two sides in turn, so that a plain join of batch
and window has exactly the pairs of the sliding window. Windows slide by ``slide`` rows at a time, as seed 002's do: a row
leaves together with its slide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.workloads import BLOCK, SEED, Push

SIDE = 10_000  # x and y of the two-dimensional band are uniform in 1..10^4
REACH = 10  # and match within +-10
STEPS = 1_000_000  # distances, fares and powers are in millionths of their deviation: float64 sums stay exact

CONDITIONS = {
    "band": f"abs(l.a - r.a) <= {REACH} AND abs(l.b - r.b) <= {REACH}",
    "q1": "l.a < r.a AND l.b > r.b",
    "q3": "l.a > r.a AND l.b < r.b",
}

# Beside the first two, on rows of three columns.
THIRD = {
    "q3": {
        "none": "",
        "always true": " AND l.c < r.c + 20000000",
        "a half": " AND l.c < r.c",
        "a hundredth": " AND abs(l.c - r.c) <= 17700",
    },
    "band": {
        "none": "",
        "always true": f" AND abs(l.c - r.c) <= {2 * SIDE}",
        "a half": " AND l.c < r.c",
        "a hundredth": f" AND abs(l.c - r.c) <= {SIDE // 200}",
    },
}


@dataclass(frozen=True)
class Query:
    """``correlation`` is that of the two keys: distance and fare of Q3 run together, the powers of Q1 do not."""

    kind: str
    window: int
    batch: int = 1 << 15
    correlation: float = 0.0
    slide: int = 1
    seed: int = SEED
    third: str | None = None  # of THIRD[kind]

    @property
    def condition(self) -> str:
        return CONDITIONS[self.kind] + ("" if self.third is None else THIRD[self.kind][self.third])

    @property
    def names(self) -> tuple[str, ...]:
        return ("a", "b") if self.third is None else ("a", "b", "c")

    @property
    def filling(self) -> int:
        """Rows of each side that fill its window."""
        return self.window

    def visible(self, seen: int) -> int:
        """The first row that is in the window of a stream that has shown so many."""
        return max(0, -(-(seen - self.window) // self.slide) * self.slide)

    def rows(self, side: int, first: int, count: int) -> dict[str, NDArray[np.int64]]:
        """A stretch of one stream, by column."""
        blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
        made = np.concatenate(
            [_block(self.seed, side, block, self.kind == "band", self.correlation) for block in blocks]
        )
        at = first - blocks[0] * BLOCK
        return {name: made[at : at + count, j].copy() for j, name in enumerate(self.names)}

    def pushes(self, first: int, rows: int, batch: int | None = None) -> Iterator[Push]:
        """Rows ``first`` to ``first + rows`` of both streams, batch by batch, the sides in turn."""
        size = batch or self.batch
        for at in range(first, first + rows, size):
            count = min(size, first + rows - at)
            for side in (0, 1):
                yield Push(side, at, pa.RecordBatch.from_pydict(self.rows(side, at, count)))


@lru_cache(maxsize=4)
def _block(seed: int, side: int, block: int, uniform: bool, correlation: float) -> NDArray[np.int64]:
    rng = np.random.default_rng((seed, side, block))
    if uniform:
        return rng.integers(1, SIDE + 1, (BLOCK, 3))
    first, noise, third = rng.normal(size=(3, BLOCK))
    second = correlation * first + np.sqrt(1 - correlation**2) * noise
    return (np.stack([first, second, third], axis=1) * STEPS).astype(np.int64)
