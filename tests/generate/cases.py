"""Whole joins: schemas, a condition, windows and policies (``Setup``), and the calls to make on them.

Rows are made from blocks of random bytes by a ``Feed``, one byte per cell, so that drawing is cheap, shrinking
works, and a stateful machine and a list of calls share the same rows. Event times of a feed go forward with
jitter, stay (ties), fall back within and beyond the lateness, and are sometimes NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

import naive
from generate import types
from generate.conditions import conditions
from generate.expressions import Column, Node
from generate.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Sequence

HOWS = ("inner", "left", "right", "full", "semi", "anti")
NAMES = ("a", "b", "c", "k", "price", "Qty", "x y", "select", "é", 'q"q')
SECOND = 10**9


@dataclass(frozen=True)
class Setup:
    """Everything said before the first row."""

    columns: tuple[tuple[tuple[str, ColumnType], ...], tuple[tuple[str, ColumnType], ...]]
    pools: tuple[tuple[list[Any], ...], tuple[list[Any], ...]]
    condition: Node
    windows: tuple[naive.Window, naive.Window]
    position: tuple[str, str] | None  # the columns `on` or `by`
    lengths: tuple[Any, Any]  # as given to the library: numbers, text or timedeltas
    slides: tuple[Any, Any]
    how: str = "inner"
    lateness: int = 0
    lateness_given: Any = None
    late: str = "count"
    order: str = "none"
    index: str = "auto"
    flow: str = "auto"
    threads: int | None = 1
    aliases: tuple[str, str] = ("l", "r")
    suffixes: tuple[str, str] = ("_l", "_r")
    subwindow_rows: int | None = None
    chunk_rows: int | None = None
    part_rows: int | None = None  # of partitions, buffers and mutable parts of indexes
    origin: int = 0  # where event time begins, in steps
    step: int = 1  # ticks between neighbouring event times

    @property
    def timed(self) -> bool:
        return isinstance(self.windows[0], naive.Time)

    def column(self, side: int, name: str) -> ColumnType:
        return dict(self.columns[side])[name]

    def schema(self, side: int) -> pa.Schema:
        return pa.schema([(name, kind.arrow) for name, kind in self.columns[side]])

    def table(self, side: int, rows: Sequence[dict[str, Any]]) -> pa.Table:
        arrays = [kind.array([row[name] for row in rows]) for name, kind in self.columns[side]]
        return pa.Table.from_arrays(arrays, schema=self.schema(side))

    def naive_rows(self, side: int, rows: Sequence[dict[str, Any]]) -> list[naive.Row]:
        kinds = dict(self.columns[side])
        result = []
        for row in rows:
            values = {name: kinds[name].sql(raw) for name, raw in row.items()}
            result.append(naive.Row(values, values[self.position[side]] if self.position else None))
        return result

    def naive(self) -> naive.Naive:
        return naive.Naive(self.condition.value, self.windows, self.how, self.lateness, self.late)

    def instant(self, side: int, ticks: int) -> Any:
        """Ticks as the value that a user gives to ``advance``."""
        assert self.position is not None
        kind = self.column(side, self.position[side])
        if kind.family == "number":
            return ticks
        zoned = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 1000)
        if kind.family == "date":
            return zoned.date()
        return zoned if kind.family == "zoned" else zoned.replace(tzinfo=None)


def ticks_of(value: Any) -> int | None:
    """The library's watermark as ticks: integers as they are, dates and datetimes as nanoseconds."""
    if value is None or isinstance(value, int):
        return value
    if not isinstance(value, datetime):
        assert isinstance(value, date)
        value = datetime(value.year, value.month, value.day)
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


# -- setups -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TimeKind:
    types: tuple[ColumnType, ...]
    step: int


_TIMES = {
    "int": _TimeKind(
        tuple(
            ColumnType(t, "number") for t in (pa.int64(), pa.int64(), pa.int32(), pa.uint64(), pa.uint16())
        ),
        1,
    ),
    "naive": _TimeKind(types.NAIVE, SECOND),
    "zoned": _TimeKind(types.ZONED, SECOND),
    "date": _TimeKind(types.DATES, types.DAY),
}


