"""Lengths of time: text, ``timedelta`` or number, as exact nanoseconds or plain ticks."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from slidejoin.errors import WindowError

NANOSECONDS = {
    "nanosecond": 1,
    "ns": 1,
    "microsecond": 1_000,
    "us": 1_000,
    "millisecond": 1_000_000,
    "ms": 1_000_000,
    "second": 1_000_000_000,
    "sec": 1_000_000_000,
    "s": 1_000_000_000,
    "minute": 60_000_000_000,
    "min": 60_000_000_000,
    "m": 60_000_000_000,
    "hour": 3_600_000_000_000,
    "h": 3_600_000_000_000,
    "day": 86_400_000_000_000,
    "d": 86_400_000_000_000,
    "week": 604_800_000_000_000,
    "w": 604_800_000_000_000,
}
TERM = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*,?")
LONGEST_TEXT = 200


class Duration(NamedTuple):
    """``ticks`` nanoseconds, or ``ticks`` units of an integer time column."""

    ticks: int
    physical: bool

    def __str__(self) -> str:
        if not self.physical:
            return str(self.ticks)
        for unit in ("week", "day", "hour", "minute", "second", "millisecond", "microsecond"):
            size = NANOSECONDS[unit]
            if self.ticks and self.ticks % size == 0:
                times = self.ticks // size
                return f"{times} {unit}{'' if times == 1 else 's'}"
        return f"{self.ticks} nanoseconds"


def duration(value: object, what: str) -> Duration:
    """Read a length such as ``"10 minutes"``, ``timedelta(minutes=10)`` or ``600``.

    >>> duration("1 hour 30 minutes", "length").ticks == 90 * 60 * 10**9
    True
    """
    if isinstance(value, str):
        return Duration(_parse(value, what), physical=True)
    if isinstance(value, np.timedelta64):
        return Duration(_of_numpy(value, what), physical=True)
    if isinstance(value, timedelta):
        whole = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        # pandas' Timedelta is a timedelta that also counts nanoseconds.
        return Duration(whole * 1_000 + int(getattr(value, "nanoseconds", 0)), physical=True)
    if isinstance(value, bool):
        raise _refused(value, what)
    if isinstance(value, (int, np.integer)):
        return Duration(int(value), physical=False)
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and float(value).is_integer():
        return Duration(int(value), physical=False)
    raise _refused(value, what)


def _of_numpy(value: np.timedelta64, what: str) -> int:
    """By hand: NumPy would wrap beyond 292 years, and take a month for 30.44 days."""
    unit, count = np.datetime_data(value.dtype)
    size = NANOSECONDS.get(unit.lower() if unit in ("D", "W") else unit)
    if np.isnat(value) or size is None:
        raise _refused(value, what)
    return int(value.astype(np.int64)) * size * count


def _parse(text: str, what: str) -> int:
    total, at, count = 0, 0, 0
    if len(text) > LONGEST_TEXT:
        raise _refused(text[:20] + "...", what)
    stripped = text.strip()
    while at < len(stripped):
        term = TERM.match(stripped, at)
        if term is None:
            raise _refused(text, what)
        number, word = term.groups()
        unit = word.lower().replace("µ", "u")
        size = NANOSECONDS.get(unit) or NANOSECONDS.get(unit.removesuffix("s"))
        if size is None:
            hint = (
                " (a month or a year has no fixed length)" if unit[:5] in ("month", "year", "years") else ""
            )
            raise WindowError(
                f"{what} {text!r} has the unknown unit {word!r}{hint}; expected nanoseconds to weeks; "
                "write for example '10 minutes'"
            )
        whole, _, fraction = number.partition(".")
        exact = int(whole) * size
        if fraction:
            part = int(fraction) * size
            if part % 10 ** len(fraction):
                raise WindowError(
                    f"{what} {text!r} is finer than a nanosecond; expected whole nanoseconds; round it"
                )
            exact += (-1 if whole.startswith("-") else 1) * part // 10 ** len(fraction)
        total += exact
        at = term.end()
        count += 1
    if count == 0:
        raise _refused(text, what)
    return total


def _refused(value: object, what: str) -> WindowError:
    return WindowError(
        f"{what} is {value!r}; expected text such as '10 minutes', a timedelta, "
        "or a whole number where the time column is an integer; state must be bounded, so it must be finite"
    )
