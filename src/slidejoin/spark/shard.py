"""A shard: one worker's part of the join at work. The embedded engine, fed with messages, and its log.

Design      messages become one push of both sides: put back in order, late rows set aside by the watermark of
            the previous micro-batch, every row with its home. The engine joins them; the clocks of all tasks
            then move time on, and what has left the window leaves. What the push has stored becomes entries
            for the log; match marks are kept beside them.
Catch-up    a shard can be brought to a later state by the entries that it has not seen: rows are inserted
            without probing, rows that have left expire, clocks and marks are set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.engine import Engine
from slidejoin.errors import LateRowError
from slidejoin.matches import BATCH_ROWS, Matches
from slidejoin.spark.message import Message
from slidejoin.spark.query import HOME, Query
from slidejoin.spark.share import Share, Span, Stored
from slidejoin.stats import Intaken
from slidejoin.window.clock import Clocks
from slidejoin.window.payload import concatenated, one_batch, row_bytes
from slidejoin.window.spec import SIDES, Rows
from slidejoin.window.timeline import UNITS
from slidejoin.worker import PADDED, Step

ENTRY_BYTES = 4 << 20  # values of 1 to 4 MiB cross to the state store fastest
PIECE_BYTES = 8 << 20  # of a result: bounded, and large, as pandas takes milliseconds for each piece
NAMES = {size: unit for unit, size in UNITS.items()}

Flags = NDArray[np.bool_]


class Fresh(NamedTuple):
    """Rows that a micro-batch has added to state, small enough for one entry."""

    side: int
    rows: pa.RecordBatch
    positions: NDArray[np.int64]
    spans: list[Span]


class Counted(NamedTuple):
    """What a micro-batch showed, as one worker counts it."""

    rows_in: tuple[int, int]
    late: tuple[int, int]
    null_time: tuple[int, int]
    rows_here: int


class Outcome(NamedTuple):
    """What a micro-batch gave: results, late rows that are kept, rows for the log, counts."""

    matches: list[Matches]
    late: tuple[pa.RecordBatch | None, pa.RecordBatch | None]
    fresh: list[Fresh]
    counted: Counted


class Shard:
    def __init__(self, query: Query, worker: int) -> None:
        self.query = query
        self.worker = worker
        self.engine = Engine(query.settings)
        sharing, passing = _policy(query)
        single = self.engine.flow
        self.flow = Share(self.engine.worker, single.piece_rows, sharing=sharing, passing=passing)
        self.engine.flow = self.flow
        left, right = (one_batch(query.held(side).empty_table()) for side in (0, 1))
        self.engine.push((left, right))  # both schemas are known: bind the condition now
        self.pairs = 0  # of the last micro-batch, counted where they come out

    # -- a micro-batch ---------------------------------------------------------------------------------

    def take_in(self, messages: Sequence[Message]) -> Outcome:
        """Join what a micro-batch brought."""
        ordered = sorted(messages, key=lambda m: (m.header.side, m.header.task, m.header.number))
        watermark = self.engine.books.clocks.watermark  # of the end of the previous micro-batch
        sides = [self._gathered([m for m in ordered if m.header.side == side], side) for side in (0, 1)]
        late_counts, late_rows = [0, 0], [None, None]
        batches, homes = [], []
        for side, (rows, here) in enumerate(sides):
            timely, at_home = rows, here
            if watermark is not None and rows.num_rows:
                below = self._ticks(rows, side) < watermark
                if below.any():
                    counted = below if here is None else below & here
                    late_counts[side] = int(np.count_nonzero(counted))
                    late_rows[side] = rows.filter(pa.array(counted)) if self.query.keeps_late else None
                    timely = rows.filter(pa.array(~below))
                    at_home = None if here is None else here[~below]
            late_counts[side] += self._late_among_filtered(ordered, side, watermark)
            batches.append(self._flagged(timely, at_home, side))
            homes.append(at_home)
        if any(late_counts) and self.query.settings.late == "raise":
            self._refuse(late_counts, watermark)
        firsts = [intaken.rows_in for intaken in self.engine.books.intaken]
        self.flow.expect((homes[0], homes[1]), (firsts[0], firsts[1]))
        matches, before = [], self.engine.books.matches
        if any(batch.num_rows for batch in batches):
            matches.append(self.engine.push((batches[0], batches[1])))
        if self.query.settings.timed:
            matches.append(self.engine.advance(self._clock_values(ordered)))
        self.pairs = 0 if self.query.flagged else self.engine.books.matches - before
        counted_all = _counted(ordered, late_counts, sum(batch.num_rows for batch in batches))
        return Outcome(matches, (late_rows[0], late_rows[1]), self._fresh(), counted_all)

    def _gathered(self, messages: Sequence[Message], side: int) -> tuple[pa.RecordBatch, Flags | None]:
        """A side's rows, and which of them are at home here (None: all)."""
        some = [m for m in messages if not m.header.filtered and m.rows.num_rows]
        schema = self.query.schemas[side]
        if not some:
            return one_batch(schema.empty_table()), None
        rows = concatenated([m.rows for m in some], schema) if len(some) > 1 else some[0].rows
        here = np.concatenate([m.home_of_each() for m in some]) == self.worker
        return rows, None if here.all() else here

    def _flagged(self, rows: pa.RecordBatch, here: Flags | None, side: int) -> pa.RecordBatch:
        if not self.query.flagged:
            return rows
        mark = pa.array(np.ones(rows.num_rows, dtype=bool) if here is None else here)
        return pa.RecordBatch.from_arrays([*rows.columns, mark], schema=self.query.held(side))

    def _ticks(self, rows: pa.RecordBatch, side: int) -> NDArray[np.int64]:
        timeline = self.query.timeline
        assert timeline is not None
        return timeline.ticks(rows.column(self.query.time_column(side)), side)

    def _late_among_filtered(self, messages: Sequence[Message], side: int, watermark: int | None) -> int:
        if watermark is None:
            return 0
        return sum(
            int(np.count_nonzero(m.rows.column(0).to_numpy() < watermark))
            for m in messages
            if m.header.filtered and m.header.side == side
        )

    def _refuse(self, late: Sequence[int], watermark: int | None) -> None:
        timeline = self.query.timeline
        assert timeline is not None
        assert watermark is not None
        counts = " and ".join(f"{count} {SIDES[side]}" for side, count in enumerate(late) if count)
        raise LateRowError(
            f"{counts} {'row is' if sum(late) == 1 else 'rows are'} late; expected times from the watermark {timeline.readable(watermark)} on; raise "
            "lateness, or use late='keep' or 'count'"
        )

    def _clock_values(self, messages: Sequence[Message]) -> tuple[Any, Any]:
        """Both sides' clocks as the engine takes heartbeats."""
        timeline = self.query.timeline
        assert timeline is not None
        values: list[Any] = [None, None]
        for side in (0, 1):
            shown = [m.header.clock for m in messages if m.header.side == side and m.header.clock is not None]
            if not shown:
                continue
            values[side] = max(shown)
            if timeline.tick is not None:
                kind = pa.timestamp(NAMES[timeline.tick], "UTC" if timeline.zoned else None)
                values[side] = pa.scalar(max(shown), kind)
        return values[0], values[1]

    # -- for the log -----------------------------------------------------------------------------------

    def bound(self, side: int) -> int | None:
        """The position below which rows of a side have left; None while none has."""
        books, window = self.engine.books, self.query.settings.windows[side]
        if isinstance(window, Rows):
            return window.first_visible(books.intaken[side].rows_in)
        watermark = books.clocks.watermark
        assert self.query.timeline is not None
        return None if watermark is None else self.query.timeline.earliest_partner(side, watermark)

    @property
    def clocks(self) -> tuple[int | None, int | None]:
        return self.engine.books.clocks.left, self.engine.books.clocks.right

    @property
    def seen(self) -> tuple[int, int]:
        """Rows that each side has shown; count windows measure by them."""
        left, right = self.engine.books.intaken
        return left.rows_in, right.rows_in

    def _fresh(self) -> list[Fresh]:
        """What the push has stored and is still in the window, cut into entries."""
        entries = []
        for side in (0, 1):
            bound = self.bound(side)
            stored = [
                part
                for piece in self.flow.stored
                if piece.side == side
                for part in piece.cut(ENTRY_BYTES)
                if bound is None or int(part.positions.max()) >= bound
            ]
            group: list[Stored] = []
            size = 0
            for part in stored:
                if group and size + part.batch.nbytes > ENTRY_BYTES:
                    entries.append(_entry(side, group))
                    group, size = [], 0
                group.append(part)
                size += part.batch.nbytes
            if group:
                entries.append(_entry(side, group))
        return entries

    # -- to a later state ------------------------------------------------------------------------------

    def refill(self, side: int, rows: pa.RecordBatch, positions: NDArray[np.int64] | None) -> Span:
        """Insert rows of the log."""
        ring = self.engine.worker.rings[side]
        assert ring is not None
        if positions is None:
            positions = self._ticks(rows, side)
        return self.flow.refill(side, rows, np.ascontiguousarray(positions))

    def arrive_at(self, clocks: Sequence[int | None], seen: Sequence[int]) -> None:
        """Set clocks and counts, and let go what has left by then."""
        engine = self.engine
        books = engine.books
        books.clocks = Clocks(clocks[0], clocks[1], books.clocks.lateness)
        books.intaken = (Intaken(seen[0]), Intaken(seen[1]))
        for side in (0, 1):
            bound = self.bound(side)
            if bound is not None:
                engine.worker.expire(side, bound, Step())  # what leaves here was accounted for when it left

    def marks(self, side: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The numbers of all rows held of a side, ascending, and whether each has matched."""
        ring = self.engine.worker.rings[side]
        assert ring is not None
        numbers, marks = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint8)]
        for subwindow in ring.subwindows:
            assert subwindow.marks is not None
            numbers.append(subwindow.seqs.array())
            marks.append(subwindow.marks[: subwindow.rows])
        return np.concatenate(numbers), np.concatenate(marks)

    def set_marks(self, side: int, numbers: NDArray[np.int64], marks: NDArray[np.uint8]) -> None:
        """Set the marks of rows by their numbers, which ascend; rows that have left are passed over."""
        ring = self.engine.worker.rings[side]
        assert ring is not None
        for subwindow in ring.subwindows:
            assert subwindow.marks is not None
            held = subwindow.seqs.array()
            at = np.minimum(np.searchsorted(numbers, held), len(numbers) - 1)
            here = np.flatnonzero(numbers[at] == held)
            subwindow.marks[here] = marks[at[here]]

    def finish(self) -> Matches:
        """The end of both streams."""
        return self.engine.finish()

    # -- results ---------------------------------------------------------------------------------------

    def rows_of(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        """The rows of a result in bounded pieces, with the columns that come out."""
        result = self.query.result
        for batch in matches.batches(piece_rows(result)):
            rows = batch
            if self.query.flagged:
                # A row speaks at its home only: pairs and left rows at the left one's, right rows at theirs.
                spoken = pc.coalesce(batch.column(HOME[0]), batch.column(HOME[1]))
                rows = batch.filter(spoken)
                self.pairs += int(
                    pc.sum(pc.and_(rows.column(HOME[0]).is_valid(), rows.column(HOME[1]).is_valid())).as_py()
                    or 0
                )
                if rows.num_rows == 0:
                    continue
            columns = [rows.column(name) for name in rows.schema.names if name not in HOME]
            if self.query.keeps_late:
                columns.append(pa.array(np.zeros(rows.num_rows, dtype=bool)))
            yield pa.RecordBatch.from_arrays(columns, schema=result)

    def late_rows(
        self, late: tuple[pa.RecordBatch | None, pa.RecordBatch | None]
    ) -> Iterator[pa.RecordBatch]:
        """Late rows as results: the other side NULL, ``late`` true."""
        query = self.query
        left_only = query.settings.how in ("semi", "anti")
        for side, rows in enumerate(late):
            if rows is None or rows.num_rows == 0 or (side == 1 and left_only):
                continue
            columns: list[pa.Array] = []
            for number, schema in enumerate(query.schemas[:1] if left_only else query.schemas):
                columns += (
                    rows.columns if number == side else [pa.nulls(rows.num_rows, f.type) for f in schema]
                )
            columns.append(pa.array(np.ones(rows.num_rows, dtype=bool)))
            yield pa.RecordBatch.from_arrays(columns, schema=query.result)


def piece_rows(schema: pa.Schema) -> int:
    """How many rows of a result are gathered at a time; the usual number if nobody knows how long they are."""
    widths = [row_bytes(kind) for kind in schema.types]
    return max(1, PIECE_BYTES // sum(widths)) if widths and all(widths) else BATCH_ROWS


def _entry(side: int, group: Sequence[Stored]) -> Fresh:
    return Fresh(
        side,
        concatenated([one.batch for one in group], group[0].batch.schema),
        np.concatenate([one.positions for one in group]),
        [one.span for one in group],
    )


def _policy(query: Query) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which sides are shared among workers, and of which only rows at home take part at all."""
    if query.routing != "split" or query.workers == 1 or query.settings.how == "full":
        return (), ()
    if query.settings.how == "inner":
        return (0, 1), ()
    padded = PADDED[query.settings.how]
    return padded, padded


def _counted(messages: Sequence[Message], late: Sequence[int], here: int) -> Counted:
    def total(pick: Callable[[Message], int], side: int) -> int:
        return sum(pick(m) for m in messages if m.header.side == side)

    return Counted(
        (total(lambda m: m.header.rows_in, 0), total(lambda m: m.header.rows_in, 1)),
        (late[0], late[1]),
        (total(lambda m: m.header.null_time, 0), total(lambda m: m.header.null_time, 1)),
        here,
    )
