"""The semantics of slidejoin as a nested loop.

This file imports nothing of the library and knows nothing of indexes, batches of columns or plans. It is
written to be read next to ``docs/semantics.md``: every rule is a few lines, every pair is looked at, and
whatever the engine answers has to be exactly this.

A row is ``Row(values, position)``: what the condition sees, and where the row stands: its event time in
integer ticks for ``Time`` (``None`` is NULL), the value of ``by`` for ``Rows`` (``None`` is NULL or no ``by``).
A condition is a callable of two ``values`` that answers ``True``, ``False`` or ``None`` (SQL's unknown).

    >>> near = lambda l, r: abs(l - r) <= 1
    >>> join = Naive(near, (Rows(2), Rows(2)), how="left")
    >>> join.push(left=[Row(10), Row(20), Row(30)])    # three rows in a window of two: the first has left
    [(0, -1)]
    >>> join.push(right=[Row(21)])
    [(1, 0)]
    >>> join.finish()
    [(2, -1)]
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEFT, RIGHT = 0, 1
ABSENT = (
    -1
)  # the row number of a side that is not there: outer padding, and always the right of semi and anti

Pair = tuple[int, int]

# Which sides have a row emitted alone when it leaves the window without ever having matched (rule 8).
ALONE = {"inner": (), "semi": (), "left": (LEFT,), "anti": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}


class LateError(Exception):
    """A row below the watermark, under ``late="raise"``."""


class FinishedError(Exception):
    """A call after ``finish``."""


@dataclass(frozen=True)
class Row:
    values: Any
    position: Any = None


@dataclass(frozen=True)
class Rows:
    """The last ``size`` rows of a stream; a row leaves together with its ``slide`` rows (rules 2 and 4)."""

    size: int
    slide: int = 1

    def visible(self, arrival: int, seen: int) -> bool:
        """Is the row that arrived as number ``arrival`` in the window when ``seen`` rows have arrived?"""
        return seen - arrival // self.slide * self.slide <= self.size


@dataclass(frozen=True)
class Time:
    """Rows at most ``size`` ticks apart, or, with ``slide``, in a common window [k*d, k*d + w) (rules 3, 4)."""

    size: int
    slide: int | None = None

    def reaches(self, earlier: int, later: int) -> bool:
        """Does a row of this side at ``earlier`` qualify with a row of the other side at ``later``?"""
        if self.slide is None:
            return later - earlier <= self.size
        # The last window that holds `earlier` is the one that lasts longest; if it ends before `later` none helps.
        return later < earlier // self.slide * self.slide + self.size


Window = Rows | Time


@dataclass
class Stored:
    """A row that was accepted: number in its stream, place in the common order of arrivals, fate so far."""

    side: int
    seq: int
    arrival: int  # among the accepted rows of its own stream
    moment: int  # among the accepted rows of both streams
    row: Row
    matched: bool = False
    live: bool = True


@dataclass
class Side:
    rows_in: int = 0
    late: int = 0
    null_time: int = 0
    clock: int | None = None  # None: has shown nothing, minus infinity
    accepted: list[Stored] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # late rows not yet asked for

    @property
    def state_rows(self) -> int:
        return sum(stored.live for stored in self.accepted)

    @property
    def evicted(self) -> int:
        return len(self.accepted) - self.state_rows


class Naive:
    """The join. Each call answers the list of its results, in the order that ``order="strict"`` promises:
    by the arrival of the later row, then by the arrival of the earlier; rows emitted alone come last."""

    def __init__(
        self,
        condition: Callable[[Any, Any], bool | None],
        windows: tuple[Window, Window],
        how: str = "inner",
        lateness: int = 0,
        late: str = "count",
    ) -> None:
        self.condition = condition
        self.windows = windows
        self.how = how
        self.lateness = lateness
        self.late = late
        self.sides = (Side(), Side())
        self.timed = isinstance(windows[LEFT], Time)
        self.matches = 0
        self.emitted = 0
        self.moments = 0
        self.finished = False
        self.belongs_to: list[
            int | None
        ] = []  # of the last call's results: the arrival that made it; None: alone
        self.watermark: int | None = None  # as of the end of the previous call (rule 5)

    # -- the calls ------------------------------------------------------------------------------------

    def push(self, left: Sequence[Row] | None = None, right: Sequence[Row] | None = None) -> list[Pair]:
        """Rows of one side or both; ``None`` is a side that was not pushed, which an empty one was."""
        self._open()
        together = left is not None and right is not None
        left, right = left or (), right or ()
        if self.late == "raise" and any(self._is_late(row) for row in (*left, *right)):
            raise LateError
        results: list[Pair] = []
        self.belongs_to = []
        for side, seq, row in self._arrivals(left, right, together):
            results += self._arrive(side, seq, row)
            self.belongs_to += [self.moments] * (len(results) - len(self.belongs_to))
        for side, rows in ((LEFT, left), (RIGHT, right)):
            self.sides[side].rows_in += len(rows)
            if self.timed:
                for row in rows:
                    self._show(side, row.position)
        return self._end_call(results)

    def advance(self, left: int | None = None, right: int | None = None) -> list[Pair]:
        self._open()
        self.belongs_to = []
        self._show(LEFT, left)
        self._show(RIGHT, right)
        return self._end_call([])

    def finish(self) -> list[Pair]:
        self._open()
        self.belongs_to = []
        self.finished = True
        return self._end_call([])

    def late_rows(self) -> tuple[list[int], list[int]]:
        """The numbers of the late rows since this was last asked, under ``late="keep"``."""
        kept = (self.sides[LEFT].kept, self.sides[RIGHT].kept)
        for side in self.sides:
            side.kept = []
        return kept

    @property
    def held_by(self) -> str | None:
        """The side that holds the watermark back: the one with the smaller clock, both when neither is ahead."""
        if not self.timed:
            return None
        left, right = self.sides[LEFT].clock, self.sides[RIGHT].clock
        if left == right:
            return "both"
        if left is None or right is None:
            return "left" if left is None else "right"
        return "left" if left < right else "right"

    # -- rule by rule ---------------------------------------------------------------------------------

    def _open(self) -> None:
        if self.finished:
            raise FinishedError

    def _arrivals(
        self, left: Sequence[Row], right: Sequence[Row], together: bool
    ) -> list[tuple[int, int, Row]]:
        """Both sides of one push in their common order of arrival, with their row numbers.

        Rows: merged by ``by``, NULLs last, ties left first; no ``by`` is a tie of all. Time: left first (the
        order of arrival changes no result there, only the order of the results)."""
        numbered = [(LEFT, self.sides[LEFT].rows_in + i, row) for i, row in enumerate(left)]
        numbered += [(RIGHT, self.sides[RIGHT].rows_in + i, row) for i, row in enumerate(right)]
        if together and not self.timed:
            numbered.sort(key=lambda item: _by_key(item[2].position))  # stable
        return numbered

    def _is_late(self, row: Row) -> bool:
        return (
            self.timed
            and row.position is not None
            and self.watermark is not None
            and row.position < self.watermark
        )

    def _arrive(self, side: int, seq: int, row: Row) -> list[Pair]:
        own, other = self.sides[side], self.sides[1 - side]
        if self.timed and row.position is None:
            own.null_time += 1
            return []
        if self._is_late(row):
            own.late += 1
            if self.late == "keep":
                own.kept.append(seq)
            return []
        new = Stored(side, seq, len(own.accepted), self.moments, row)
        self.moments += 1
        own.accepted.append(new)
        results: list[Pair] = []
        for old in other.accepted:  # Kang's rule (1): the later arrival looks at everything that came before
            if not self._in_window(old, new):
                continue
            left, right = (new, old) if side == LEFT else (old, new)
            if self.condition(left.row.values, right.row.values) is not True:
                continue
            # No row that a later one could match may have been dropped (rules 5 and 6). Rows leave by count, so
            # for them this is Kang's rule once more.
            assert old.live, "the oracle dropped a row that a row not late matches"
            self.matches += 1
            if self.how == "semi":
                if not left.matched:
                    results.append((left.seq, ABSENT))
            elif self.how != "anti":
                results.append((left.seq, right.seq))
            left.matched = right.matched = True
        return results

    def _in_window(self, old: Stored, new: Stored) -> bool:
        window = self.windows[old.side]
        if isinstance(window, Rows):
            return window.visible(old.arrival, len(self.sides[old.side].accepted))
        earlier, later = (old, new) if old.row.position <= new.row.position else (new, old)
        if earlier.row.position == later.row.position:
            # Neither is the earlier: either window may be the one that holds both.
            return any(w.reaches(earlier.row.position, later.row.position) for w in self.windows)
        return self.windows[earlier.side].reaches(earlier.row.position, later.row.position)

    def _show(self, side: int, time: int | None) -> None:
        clock = self.sides[side].clock
        if time is not None and (clock is None or time > clock):
            self.sides[side].clock = time

    def _end_call(self, results: list[Pair]) -> list[Pair]:
        """Move the watermark, drop what can match no more, and emit those of them that never matched."""
        clocks = [side.clock for side in self.sides]
        if None not in clocks:
            self.watermark = min(clocks) - self.lateness
        leaving = [
            stored
            for side in self.sides
            for stored in side.accepted
            if stored.live and (self.finished or not self._could_match(stored))
        ]
        for stored in leaving:
            stored.live = False
            if not stored.matched and stored.side in ALONE[self.how]:
                results.append((stored.seq, ABSENT) if stored.side == LEFT else (ABSENT, stored.seq))
        self.belongs_to += [None] * (len(results) - len(self.belongs_to))
        self.emitted += len(results)
        return results

    def _could_match(self, stored: Stored) -> bool:
        """Could a future row that is not late qualify with this one? (rule 6)"""
        own, other = self.windows[stored.side], self.windows[1 - stored.side]
        if isinstance(own, Rows):
            return own.visible(stored.arrival, len(self.sides[stored.side].accepted))
        time = stored.row.position
        # The partner is not before the watermark. The best one that is later (or equal) comes as soon as it may.
        soonest = time if self.watermark is None else max(self.watermark, time)
        if own.reaches(time, soonest) or (soonest == time and other.reaches(time, time)):
            return True
        # The best one that is earlier comes just before; it matters only where slides leave gaps (w < d).
        before = time - 1
        return (self.watermark is None or before >= self.watermark) and other.reaches(before, time)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _by_key(value: Any) -> tuple[int, Any]:
    """SQL's ascending order: numbers, then NaN, then NULL."""
    if value is None:
        return (2, 0)
    if _is_nan(value):
        return (1, 0)
    return (0, value)


