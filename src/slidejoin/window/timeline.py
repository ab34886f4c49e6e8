"""Event time as int64 ticks: one scale for both streams, exact, never wrapping.

Design      timestamps and dates become ticks of the finest unit that any column or length needs; integer
            columns are ticks already. Lengths, clocks and the watermark are Python integers, so nothing
            near the ends of int64 wraps; only bounds that are stored in arrays are clamped.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SchemaError, WindowError
from slidejoin.window.duration import Duration
from slidejoin.window.spec import SIDES, Time, column_of

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}  # nanoseconds per tick
DAY = 86_400_000_000_000

Int64s = NDArray[np.int64]


def named_in(schema: pa.Schema, name: str, side: int) -> None:
    """Refuse rows without the event-time column."""
    if name not in schema.names:
        raise SchemaError(
            f"the {SIDES[side]} batch has no column {name!r} for the event time; expected one of its columns "
            f"{schema.names}; set Time(..., on=...) to one of them"
        )


@dataclass(frozen=True)
class TimeColumn:
    """What one side's event-time column is."""

    name: str
    type: pa.DataType
    tick: int | None  # nanoseconds per stored tick; None for integer columns
    zoned: bool

    @staticmethod
    def of(schema: pa.Schema, name: str, side: int) -> TimeColumn:
        named_in(schema, name, side)
        kind = schema.field(name).type
        if pa.types.is_timestamp(kind):
            return TimeColumn(name, kind, UNITS[kind.unit], kind.tz is not None)
        if pa.types.is_date32(kind):
            return TimeColumn(name, kind, DAY, False)
        if pa.types.is_date64(kind):
            return TimeColumn(name, kind, UNITS["ms"], False)
        if pa.types.is_integer(kind):
            return TimeColumn(name, kind, None, False)
        raise SchemaError(
            f"the {SIDES[side]} event-time column {name!r} is {kind}; expected a timestamp, date or integer; "
            "cast it before the join"
        )


