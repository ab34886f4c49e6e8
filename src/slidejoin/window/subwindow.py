"""A subwindow: consecutive arrivals of one stream, with an index for each branch of the condition.

Design      PanJoin's unit (seed 000, III-A): only the newest subwindow of a stream takes rows; a complete one
            never changes and is dropped whole. What may be forgotten and rebuilt (indexes) hangs off what
            may not (rows, row numbers, positions, match marks).
Late buffer rows that are out of order are stored like any other, but found apart, if they are few: on a shelf with
            indexes and bounds of its own (III-G). So the other rows ascend with time and their bounds stay close:
            a probe that reaches for late ones need not search them, and what it finds among them seldom needs a
            look at its time. Where many rows are out of order, all are on one shelf.
Invariants  row ids are 0..rows-1 in arrival order; ``low``/``high`` bound the positions; a row is on the late shelf if
            its id is among ``late_ids``, on the timely one otherwise; each index of a shelf holds those of its rows
            with valid keys that passed the branch's filter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.condition import Ends
from slidejoin.index import Index
from slidejoin.kernels.order import count_below
from slidejoin.pools import ALONE, Crew
from slidejoin.window.arrivals import FEW, Arrivals, Int32s, Int64s, out_of_order
from slidejoin.window.payload import Payload
from slidejoin.window.timeline import scaled

NO_ROWS = np.empty(0, dtype=np.int64)
HANDFUL = 32  # late rows that are few however few rows there are
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
        twin = Column.__new__(Column)
        twin.__dict__.update(self.__dict__)
        return twin

    @property
    def nbytes(self) -> int:
        return 0 if self._values is None or self._values.base is not None else self._values.nbytes


class Shelf:
    """Rows of a subwindow that are found together: an index for each branch, and the bounds of their positions."""

    __slots__ = ("ascending", "busy", "cut_below", "high", "indexes", "low", "lowest", "passed_over")

    def __init__(self) -> None:
        self.indexes: list[Index] = []
        self.low, self.high = 0, -1
        self.lowest = 0  # the least position that a probe can still meet here, or less
        self.ascending = True  # positions never decrease: those that left are a prefix
        self.cut_below: int | None = None  # rows below this position have been dropped from the indexes
        self.busy = (
            False  # so much was found here that looking at it again costs more than dropping what has left
        )
        self.passed_over = False  # the last search left out what has left

    def append(self, low: int, high: int, *, ordered: bool) -> None:
        """Rows have come whose positions are within these bounds."""
        if self.empty:
            self.low, self.high, self.lowest, self.ascending = low, high, low, ordered
            return
        self.ascending = self.ascending and ordered and low >= self.high
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.lowest = min(self.lowest, low)  # those dropped may be above a row that came out of order since

    @property
    def empty(self) -> bool:
        return self.high < self.low

    def bare(self) -> Shelf:
        """The same rows without indexes."""
        twin = Shelf()
        twin.low, twin.high, twin.lowest, twin.ascending = self.low, self.high, self.low, self.ascending
        return twin


class Subwindow:
    """Consecutive rows of one stream and what is known about them."""

    def __init__(self, payload: Payload, *, marked: bool, start: int, number: int) -> None:
        self.number = number  # counts the stream's subwindows, so it orders them by age
        self.payload = payload
        self.seqs = Column()
        self.positions = Column()
        self.low, self.high = 0, -1
        self.start = start  # the stream's greatest position when this subwindow was begun
        self.complete = False
        self.dead = 0  # rows that have left the window, not yet dropped
        self.dead_below: int | None = None  # the bound that `dead` was counted for
        self.marks: NDArray[np.uint8] | None = np.empty(0, dtype=np.uint8) if marked else None
        # Where the stream stood when this subwindow was begun: rows below it are out of order. None for the first.
        self.since: int | None = None
        self.timely, self.late = Shelf(), Shelf()
        self.late_ids = NO_IDS
        # Of the keys that a branch only watches; None if it watches none, or one of them is NULL.
        self.ends: list[Ends | None] = []

    @property
    def rows(self) -> int:
        return self.payload.rows

    @property
    def live(self) -> int:
        return self.rows - self.dead

    @property
    def shelves(self) -> Iterator[Shelf]:
        """Those with rows."""
        if not self.timely.empty:
            yield self.timely
        if not self.late.empty:
            yield self.late

    def append(self, arrivals: Arrivals) -> int:
        """Add rows; returns the id of the first."""
        first, count = self.rows, arrivals.rows
        positions = arrivals.positions.values
        low = arrivals.positions.first if positions is None else int(positions.min())
        high = low + count - 1 if positions is None else int(positions.max())
        self.payload.append(arrivals.batch)  # first: whoever undoes this goes by the number of rows
        late, ordered = (None, True) if positions is None else self._late_of(positions)
        if positions is None or late is None:
            self.timely.append(low, high, ordered=ordered)
        else:
            self._shelve(positions, late, first)
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

    def _late_of(self, positions: Int64s) -> tuple[NDArray[np.bool_] | None, bool]:
        """Which of the rows that come are out of order, if few are, with those that have come; and whether none is.

        That is below one that came before, or below where this subwindow began: timely rows that ascend are of its time.
        """
        shelf = self.timely
        if not shelf.ascending:
            return None, False
        reached = [bound for bound in (self.since, None if shelf.empty else shelf.high) if bound is not None]
        late, count = out_of_order(positions, max(reached, default=int(positions[0])))
        few = FEW * (len(self.late_ids) + count) <= max(self.rows, HANDFUL * FEW)
        return late if count and few else None, count == 0

    def _shelve(self, positions: Int64s, late: NDArray[np.bool_], first: int) -> None:
        """Rows have come of which some are late."""
        belated, timely = positions[late], positions[~late]
        if self.late.empty:
            self.late.indexes = [type(index)() for index in self.timely.indexes]
        self.late.append(int(belated.min()), int(belated.max()), ordered=False)
        self.late_ids = np.concatenate([self.late_ids, first + np.flatnonzero(late).astype(np.int32)])
        if len(timely):
            self.timely.append(int(timely[0]), int(timely[-1]), ordered=True)

    def late_among(self, first: int, count: int) -> NDArray[np.bool_] | None:
        """Which of some consecutive rows are late; None if none is."""
        if not len(self.late_ids):
            return None
        begin, end = np.searchsorted(self.late_ids, (first, first + count))
        if begin == end:
            return None
        late = np.zeros(count, dtype=bool)
        late[self.late_ids[begin:end] - first] = True
        return late

    def finish(self, time_column: str | None, crew: Crew) -> None:
        """No more rows will come. ``time_column`` holds the positions themselves, if some column does."""
        self.complete = True
        if self.payload.gathered or time_column is not None:
            self.payload.consolidate()
        self.seqs.trim()
        self.positions.trim(self._shared_positions(time_column))
        if self.marks is not None:
            self.marks = self.marks[: self.rows].copy()
        for shelf in self.shelves:
            for index in shelf.indexes:
                index.merge(crew)

    def _shared_positions(self, time_column: str | None) -> Int64s | None:
        batches = self.payload.batches()
        if time_column is None or len(batches) != 1:
            return None
        column = batches[0].column(time_column)
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
        was = self.dead
        if self.high < bound:
            self.dead = self.rows
        elif self.timely.empty or self.timely.low >= bound:
            self.dead = self._late_below(bound)
        elif self.timely.ascending:
            self.dead = self._timely_from(bound)[0] + self._late_below(bound)
        else:
            self.dead = int(count_below(self.positions.array(), bound))
        if self.marks is None:  # nobody asks which
            return NO_IDS
        if self.timely.ascending and not len(self.late_ids):
            return np.arange(was, self.dead, dtype=np.int32)
        positions = self.positions.array()
        gone = positions < bound
        if before is not None:
            gone &= positions >= before
        return np.flatnonzero(gone).astype(np.int32)

    def _late_below(self, bound: int) -> int:
        late = self.late_ids
        return int(np.count_nonzero(self.positions.of(late) < bound)) if len(late) else 0

    def _timely_from(self, bound: int) -> tuple[int, int]:
        """How many timely rows, which ascend, are below the bound, and the id of the first that is not."""
        late = self.late_ids
        if not len(late):
            positions = self.positions.values
            explicit = len(positions) > 0
            below = int(np.searchsorted(positions, bound)) if explicit else bound - self.positions.first
            below = min(max(below, 0), self.rows)
            return below, below
        passed = late - np.arange(len(late), dtype=np.int32)  # timely rows that came before each late one

        def id_of(number: int) -> int:
            return number + int(np.searchsorted(passed, number, side="right"))

        timely = range(self.rows - len(late))
        below = bisect_left(timely, bound, key=lambda number: self._position_of(id_of(number)))
        return below, id_of(below)

    def first_from(self, bound: int) -> int:
        """The first of the timely rows, which ascend, that is not below the bound."""
        return self._timely_from(bound)[1]

    def compact(self, crew: Crew = ALONE) -> None:
        """Drop the timely rows that have left from the indexes, where they are a prefix.

        Safe beside probes of other threads: they see the rows, or see ``lowest`` raised.
        """
        with COMPACTING:
            shelf, bound = self.timely, self.dead_below
            if not shelf.ascending or bound is None or not shelf.lowest < bound <= shelf.high:
                return
            first = self.first_from(bound)
            for index in shelf.indexes:
                index.drop_below(first, crew=crew)
            shelf.cut_below = bound
            shelf.lowest = self._position_of(first)

    def _position_of(self, row: int) -> int:
        return int(self.positions.of(np.array([row], dtype=np.int32))[0])

    def renewed(self, time_column: str | None, crew: Crew = ALONE) -> Subwindow:
        """The rows that have not left, as a subwindow of their own; indexes of rows in arrival order move there.

        This one keeps everything else, for results that point into it and for falling back.
        """
        bound = self.dead_below
        assert bound is not None
        first = self._first_to_move(bound)
        kept = self.alive() if first is None else slice(first, self.rows)
        payload, marked = self.payload.select(kept), self.marks is not None
        twin = Subwindow(payload, marked=marked, start=self.start, number=self.number)
        twin.seqs, twin.positions = self.seqs.select(kept), self.positions.select(kept)
        twin.low, twin.high = twin.positions.extremes()
        twin.positions.trim(twin._shared_positions(time_column))
        twin.complete, twin.dead_below, twin.since = True, bound, self.since
        if self.marks is not None:
            twin.marks = self.marks[kept].copy()
        if first is None:
            twin.timely, twin.late = self.timely.bare(), self.late.bare()
            twin.late_ids = np.flatnonzero(np.isin(self.alive(), self.late_ids)).astype(np.int32)
            return twin
        twin.late_ids = self.late_ids[np.searchsorted(self.late_ids, first) :] - np.int32(first)
        twin.dead = twin._late_below(bound)
        twin.timely, twin.late = self.timely, self.late
        self.timely, self.late = self.timely.bare(), self.late.bare()
        twin.timely.low = twin.timely.lowest = twin._position_of(0)
        twin.ends = self.ends  # those of rows that are gone do no harm
        for shelf in twin.shelves:
            for index in shelf.indexes:
                index.drop_below(first, first, crew)
        return twin

    def _first_to_move(self, bound: int) -> int | None:
        """The first row of those that can be copied as they lie, so that ids only move; None if rows must be picked.

        Where timely rows ascend, what came before the first of them that is left has left too. Late ones that came
        after it come along, gone or not, if they are few.
        """
        if not self.timely.ascending or not self.timely.low < bound <= self.timely.high:
            return None
        first = self.first_from(bound)
        late = len(self.late_ids) - int(np.searchsorted(self.late_ids, first))
        return first if FEW * late <= self.rows - first else None

    def alive(self) -> Int32s:
        """The ids of rows that have not left."""
        if self.dead == 0:
            return np.arange(self.rows, dtype=np.int32)
        bound = self.low if self.dead_below is None else self.dead_below
        return np.flatnonzero(self.positions.array() >= bound).astype(np.int32)

    def unmarked(self, ids: Int32s) -> Int32s:
        assert self.marks is not None
        alone: Int32s = ids[self.marks[ids] == 0]
        return alone

    def batches(self) -> Sequence[pa.RecordBatch]:
        """The rows, to take some of them."""
        self.payload.gathered = True
        return self.payload.batches()

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
        twin.since = None if self.since is None else self.since * factor
        for shelf in (twin.timely, twin.late):
            shelf.low, shelf.high, shelf.lowest = shelf.low * factor, shelf.high * factor, shelf.low * factor
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
        state["timely"], state["late"], state["ends"] = self.timely.bare(), self.late.bare(), []
        twin.__dict__.update(state)
        return twin

    @property
    def nbytes(self) -> int:
        held = self.payload.nbytes + self.seqs.nbytes + self.positions.nbytes
        held += 0 if self.marks is None else self.marks.nbytes
        held += self.late_ids.nbytes
        return held + sum(index.nbytes for shelf in self.shelves for index in shelf.indexes)

    def check(self) -> None:
        rows = self.rows
        assert self.seqs.rows == self.positions.rows == rows, "every row has a number and a position"
        assert sum(batch.num_rows for batch in self.payload.batches()) == rows, "every row is held"
        positions = self.positions.array()
        if rows:
            assert (int(positions.min()), int(positions.max())) == (self.low, self.high), "bounds are exact"
            late = np.isin(np.arange(rows), self.late_ids)
            assert bool(np.all(np.diff(self.late_ids) > 0)), "late rows are told once, in order"
            for shelf, here in ((self.timely, positions[~late]), (self.late, positions[late])):
                inside = (here >= shelf.low) & (here <= shelf.high)
                assert inside.all(), "bounds hold"
                assert not shelf.ascending or bool(np.all(np.diff(here) >= 0)), "ascending means so"
                for index in shelf.indexes:
                    index.check()
                    assert index.entries <= len(here), "no more entries than rows"
            if self.timely.ascending:
                before = np.maximum.accumulate(np.where(late, self.low, positions))
                left = late if self.dead_below is None else late & (positions >= self.dead_below)
                reached = before if self.since is None else np.maximum(before, self.since)
                assert bool(np.all(positions[left] <= reached[left])), (
                    "late rows are below what came before them"
                )
                assert self.timely.empty or self.since is None or self.timely.low >= self.since, (
                    "timely rows that ascend are of this subwindow's time"
                )
        if self.dead_below is not None:
            assert self.dead == int(np.count_nonzero(positions < self.dead_below)), "dead rows are counted"
