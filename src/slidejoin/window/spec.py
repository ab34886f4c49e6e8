"""Windows as the user states them: frozen, checked when they are made, knowing no data yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from typing import Any

from slidejoin.errors import WindowError
from slidejoin.tuning import MOST_ROWS
from slidejoin.window.duration import Duration, duration

Names = str | tuple[str, str]
Length = str | timedelta | int
LEFT, RIGHT = 0, 1
SIDES = ("left", "right")


@dataclass(frozen=True)
class Rows:
    """The last ``n`` rows of a stream, in arrival order.

    >>> Rows(1_000_000)
    Rows(n=1000000, by=None, slide=1)

    ``by`` names the column that orders the rows of one push of both sides (a name, or a pair of names);
    without it the left rows arrive before the right rows. With ``slide`` d, rows leave d at a time.
    """

    n: int
    by: Names | None = None
    slide: int = 1

    def __post_init__(self) -> None:
        for what in ("n", "slide"):
            value: Any = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise WindowError(
                    f"Rows({what}={value!r}); expected a whole number of at least 1; try Rows(1000)"
                )
            object.__setattr__(self, what, int(value))
        if self.n > MOST_ROWS:
            raise WindowError(
                f"Rows(n={self.n}) is too long; expected at most {MOST_ROWS}; use a shorter window"
            )
        if self.n % self.slide:
            raise WindowError(
                f"Rows(n={self.n}, slide={self.slide}): n is not a multiple of slide; expected whole slides; "
                f"try n={self.n - self.n % self.slide or self.slide}"
            )
        if self.by is not None:
            object.__setattr__(self, "by", _names(self.by, "by"))

    def first_visible(self, seen: int) -> int:
        """The oldest row that a probe sees when the stream has shown ``seen`` rows."""
        past = seen - self.n
        return 0 if past <= 0 else -(-past // self.slide) * self.slide

    def __str__(self) -> str:
        slide = f", leaving {self.slide} at a time" if self.slide > 1 else ""
        return f"the last {self.n:,} rows{slide}"


@dataclass(frozen=True)
class Time:
    """Rows whose event times are at most ``length`` apart.

    >>> Time("10 minutes", on="ts").on
    'ts'

    ``on`` is the event-time column (a name, or a pair of names): timestamp, date or integer. With ``slide``
    d, two rows are together iff some window ``[k*d, k*d + length)`` holds both.
    """

    length: Length
    on: Names
    slide: Length | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", _names(self.on, "on"))
        length = self.duration
        if length.ticks < 0 or (self.slide is not None and length.ticks == 0):
            raise WindowError(
                f"Time(length={self.length!r}) is too short; expected "
                f"{'zero or more' if self.slide is None else 'a positive length'}; try '1 minute'"
            )
        step = self.step
        if step is None:
            return
        if step.physical != length.physical:
            raise WindowError(
                f"Time(length={self.length!r}, slide={self.slide!r}) mixes a duration with a number; "
                "expected both of one kind; write both as text or both as numbers"
            )
        if not 0 < step.ticks <= length.ticks:
            raise WindowError(
                f"Time(length={self.length!r}, slide={self.slide!r}): the slide must be positive and at most the "
                "length, or some rows would be in no window; try a shorter slide"
            )

    @property
    def duration(self) -> Duration:
        return duration(self.length, "Time length")

    @property
    def step(self) -> Duration | None:
        return None if self.slide is None else duration(self.slide, "Time slide")

    def __str__(self) -> str:
        slide = f", sliding by {self.step}" if self.slide is not None else ""
        return f"{self.duration}{slide}"


Window = Rows | Time


def _names(value: Any, what: str) -> Names:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, str) and v for v in value):
        return (value[0], value[1])
    raise WindowError(
        f"{what}={value!r}; expected a column name or a pair (left, right) of names; try {what}='ts'"
    )


def window_pair(window: Any) -> tuple[Window, Window]:
    """The left and the right window; one window serves both sides."""
    if isinstance(window, (Rows, Time)):
        return window, window
    if (
        isinstance(window, (tuple, list))
        and len(window) == 2
        and all(isinstance(w, (Rows, Time)) for w in window)
    ):
        left, right = window
        if type(left) is not type(right):
            raise WindowError(
                f"the windows are of two kinds, {type(left).__name__} and {type(right).__name__}; expected one "
                "kind (their lengths may differ); use Rows for both or Time for both"
            )
        if isinstance(left, Rows) and (left.by is None) != (right.by is None):
            raise WindowError(
                f"the windows' by are {left.by!r} and {right.by!r}; expected a column on both sides or on none; "
                "give both windows the same by"
            )
        if isinstance(left, Time) and left.duration.physical != right.duration.physical:
            raise WindowError(
                f"the windows' lengths are {left.length!r} and {right.length!r}; expected both as durations or "
                "both as numbers; write them alike"
            )
        return left, right
    raise WindowError(
        f"window is {window!r}; expected sj.Rows(n), sj.Time(length, on=...) or a pair of them, so that state is "
        "bounded; try window=sj.Time('10 minutes', on='ts')"
    )


def column_of(names: Names, side: int) -> str:
    """The name that a window's ``on`` or ``by`` means on one side."""
    return names if isinstance(names, str) else names[side]
