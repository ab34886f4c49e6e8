"""One stream's window: a chain of subwindows, the oldest first.

Design      rows enter the newest subwindow; when it is long enough it is completed and the next one begun.
            Rows leave by position: they are counted as gone at once, and a subwindow whose rows are all gone
            is dropped whole; one whose rows are half gone, and not few, is replaced by a copy of the rest, unless
            they are in nobody's way: the search passes them over, and they take little memory. Two subwindows to a
            window are enough: every run that is probed costs, and no more than a quarter of a window waits to be
            dropped, of such rows a half, or two thirds where batches are long.
Invariants  only the last subwindow is incomplete; no subwindow is empty or all gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from slidejoin.pools import ALONE, Crew
from slidejoin.window.arrivals import Arrivals, Int32s
from slidejoin.window.payload import Payload
from slidejoin.window.subwindow import Subwindow

SUBWINDOWS = 2  # to a window

SMALLEST = (
    1024  # rows: below this, time alone does not complete a subwindow, or quiet streams would have many
)
WORTHWHILE = 6  # a copy of the rest pays if a sixth of the window's number of rows is gone from a subwindow
LIGHT = 16  # bytes: of such rows, half a window's worth is not worth a copy
HEAVY = 4 << 20  # bytes: a window of few but large rows follows their number closer than SMALLEST would


class Extent(NamedTuple):
    """When a subwindow is long enough: by rows, and by how far the stream's positions have moved."""

    rows: int
    span: int | None
    asked: bool = False

    @staticmethod
    def of_rows(window: int) -> Extent:
        """For a window of so many rows."""
        return Extent(max(SMALLEST, -(-window // SUBWINDOWS)), None)

    def divided(self, subwindows: int) -> Extent:
        """For so many subwindows to a window instead of the usual number, unless the size was asked for."""
        if self.asked or subwindows == SUBWINDOWS:
            return self
        rows = max(SMALLEST, self.rows * SUBWINDOWS // subwindows)
        return Extent(rows, None if self.span is None else max(1, self.span * SUBWINDOWS // subwindows))


class Memento(NamedTuple):
    """A ring as it was before a push."""

    subwindows: tuple[Subwindow, ...]
    counts: tuple[tuple[int, int | None], ...]
    newest: Subwindow | None
    bound: int | None
    frontier: int | None


class Ring:
    def __init__(self, schema: pa.Schema, *, marked: bool, extent: Extent, time_column: str | None) -> None:
        self.schema = schema
        self.extent = extent
        self.time_column = time_column
        self.marked = marked
        self.subwindows: list[Subwindow] = []
        self.rows = 0  # that are in the window; counted, as it is asked whenever a subwindow is completed
        self.bound: int | None = None
        self._frontier: int | None = None  # the greatest position so far
        self._made = 0
        self.subwindows_to_a_window = SUBWINDOWS  # the planner's

    def append(self, arrivals: Arrivals, begin: Callable[[Subwindow], None]) -> tuple[Subwindow, int]:
        """Put rows into the newest subwindow; ``begin`` prepares one that had to be made."""
        newest = self.subwindows[-1] if self.subwindows else None
        if newest is None or newest.complete:
            start = self._frontier
            payload = Payload(self.schema, gathered=newest is not None and newest.payload.gathered)
            newest = Subwindow(payload, marked=self.marked, start=start or 0, number=self._made)
            self._made += 1
            newest.dead_below, newest.since = self.bound, start
            begin(newest)
            self.subwindows.append(newest)
            first = newest.append(arrivals)
            newest.start = newest.high if start is None else start
        else:
            first = newest.append(arrivals)
        self.rows += arrivals.rows
        self._frontier = newest.high if self._frontier is None else max(self._frontier, newest.high)
        return newest, first

    def complete(self, crew: Crew = ALONE) -> bool:
        """Complete the newest subwindow if it is long enough; whether it was."""
        newest = self.subwindows[-1] if self.subwindows else None
        if newest is None or newest.complete:
            return False
        extent = self.extent.divided(self.subwindows_to_a_window)
        few = newest.rows < SMALLEST and 2 * SUBWINDOWS * newest.rows >= self.rows
        heavy = few and newest.payload.nbytes >= HEAVY
        long_enough = (
            heavy
            or newest.rows >= extent.rows
            or (
                extent.span is not None
                and newest.rows >= SMALLEST
                and self._frontier is not None
                and self._frontier - newest.start >= extent.span
            )
        )
        if long_enough:
            newest.finish(self.time_column, crew)
        return long_enough

    def expire(
        self, bound: int, build: Callable[[Subwindow], None], crew: Crew = ALONE
    ) -> Iterator[tuple[Subwindow, Int32s]]:
        """Let rows below ``bound`` go; yields each subwindow that lost rows, with their ids.

        ``build`` gives a subwindow its indexes that was copied without them.
        """
        self.bound = bound
        kept = []
        lost = []
        for subwindow in self.subwindows:
            if subwindow.low >= bound:
                subwindow.dead_below = bound
                kept.append(subwindow)
                continue
            dead = subwindow.dead
            gone = subwindow.expire(bound)
            self.rows -= subwindow.dead - dead
            if len(gone):
                lost.append((subwindow, gone))
            half_gone = subwindow.complete and 0 < subwindow.live <= subwindow.dead
            if half_gone and subwindow.dead * WORTHWHILE >= self.rows and not self._in_nobodys_way(subwindow):
                subwindow = subwindow.renewed(self.time_column, crew)  # noqa: PLW2901 - from here on it is this one
                if not subwindow.timely.indexes:
                    build(subwindow)
            if subwindow.live:
                kept.append(subwindow)
        self.subwindows = kept
        yield from lost

    def _in_nobodys_way(self, subwindow: Subwindow) -> bool:
        """Whether rows that have left cost next to nothing where they are: light, passed over, and not more than usual."""
        light = subwindow.payload.nbytes <= LIGHT * subwindow.rows
        return light and subwindow.timely.passed_over and 3 * subwindow.dead <= 2 * self.rows

    def clear(self) -> Iterator[tuple[Subwindow, Int32s]]:
        """Let every row go."""
        for subwindow in self.subwindows:
            yield subwindow, subwindow.alive()
        self.subwindows, self.rows = [], 0

    def memento(self, *, growing: bool) -> Memento:
        """What ``restore`` needs to undo everything done from here on, match marks apart. O(subwindows).

        Unless the ring is ``growing``, no rows may be appended.
        """
        changes = growing and self.subwindows and not self.subwindows[-1].complete
        newest = self.subwindows[-1].copy() if changes else None
        counts = tuple((subwindow.dead, subwindow.dead_below) for subwindow in self.subwindows)
        return Memento(tuple(self.subwindows), counts, newest, self.bound, self._frontier)

    def restore(self, memento: Memento) -> None:
        """Be as at the memento."""
        self.subwindows = list(memento.subwindows)
        for subwindow, (dead, below) in zip(self.subwindows, memento.counts, strict=True):
            subwindow.dead, subwindow.dead_below = dead, below
        newest = memento.newest
        if newest is not None and (self.subwindows[-1].complete or self.subwindows[-1].rows > newest.rows):
            self.subwindows[-1] = newest
        self.rows = self._counted()
        self.bound, self._frontier = memento.bound, memento.frontier

    def rescaled(self, factor: int, extent: Extent) -> Ring:
        """The same rows with positions on a finer scale; this ring stays as it is."""
        twin = Ring(self.schema, marked=self.marked, extent=extent, time_column=None)
        twin.subwindows = [subwindow.rescaled(factor) for subwindow in self.subwindows]
        twin.rows = self.rows
        twin.bound = None if self.bound is None else self.bound * factor
        twin._frontier = None if self._frontier is None else self._frontier * factor
        twin._made = self._made
        return twin

    def _counted(self) -> int:
        return sum(subwindow.live for subwindow in self.subwindows)

    @property
    def nbytes(self) -> int:
        return sum(subwindow.nbytes for subwindow in self.subwindows)

    def check(self) -> None:
        for subwindow in self.subwindows:
            subwindow.check()
            assert subwindow.live > 0, "a subwindow without live rows is dropped"
        assert self.rows == self._counted(), "rows in the window are counted"
        assert all(subwindow.complete for subwindow in self.subwindows[:-1]), "only the newest takes rows"
