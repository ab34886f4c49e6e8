"""What is joined: two endless streams from a seed, offline, the same rows whoever asks and in whatever batches.

Design      a stream is made in blocks of 32,768 rows, each from a generator seeded by (seed, side, block), so any
            stretch of it can be made without what came before. Pushes alternate: left, right, left, ...; while one
            side's batch arrives the other side's window stands still, so a plain join of batch and window (all that
            Polars and DuckDB can do) has exactly the pairs of the sliding window.
Match rate  how many rows of the other window a row meets on average. Keys are uniform, so the rate is the window
            times the chance that two keys match; the band (or the number of keys) is chosen from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SEED = 20_260_105
BLOCK = 32_768  # rows made at a time
DOMAIN = 1 << 31  # keys are all the non-negative int32
TICKS = 64  # prices are in 64ths, as bonds are: differences are exact, so every engine means the same band

KINDS = ("band", "equality", "prices")


class Push(NamedTuple):
    """One side's batch, and the number of its first row in that stream."""

    side: int
    first: int
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Workload:
    """``kind``: a band on int32 keys, equality of int32 keys, or a band on float64 prices."""

    kind: str = "band"
    window: int = 1 << 20
    batch: int = 1 << 15
    match_rate: float = 2.0
    seed: int = SEED

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"workload kind {self.kind!r}; expected one of {', '.join(KINDS)}")

    @property
    def column(self) -> str:
        return "price" if self.kind == "prices" else "k"

    @property
    def reach(self) -> int:
        """Half the band: keys match that are at most so far apart. In ticks for prices."""
        return max(0, round((self.match_rate * DOMAIN / self.window - 1) / 2))

    @property
    def width(self) -> int | float:
        """``reach`` in the column's own unit."""
        return self.reach / TICKS if self.kind == "prices" else self.reach

    @property
    def keys(self) -> int:
        """Different keys that occur."""
        return max(1, round(self.window / self.match_rate)) if self.kind == "equality" else DOMAIN

    @property
    def condition(self) -> str:
        if self.kind == "equality":
            return "l.k = r.k"
        return f"abs(l.{self.column} - r.{self.column}) <= {self.width}"

    @property
    def filling(self) -> int:
        """Rows of each side that fill its window, in whole blocks so that every batch size gets to the same point."""
        return -(-self.window // BLOCK) * BLOCK

    def rows(self, side: int, first: int, count: int) -> NDArray[Any]:
        """The keys or prices of a stretch of one stream."""
        parts = []
        for block in range(first // BLOCK, -(-(first + count) // BLOCK)):
            values = _block(self.seed, side, block, self.keys)
            start = block * BLOCK
            parts.append(values[max(0, first - start) : max(0, first + count - start)])
        keys = np.concatenate(parts) if len(parts) > 1 else parts[0].copy()
        return keys / TICKS if self.kind == "prices" else keys

    def pushes(self, first: int, rows: int, batch: int | None = None) -> Iterator[Push]:
        """Rows ``first`` to ``first + rows`` of both streams, batch by batch, the sides in turn."""
        size = batch or self.batch
        for at in range(first, first + rows, size):
            count = min(size, first + rows - at)
            for side in (0, 1):
                values = self.rows(side, at, count)
                yield Push(side, at, pa.RecordBatch.from_arrays([pa.array(values)], names=[self.column]))


@lru_cache(maxsize=4)  # small batches ask for the same block many times
def _block(seed: int, side: int, block: int, keys: int) -> NDArray[np.int32]:
    return np.random.default_rng((seed, side, block)).integers(0, keys, BLOCK, dtype=np.int32)


def trades(side: int, first: int, count: int, *, seed: int = SEED) -> pa.RecordBatch:
    """A wider row, for measuring memory: time, price, quantity, account and a short text; one row a tick."""
    rng = np.random.default_rng((seed, side, first))
    names = np.array([f"SYM{number:04d}" for number in range(1000)])
    return pa.RecordBatch.from_pydict(
        {
            "ts": np.arange(first, first + count, dtype=np.int64),
            "price": rng.integers(0, DOMAIN, count) / TICKS,
            "qty": rng.integers(1, 1000, count, dtype=np.int32),
            "account": rng.integers(0, 1 << 62, count),
            "symbol": names[rng.integers(0, len(names), count)],
        }
    )
