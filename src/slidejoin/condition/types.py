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
    if pat.is_dictionary(arrow) or pat.is_run_end_encoded(arrow):
        return from_arrow(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return from_arrow(arrow.storage_type)
    if arrow in _FIXED:
        kind, unit, low, high = _FIXED[arrow]
        return Type(kind, str(arrow), unit, low=low, high=high)
    if pat.is_timestamp(arrow) or pat.is_duration(arrow):
        kind = "timestamp" if pat.is_timestamp(arrow) else "duration"
        zoned = kind == "timestamp" and arrow.tz is not None
        return Type(kind, str(arrow), Fraction(_NANOSECONDS[arrow.unit]), zoned, I64_MIN, I64_MAX)
    if pat.is_decimal(arrow):
        limit = 10**arrow.precision - 1
        return Type("decimal", str(arrow), ONE / Fraction(10) ** arrow.scale, low=-limit, high=limit)
    for kind, tests in _LAYOUTS.items():
        if any(test(arrow) for test in tests):
            return Type(kind, str(arrow))
    return Type("other", str(arrow))


def _integer(bits: int, signed: bool) -> tuple[str, Fraction, int, int]:
    return ("int", ONE, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else ("int", ONE, 0, 2**bits - 1)


_I32 = (-(2**31), 2**31 - 1)
_FIXED: dict[pa.DataType, tuple[str, Fraction, int, int]] = {
    pa.bool_(): ("bool", ONE, 0, 1),
    pa.int8(): _integer(8, True), pa.int16(): _integer(16, True), pa.int32(): _integer(32, True),
    pa.int64(): _integer(64, True), pa.uint8(): _integer(8, False), pa.uint16(): _integer(16, False),
    pa.uint32(): _integer(32, False), pa.uint64(): _integer(64, False),
    pa.date32(): ("date", Fraction(86_400_000_000_000), *_I32),
    pa.date64(): ("date", Fraction(1_000_000), I64_MIN, I64_MAX),
    pa.time32("s"): ("time", Fraction(1_000_000_000), *_I32), pa.time32("ms"): ("time", Fraction(1_000_000), *_I32),
    pa.time64("us"): ("time", Fraction(1_000), I64_MIN, I64_MAX), pa.time64("ns"): ("time", ONE, I64_MIN, I64_MAX),
}  # fmt: skip
_LAYOUTS = {
    "float": (pat.is_floating,),
    "string": (pat.is_string, pat.is_large_string, pat.is_string_view),
    "binary": (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary),
    "null": (pat.is_null,),
}
