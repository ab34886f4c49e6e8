"""Join: the public face. It validates, keeps the books, and explains; the worker joins.

The way of a push: ``intake`` makes it an Arrow batch; here late rows and rows without a time are set aside,
clocks and row numbers are kept; the flow cuts it into pieces; the worker joins them; ``matches`` builds rows.
Every call either succeeds or leaves the join as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin import kernels, snapshot
from slidejoin.condition import parse
from slidejoin.errors import ConditionError, LateRowError, SchemaError, StateError, WindowError
from slidejoin.flow import REGISTRY as FLOWS
from slidejoin.index import REGISTRY as INDEXES
from slidejoin.intake import same_schema, to_batch
from slidejoin.matches import Matches, Output
from slidejoin.plan import require
from slidejoin.pools import cores, pool
from slidejoin.stats import Counters, Intaken
from slidejoin.tuning import Tuning
from slidejoin.window.arrivals import Arrivals, Numbers
from slidejoin.window.clock import Clocks
from slidejoin.window.duration import Duration, duration
from slidejoin.window.ring import SMALLEST, SUBWINDOWS, Extent, Ring
from slidejoin.window.spec import SIDES, Rows, Time, Window, column_of, window_pair
from slidejoin.window.timeline import Timeline
from slidejoin.worker import PADDED, Step, Worker

HOW = tuple(PADDED)
LATE = ("count", "keep", "raise")
ORDER = ("none", "arrival", "strict")
CHUNK_ROWS = 1 << 16  # rows joined at a time: their keys, probes and answers stay in the second-level cache
SUBWINDOW_ROWS = 1 << 22  # the most rows of a subwindow that is measured in time


@dataclass
class Books:
    """Everything that a call changes besides the worker's rings; a call works on a copy.

    What the fields hold is never changed in place, so a copy costs no more than the fields.
    """

    schemas: tuple[pa.Schema | None, pa.Schema | None] = (None, None)
    intaken: tuple[Intaken, Intaken] = (Intaken(), Intaken())
    timeline: Timeline | None = None
    clocks: Clocks = field(default_factory=Clocks)
    early: tuple[Any, Any] = (None, None)  # heartbeats that came before any schema was known
    late_rows: tuple[tuple[pa.RecordBatch, ...], ...] = ((), ())
    matches: int = 0
    emitted: int = 0
    output: Output | None = None
    finished: bool = False


class Join:
    """A join of two streams, ``l`` and ``r``, on any SQL condition over sliding windows.

    >>> import slidejoin as sj
    >>> join = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(100))
    >>> join.push(left={"x": [1, 5]}).num_rows
    0
    >>> join.push(right={"x": [2]}).to_table().to_pydict()
    {'x_l': [1], 'x_r': [2]}
    """

    def __init__(
        self,
        condition: str,
        window: Window | tuple[Window, Window] | None = None,
        how: str = "inner",
        lateness: Any = None,
        late: str = "count",
        order: str = "none",
        index: str = "auto",
        flow: str = "auto",
        threads: int | None = None,
        aliases: tuple[str, str] = ("l", "r"),
        suffixes: tuple[str, str] = ("_l", "_r"),
        tuning: Tuning | None = None,
    ) -> None:
        self._windows = window_pair(window)
        self._timed = isinstance(self._windows[0], Time)
        self._lateness = _lateness(lateness, self._timed)
        self._how = _one_of("how", how, HOW)
        self._late = _one_of("late", late, LATE)
        self._order = _one_of("order", order, ORDER)
        self._index = _one_of("index", index, ("auto", *INDEXES))
        self._flow_name = _one_of("flow", flow, ("auto", *FLOWS))
        self._threads = _threads(threads)
        self._aliases = _pair_of_names("aliases", aliases)
        self._suffixes = _pair_of_names("suffixes", suffixes, empty=True)
        self._tuning = tuning if tuning is not None else Tuning()
        self._condition = parse(condition, self._aliases)
        kernels.ready()
        self._worker = Worker(
            how=self._how,
            order=self._order,
            index=self._index,
            threads=self._threads,
            pool=lambda: pool(self._threads),
        )
        self._flow = FLOWS["single" if flow == "auto" else flow](self._worker, self._chunk_rows())
        self._books = Books()

    # -- calls -----------------------------------------------------------------------------------------

    def push(self, *, left: Any = None, right: Any = None) -> Matches:
        """Rows have arrived, on one side or both; returns what they match.

        Accepts anything with an Arrow C stream (pyarrow, Polars, DuckDB, nanoarrow), pandas, or a dict of
        arrays. Cost: O(rows * log(window)) plus nothing for the matches until they are read.
        """
        batches = tuple(None if data is None else to_batch(data, side) for side, data in enumerate((left, right)))
        growing = (left is not None, right is not None)
        return self._attempt(lambda books, step: self._take_in(books, batches, step), growing)

    def advance(self, *, left: Any = None, right: Any = None) -> Matches:
        """Time has passed without rows: move the clocks, let rows leave, emit those wanted unmatched."""
        if not self._timed:
            raise WindowError(
                "advance() was called on a join over Rows; expected Time windows, as only they have clocks; "
                "push rows instead"
            )

        def beat(books: Books, step: Step) -> None:
            for side, value in enumerate((left, right)):
                if value is None:
                    continue
                if books.timeline is None:
                    books.early = _with(books.early, side, value)
                else:
                    books.clocks = books.clocks.shown(side, books.timeline.instant(value, side))
            self._let_go(books, step)

        return self._attempt(beat)

    def finish(self) -> Matches:
        """The end of both streams: emit every row that is still wanted unmatched. The join is then closed."""

        def end(books: Books, step: Step) -> None:
            self._worker.clear(step)
            books.finished = True

        return self._attempt(end)

    def late(self) -> tuple[pa.Table, pa.Table]:
        """With ``late="keep"``: the late rows since the last call, left and right."""
        if self._late != "keep":
            raise StateError(
                f"late() was called on a join with late={self._late!r}; expected late='keep', which keeps late rows; "
                "make the join with late='keep'"
            )
        kept = self._books.late_rows
        self._books.late_rows = ((), ())
        left, right = (
            pa.Table.from_batches(batches, pa.schema([]) if schema is None else schema)
            for batches, schema in zip(kept, self._books.schemas, strict=True)
        )
        return left, right

    def stats(self) -> Counters:
        """Counters: rows in, late, in state, evicted for each side; matches, emitted, bytes, watermark.

        >>> import slidejoin as sj
        >>> join = sj.Join("l.x < r.x", window=sj.Rows(10))
        >>> _ = join.push(left={"x": [1, 2]})
        >>> join.stats().left.state_rows
        2
        """
        books = self._books
        rings = self._worker.rings
        sides = [
            intaken.counters(0 if ring is None else ring.rows)
            for intaken, ring in zip(books.intaken, rings, strict=True)
        ]
        watermark = books.clocks.watermark
        timeline = books.timeline
        return Counters(
            left=sides[0],
            right=sides[1],
            matches=books.matches,
            emitted=books.emitted,
            state_bytes=sum(ring.nbytes for ring in rings if ring is not None),
            watermark=None if watermark is None or timeline is None else timeline.readable(watermark),
            held_by=books.clocks.held_by if self._timed else None,
        )

    def explain(self) -> str:
        """The condition taken apart, the plan and why, the window, and what bounds the state."""
        bound = self._worker.bound
        lines = [(self._condition if bound is None else bound).describe().rstrip(), ""]
        for side, window in enumerate(self._windows):
            name = f"{SIDES[side]} window"
            lines.append(f"{name:<13} {window}{self._measured_on(window, side)}")
        if self._timed:
            lines.append(f"lateness      {self._lateness or 0}, late rows: {self._late}")
        lines += [f"state         {text}" for text in self._state_bounds()]
        lines.append(f"join          {self._how}, order {self._order}")
        lines.append(f"flow          {self._flow.name}, {self._threads} thread{'s' * (self._threads > 1)}")
        for side in (0, 1):
            chosen = self._worker.access[side]
            if chosen is None:
                text = f"index {self._index}; chosen when the first rows of both streams meet"
                lines.append(f"find {SIDES[side]:<8} {text}")
            for access in chosen or ():
                lines.append(f"find {SIDES[side]:<8} {access}")
        return "\n".join(lines)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a durable snapshot: replaced whole, so a crash leaves the previous one."""
        self._open("save")
        snapshot.write(path, *snapshot.of(self))

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, condition: str | None = None, threads: int | None = None
    ) -> Join:
        """The join of a snapshot; ``condition``, if given, must be the one that it was saved with."""
        return snapshot.restore(cls, path, condition=condition, threads=threads)

    def check(self) -> None:
        """Assert every invariant of every structure; a debugging aid, O(state)."""
        self._worker.check()
        for side, counters in ((side, self.stats()[side]) for side in SIDES):
            assert counters["rows_in"] == counters["accepted"] + counters["late"] + counters["null_time"], side
            assert counters["accepted"] == counters["state_rows"] + counters["evicted"], side
            assert min(counters.values()) >= 0, side

    def __repr__(self) -> str:
        return f"<Join {self._how} on {self._condition.text!r}>"

    # -- a call, whole or not at all -------------------------------------------------------------------

    def _open(self, what: str) -> None:
        if self._books.finished:
            raise StateError(f"{what} was called after finish(); expected an open join; make a new Join")

    def _attempt(
        self, act: Callable[[Books, Step], None], growing: tuple[bool, bool] = (False, False)
    ) -> Matches:
        """Run one call on a copy of the books; if it fails, put everything back."""
        self._open("a call")
        worker, books = self._worker, copy(self._books)
        memento = (worker.memento(growing), list(worker.rings), worker.bound, list(worker.access))
        step = Step()
        try:
            act(books, step)
            if books.output is None:
                books.output = Output(*books.schemas, self._how, self._suffixes)
            matches = Matches(step.parts, books.output)
        except BaseException:
            rings, worker.rings, worker.bound, worker.access = memento
            worker.restore(rings, step)
            raise
        books.matches += step.matches
        books.emitted += matches.num_rows
        self._books = books
        return matches

    def _take_in(self, books: Books, batches: tuple[pa.RecordBatch | None, ...], step: Step) -> None:
        before = tuple(intaken.rows_in for intaken in books.intaken)
        self._acquaint(books, batches)
        watermark = books.clocks.watermark  # as the previous call left it: this push does not judge itself
        arrivals = [
            self._accept(books, side, batch, watermark) for side, batch in enumerate(batches) if batch is not None
        ]
        together = False
        if self._timed:
            arrivals = self._timed_reach(arrivals, books.timeline)
        else:
            arrivals, together = self._counted_reach(arrivals, before)
        self._flow.route(arrivals, together=together, step=step, leave=None if self._timed else self._first_visible)
        self._let_go(books, step)

    def _acquaint(self, books: Books, batches: tuple[pa.RecordBatch | None, ...]) -> None:
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
        worker = self._worker
        books.output = Output(schemas[0], schemas[1], self._how, self._suffixes)
        books.schemas = (schemas[0], schemas[1])
        if schemas[0] is not None and schemas[1] is not None:
            bound = self._condition.bind(schemas[0], schemas[1])
            require(bound.branches, self._index)
            worker.bound = bound
        if self._timed:
            self._retime(books)
        for side, schema in enumerate(schemas):
            if schema is not None and worker.rings[side] is None:
                worker.rings[side] = self._new_ring(books, side, schema)

    def _retime(self, books: Books) -> None:
        """Put both streams on one time scale; what is held moves along if the scale gets finer."""
        left, right = self._windows
        assert isinstance(left, Time) and isinstance(right, Time)
        timeline = Timeline.build((left, right), list(books.schemas), self._lateness)
        factor = 1
        if books.timeline is not None and timeline.tick is not None and books.timeline.tick is not None:
            factor = books.timeline.tick // timeline.tick
        if factor != 1:
            self._worker.rings = [
                None if ring is None else ring.rescaled(factor, self._extent(side, timeline))
                for side, ring in enumerate(self._worker.rings)
            ]
        books.timeline, books.clocks = timeline, books.clocks.scaled(factor, timeline.lateness)
        for side, value in enumerate(books.early):
            if value is not None:
                books.clocks = books.clocks.shown(side, timeline.instant(value, side))
        books.early = (None, None)

    def _accept(
        self, books: Books, side: int, batch: pa.RecordBatch, watermark: int | None
    ) -> Arrivals:
        """Set aside rows without a time and late rows; number the rest."""
        intaken = books.intaken[side]
        first, rows = intaken.rows_in, batch.num_rows
        none = np.empty(0, dtype=np.int64)
        if not self._timed:
            books.intaken = _with(books.intaken, side, Intaken(first + rows))
            return Arrivals(side, batch, Numbers(first), Numbers(first), none, none, Numbers(0))
        timeline = books.timeline
        assert timeline is not None and timeline.columns[side] is not None
        column = batch.column(timeline.columns[side].name)
        seqs = Numbers(first)
        without = column.null_count
        if without:
            present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
            batch, seqs = batch.take(pa.array(present)), seqs.select(present)
            column = batch.column(timeline.columns[side].name)
        times = timeline.ticks(column, side)
        late = 0
        if len(times):
            books.clocks = books.clocks.shown(side, int(times.max()))
        if watermark is not None and len(times) and int(times.min()) < watermark:
            below = times < watermark
            late = int(np.count_nonzero(below))
            if self._late == "raise":
                at = int(np.flatnonzero(below)[0])
                raise LateRowError(
                    f"{late} {SIDES[side]} rows are late, the first is row {int(seqs.of(np.array([at]))[0])} at "
                    f"{timeline.readable(int(times[at]))}; expected times from the watermark "
                    f"{timeline.readable(watermark)} on; raise lateness, or use late='keep' or 'count'"
                )
            if self._late == "keep":
                kept = batch.filter(pa.array(below))
                books.late_rows = _with(books.late_rows, side, (*books.late_rows[side], kept))
            timely = np.flatnonzero(~below).astype(np.int32)
            batch, seqs, times = batch.take(pa.array(timely)), seqs.select(timely), times[timely]
        intaken = Intaken(first + rows, intaken.late + late, intaken.null_time + without)
        books.intaken = _with(books.intaken, side, intaken)
        return Arrivals(side, batch, seqs, Numbers(0, times), none, none, Numbers(0))

    def _timed_reach(self, arrivals: list[Arrivals], timeline: Timeline | None) -> list[Arrivals]:
        """Time windows: the times that each row may join; left rows arrive before right ones."""
        placed, rank = [], 0
        for one in arrivals:
            assert timeline is not None and one.positions.values is not None
            lows, highs = timeline.visible(1 - one.side, one.positions.values)
            placed.append(Arrivals(one.side, one.batch, one.seqs, one.positions, lows, highs, Numbers(rank)))
            rank += one.rows
        return placed

    def _counted_reach(
        self, arrivals: list[Arrivals], before: tuple[int, ...]
    ) -> tuple[list[Arrivals], bool]:
        """Count windows: the order of arrival, and from it the rows that each row may join.

        The second answer tells whether the sides are interleaved.
        """
        by = self._windows[0].by if isinstance(self._windows[0], Rows) else None
        placed = []
        if len(arrivals) < 2 or by is None or arrivals[0].rows == 0 or arrivals[1].rows == 0:
            seen, rank = list(before), 0
            for one in arrivals:
                others = seen[1 - one.side]
                lows = np.full(one.rows, self._first_visible(1 - one.side, others), dtype=np.int64)
                highs = np.full(one.rows, others - 1, dtype=np.int64)
                placed.append(Arrivals(one.side, one.batch, one.seqs, one.positions, lows, highs, Numbers(rank)))
                seen[one.side] += one.rows
                rank += one.rows
            return placed, False
        order = self._merge_order(arrivals)
        of_left = order < arrivals[0].rows
        for one, mine in zip(arrivals, (of_left, ~of_left), strict=True):
            rows = (order[mine] - (0 if one.side == 0 else arrivals[0].rows)).astype(np.int32)
            others = before[1 - one.side] + np.cumsum(~mine)[mine]
            batch, seqs = one.batch, one.seqs
            if not np.array_equal(rows, np.arange(len(rows))):
                batch, seqs = batch.take(pa.array(rows)), seqs.select(rows)
            window = self._windows[1 - one.side]
            assert isinstance(window, Rows)
            lows = -(-np.maximum(others - window.n, 0) // window.slide) * window.slide
            ranks = Numbers(0, np.flatnonzero(mine))
            placed.append(Arrivals(one.side, batch, seqs, one.positions, lows, others - 1, ranks))
        return placed, True

    def _merge_order(self, arrivals: list[Arrivals]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Rows of both sides by the column ``by``: left first on ties, NULLs last."""
        columns = []
        for one, window in zip(arrivals, self._windows, strict=True):
            assert isinstance(window, Rows) and window.by is not None
            columns.append(pa.table({"by": one.batch.column(column_of(window.by, one.side))}))
        try:
            both = pa.concat_tables(columns, promote_options="permissive")
            both = both.append_column("at", pa.array(np.arange(both.num_rows)))
            order = pc.sort_indices(both, [("by", "ascending"), ("at", "ascending")], null_placement="at_end")
        except pa.ArrowException as error:
            raise SchemaError(
                f"the columns to order by are {columns[0].schema.field(0).type} and "
                f"{columns[1].schema.field(0).type}, which cannot be put in one order ({error}); expected "
                "comparable types; cast one before pushing"
            ) from error
        return order.to_numpy().astype(np.int64)

    def _first_visible(self, side: int, seen: int) -> int:
        window = self._windows[side]
        assert isinstance(window, Rows)
        return window.first_visible(seen)

    def _let_go(self, books: Books, step: Step) -> None:
        """Time windows: rows that nothing in time could match any more leave."""
        watermark = books.clocks.watermark
        if self._timed and watermark is not None and books.timeline is not None:
            for side in (0, 1):
                self._worker.expire(side, books.timeline.earliest_partner(side, watermark), step)

    # -- sizes and texts -------------------------------------------------------------------------------

    def _chunk_rows(self) -> int:
        if self._tuning.chunk_rows is not None:
            return self._tuning.chunk_rows
        if isinstance(self._windows[0], Rows) and self._windows[0].by is not None:
            # Interleaved pieces are stored before they are probed; small windows want small pieces.
            longest = max(window.n for window in self._windows if isinstance(window, Rows))
            return min(CHUNK_ROWS, max(SMALLEST, longest))
        return CHUNK_ROWS

    def _extent(self, side: int, timeline: Timeline | None) -> Extent:
        window = self._windows[side]
        rows = self._tuning.subwindow_rows
        if isinstance(window, Rows):
            return Extent(rows or max(SMALLEST, -(-window.n // SUBWINDOWS)), None)
        assert timeline is not None
        return Extent(rows or SUBWINDOW_ROWS, max(1, timeline.lengths[side] // SUBWINDOWS))

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
            marked=side in PADDED[self._how],
            extent=self._extent(side, timeline),
            time_column=time_column,
        )

    def _columns_exist(self, schema: pa.Schema, side: int) -> None:
        window = self._windows[side]
        if isinstance(window, Rows) and window.by is not None:
            name = column_of(window.by, side)
            if name not in schema.names:
                raise SchemaError(
                    f"the {SIDES[side]} batch has no column {name!r} to order by; expected one of {schema.names}; "
                    "set Rows(..., by=...) to one of them"
                )

    def _measured_on(self, window: Window, side: int) -> str:
        if isinstance(window, Time):
            return f" on {column_of(window.on, side)}"
        return "" if window.by is None else f", a push of both sides ordered by {column_of(window.by, side)}"

    def _state_bounds(self) -> list[str]:
        """What bounds the rows held, side by side."""
        texts = []
        for side, window in enumerate(self._windows):
            if isinstance(window, Rows):
                texts.append(f"{SIDES[side]}: at most {window.n:,} rows")
            else:
                wait = f" + {self._lateness} lateness" if self._lateness and self._lateness.count else ""
                texts.append(
                    f"{SIDES[side]}: rows of the last {window.duration}{wait} before the slower stream's clock, "
                    "and all after it"
                )
        return texts


def _lateness(value: Any, timed: bool) -> Duration | None:
    if value is None:
        return None
    if not timed:
        raise WindowError(
            f"lateness={value!r} was given with Rows windows; expected it with Time windows only, as rows that are "
            "counted cannot be late; leave it out"
        )
    lateness = duration(value, "lateness")
    if lateness.count < 0:
        raise WindowError(f"lateness={value!r} is negative; expected zero or more; try '30 seconds'")
    return lateness


def _one_of(what: str, value: Any, names: tuple[str, ...]) -> str:
    if value not in names:
        error = ConditionError if what == "index" else WindowError
        raise error(f"{what}={value!r}; expected one of {', '.join(names)}; leave it out for {names[0]!r}")
    return str(value)


def _threads(value: Any) -> int:
    if value is None:
        return cores()
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WindowError(f"threads={value!r}; expected a whole number of at least 1; leave it out for all cores")
    return value


def _pair_of_names(what: str, value: Any, *, empty: bool = False) -> tuple[str, str]:
    if (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(name, str) and (name or empty) for name in value)
        and value[0] != value[1]
    ):
        return (value[0], value[1])
    raise SchemaError(f"{what}={value!r}; expected a pair of different texts; try {what}=('a', 'b')")


def _with(pair: Any, side: int, value: Any) -> Any:
    """The pair with one side replaced."""
    return (value, pair[1]) if side == 0 else (pair[0], value)

