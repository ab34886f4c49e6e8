"""Rows of one stream on their way in: what a push became after intake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.kernels.order import mark_below_earlier
from slidejoin.window.payload import take

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

FEW = 32  # one row in so many, or less: then it pays to handle those apart from the others


class Source(Protocol):
    """Rows that results point into: by id, with their columns and their stream's row numbers."""

    def batches(self) -> Sequence[pa.RecordBatch]: ...

    def take(self, ids: Int32s, names: Sequence[str]) -> pa.RecordBatch: ...

    def seqs_of(self, ids: Int32s) -> Int64s: ...


class Numbers(NamedTuple):
    """One int64 a row: explicit, or counting up from ``first``."""

    first: int
    values: Int64s | None = None

    def of(self, ids: Int32s) -> Int64s:
        return self.first + ids.astype(np.int64) if self.values is None else self.values[ids]

    def slice(self, at: int, count: int) -> Numbers:
        if self.values is None:
            return Numbers(self.first + at)
        return Numbers(int(self.values[at]) if count else 0, self.values[at : at + count])

    def select(self, ids: Int32s) -> Numbers:
        return Numbers(0, self.of(ids))

    def array(self, rows: int) -> Int64s:
        if self.values is None:
            return np.arange(self.first, self.first + rows, dtype=np.int64)
        return self.values


def repeated(value: int, rows: int) -> Int64s:
    """The same number for every row, held once."""
    return np.ndarray((rows,), dtype=np.int64, buffer=np.array([value], dtype=np.int64), strides=(0,))


def out_of_order(positions: Int64s, frontier: int) -> tuple[NDArray[np.bool_], int]:
    """Which are below one that came before them, or below the frontier; and how many."""
    below = np.empty(len(positions), dtype=np.uint8)
    count = mark_below_earlier(positions, frontier, below)
    return below.view(bool), int(count)


class Reach(NamedTuple):
    """The positions of the other side's rows that arriving rows may join.

    Row i may join those within ``[lows[i], highs[i]]``; the four numbers are the least and greatest of these. Where they
    are the same for all rows, ``each`` need not be there.
    """

    rows: int
    low: int
    low_most: int
    high_least: int
    high: int
    each: tuple[Int64s, Int64s] | None = None

    @staticmethod
    def of(lows: Int64s, highs: Int64s) -> Reach:
        rows = len(lows)
        if rows == 0:
            return Reach(0, 0, 0, -1, -1)
        ends = int(lows.min()), int(lows.max()), int(highs.min()), int(highs.max())
        return Reach(rows, *ends, (lows, highs))

    @staticmethod
    def same(low: int, high: int, rows: int) -> Reach:
        """All rows may join the same."""
        return Reach(rows, low, low, high, high)

    @property
    def lows(self) -> Int64s:
        return repeated(self.low, self.rows) if self.each is None else self.each[0]

    @property
    def highs(self) -> Int64s:
        return repeated(self.high, self.rows) if self.each is None else self.each[1]

    @property
    def alike(self) -> bool:
        """Whether all rows may join the same."""
        return self.low == self.low_most and self.high_least == self.high

    @property
    def bounds(self) -> tuple[Int64s, Int64s]:
        """``lows`` and ``highs``, or the single bounds of all rows."""
        return (repeated(self.low, 1), repeated(self.high, 1)) if self.alike else (self.lows, self.highs)

    def slice(self, at: int, count: int) -> Reach:
        if self.alike:
            return self._replace(rows=count, each=None)
        return Reach.of(self.lows[at : at + count], self.highs[at : at + count])

    def select(self, rows: Int32s | NDArray[np.bool_]) -> Reach:
        return Reach.of(self.lows[rows], self.highs[rows])


NO_REACH = Reach(0, 0, 0, -1, -1)


class Arrivals(NamedTuple):
    """Accepted rows of one side, in arrival order.

    ``seqs`` are their row numbers in the stream as pushed. ``positions`` are what the window measures:
    event-time ticks, or arrival numbers for count windows. ``ranks`` are arrival ranks among all rows of the
    push, both sides.
    """

    side: int
    batch: pa.RecordBatch
    rows: int  # of the batch, which takes longer to tell
    seqs: Numbers
    positions: Numbers
    reach: Reach = NO_REACH
    ranks: Numbers = Numbers(0)

    def slice(self, at: int, count: int) -> Arrivals:
        """Consecutive rows."""
        if at == 0 and count >= self.rows:
            return self
        count = min(count, self.rows - at)
        return Arrivals(
            self.side,
            self.batch.slice(at, count),
            count,
            self.seqs.slice(at, count),
            self.positions.slice(at, count),
            self.reach.slice(at, count),
            self.ranks.slice(at, count),
        )

    def select(self, ids: Int32s) -> Arrivals:
        """Some of the rows, in ascending order of ids."""
        return Arrivals(
            self.side,
            self.batch.take(pa.array(ids)),
            len(ids),
            self.seqs.select(ids),
            self.positions.select(ids),
            self.reach.select(ids),
            self.ranks.select(ids),
        )

    def batches(self) -> Sequence[pa.RecordBatch]:
        """The rows, to take some of them."""
        return (self.batch,)

    def take(self, ids: Int32s, names: Sequence[str]) -> pa.RecordBatch:
        return take(self.batch, ids, names)

    def seqs_of(self, ids: Int32s) -> Int64s:
        return self.seqs.of(ids)
