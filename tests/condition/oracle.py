"""Conditions twice: as SQL text and as plain Python, drawn together from one random source.

Nothing of the library is imported here. Exact values are Fractions, floats are floats, NULL is None.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

INF, NAN = float("inf"), float("nan")
BIG = 2**63 - 1
DAY = 86_400_000_000_000
Row = dict[str, Any]

SCHEMA = pa.schema(
    {
        "x": pa.int64(), "y": pa.int64(), "i": pa.int16(), "u": pa.uint64(), "d": pa.decimal128(12, 2),
        "w": pa.decimal128(30, 4), "f": pa.float64(), "h": pa.float32(), "s": pa.string(), "b": pa.bool_(),
        "t": pa.timestamp("us"), "m": pa.timestamp("ms"), "n": pa.timestamp("ns"), "e": pa.date32(),
        "p": pa.duration("s"), "z": pa.timestamp("s", "UTC"), "q": pa.timestamp("us", "Europe/Berlin"),
    }
)  # fmt: skip
UNITS = {"t": 1000, "m": 10**6, "n": 1, "e": DAY, "p": 10**9, "z": 10**9, "q": 1000}

POOLS: dict[str, list[Any]] = {
    "x": [0, 1, 2, 3, -1, -2, 7, 10, 11, BIG, -BIG - 1, BIG - 1, 2**53, 2**53 + 1, 2**62],
    "y": [0, 1, 2, 5, -3, 10, -10, BIG, -BIG - 1],
    "i": [0, 1, 2, -1, 10, 32767, -32768],
    "u": [0, 1, 2, 10, 2**63, 2**63 - 1, 2**64 - 1, 2**53 + 1],
    "d": [Decimal("0"), Decimal("0.10"), Decimal("1.00"), Decimal("2.50"), Decimal("-1.25"), Decimal("9999999999.99")],
    "w": [Decimal("0"), Decimal("0.1"), Decimal("1"), Decimal("2.5"), Decimal("1e25"), Decimal("-1e25"), Decimal("0.0001")],
    "f": [0.0, -0.0, 1.0, 0.1, 0.3, 2.5, 0.30000000000000004, -1.0, 5e-324, 1.7976931348623157e308, -1.7e308, INF, -INF,
          NAN, 2.0**53, 1e-17, 100.05, 100.0, 99.95, 9.223372036854775807e18, 2.0, 3.0],
    "h": [0.0, 1.0, 0.5, 2.5, -1.0, INF, NAN, 3.0],
    "s": ["", "a", "b", "ab", "abcdefgh", "abcdefghi", "abcdefgh\0", "é", "x" * 200, "x" * 199 + "y", "A"],
    "b": [True, False],
    "t": [0, 1, -1, 1_000_000, 86_400_000_000, 1_700_000_000_000_000, 1_699_999_999_999_999],
    "m": [0, 1, -1, 1000, 86_400_000, 1_700_000_000_000],
    "n": [0, 1, -1, 1000, 1001, 86_400_000_000_000, 1_700_000_000_000_000_000, BIG],
    "e": [0, 1, -1, 19675],
    "p": [0, 1, -1, 60, 86400, BIG],
    "z": [0, 1, 60, 1_700_000_000],
    "q": [0, 1, 1_000_000, 60_000_000, 1_700_000_000_000_000],
}  # fmt: skip


def rows(rnd: random.Random, count: int, nulls: float = 0.15) -> list[Row]:
    """Rows with many ties, some NULLs and all the extremes."""

    def cell(name: str) -> Any:
        if rnd.random() < nulls:
            return None
        if name in ("f", "h") and rnd.random() < 0.4:
            return float(np.float32(rnd.uniform(-3, 3))) if name == "h" else rnd.uniform(-3, 3)
        if name in ("x", "y", "i") and rnd.random() < 0.5:
            return rnd.randint(-12, 12)
        return rnd.choice(POOLS[name])

    return [{name: cell(name) for name in SCHEMA.names} for _ in range(count)]


def batch(data: list[Row]) -> pa.RecordBatch:
    arrays = []
    for field in SCHEMA:
        values = [row[field.name] for row in data]
        if field.name in UNITS:
            integer = pa.int32() if field.name == "e" else pa.int64()
            arrays.append(pa.array(values, integer).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@dataclass(frozen=True)
class E:
    """An expression: text, kind (exact, float, string, bool, stamp, zoned, span), literal?, Python function."""

    sql: str
    kind: str
    literal: bool
    run: Callable[[Row, Row], Any]


def column(side: int, name: str) -> E:
    kind = ("float" if name in "fh" else "string" if name == "s" else "bool" if name == "b" else "stamp"
            if name in "tmne" else "zoned" if name in "zq" else "span" if name == "p" else "exact")  # fmt: skip

    def run(left: Row, right: Row) -> Any:
        value = (left, right)[side][name]
        if value is None or kind in ("float", "string"):
            return value
        return Fraction(value) * UNITS.get(name, 1)

    return E(f"{'lr'[side]}.{name}", kind, False, run)


def number(rnd: random.Random) -> E:
    text = rnd.choice(
        ["0", "1", "2", "3", "5", "10", "0.5", "0.1", "0.05", "2.25", "1e3", "9223372036854775807", "100"]
    )
    value = Fraction(text)
    return E(text, "exact", True, lambda left, right: value)


def to_float(x: Fraction) -> float:
    try:
        return x.numerator / x.denominator
    except OverflowError:
        return INF if x > 0 else -INF


def arithmetic(operator: str, a: E, b: E) -> E:
    floating = "float" in (a.kind, b.kind) or operator == "/"

    def run(left: Row, right: Row) -> Any:
        x, y = a.run(left, right), b.run(left, right)
        if x is None or y is None:
            return None
        if floating:
            x = to_float(x) if isinstance(x, Fraction) else x
            y = to_float(y) if isinstance(y, Fraction) else y
        if operator in "/%" and y == 0:
            return None
        if operator == "/":
            with np.errstate(all="ignore"):
                return float(np.float64(x) / np.float64(y))
        if operator == "%":
            if floating:
                return math.fmod(x, y) if not math.isinf(x) else NAN
            rest = abs(x) % abs(y)
            return -rest if x < 0 else rest
        return x + y if operator == "+" else x - y if operator == "-" else x * y

    kind = "float" if floating else "exact"
    return E(f"({a.sql} {operator} {b.sql})", kind, a.literal and b.literal and not floating, run)


def negate(a: E) -> E:
    def run(left: Row, right: Row) -> Any:
        x = a.run(left, right)
        return None if x is None else -x

    return E(f"(-{a.sql})", a.kind, a.literal, run)


def absolute(a: E) -> E:
    def run(left: Row, right: Row) -> Any:
        x = a.run(left, right)
        return None if x is None else abs(x)

    return E(f"abs({a.sql})", a.kind, a.literal, run)


def order(x: Any, y: Any) -> int:
    """-1, 0, 1 in the total order: NaN equals NaN and is above all."""
    if isinstance(x, str):
        x, y = x.encode(), y.encode()
        return (x > y) - (x < y)
    nan_x, nan_y = (isinstance(v, float) and math.isnan(v) for v in (x, y))
    if nan_x or nan_y:
        return int(nan_x) - int(nan_y)
    if (isinstance(x, float) and math.isinf(x)) or (isinstance(y, float) and math.isinf(y)):
        x, y = (float(v) if isinstance(v, float) else 0.0 for v in (x, y))
        return (x > y) - (x < y)
    x, y = Fraction(x), Fraction(y)
    return (x > y) - (x < y)


TESTS: dict[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0, "<>": lambda c: c != 0, "<": lambda c: c < 0, "<=": lambda c: c <= 0,
    ">": lambda c: c > 0, ">=": lambda c: c >= 0,
}  # fmt: skip


def compare(operator: str, a: E, b: E) -> E:
    adapt = "float" in (a.kind, b.kind)

    def value(e: E, left: Row, right: Row) -> Any:
        x = e.run(left, right)
        if adapt and e.literal and isinstance(x, Fraction) and x.denominator != 1:
            return to_float(x)
        return x

    def run(left: Row, right: Row) -> bool | None:
        x, y = value(a, left, right), value(b, left, right)
        return None if x is None or y is None else TESTS[operator](order(x, y))

    return E(f"{a.sql} {operator} {b.sql}", "truth", False, run)


def conjunction(parts: list[E], word: str = "AND") -> E:
    stop = word == "OR"

    def run(left: Row, right: Row) -> bool | None:
        values = [part.run(left, right) for part in parts]
        if any(v is stop for v in values):
            return stop
        return None if any(v is None for v in values) else not stop

    return E("(" + f" {word} ".join(part.sql for part in parts) + ")", "truth", False, run)


def negation(a: E) -> E:
    def run(left: Row, right: Row) -> bool | None:
        value = a.run(left, right)
        return None if value is None else not value

    return E(f"NOT ({a.sql})", "truth", False, run)


def is_null(a: E, negated: bool) -> E:
    return E(f"{a.sql} IS {'NOT ' if negated else ''}NULL", "truth", False,
             lambda left, right: (a.run(left, right) is None) != negated)  # fmt: skip


# ---- random conditions


def numeric(rnd: random.Random, depth: int, sides: tuple[int, ...], names: str) -> E:
    if depth == 0 or rnd.random() < 0.3:
        return number(rnd) if rnd.random() < 0.2 else column(rnd.choice(sides), rnd.choice(names))
    pick = rnd.random()
    if pick < 0.62:
        return arithmetic(
            rnd.choice("+-"), numeric(rnd, depth - 1, sides, names), numeric(rnd, depth - 1, sides, names)
        )
    if pick < 0.78:
        return arithmetic("*", number(rnd), numeric(rnd, depth - 1, sides, names))
    if pick < 0.84:
        return arithmetic(
            rnd.choice("*/%"), numeric(rnd, depth - 1, sides, names), numeric(rnd, depth - 1, sides, names)
        )
    if pick < 0.92:
        return negate(numeric(rnd, depth - 1, sides, names))
    return absolute(numeric(rnd, depth - 1, sides, names))


def difference(rnd: random.Random, names: str) -> E:
    a, b = column(0, rnd.choice(names)), column(1, rnd.choice(names))
    if rnd.random() < 0.5:
        a, b = b, a
    result = arithmetic(rnd.choice("--+"), a, b)
    if rnd.random() < 0.3:
        result = arithmetic(rnd.choice("+-"), result, number(rnd))
    return result


def leaf(rnd: random.Random) -> E:
    names = rnd.choice(["x", "xy", "xyi", "f", "f", "fh", "xu", "dxw", "fx", "fd", "u"])
    operator = rnd.choice(list(TESTS))
    pick = rnd.random()
    if pick < 0.3:
        limit = number(rnd) if rnd.random() < 0.6 else column(rnd.choice((0, 1)), rnd.choice(names))
        return compare(operator, absolute(difference(rnd, names)), limit)
    if pick < 0.5:
        return compare(operator, difference(rnd, names), number(rnd))
    if pick < 0.62:
        a, b = column(0, rnd.choice(names)), column(1, rnd.choice(names))
        return compare(operator, a, b)
    if pick < 0.72:
        return compare(operator, numeric(rnd, 2, (0,), names), numeric(rnd, 2, (1,), names))
    if pick < 0.8:
        return compare(operator, numeric(rnd, 2, (0, 1), names), numeric(rnd, 2, (0, 1), names))
    if pick < 0.86:
        kind = rnd.choice(["tmne", "zq", "p", "s", "s", "b"])
        return compare(
            operator,
            column(rnd.choice((0, 1)), rnd.choice(kind)),
            column(rnd.choice((0, 1)), rnd.choice(kind)),
        )
    if pick < 0.9:
        a, low, high = (
            column(0, rnd.choice(names)),
            column(1, rnd.choice(names)),
            numeric(rnd, 1, (1,), names),
        )
        both = conjunction([compare(">=", a, low), compare("<=", a, high)])
        return E(f"{a.sql} BETWEEN {low.sql} AND {high.sql}", "truth", False, both.run)
    if pick < 0.94:
        a = column(0, rnd.choice(names))
        items = [
            number(rnd) if rnd.random() < 0.5 else column(1, rnd.choice(names))
            for _ in range(rnd.randint(1, 3))
        ]
        any_ = conjunction([compare("=", a, item) for item in items], "OR")
        return E(f"{a.sql} IN ({', '.join(item.sql for item in items)})", "truth", False, any_.run)
    return is_null(column(rnd.choice((0, 1)), rnd.choice("xfsb")), rnd.random() < 0.5)


def condition(rnd: random.Random, depth: int = 2) -> E:
    pick = rnd.random()
    if depth == 0 or pick < 0.35:
        return leaf(rnd)
    if pick < 0.65:
        return conjunction([condition(rnd, depth - 1) for _ in range(rnd.randint(2, 3))])
    if pick < 0.88:
        return conjunction([condition(rnd, depth - 1) for _ in range(rnd.randint(2, 3))], "OR")
    return negation(condition(rnd, depth - 1))
