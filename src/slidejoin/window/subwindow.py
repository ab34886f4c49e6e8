"""A subwindow: consecutive arrivals of one stream, with an index for each branch of the condition.

Design      PanJoin's unit (seed 000, III-A): only the newest subwindow of a stream takes rows; a complete one
            never changes and is dropped whole. What may be forgotten and rebuilt (indexes) hangs off what
            may not (rows, row numbers, positions, match marks).
Invariants  row ids are 0..rows-1 in arrival order; ``low``/``high`` bound the positions; each index holds the
            rows with valid keys that passed the branch's filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.condition import Ends
from slidejoin.index import Index
from slidejoin.kernels.order import count_below
from slidejoin.pools import ALONE, Crew
from slidejoin.window.arrivals import Arrivals, Int32s, Int64s
from slidejoin.window.payload import Payload
from slidejoin.window.timeline import scaled

NO_ROWS = np.empty(0, dtype=np.int64)
NO_IDS = np.empty(0, dtype=np.int32)
COMPACTING = Lock()  # one for all: compacting is rare


class Column:
    """An int64 a row that grows with the subwindow; costs no memory while the numbers are consecutive."""

    def __init__(self) -> None:
        self.rows = 0
        self.first = 0
        self._values: Int64s | None = None

    def append(self, first: int, values: Int64s | None, count: int) -> None:
        if self._values is None and self._continues(first, values, count):
            if self.rows == 0 and count:
                self.first = first if values is None else int(values[0])
            self.rows += count
            return
        if self._values is None:
            self._values = np.arange(self.first, self.first + self.rows, dtype=np.int64)
        if self.rows + count > len(self._values):
            grown = np.empty(max(self.rows + count, self.rows * 3 // 2), dtype=np.int64)
            grown[: self.rows] = self._values[: self.rows]
            self._values = grown
        self._values[self.rows : self.rows + count] = (
            np.arange(first, first + count) if values is None else values
        )
        self.rows += count

    def _continues(self, first: int, values: Int64s | None, count: int) -> bool:
        if values is None:
            return self.rows == 0 or first == self.first + self.rows
        if count == 0:
            return True
        start = int(values[0])
        consecutive = int(values[-1]) - start == count - 1 and bool(np.all(np.diff(values) == 1))
        return consecutive and (self.rows == 0 or start == self.first + self.rows)

    @property
    def values(self) -> Int64s:
        """The explicit numbers; empty where they count up from ``first``."""
        return NO_ROWS if self._values is None else self._values[: self.rows]

    def of(self, ids: Int32s) -> Int64s:
        return self.first + ids.astype(np.int64) if self._values is None else self._values[ids]

    def select(self, ids: Int32s | slice) -> Column:
        """Some of the numbers, in a column that holds nothing else."""
        some = Column()
        if self._values is None and isinstance(ids, slice):
            some.first, some.rows = self.first + ids.start, ids.stop - ids.start
        else:
            values = self.of(ids) if isinstance(ids, np.ndarray) else self.values[ids]
            some.append(0, values, len(values))
            some.trim()
        return some

    def extremes(self) -> tuple[int, int]:
        """The least and the greatest; there are some."""
        if self._values is None:
            return self.first, self.first + self.rows - 1
        values = self.values
        return int(values.min()), int(values.max())

    def array(self) -> Int64s:
        if self._values is None:
            return np.arange(self.first, self.first + self.rows, dtype=np.int64)
        return self._values[: self.rows]

    def trim(self, same: Int64s | None = None) -> None:
        """No more rows will come: give back the room to grow, or share an equal array that is held anyway."""
        if self._values is not None:
            self._values = same if same is not None else self._values[: self.rows].copy()

    def copy(self) -> Column:
        twin = Column()
        twin.rows, twin.first, twin._values = self.rows, self.first, self._values
        return twin

    @property
    def nbytes(self) -> int:
        return 0 if self._values is None or self._values.base is not None else self._values.nbytes


class Subwindow:
    """Consecutive rows of one stream and what is known about them."""

    def __init__(self, schema: pa.Schema, *, marked: bool, start: int, number: int) -> None:
        self.number = number  # counts the stream's subwindows, so it orders them by age
        self.payload = Payload(schema)
        self.seqs = Column()
        self.positions = Column()
        self.low, self.high = 0, -1
        self.start = start  # the stream's greatest position when this subwindow was begun
        self.complete = False
        self.dead = 0  # rows that have left the window, not yet dropped
        self.dead_below: int | None = None  # the bound that `dead` was counted for
        self.ascending = True  # positions never decrease: those that left are a prefix
        self.marks: NDArray[np.uint8] | None = np.empty(0, dtype=np.uint8) if marked else None
        self.indexes: list[Index] = []
        # Of the keys that a branch only watches; None if it watches none, or one of them is NULL.
        self.ends: list[Ends | None] = []
        self.cut = 0  # ids below this have been dropped from the indexes

    @property
    def rows(self) -> int:
        return self.payload.rows

    @property
    def live(self) -> int:
        return self.rows - self.dead

    def append(self, arrivals: Arrivals) -> int:
        """Add rows; returns the id of the first."""
        first, count = self.rows, arrivals.rows
        positions = arrivals.positions.values
        low = arrivals.positions.first if positions is None else int(positions.min())
        high = low + count - 1 if positions is None else int(positions.max())
        self.payload.append(arrivals.batch)  # first: whoever undoes this goes by the number of rows
        if self.ascending:
            ordered = positions is None or bool(np.all(positions[1:] >= positions[:-1]))
            self.ascending = ordered and (first == 0 or low >= self.high)
        self.low, self.high = (low, high) if first == 0 else (min(self.low, low), max(self.high, high))
        self.seqs.append(arrivals.seqs.first, arrivals.seqs.values, count)
        self.positions.append(arrivals.positions.first, positions, count)
        if self.marks is not None:
            if first + count > len(self.marks):
                grown = np.zeros(max(first + count, 2 * first), dtype=np.uint8)
                grown[:first] = self.marks[:first]
                self.marks = grown
            else:
                self.marks[first : first + count] = 0
        return first

    def finish(self, time_column: str | None, crew: Crew) -> None:
        """No more rows will come. ``time_column`` holds the positions themselves, if some column does."""
        self.complete = True
        self.payload.consolidate()
        self.seqs.trim()
        self.positions.trim(self._shared_positions(time_column))
        if self.marks is not None:
            self.marks = self.marks[: self.rows].copy()
        for index in self.indexes:
            index.merge(crew)

    def _shared_positions(self, time_column: str | None) -> Int64s | None:
        if time_column is None or self.rows == 0:
            return None
        column = self.payload.batches()[0].column(time_column)
        if column.null_count or column.type.bit_width != 64:
            return None
        shared: Int64s = column.view(pa.int64()).to_numpy()
        return shared

    def expire(self, bound: int) -> Int32s:
        """Count rows with positions below ``bound`` as gone; returns the ids that had not been, if rows are marked."""
        before = self.dead_below
        self.dead_below = bound
        if self.rows == 0 or self.low >= bound:
            return NO_IDS
        if self.ascending:
            was = self.dead
            if self.high < bound:
                self.dead = self.rows
            elif len(self.positions.values) == 0:
                self.dead = max(was, bound - self.positions.first)
            else:
                self.dead = int(np.searchsorted(self.positions.values, bound))
            return np.arange(was, self.dead, dtype=np.int32)
        positions = self.positions.array()
        self.dead = int(count_below(positions, bound))
        if self.marks is None:  # nobody asks which
            return NO_IDS
        gone = positions < bound
        if before is not None:
            gone &= positions >= before
        return np.flatnonzero(gone).astype(np.int32)

    @property
    def lowest(self) -> int:
        """The least position that a probe can still meet here, or less."""
        # Rows that came out of order after the cut may be below the row that it was made at.
        if self.cut == 0 or not self.ascending:
            return self.low
        return int(self.positions.of(np.array([self.cut], dtype=np.int32))[0])

    def compact(self) -> None:
        """Drop the rows that have left from the indexes, where they are a prefix.

        Safe beside probes of other threads: they see the rows, or see ``lowest`` raised.
        """
        with COMPACTING:
            if not self.ascending or self.dead <= self.cut:
                return
            for index in self.indexes:
                index.drop_below(self.dead)
            self.cut = self.dead

    def renewed(self, time_column: str | None, crew: Crew = ALONE) -> Subwindow:
        """The rows that have not left, as a subwindow of their own; indexes of rows in arrival order move there.

        This one keeps everything else, for results that point into it and for falling back.
        """
        alive = slice(self.dead, self.rows) if self.ascending else self.alive()
        twin = Subwindow(
            self.payload.schema, marked=self.marks is not None, start=self.start, number=self.number
        )
        twin.payload = self.payload.select(alive)
        twin.seqs, twin.positions = self.seqs.select(alive), self.positions.select(alive)
        twin.low, twin.high = twin.positions.extremes()
        twin.positions.trim(twin._shared_positions(time_column))
        twin.complete, twin.ascending, twin.dead_below = True, self.ascending, self.dead_below
        if self.marks is not None:
            twin.marks = self.marks[alive].copy()
        if self.ascending:
            twin.indexes, self.indexes = self.indexes, []
            twin.ends = self.ends  # those of rows that are gone do no harm
            for index in twin.indexes:
                index.drop_below(self.dead, self.dead, crew)
        return twin

    def alive(self) -> Int32s:
        """The ids of rows that have not left."""
        if self.ascending:
            return np.arange(self.dead, self.rows, dtype=np.int32)
        bound = self.low if self.dead_below is None else self.dead_below
        return np.flatnonzero(self.positions.array() >= bound).astype(np.int32)

    def unmarked(self, ids: Int32s) -> Int32s:
        assert self.marks is not None
        alone: Int32s = ids[self.marks[ids] == 0]
        return alone

    def take(self, ids: Int32s, names: Sequence[str]) -> pa.RecordBatch:
        return self.payload.take(ids, names)

    def seqs_of(self, ids: Int32s) -> Int64s:
        return self.seqs.of(ids)

    def rescaled(self, factor: int) -> Subwindow:
        """The same rows with positions on a finer scale; this subwindow stays as it is."""
        values = scaled(self.positions.array(), factor, "stored")
        twin = self.copy()
        twin.positions = Column()
        twin.positions.append(0, values, len(values))
        twin.low, twin.high, twin.start = self.low * factor, self.high * factor, self.start * factor
        twin.dead_below = None if self.dead_below is None else self.dead_below * factor
        return twin

    def copy(self) -> Subwindow:
        """A twin to fall back to: appending, expiring or completing one leaves the other as it was.

        It has no indexes: falling back is rare, and they can be built again. Match marks are shared; whoever
        sets them keeps a journal.
        """
        twin = Subwindow.__new__(Subwindow)
        state: dict[str, Any] = dict(self.__dict__)
        state["payload"] = self.payload.copy()
        state["seqs"], state["positions"] = self.seqs.copy(), self.positions.copy()
        state["indexes"], state["ends"], state["cut"] = [], [], 0
        twin.__dict__.update(state)
        return twin

    @property
    def nbytes(self) -> int:
        held = self.payload.nbytes + self.seqs.nbytes + self.positions.nbytes
        held += 0 if self.marks is None else self.marks.nbytes
        return held + sum(index.nbytes for index in self.indexes)

    def check(self) -> None:
        rows = self.rows
        assert self.seqs.rows == self.positions.rows == rows, "every row has a number and a position"
        assert sum(batch.num_rows for batch in self.payload.batches()) == rows, "every row is held"
        positions = self.positions.array()
        if rows:
            assert (int(positions.min()), int(positions.max())) == (self.low, self.high), "bounds are exact"
            assert not self.ascending or bool(np.all(np.diff(positions) >= 0)), "ascending means so"
        if self.dead_below is not None:
            assert self.dead == int(np.count_nonzero(positions < self.dead_below)), "dead rows are counted"
        for index in self.indexes:
            index.check()
            assert index.entries <= rows, "no more entries than rows"
