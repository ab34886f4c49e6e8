"""The engine: keeps the books of a join and sends rows on their way.

The way of a push: ``intake`` made it Arrow batches; here late rows and rows without a time are set aside,
clocks and row numbers are kept; the flow cuts it into pieces; the worker joins them; ``matches`` builds rows.
Every call works on a copy of the books and either succeeds or leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin import kernels
from slidejoin.condition import parse
from slidejoin.errors import LateRowError, SchemaError, StateError
from slidejoin.flow import REGISTRY as FLOWS
from slidejoin.index import Sizes
from slidejoin.intake import gatherable, held_schema, same_schema, typed
from slidejoin.matches import Matches, Output
from slidejoin.plan import require
from slidejoin.pools import Crew
from slidejoin.settings import Settings
from slidejoin.stats import Counters, Intaken
from slidejoin.tuning import Tuning
from slidejoin.window.arrivals import Arrivals, Numbers, Reach
from slidejoin.window.clock import Clocks
from slidejoin.window.merge_order import merge_order
from slidejoin.window.ring import SMALLEST, SUBWINDOWS, Extent, Ring
from slidejoin.window.spec import SIDES, Rows, Time, column_of
from slidejoin.window.timeline import Timeline, named_in
from slidejoin.worker import Step, Worker

Batches = tuple[pa.RecordBatch | None, pa.RecordBatch | None]

CHUNK_ROWS = 1 << 16  # rows joined at a time: their keys, probes and answers stay in the second-level cache
SUBWINDOW_ROWS = 1 << 22  # the most rows of a subwindow that is measured in time


@dataclass
class Books:
    """Everything that a call changes besides the worker's rings; a call works on a copy.

    What the fields hold is never changed in place, so a copy costs no more than the fields.
    """

    schemas: tuple[pa.Schema | None, pa.Schema | None] = (None, None)
    named: tuple[pa.Schema | None, ...] = (None, None)  # of sides that have shown names, but no types yet
    intaken: tuple[Intaken, Intaken] = (Intaken(), Intaken())
    timeline: Timeline | None = None
    clocks: Clocks = field(default_factory=Clocks)
    late_rows: tuple[tuple[pa.RecordBatch, ...], ...] = ((), ())
    matches: int = 0
    emitted: int = 0
    output: Output | None = None
    finished: bool = False

    def copy(self) -> Books:
        twin = Books.__new__(Books)
        twin.__dict__.update(self.__dict__)
        return twin


class Engine:
    """A join at work: its settings, its books, and the worker with the rows in state."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.condition = parse(settings.condition, settings.aliases)
        kernels.ready()
        self.worker = Worker(
            how=settings.how,
            order=settings.order,
            index=settings.index,
            crew=Crew(settings.threads),
            sizes=index_sizes(settings.tuning),
        )
        self.flow = FLOWS["single" if settings.flow == "auto" else settings.flow](
            self.worker, self._chunk_rows()
        )
        self.books = Books()
        self._undoing = False

    def push(self, batches: Batches, order: NDArray[np.int64] | None = None) -> Matches:
        """Rows have arrived; in this ``order``, if neither one side after the other nor by a column.

        It has the rows of both batches, counted from the left ones on. Over time windows it makes no difference.
        """
        left, right = batches
        known = self.books.schemas
        told = (
            None if left is None else typed(left, known[0]),
            None if right is None else typed(right, known[1]),
        )
        growing = (told[0] is not None, told[1] is not None)
        familiar = True  # asked here for all that follows: to compare schemas takes as long as to sort a thousand rows
        for side, (batch, schema) in enumerate(zip(told, known, strict=True)):
            if batch is not None:
                familiar = familiar and schema is not None and batch.schema.equals(schema)
                if familiar and self.worker.crew.threads > 1 and not (side and growing[0]):
                    self.flow.foresee(side, batch)

        def take_in(books: Books, step: Step) -> None:
            for side, (batch, told_of) in enumerate(zip(batches, told, strict=True)):
                if batch is not None and told_of is None:
                    self.learn_names(books, side, batch.schema)
            if not familiar:
                self.acquaint(books, told)
            self._take_in(books, told, step, order, familiar=familiar)

        return self._attempt("push", take_in, growing)

    def advance(self, times: tuple[Any, Any]) -> Matches:
        """Time has passed without rows."""

        def beat(books: Books, step: Step) -> None:
            for side, value in enumerate(times):
                if value is None:
                    continue
                if books.timeline is None:
                    books.timeline = Timeline.of_heartbeat(self.times(), value, side, self.settings.lateness)
                    books.clocks = Clocks(lateness=books.timeline.lateness)
                books.clocks = books.clocks.shown(side, books.timeline.instant(value, side))
            self._let_go(books, step)

        return self._attempt("advance", beat)

    def finish(self) -> Matches:
        """Both streams have ended."""

        def end(books: Books, step: Step) -> None:
            self.worker.clear(step)
            books.finished = True

        return self._attempt("finish", end)

    def tune(self, *, threads: int | None, tuning: Tuning) -> None:
        """Other sizes from the next call on; rows stay where they are."""
        self.open("tune()")
        self.settings = replace(self.settings, threads=threads or self.settings.threads, tuning=tuning)
        self.worker.crew = Crew(self.settings.threads)
        self.worker.sizes = index_sizes(tuning)
        self.flow.piece_rows = self._chunk_rows()
        for side, ring in enumerate(self.worker.rings):
            if ring is not None:
                ring.extent = self._extent(side, self.books.timeline)

    def open(self, what: str) -> None:
        """Refuse calls on a join that has ended, or is neither as before a failed call nor as after it."""
        if self._undoing:
            raise StateError(
                f"{what} was called on a join whose last call was interrupted, and again while it was undone; expected a "
                "whole one; load() a snapshot or make a new Join"
            )
        if self.books.finished:
            raise StateError(f"{what} was called after finish(); expected an open join; make a new Join")

    def counters(self) -> Counters:
        """The account of every row."""
        books, rings = self.books, self.worker.rings
        sides = [
            intaken.counters(0 if ring is None else ring.rows)
            for intaken, ring in zip(books.intaken, rings, strict=True)
        ]
        watermark, timeline = books.clocks.watermark, books.timeline
        return Counters(
            left=sides[0],
            right=sides[1],
            matches=books.matches,
            emitted=books.emitted,
            state_bytes=sum(ring.nbytes for ring in rings if ring is not None),
            watermark=None if watermark is None or timeline is None else timeline.readable(watermark),
            held_by=books.clocks.held_by if self.settings.timed else None,
        )

    def check(self) -> None:
        """Assert every invariant."""
        self.worker.check()
        counters = self.counters()
        for name in SIDES:
            side = counters[name]
            assert side["rows_in"] == side["accepted"] + side["late"] + side["null_time"], name
            assert side["accepted"] == side["state_rows"] + side["evicted"], name
            assert min(side.values()) >= 0, name

    # -- a call, whole or not at all -------------------------------------------------------------------

    def _attempt(
        self, name: str, act: Callable[[Books, Step], None], growing: tuple[bool, bool] = (False, False)
    ) -> Matches:
        """Run one call on a copy of the books; if it fails, put everything back."""
        self.open(f"{name}()")
        worker, books = self.worker, self.books.copy()
        memento = (worker.memento(growing), list(worker.rings), worker.bound, list(worker.access))
        step = Step()
        try:
            act(books, step)
            if books.output is None:
                books.output = self._output(books)
            matches = Matches(step.parts, books.output, worker.crew)
            books.matches += step.matches
            books.emitted += matches.num_rows
            self.books = books  # nothing can fail or interrupt from here to the caller
        except BaseException:
            self._undoing = True
            rings, worker.rings, worker.bound, worker.access = memento
            worker.restore(rings, step)
            self._undoing = False
            raise
        return matches

    def _take_in(
        self, books: Books, batches: Batches, step: Step, order: NDArray[np.int64] | None, *, familiar: bool
    ) -> None:
        before = tuple(intaken.rows_in for intaken in books.intaken)
        watermark = books.clocks.watermark  # as the previous call left it: this push does not judge itself
        arrivals = [
            self._accept(books, side, self._held(books, side, batch, familiar=familiar), watermark)
            for side, batch in enumerate(batches)
            if batch is not None
        ]
        together = False
        if self.settings.timed:
            arrivals = self._timed_reach(arrivals, books.timeline)
        else:
            arrivals, together = self._counted_reach(arrivals, before, order)
        self.flow.route(
            arrivals, together=together, step=step, leave=None if self.settings.timed else self._first_visible
        )
        self._let_go(books, step)

    def _held(self, books: Books, side: int, batch: pa.RecordBatch, *, familiar: bool) -> pa.RecordBatch:
        """The batch in the types that rows are held in; ``familiar``: it has the stream's schema to the letter."""
        ring = self.worker.rings[side]
        assert ring is not None
        same = familiar and ring.schema is books.schemas[side]
        return batch if same or batch.schema.equals(ring.schema) else batch.cast(ring.schema)

    def acquaint(self, books: Books, batches: Batches) -> None:
        """Learn schemas that are new: check the columns, the times and the condition's types."""
        schemas = list(books.schemas)
        new = False
        for side, batch in enumerate(batches):
            if batch is None:
                continue
            known = schemas[side]
            if known is not None:
                same_schema(known, batch, side)
                continue
            self._columns_exist(batch.schema, side)
            schemas[side] = batch.schema
            new = True
        if not new:
            return
        for side, schema in enumerate(schemas):
            if schema is not None:
                gatherable(schema, side)
        worker = self.worker
        books.schemas = (schemas[0], schemas[1])
        books.output = self._output(books)
        if schemas[0] is not None and schemas[1] is not None:
            bound = self.condition.bind(held_schema(schemas[0]), held_schema(schemas[1]))
            require(bound, self.settings.index)
            worker.bound = bound
        if self.settings.timed:
            self._retime(books)
        for side, schema in enumerate(schemas):
            if schema is not None and worker.rings[side] is None:
                worker.rings[side] = self._new_ring(books, side, held_schema(schema))

    def learn_names(self, books: Books, side: int, schema: pa.Schema) -> None:
        """No rows in columns of no type (a CSV that is only a header): the names can be checked, and are in the result."""
        self._columns_exist(schema, side)
        books.named = _with(books.named, side, schema)
        books.output = self._output(books)

    def _output(self, books: Books) -> Output:
        left, right = (schema or named for schema, named in zip(books.schemas, books.named, strict=True))
        return Output(left, right, self.settings.how, self.settings.suffixes)

    def _retime(self, books: Books) -> None:
        """Put both streams on one time scale; what is held moves along if the scale gets finer."""
        timeline = Timeline.build(self.times(), list(books.schemas), self.settings.lateness)
        if books.timeline is not None and books.timeline.zoned != timeline.zoned:
            raise SchemaError(
                f"the event times have {'a' if timeline.zoned else 'no'} time zone, but the heartbeats before them had "
                f"{'one' if books.timeline.zoned else 'none'}; expected both alike; pass advance() times as the "
                "column has them"
            )
        before, after = (1 if line is None else line.tick or 1 for line in (books.timeline, timeline))
        if before > after:
            self.worker.rings = [
                None if ring is None else ring.rescaled(before // after, self._extent(side, timeline))
                for side, ring in enumerate(self.worker.rings)
            ]
        books.timeline, books.clocks = timeline, books.clocks.scaled(before, after, timeline.lateness)

    def times(self) -> tuple[Time, Time]:
        """The windows, which are in time."""
        left, right = self.settings.windows
        assert isinstance(left, Time)
        assert isinstance(right, Time)
        return left, right

    def _accept(self, books: Books, side: int, batch: pa.RecordBatch, watermark: int | None) -> Arrivals:
        """Set aside rows without a time and late rows; number the rest."""
        intaken = books.intaken[side]
        first, rows = intaken.rows_in, batch.num_rows
        if not self.settings.timed:
            books.intaken = _with(books.intaken, side, Intaken(first + rows))
            return Arrivals(side, batch, rows, Numbers(first), Numbers(first))
        timeline = books.timeline
        assert timeline is not None
        described = timeline.columns[side]
        assert described is not None
        column = batch.column(described.name)
        seqs = Numbers(first)
        without = column.null_count
        if without:
            present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
            batch, seqs = batch.take(pa.array(present)), seqs.select(present)
            column = batch.column(described.name)
        times = timeline.ticks(column, side)
        late = 0
        if len(times):
            books.clocks = books.clocks.shown(side, int(times.max()))
        if watermark is not None and len(times) and int(times.min()) < watermark:
            below = times < watermark
            late = int(np.count_nonzero(below))
            if self.settings.late == "raise":
                at = int(np.flatnonzero(below)[0])
                raise LateRowError(
                    f"{late} {SIDES[side]} {'row is' if late == 1 else 'rows are'} late, the first is row "
                    f"{int(seqs.of(np.array([at]))[0])} of the stream, counted from 0, at "
                    f"{timeline.readable(int(times[at]))}; expected times from the watermark "
                    f"{timeline.readable(watermark)} on; raise lateness, or use late='keep' or 'count'"
                )
            if self.settings.late == "keep":
                kept = batch.filter(pa.array(below))
                books.late_rows = _with(books.late_rows, side, (*books.late_rows[side], kept))
            timely = np.flatnonzero(~below).astype(np.int32)
            batch, seqs, times = batch.take(pa.array(timely)), seqs.select(timely), times[timely]
        intaken = Intaken(first + rows, intaken.late + late, intaken.null_time + without)
        books.intaken = _with(books.intaken, side, intaken)
        return Arrivals(side, batch, batch.num_rows, seqs, Numbers(0, times))

    def _timed_reach(self, arrivals: list[Arrivals], timeline: Timeline | None) -> list[Arrivals]:
        """Time windows: the times that each row may join; left rows arrive before right ones."""
        placed, rank = [], 0
        for one in arrivals:
            assert timeline is not None
            assert one.positions.values is not None
            reach = Reach.of(*timeline.visible(1 - one.side, one.positions.values))
            placed.append(one._replace(reach=reach, ranks=Numbers(rank)))
            rank += one.rows
        return placed

    def _counted_reach(
        self, arrivals: list[Arrivals], before: tuple[int, ...], order: NDArray[np.int64] | None
    ) -> tuple[list[Arrivals], bool]:
        """Count windows: the order of arrival, and from it the rows that each row may join.

        The second answer tells whether the sides are interleaved.
        """
        by = self.settings.windows[0].by if isinstance(self.settings.windows[0], Rows) else None
        placed = []
        if len(arrivals) < 2 or (by is None and order is None):
            seen, rank = list(before), 0
            for one in arrivals:
                others = seen[1 - one.side]
                reach = Reach.same(self._first_visible(1 - one.side, others), others - 1, one.rows)
                placed.append(one._replace(reach=reach, ranks=Numbers(rank)))
                seen[one.side] += one.rows
                rank += one.rows
            return placed, False
        if by is not None or order is None:
            order = self._merge_order(arrivals)
        of_left = order < arrivals[0].rows
        for one, mine in zip(arrivals, (of_left, ~of_left), strict=True):
            rows = (order[mine] - (0 if one.side == 0 else arrivals[0].rows)).astype(np.int32)
            shown = before[1 - one.side] + np.cumsum(~mine)[mine]
            batch, seqs = one.batch, one.seqs
            if not np.array_equal(rows, np.arange(len(rows))):
                batch, seqs = batch.take(pa.array(rows)), seqs.select(rows)
            window = self.settings.windows[1 - one.side]
            assert isinstance(window, Rows)
            lows = -(-np.maximum(shown - window.n, 0) // window.slide) * window.slide
            ranks = Numbers(0, np.flatnonzero(mine))
            reach = Reach.of(lows, shown - 1)
            placed.append(Arrivals(one.side, batch, one.rows, seqs, one.positions, reach, ranks))
        return placed, True

    def _merge_order(self, arrivals: list[Arrivals]) -> NDArray[np.int64]:
        """Rows of both sides by the column ``by``: left first on ties, NULLs last."""
        columns = []
        for one, window in zip(arrivals, self.settings.windows, strict=True):
            assert isinstance(window, Rows)
            assert window.by is not None
            columns.append(one.batch.column(column_of(window.by, one.side)))
        return merge_order(columns)

    def _first_visible(self, side: int, seen: int) -> int:
        window = self.settings.windows[side]
        assert isinstance(window, Rows)
        return window.first_visible(seen)

    def _let_go(self, books: Books, step: Step) -> None:
        """Time windows: rows that nothing in time could match any more leave."""
        watermark = books.clocks.watermark
        if self.settings.timed and watermark is not None and books.timeline is not None:
            for side in (0, 1):
                self.worker.expire(side, books.timeline.earliest_partner(side, watermark), step)

    # -- sizes and texts -------------------------------------------------------------------------------

    def _chunk_rows(self) -> int:
        if self.settings.tuning.chunk_rows is not None:
            return self.settings.tuning.chunk_rows
        if isinstance(self.settings.windows[0], Rows) and self.settings.windows[0].by is not None:
            # Interleaved pieces are stored before they are probed; small windows want small pieces.
            longest = max(window.n for window in self.settings.windows if isinstance(window, Rows))
            return min(CHUNK_ROWS, max(SMALLEST, longest))
        return CHUNK_ROWS

    def _extent(self, side: int, timeline: Timeline | None) -> Extent:
        window = self.settings.windows[side]
        rows = self.settings.tuning.subwindow_rows
        if isinstance(window, Rows):
            return Extent(rows, None, asked=True) if rows else Extent.of_rows(window.n)
        assert timeline is not None
        span = max(1, timeline.lengths[side] // SUBWINDOWS)
        return Extent(rows or SUBWINDOW_ROWS, span, asked=rows is not None)

    def _new_ring(self, books: Books, side: int, schema: pa.Schema) -> Ring:
        timeline = books.timeline
        time_column = None
        if timeline is not None:
            column = timeline.columns[side]
            assert column is not None
            if column.tick == timeline.tick:
                time_column = column.name
        return Ring(
            schema,
            marked=side in self.settings.padded,
            extent=self._extent(side, timeline),
            time_column=time_column,
        )

    def _columns_exist(self, schema: pa.Schema, side: int) -> None:
        """Refuse rows without a column that the window or the condition names."""
        window = self.settings.windows[side]
        if isinstance(window, Rows) and window.by is not None:
            name = column_of(window.by, side)
            if name not in schema.names:
                raise SchemaError(
                    f"the {SIDES[side]} batch has no column {name!r} to order by; expected one of {schema.names}; "
                    "set Rows(..., by=...) to one of them"
                )
        elif isinstance(window, Time):
            named_in(schema, column_of(window.on, side), side)
        self.condition.require(side, held_schema(schema))


def index_sizes(tuning: Tuning) -> Sizes:
    """What was asked for of the indexes."""
    return Sizes(*(getattr(tuning, name) for name in Sizes._fields))


def _with(pair: Any, side: int, value: Any) -> Any:
    """The pair with one side replaced."""
    return (value, pair[1]) if side == 0 else (pair[0], value)
