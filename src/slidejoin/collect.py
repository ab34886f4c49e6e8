"""Collecting: rows that arrive a few at a time, joined as batches of a size that pays.

Design      what is pushed waits until there are enough rows, or until the oldest has waited long enough, and is then
            pushed as one batch (seed 000, III-A: the manager's first step). Rows meet as if each call had been a push of
            its own: over count windows the order of the calls goes along. Only event time is judged by the batch: what is
            late is late by the watermark before it.
Invariants  a row waits or has been joined; a batch that the join refuses goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import WindowError
from slidejoin.intake import same_schema, to_batch, typed
from slidejoin.window.payload import concatenated
from slidejoin.window.spec import SIDES

if TYPE_CHECKING:
    from slidejoin.engine import Engine
    from slidejoin.matches import Matches
    from slidejoin.turns import Turns

ROWS = 32_768  # as many as the search pays for: twice as many gain little (docs/performance.md)


class Collector:
    """Small pushes, collected into batches of at least ``rows`` rows or of what came within ``seconds``.

    Made by ``Join.collect``. Nothing happens behind the caller's back: whether the time is over is looked at in each
    call, so call ``poll`` while no rows come, at the latest after ``due_in`` seconds.

    >>> import slidejoin as sj
    >>> feed = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(100)).collect(rows=3)
    >>> feed.push(left={"x": [1]}), feed.push(right={"x": [2]}), feed.waiting
    (None, None, 2)
    >>> feed.push(left={"x": [3]}).to_table().to_pydict()
    {'x_l': [1, 3], 'x_r': [2, 2]}
    """

    def __init__(
        self,
        engine: Engine,
        turns: Turns,
        rows: int,
        seconds: float | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        limits: list[tuple[str, Any, Any]] = [("rows", rows, Integral), ("seconds", seconds, Real)]
        for name, value, kinds in limits:
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, kinds) or not value > 0
            ):
                expected = "a whole number of at least 1" if name == "rows" else "a number above 0, or None"
                raise WindowError(
                    f"collect({name}={value!r}); expected {expected}; leave it out for the usual one"
                )
        self._engine, self._turns = engine, turns
        self._rows, self._seconds, self._clock = rows, seconds, clock
        self._calls: list[tuple[int, pa.RecordBatch]] = []  # side and rows, in the order of arrival
        self._schemas: list[pa.Schema | None] = [None, None]
        self._oldest = 0.0  # when the first of those that wait arrived
        self.waiting = 0

    def push(self, *, left: Any = None, right: Any = None) -> Matches | None:
        """Rows have arrived; the matches of all that waited if a batch is complete by them, else None.

        Rows that could never be joined (a missing column, another type) are refused here and now, as ``Join.push`` does.
        """
        known = self._engine.books.schemas
        batches = [
            (side, to_batch(data, side, self._schemas[side] or known[side]))
            for side, data in enumerate((left, right))
            if data is not None
        ]
        return self._turns.take(lambda: self._add(batches))

    def poll(self) -> Matches | None:
        """The matches of what waits if it has waited long enough, else None."""
        return self._turns.take(self._if_complete)

    def flush(self) -> Matches:
        """The matches of what waits, however little."""
        return self._turns.take(self._join)

    @property
    def due_in(self) -> float | None:
        """Seconds until what waits is due; None if nothing is going to be."""
        if not self.waiting or self._seconds is None:
            return None
        return max(0.0, self._oldest + self._seconds - self._clock())

    def take(self) -> tuple[pa.Table | None, pa.Table | None]:
        """What waits, left and right, which is then not going to be joined: after a batch that the join refused."""

        def taken() -> tuple[pa.Table | None, pa.Table | None]:
            left, right = (
                None if batch is None else pa.Table.from_batches([batch]) for batch in self._sides()
            )
            self._forget()
            return left, right

        return self._turns.take(taken)

    def _add(self, batches: list[tuple[int, pa.RecordBatch]]) -> Matches | None:
        for side, batch in batches:
            known, told = self._schemas[side], typed(batch, self._schemas[side])
            if known is not None and told is not None:
                same_schema(known, told, side)
        fresh = [(side, batch) for side, batch in batches if self._schemas[side] is None]
        if fresh:  # without rows: the join looks at the columns, and nothing else happens
            nothing: list[pa.RecordBatch | None] = [None, None]
            for side, batch in fresh:
                nothing[side] = batch.slice(0, 0)
            self._engine.push((nothing[0], nothing[1]))
        else:
            self._engine.open("collect()")
        if not self.waiting:
            self._oldest = self._clock()
        for side, batch in batches:
            if batch.num_rows:
                self._schemas[side] = self._schemas[side] or batch.schema
                self._calls.append((side, batch))
                self.waiting += batch.num_rows
        return self._if_complete()

    def _if_complete(self) -> Matches | None:
        enough = self.waiting >= self._rows
        return self._join() if self.waiting and (enough or self.due_in == 0) else None

    def _join(self) -> Matches:
        sides, order, before = self._sides(), self._order(), self._engine.books
        try:
            return self._engine.push((sides[0], sides[1]), order)
        finally:
            if self._engine.books is not before:  # it has taken effect, whatever may have interrupted since
                self._forget()

    def _sides(self) -> list[pa.RecordBatch | None]:
        """What waits, as one batch a side."""
        sides: list[pa.RecordBatch | None] = []
        for side, schema in enumerate(self._schemas):
            mine = [batch for of, batch in self._calls if of == side]
            sides.append(concatenated(mine, schema) if mine and schema is not None else None)
        return sides

    def _order(self) -> np.ndarray | None:
        """The rows of both batches, the left first, in the order of arrival; None if that is the order."""
        after = sum(batch.num_rows for side, batch in self._calls if side == 0)
        at, order = [0, after], []
        for side, batch in self._calls:
            order.append(np.arange(at[side], at[side] + batch.num_rows))
            at[side] += batch.num_rows
        merged = np.concatenate(order) if order else np.empty(0, dtype=np.int64)
        return None if bool(np.all(merged[1:] > merged[:-1])) else merged

    def _forget(self) -> None:
        self._calls, self.waiting = [], 0

    def __repr__(self) -> str:
        limit = "" if self._seconds is None else f" or {self._seconds} s"
        sides = [sum(batch.num_rows for of, batch in self._calls if of == side) for side in (0, 1)]
        held = ", ".join(f"{count:,} {name}" for count, name in zip(sides, SIDES, strict=True))
        return f"<Collector of {self._rows:,} rows{limit}; waiting: {held}>"
