"""Value kinds: what an Arrow type means to a condition.

Everything except floats, strings and binary is *exact*: an integer count of ticks times a rational unit
(1 for integers, 10^-scale for decimals, nanoseconds for all that is time). Comparing two exact values means
bringing their ticks to a common unit; nothing is rounded. Floats are doubles; float16 and float32 widen.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa
import pyarrow.types as pat

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
ONE = Fraction(1)
EXACT = frozenset({"int", "decimal", "bool", "date", "timestamp", "duration", "time"})
NUMERIC = frozenset({"int", "decimal", "float"})
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True, slots=True)
class Type:
    """A kind with what evaluation needs: the tick's unit and the range ticks can have (None = unbounded)."""

    kind: str
    name: str
    unit: Fraction = ONE
    zoned: bool = False
    low: int | None = None
    high: int | None = None

    @property
    def exact(self) -> bool:
        return self.kind in EXACT

    @property
    def fits(self) -> bool:
        """Whether every value's ticks fit int64."""
        return self.low is not None and self.high is not None and self.low >= I64_MIN and self.high <= I64_MAX


FLOAT = Type("float", "double")
BOOL = Type("bool", "bool", low=0, high=1)
STRING = Type("string", "string")
BINARY = Type("binary", "binary")
NULL = Type("null", "null")


def exact_type(kind: str, unit: Fraction, low: int | None, high: int | None, zoned: bool = False) -> Type:
    """The type of a computed exact value."""
    if kind in ("int", "decimal"):
        kind = "int" if unit.denominator == 1 else "decimal"
    name = {"int": "integer", "decimal": "decimal"}.get(kind, kind)
    return Type(kind, name, unit, zoned, low, high)


def from_arrow(arrow: pa.DataType) -> Type:
    """The kind of an Arrow type; ``other`` for nested types, on which only IS NULL works."""
    name = str(arrow)
    if pat.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    if pat.is_run_end_encoded(arrow):
        return from_arrow(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return from_arrow(arrow.storage_type)
    if pat.is_boolean(arrow):
        return Type("bool", name, low=0, high=1)
    if pat.is_integer(arrow):
        bits = arrow.bit_width
        if pat.is_unsigned_integer(arrow):
            return Type("int", name, low=0, high=2**bits - 1)
        return Type("int", name, low=-(2 ** (bits - 1)), high=2 ** (bits - 1) - 1)
    if pat.is_floating(arrow):
        return Type("float", name)
    if pat.is_decimal(arrow):
        limit = 10**arrow.precision - 1
        return Type("decimal", name, Fraction(1) / Fraction(10) ** arrow.scale, low=-limit, high=limit)
    if pat.is_date32(arrow):
        return Type("date", name, Fraction(86_400_000_000_000), low=-(2**31), high=2**31 - 1)
    if pat.is_date64(arrow):
        return Type("date", name, Fraction(1_000_000), low=I64_MIN, high=I64_MAX)
    if pat.is_timestamp(arrow):
        unit = Fraction(_NANOSECONDS[arrow.unit])
        return Type("timestamp", name, unit, arrow.tz is not None, I64_MIN, I64_MAX)
    if pat.is_duration(arrow):
        return Type("duration", name, Fraction(_NANOSECONDS[arrow.unit]), low=I64_MIN, high=I64_MAX)
    if pat.is_time32(arrow):
        return Type("time", name, Fraction(_NANOSECONDS[arrow.unit]), low=-(2**31), high=2**31 - 1)
    if pat.is_time64(arrow):
        return Type("time", name, Fraction(_NANOSECONDS[arrow.unit]), low=I64_MIN, high=I64_MAX)
    if pat.is_string(arrow) or pat.is_large_string(arrow) or pat.is_string_view(arrow):
        return Type("string", name)
    if (
        pat.is_binary(arrow)
        or pat.is_large_binary(arrow)
        or pat.is_binary_view(arrow)
        or pat.is_fixed_size_binary(arrow)
    ):
        return Type("binary", name)
    if pat.is_null(arrow):
        return Type("null", name)
    return Type("other", name)