@dataclass(frozen=True)
class Timeline:
    """The common scale, and the windows' lengths on it."""

    columns: tuple[TimeColumn | None, TimeColumn | None]
    tick: int | None  # nanoseconds per tick; None for integers
    zoned: bool
    lengths: tuple[int, int]
    steps: tuple[int | None, int | None]
    lateness: int

    @staticmethod
    def build(
        windows: tuple[Time, Time], schemas: list[pa.Schema | None], lateness: Duration | None
    ) -> Timeline:
        """The scale for what is known of the two streams; at least one schema is known."""
        columns = tuple(
            None if schema is None else TimeColumn.of(schema, column_of(windows[side].on, side), side)
            for side, schema in enumerate(schemas)
        )
        known = [column for column in columns if column is not None]
        physical = known[0].tick is not None
        if any((column.tick is not None) != physical for column in known):
            raise SchemaError(
                f"the event-time columns are {known[0].type} and {known[1].type}; expected both integers or both "
                "instants; cast one before the join"
            )
        if len({column.zoned for column in known}) > 1:
            raise SchemaError(
                f"the event-time columns are {known[0].type} and {known[1].type}; expected both with a time zone "
                "or both without; cast one before the join"
            )
        for span in _spans(windows, lateness):
            if span.ticks and span.physical != physical:
                column = known[0]
                expected = "a duration such as '10 minutes'" if physical else "a whole number"
                raise WindowError(
                    f"a window length or lateness is {span}, but the event-time column {column.name!r} is "
                    f"{column.type}; expected {expected}; state lengths in the column's own terms"
                )
        ticks = [column.tick for column in known if column.tick is not None]
        return Timeline._scaled((columns[0], columns[1]), physical, known[0].zoned, ticks, windows, lateness)

    @staticmethod
    def of_heartbeat(
        windows: tuple[Time, Time], value: Any, side: int, lateness: Duration | None
    ) -> Timeline:
        """The scale before any row has come, as the first heartbeat and the windows tell it."""
        spans = [span for span in _spans(windows, lateness) if span.ticks]
        physical = spans[0].physical if spans else not isinstance(value, (int, np.integer))
        if not physical:
            _whole(value, side)
            return Timeline.bare(windows, lateness, tick=None, zoned=False)
        moment = _moment(value)
        if moment is None:
            raise WindowError(
                f"advance({SIDES[side]}={value!r}); expected a datetime, a date, numpy.datetime64 or ISO text, as the "
                "windows are lengths of time; pass the time of the heartbeat"
            )
        return Timeline.bare(windows, lateness, tick=1, zoned=moment[1])

    @staticmethod
    def bare(
        windows: tuple[Time, Time], lateness: Duration | None, *, tick: int | None, zoned: bool
    ) -> Timeline:
        """A scale of which only the tick is known, no columns."""
        ticks = [] if tick is None else [tick]
        return Timeline._scaled((None, None), tick is not None, zoned, ticks, windows, lateness)

    @staticmethod
    def _scaled(
        columns: tuple[TimeColumn | None, TimeColumn | None],
        physical: bool,
        zoned: bool,
        ticks: list[int],
        windows: tuple[Time, Time],
        lateness: Duration | None,
    ) -> Timeline:
        """The coarsest scale on which the columns' ticks and all lengths are whole."""
        sizes = ticks + [span.ticks for span in _spans(windows, lateness)]
        tick = (
            next(unit for unit in UNITS.values() if all(size % unit == 0 for size in sizes))
            if physical
            else None
        )
        left, right = (window.duration.ticks // (tick or 1) for window in windows)
        steps = [None if window.step is None else window.step.ticks // (tick or 1) for window in windows]
        return Timeline(
            columns,
            tick,
            zoned,
            (left, right),
            (steps[0], steps[1]),
            lateness.ticks // (tick or 1) if lateness else 0,
        )

    def ticks(self, column: pa.Array, side: int) -> Int64s:
        """Event times (no NULLs among them) as int64 ticks of the common scale."""
        kind = column.type
        if pa.types.is_date32(kind):
            stored = column.view(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64)
        elif self.tick is not None:
            stored = column.view(pa.int64()).to_numpy(zero_copy_only=False)
        elif pa.types.is_uint64(kind):
            stored = column.to_numpy(zero_copy_only=False)
            if len(stored) and int(stored.max()) > INT64_MAX:
                raise self._out_of_range(side, int(stored.max()))
            stored = stored.view(np.int64)
        else:
            stored = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        described = self.columns[side]
        assert described is not None
        if self.tick is None or described.tick == self.tick:
            ticks: Int64s = stored
            return ticks
        assert described.tick is not None
        return scaled(stored, described.tick // self.tick, SIDES[side])

    def instant(self, value: Any, side: int) -> int:
        """A heartbeat's time as a tick."""
        if self.tick is None:
            return _whole(value, side)
        nanoseconds = _nanoseconds(value, side, self.zoned)
        # Rounded down: a clock must not claim more than what has passed.
        return nanoseconds // self.tick

    def readable(self, ticks: int) -> Any:
        """A tick as the user's kind of value: int, or datetime (UTC where the columns have a zone)."""
        if self.tick is None:
            return ticks
        nanoseconds = ticks * self.tick
        seconds, rest = divmod(nanoseconds, 1_000_000_000)
        try:
            moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1_000)
        except (ValueError, OverflowError, OSError):
            return f"{nanoseconds} ns from the epoch"
        return moment if self.zoned else moment.replace(tzinfo=None)

    def earliest_partner(self, side: int, time: int) -> int:
        """The least time of a ``side`` row that a row of the other side at ``time`` may join."""
        length, step = self.lengths[side], self.steps[side]
        if step is None:
            return time - length
        return ((time - length) // step + 1) * step

    def latest_partner(self, side: int, time: int) -> int:
        """The greatest time of a ``side`` row that a row of the other side at ``time`` may join."""
        other = 1 - side
        length, step = self.lengths[other], self.steps[other]
        if step is None:
            return time + length
        return time // step * step + length - 1

    def visible(self, side: int, times: Int64s) -> tuple[Int64s, Int64s]:
        """For rows of the other side at ``times``: the bounds of the ``side`` rows they may join, clamped."""
        if len(times) == 0:
            return times, times
        low, high = int(times.min()), int(times.max())
        margin = max(self.lengths) + max([step or 0 for step in self.steps])
        if low - margin < INT64_MIN or high + margin > INT64_MAX:
            lows = [max(INT64_MIN, self.earliest_partner(side, time)) for time in times.tolist()]
            highs = [min(INT64_MAX, self.latest_partner(side, time)) for time in times.tolist()]
            return np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64)
        return (
            np.asarray(self.earliest_partner(side, times)),  # type: ignore[arg-type]
            np.asarray(self.latest_partner(side, times)),  # type: ignore[arg-type]
        )

    def _out_of_range(self, side: int, value: int) -> WindowError:
        return WindowError(
            f"the {SIDES[side]} event time {value} does not fit int64; expected times below 2**63; rescale the column"
        )


def scaled(ticks: Int64s, factor: int, side: str) -> Int64s:
    """Ticks on a finer scale; refuses rather than wraps."""
    if factor == 1 or len(ticks) == 0:
        return ticks
    if int(ticks.min()) * factor < INT64_MIN or int(ticks.max()) * factor > INT64_MAX:
        raise WindowError(
            f"a {side} event time is too far from 1970 for the finest unit in use; expected times within the range "
            "of that unit; cast the finer column or length to a coarser unit"
        )
    return ticks * factor


def _spans(windows: tuple[Time, Time], lateness: Duration | None) -> list[Duration]:
    """Every length that the windows and the lateness state."""
    steps = [window.step for window in windows if window.step is not None]
    return [window.duration for window in windows] + steps + ([lateness] if lateness else [])


def _whole(value: Any, side: int) -> int:
    number = value.as_py() if isinstance(value, pa.Scalar) else value
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise WindowError(
            f"advance({SIDES[side]}={value!r}); expected a whole number, as the event-time column is an integer; "
            "pass an int"
        )
    if not INT64_MIN <= number <= INT64_MAX:
        raise WindowError(
            f"advance({SIDES[side]}={value!r}) is beyond every time that the column can hold, so that every later row "
            "would be late; expected a whole number of 64 bits; pass the time that has been reached"
        )
    return int(number)


def _nanoseconds(value: Any, side: int, zoned: bool) -> int:
    """A moment as nanoseconds from the epoch; refused unless it has a zone exactly when ``zoned``."""
    moment = _moment(value)
    if moment is None or moment[1] != zoned:
        raise WindowError(
            f"advance({SIDES[side]}={value!r}); expected "
            + (
                "a datetime with a time zone, as the event-time column has one; try datetime(..., tzinfo=UTC)"
                if zoned
                else "a datetime without a time zone, a date, numpy.datetime64 or ISO text, as the event-time column "
                "says; pass the time of the heartbeat"
            )
        )
    return moment[0]


def _moment(value: Any) -> tuple[int, bool] | None:
    """Nanoseconds from the epoch and whether a zone was named; None if the value is no moment."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, pa.Scalar):
            return _of_scalar(moment)
        if isinstance(moment, np.datetime64):
            return _of_numpy(moment)
        if isinstance(moment, datetime):
            return _of_datetime(moment)
        if isinstance(moment, date):
            return (moment - date(1970, 1, 1)).days * DAY, False
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        pass  # NaT, NULL, text that is no time: said by the caller, in his words
    return None


def _of_scalar(value: pa.Scalar) -> tuple[int, bool]:
    if pa.types.is_date(value.type):
        value = value.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(value.type):
        raise TypeError(str(value.type))
    return int(value.value) * UNITS[value.type.unit], value.type.tz is not None


def _of_numpy(value: np.datetime64) -> tuple[int, bool]:
    if np.isnat(value):
        raise ValueError("NaT")
    unit, count = np.datetime_data(value.dtype)
    if unit not in UNITS:
        value, unit, count = value.astype("datetime64[s]"), "s", 1
    return int(value.astype(np.int64)) * UNITS[unit] * count, False


def _of_datetime(value: datetime) -> tuple[int, bool]:
    zoned = value.tzinfo is not None
    since = (value if zoned else value.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    # pandas' Timestamp is a datetime that also counts nanoseconds.
    return whole * 1_000 + int(getattr(value, "nanosecond", 0)), zoned