def _spell_length(draw: st.DrawFn, kind: str, ticks: int) -> Any:
    if kind == "int":
        return ticks
    if draw(st.booleans()):
        return timedelta(microseconds=ticks // 1000)
    for unit, size in (
        ("days", types.DAY),
        ("hours", 3600 * SECOND),
        ("minutes", 60 * SECOND),
        ("seconds", SECOND),
    ):
        if ticks % size == 0 and (ticks or unit == "seconds"):
            return f"{ticks // size} {unit}"
    return f"{ticks // 10**6} milliseconds"


@st.composite
def setups(draw: st.DrawFn, **fixed: Any) -> Setup:
    """A join; ``fixed`` fields replace drawn ones, ``window="rows" | "time"`` chooses the kind of window,
    ``blind=True`` keeps the event time out of the condition."""
    blind = fixed.pop("blind", False)
    window = fixed.pop("window", None) or draw(st.sampled_from(("rows", "time")))
    families = draw(st.lists(st.sampled_from(_FAMILY_CHOICE), min_size=1, max_size=2))
    aliases = draw(st.sampled_from((("l", "r"), ("l", "r"), ("bids", "asks"))))
    numbers = draw(types.number_pools())
    columns: list[list[tuple[str, ColumnType]]] = [[], []]
    pools: list[list[list[Any]]] = [[], []]
    for side in (0, 1):
        names = draw(st.permutations(NAMES))
        for family in families:
            for _ in range(draw(st.integers(1, 2))):
                kind = draw(st.sampled_from(types.FAMILIES[family]))
                columns[side].append((names[len(columns[side])], kind))
                pools[side].append(draw(types.raw_pools(kind, numbers)))
    position = draw(_positions(window))
    origin, step, time_kind = 0, 1, "int"
    if position is not None:
        time_kind, position_types = position
        step = _TIMES[time_kind].step
        if time_kind == "int" and {str(t.arrow) for t in position_types} == {"int64"}:
            origin = draw(st.sampled_from((0, 0, -40, 10**12, -(2**63) + 60, 2**63 - 600)))
        elif time_kind == "int":
            origin = 60
        elif not any(t.arrow.equals(pa.timestamp("ns")) for t in position_types):
            origin = draw(st.sampled_from((0, 19_700, -25)))
        name = "ts" if draw(st.booleans()) else None
        for side in (0, 1):
            columns[side].append((name or ("lt", "rt")[side], position_types[side]))
            pools[side].append([])  # made by the feed
    operands = [
        [Column(side, name, kind.kind, aliases[side]) for name, kind in columns[side]] for side in (0, 1)
    ]
    if blind:
        operands = [side[:-1] for side in operands]
    drawn: dict[str, Any] = {
        "columns": (tuple(columns[0]), tuple(columns[1])),
        "pools": (tuple(pools[0]), tuple(pools[1])),
        "condition": draw(conditions(operands[0], operands[1])),
        "position": None if position is None else (columns[0][-1][0], columns[1][-1][0]),
        "how": draw(st.sampled_from(HOWS)),
        "order": draw(st.sampled_from(("none", "none", "arrival", "strict"))),
        "threads": draw(st.sampled_from((1, 1, 2))),
        "aliases": aliases,
        "suffixes": draw(st.sampled_from((("_l", "_r"), ("_left", "_right"), ("", "_2")))),
        "subwindow_rows": draw(st.sampled_from((8, 8, 1, 2, 5, 16, None))),
        "chunk_rows": draw(st.sampled_from((16, 4, 1, 7, None))),
        "part_rows": draw(st.sampled_from((None, 1, 3, 7))),
        "origin": origin,
        "step": step,
    }
    drawn |= draw(_rows_windows()) if window == "rows" else draw(_time_windows(time_kind, step))
    return Setup(**(drawn | fixed))


_FAMILY_CHOICE = ("number",) * 8 + ("text", "bytes", "bool", "date", "naive", "zoned", "span")


@st.composite
def _positions(draw: st.DrawFn, window: str) -> tuple[str, tuple[ColumnType, ColumnType]] | None:
    """The kind and types of the columns for `on`, or for `by` where there is one."""
    if window == "rows" and draw(st.booleans()):
        return None
    kind = draw(st.sampled_from(("int", "int", "naive", "zoned", "date")))
    choice = st.sampled_from(_TIMES[kind].types)
    left = draw(choice)
    return kind, (left, draw(choice) if draw(st.booleans()) else left)


@st.composite
def _rows_windows(draw: st.DrawFn) -> dict[str, Any]:
    slide = draw(st.sampled_from((1, 1, 2, 5, 8)))
    sizes = draw(st.lists(st.sampled_from((3, 7, 20, 2, 1)), min_size=2, max_size=2))
    if draw(st.booleans()):
        sizes[1] = sizes[0]
    windows = tuple(naive.Rows(size * slide, slide) for size in sizes)
    return {
        "windows": windows,
        "lengths": tuple(w.size for w in windows),
        "slides": tuple(w.slide for w in windows),
    }


@st.composite
def _time_windows(draw: st.DrawFn, kind: str, step: int) -> dict[str, Any]:
    slide = draw(st.sampled_from((None, None, 1, 2, 5)))
    sizes = draw(st.lists(st.sampled_from((5, 10, 20, 60, 6, 0, 1, 2)), min_size=2, max_size=2))
    sizes = [max(size, slide or 0) for size in sizes]
    if draw(st.booleans()):
        sizes[1] = sizes[0]
    lateness = draw(st.sampled_from((0, 0, 1, 3, 10, 10_000 if kind != "int" else 30)))
    half = (
        step // 2 if draw(st.booleans()) else 0
    )  # finer than the column: dates by hours, seconds by milliseconds
    ticks = [size * step + half for size in sizes]
    return {
        "windows": tuple(naive.Time(size, None if slide is None else slide * step) for size in ticks),
        "lengths": tuple(_spell_length(draw, kind, size) for size in ticks),
        "slides": (None if slide is None else _spell_length(draw, kind, slide * step),) * 2,
        "lateness": lateness * step,
        "lateness_given": _spell_length(draw, kind, lateness * step),
        "late": draw(st.sampled_from(("count", "count", "keep", "raise"))),
    }


# -- rows and calls ---------------------------------------------------------------------------------------

_MOVES = (
    0,
    0,
    0,
    1,
    1,
    1,
    2,
    3,
    -1,
    -2,
    -1,
    0,
    -6,
    1,
    8,
    None,
)  # in steps; None is a NULL time, -6 a straggler
_FINE = (0, 0, 0, 1, -1)  # in raw units: neighbours that only a fine unit tells apart


@dataclass
class Feed:
    """Makes the rows of a setup from bytes; knows how far each stream's event time has come."""

    setup: Setup
    now: list[int] = field(default_factory=lambda: [0, 0])

    def width(self, side: int) -> int:
        return len(self.setup.columns[side])

    def rows(self, side: int, block: bytes) -> list[dict[str, Any]]:
        width = self.width(side)
        rows = []
        for start in range(0, len(block) - width + 1, width):
            row = {}
            cells = block[start : start + width]
            for (name, kind), pool, cell in zip(
                self.setup.columns[side], self.setup.pools[side], cells, strict=True
            ):
                row[name] = pool[cell % len(pool)] if pool else self._position(side, kind, cell)
            rows.append(row)
        return rows

    def _position(self, side: int, kind: ColumnType, cell: int) -> int | None:
        move = _MOVES[cell % 16]
        if move is None:
            return None
        time = self.now[side] + move
        if move > 0:
            self.now[side] = time
        raw = (self.setup.origin + time) * self.setup.step // kind.nanos
        fine = _FINE[cell // 16 % 5] if kind.nanos < self.setup.step else 0
        return raw + fine

    def ahead(self, side: int, steps: int) -> int:
        """A heartbeat's ticks: the stream's time and some."""
        self.now[side] += max(steps, 0)
        return (self.setup.origin + self.now[side] + min(steps, 0)) * self.setup.step


@dataclass(frozen=True)
class Push:
    left: list[dict[str, Any]] | None
    right: list[dict[str, Any]] | None


@dataclass(frozen=True)
class Advance:
    left: int | None  # ticks
    right: int | None


Call = Push | Advance


def batch_sizes(setup: Setup) -> st.SearchStrategy[int]:
    """Around the sizes at which the engine cuts: nothing, one, one less and one more than a chunk."""
    chunk = setup.chunk_rows or 6
    return st.sampled_from((5, chunk + 1, 3, chunk, 8, max(chunk - 1, 0), 2, 1, 0))


@st.composite
def call_lists(draw: st.DrawFn, setup: Setup, max_calls: int = 7) -> list[Call]:
    """Some calls of any size, or a flood followed by a trickle, in which rows leave one by one."""
    feed = Feed(setup)
    calls: list[Call] = []
    trickle = draw(st.integers(0, 5)) == 5
    if trickle:
        calls.append(_push(draw, feed, (0, 1), st.just(24)))
    sizes = st.sampled_from((1, 1, 2)) if trickle else batch_sizes(setup)
    actions = ("both", "left", "right", "both", "both") + ("advance",) * setup.timed
    for _ in range(draw(st.integers(10, 20) if trickle else st.integers(3, max_calls))):
        action = draw(st.sampled_from(actions))
        if action == "advance":
            sides = draw(st.sampled_from(((0,), (1,), (0, 1))))
            steps = draw(st.sampled_from((0, 1, 5, -3, 30)))
            beats = [feed.ahead(side, steps) if side in sides else None for side in (0, 1)]
            calls.append(Advance(*beats))
        else:
            calls.append(_push(draw, feed, {"left": (0,), "right": (1,), "both": (0, 1)}[action], sizes))
    return calls


def _push(draw: st.DrawFn, feed: Feed, sides: tuple[int, ...], sizes: st.SearchStrategy[int]) -> Push:
    rows: list[list[dict[str, Any]] | None] = [None, None]
    for side in sides:
        size = draw(sizes) * feed.width(side)
        rows[side] = feed.rows(side, draw(st.binary(min_size=size, max_size=size)))
    return Push(*rows)


@st.composite
def cases(draw: st.DrawFn, **fixed: Any) -> tuple[Setup, list[Call]]:
    setup = draw(setups(**fixed))
    return setup, draw(call_lists(setup))
