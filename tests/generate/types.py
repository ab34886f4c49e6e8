"""Column types, and pools of values in which ties, specials and extremes are common.

A value has two forms. *Raw* is what is put into an Arrow array (temporal types as integers of their unit). *SQL*
is what the oracle computes with: int, Fraction for decimals, float, bool, str, bytes, and integer nanoseconds for
all that is temporal, so that units and zones are gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9


@dataclass(frozen=True)
class ColumnType:
    """An Arrow type, the family of SQL values it belongs to (only one family's types are comparable), and how
    raw values become SQL values."""

    arrow: pa.DataType
    family: str  # number text bytes bool date naive zoned span

    @property
    def kind(self) -> str:
        """Numbers differ in how they compute: int, dec, float. Elsewhere kind and family are one."""
        if self.family != "number":
            return self.family
        if pa.types.is_integer(self.arrow):
            return "int"
        return "dec" if pa.types.is_decimal(self.arrow) else "float"

    @property
    def nanos(self) -> int:
        """Nanoseconds in one raw step of a temporal type; 1 for an integer used as time."""
        if self.family == "date":
            return DAY
        return NANOS[self.arrow.unit] if self.family in ("naive", "zoned", "span") else 1

    def sql(self, raw: Any) -> Any:
        if raw is None:
            return None
        if self.kind == "dec":
            return Fraction(raw)
        return raw * self.nanos if self.family in ("date", "naive", "zoned", "span") else raw

    def array(self, raws: Sequence[Any]) -> pa.Array:
        if self.kind == "float":  # through NumPy: exact, and pyarrow would refuse what float32 rounds
            valid = np.array([raw is not None for raw in raws], dtype=bool)
            values = np.array(
                [0.0 if raw is None else raw for raw in raws], dtype=self.arrow.to_pandas_dtype()
            )
            return pa.array(values, mask=~valid, type=self.arrow)
        return pa.array(raws, type=self.arrow)

    def fit(self, value: int | Fraction | float) -> Any:
        """A number of the common pool as a raw value of this type, or None if this type cannot hold it."""
        if self.kind == "float":
            dtype = self.arrow.to_pandas_dtype()
            if isinstance(value, float) and not math.isfinite(value):
                return value
            with np.errstate(over="ignore"):
                return float(dtype(float(value)))
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            value = Fraction(value)
        if self.kind == "int":
            bits = self.arrow.bit_width
            signed = pa.types.is_signed_integer(self.arrow)
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            return int(value) if value == int(value) and low <= value <= high else None
        scaled = Fraction(value) * 10**self.arrow.scale
        if scaled.denominator != 1 or abs(scaled) >= 10**self.arrow.precision:
            return None
        return Decimal(int(scaled)).scaleb(-self.arrow.scale)


INTEGERS = tuple(
    ColumnType(t, "number")
    for t in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    )
)
FLOATS = (ColumnType(pa.float64(), "number"), ColumnType(pa.float32(), "number"))
DECIMALS = tuple(ColumnType(pa.decimal128(p, s), "number") for p, s in ((9, 2), (18, 4), (20, 0), (5, 5)))
NUMBERS = INTEGERS + FLOATS + DECIMALS
TEXTS = (ColumnType(pa.string(), "text"), ColumnType(pa.large_string(), "text"))
BYTES = (ColumnType(pa.binary(), "bytes"),)
BOOLS = (ColumnType(pa.bool_(), "bool"),)
DATES = (ColumnType(pa.date32(), "date"),)
NAIVE = tuple(ColumnType(pa.timestamp(unit), "naive") for unit in NANOS)
ZONED = tuple(
    ColumnType(pa.timestamp(unit, tz), "zoned")
    for unit, tz in (("s", "UTC"), ("ms", "UTC"), ("us", "Europe/Zurich"), ("ns", "+05:30"))
)
SPANS = tuple(ColumnType(pa.duration(unit), "span") for unit in NANOS)
ALL_TYPES = NUMBERS + TEXTS + BYTES + BOOLS + DATES + NAIVE + ZONED + SPANS

FAMILIES = {
    "number": NUMBERS,
    "text": TEXTS,
    "bytes": BYTES,
    "bool": BOOLS,
    "date": DATES,
    "naive": NAIVE,
    "zoned": ZONED,
    "span": SPANS,
}

SMALL_NUMBERS: tuple[int | Fraction | float, ...] = (
    *range(-3, 12),
    *(Fraction(n, 100) for n in (5, 10, 15, 20, 25, 30, 50, 95, 100, 105, 995, 1005, -5, -10, 250)),
)
SPECIAL_NUMBERS: tuple[int | Fraction | float, ...] = (
    *(float(x) for x in ("nan", "inf", "-inf", "-0.0", "5e-324", "1e-300", "1.7976931348623157e308", "1e18")),
    *(0.1, 0.2, 0.3, 0.1 + 0.2, math.nextafter(0.1, 1), math.nextafter(1.0, 0), 1e16),
    *(sign * (2**bits + off) for bits in (53, 63, 24, 31) for off in (-1, 0, 1) for sign in (1, -1)),
    *(2**7 - 1, -(2**7), 2**8 - 1, 2**15 - 1, 2**16 - 1, 2**32 - 1, 2**32, 2**64 - 1, 2**64 - 2, -(2**63)),
)

_TEXT_POOL = (
    "",
    "a",
    "A",
    "aa",
    "ab",
    "b",
    "z",
    "é",
    "e\u0301",
    "\uffff",
    "\U0001f600",
    "ß",
    " a",
    "a ",
    "a\x00b",
    "%",
    "'",
)
_BYTES_POOL = (b"", b"a", b"b", b"ab", b"\x00", b"\x00\x00", b"\xff", b"\xfe\xff", b"\x80")
_DATE_POOL = (0, 1, 2, 3, 5, 10, -1, -2, 19_000, 19_001, 19_007, 47_482, -141_427)
_TIME_SPECIALS = (-1, 2_208_988_800, -62_135_596_800)  # seconds: before the epoch, 2040, year 1


@st.composite
def number_pools(draw: st.DrawFn) -> list[int | Fraction | float]:
    """A few numbers that all numeric columns of a case share, so that columns of different types meet."""
    small = draw(st.lists(st.sampled_from(SMALL_NUMBERS), min_size=2, max_size=8))
    special = draw(st.lists(st.sampled_from(SPECIAL_NUMBERS), max_size=4))
    wild = draw(st.lists(st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats()), max_size=2))
    return small + special + wild


@st.composite
def raw_pools(draw: st.DrawFn, column: ColumnType, numbers: Sequence[int | Fraction | float]) -> list[Any]:
    """The raw values that a column of a case may take; None (NULL) among them, mostly."""
    nulls = draw(st.sampled_from(([], [None], [None], [None] * 4)))
    if column.family == "number":
        fitting = [raw for raw in map(column.fit, numbers) if raw is not None]
        return (fitting or [column.fit(0)]) + nulls
    if column.family in ("text", "bytes", "date"):
        source = {"text": _TEXT_POOL, "bytes": _BYTES_POOL, "date": _DATE_POOL}[column.family]
        return draw(st.lists(st.sampled_from(source), min_size=1, max_size=6)) + nulls
    if column.family == "bool":
        return [True, False, *nulls]
    # Temporal: whole and part seconds that every unit can tell apart or not, near each other.
    step = 10**9 // column.nanos
    whole = draw(st.lists(st.integers(-3, 12), min_size=1, max_size=6))
    pool = [second * step for second in whole]
    if step > 1:
        pool += [second * step + draw(st.sampled_from((1, -1, step // 2))) for second in whole[:2]]
    if column.family != "span" and column.arrow.unit != "ns" and draw(st.booleans()):
        pool += [second * step for second in _TIME_SPECIALS]
    return pool + nulls


def pick(pool: Sequence[Any], choices: bytes) -> list[Any]:
    """Rows from a pool, one byte of choice each: cheap to draw and to shrink."""
    return [pool[choice % len(pool)] for choice in choices]
