"""Date, time and timestamp literals, to the nanosecond."""

from __future__ import annotations

import re
from datetime import date

_DATE = r"(\d{4,5})-(\d{1,2})-(\d{1,2})"
_TIME = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_ZONE = r"\s*(Z|z|UTC|[+-]\d{2}(?::?\d{2})?)?"
_STAMP = re.compile(rf"\s*{_DATE}(?:[T ]\s*{_TIME}{_ZONE})?\s*")
_CLOCK = re.compile(rf"\s*{_TIME}\s*")

DAY = 86_400_000_000_000


def parse_stamp(text: str) -> tuple[int, bool] | None:
    """Nanoseconds since 1970 and whether the text names a zone; None if it is no timestamp."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    try:
        days = date(int(match[1]), int(match[2]), int(match[3])).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    clock = _clock(match[4], match[5], match[6], match[7]) if match[4] is not None else 0
    if clock is None:
        return None
    zone = match[8]
    if zone is None:
        return days * DAY + clock, False
    if zone.upper() in ("Z", "UTC"):
        return days * DAY + clock, True
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000_000_000
    return days * DAY + clock - (offset if zone[0] == "+" else -offset), True


def parse_clock(text: str) -> int | None:
    """Nanoseconds since midnight; None if the text is no time of day."""
    match = _CLOCK.fullmatch(text)
    return None if match is None else _clock(match[1], match[2], match[3], match[4])


def _clock(hour: str, minute: str, second: str | None, fraction: str | None) -> int | None:
    h, m, s = int(hour), int(minute), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        return None
    return ((h * 60 + m) * 60 + s) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
