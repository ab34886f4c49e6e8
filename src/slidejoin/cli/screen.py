"""What a person reads: consoles and short numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from slidejoin.cli.endings import UsageError

stdout = Console(highlight=False)
stderr = Console(stderr=True, highlight=False)


def short(number: float) -> str:
    """A count in few characters.

    >>> short(940), short(12_345), short(3_200_000), short(7.1e9)
    ('940', '12.3 K', '3.20 M', '7.10 G')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(number) >= size:
            scaled = number / size
            return f"{scaled:.2f} {unit}" if scaled < 10 else f"{scaled:.1f} {unit}"
    return f"{number:.0f}"


def size(count: float) -> str:
    """A number of bytes in few characters.

    >>> size(512), size(4_200_000)
    ('512 B', '4.20 MB')
    """
    return f"{count:.0f} B" if count < 1e3 else short(count) + "B"


def milliseconds(seconds: float) -> str:
    """A duration for a latency column.

    >>> milliseconds(0.00042), milliseconds(0.0123)
    ('0.42 ms', '12.3 ms')
    """
    value = seconds * 1e3
    return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms"


def plain(value: Any) -> Any:
    """Statistics as JSON can hold them: mappings to objects, times to ISO text."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def as_json(report: Mapping[str, Any]) -> str:
    """A report for machines."""
    return json.dumps(plain(report), indent=2, allow_nan=False)


def accounts(stats: Mapping[str, Any]) -> Table:
    """The account of every row, one column for each side."""
    table = Table(title="every row accounted for", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("left", justify="right")
    table.add_column("right", justify="right")
    for name, style in (
        ("rows_in", "bold"),
        ("accepted", ""),
        ("late", ""),
        ("null_time", ""),
        ("state_rows", ""),
        ("evicted", ""),
    ):
        cells = [f"{stats[side][name]:,}" for side in ("left", "right")]
        table.add_row(name.replace("_", " "), *cells, style=style)
    return table


def pair(text: str | None, what: str) -> tuple[str, str] | None:
    """``"a"`` for both sides, or ``"a,b"`` for left and right.

    >>> pair("ts", "--time"), pair("sent, seen", "--time")
    (('ts', 'ts'), ('sent', 'seen'))
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(parts):
        raise UsageError(
            f"{what} {text!r} has {len(parts)} parts; expected one value for both sides, or 'left,right'"
        )
    return parts[0], parts[-1]