# -- SQL's values ---------------------------------------------------------------------------------------


def compare(a: Any, b: Any) -> int | None:
    """-1, 0 or 1 as SQL orders two values, ``None`` when either is NULL (rule 7).

    Numbers of any kind (int, Fraction for decimals, float) compare by their exact value; NaN equals NaN and is
    larger than every other number; -0.0 equals 0.0; strings compare by their UTF-8 bytes.

    >>> compare(2**53 + 1, float(2**53)), compare(float("nan"), float("inf")), compare(-0.0, 0)
    (1, 1, 0)
    """
    if a is None or b is None:
        return None
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    nan_a, nan_b = _is_nan(a), _is_nan(b)
    if nan_a or nan_b:
        return int(nan_a) - int(nan_b)
    return (a > b) - (a < b)


OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0,
    "<>": lambda c: c != 0,
    "!=": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}


def holds(op: str, a: Any, b: Any) -> bool | None:
    order = compare(a, b)
    return None if order is None else OPERATORS[op](order)


def sql_not(a: bool | None) -> bool | None:
    return None if a is None else not a


def sql_and(*terms: bool | None) -> bool | None:
    if any(term is False for term in terms):
        return False
    return None if any(term is None for term in terms) else True


def sql_or(*terms: bool | None) -> bool | None:
    return sql_not(sql_and(*(sql_not(term) for term in terms)))


def between(x: Any, low: Any, high: Any) -> bool | None:
    return sql_and(holds(">=", x, low), holds("<=", x, high))


def is_in(x: Any, items: Sequence[Any]) -> bool | None:
    return functools.reduce(sql_or, (holds("=", x, item) for item in items), False)


def divide(a: Any, b: Any) -> float | None:
    """``/`` gives a double; division by zero gives NULL."""
    if a is None or b is None or float(b) == 0:
        return None
    return float(a) / float(b)
