"""Edge cases by name: numbers at their ends, time at its edges, and text that wishes us ill."""

from __future__ import annotations

import itertools
import math
import os
import resource
import subprocess
import sys
import textwrap
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import naive
import slidejoin as sj
from duel import InapplicableError, forced_index, pairs_of
from generate.types import ColumnType

INT_MAX, INT_MIN = 2**63 - 1, -(2**63)
NAN, INF = float("nan"), float("inf")
INDEXES = ("auto", *sj.indexes())
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


def column(values: list[Any], kind: pa.DataType | None = None, name: str = "x") -> pa.Table:
    return pa.table({name: pa.array(values, type=kind)})


def joined(condition: str, left: pa.Table, right: pa.Table, **options: Any) -> set[naive.Pair]:
    """All pairs of two small tables under a condition, by every index that applies; they must agree."""
    answers = {}
    options.setdefault("window", sj.Rows(10_000))
    for index in INDEXES:
        try:
            with forced_index(index):
                join = sj.Join(condition, index=index, **options)
                matches = join.push(left=left, right=right)
        except InapplicableError:
            continue
        pairs = pairs_of(matches)
        assert len(set(pairs)) == len(pairs) == matches.num_rows
        answers[index] = set(pairs)
        join.check()
    assert all(answer == answers["auto"] for answer in answers.values()), answers
    return answers["auto"]


def values_joined(condition: str, left: pa.Table, right: pa.Table) -> list[tuple[Any, Any]]:
    xs, ys = left.column(0).to_pylist(), right.column(0).to_pylist()
    return [(xs[i], ys[j]) for i, j in sorted(joined(condition, left, right))]


# -- numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("kinds", list(itertools.product((pa.float64(), pa.float32()), repeat=2)), ids=str)
def test_nan_on_both_sides_under_every_operator(op: str, kinds: tuple[pa.DataType, pa.DataType]) -> None:
    values = [NAN, -NAN, INF, -INF, 0.0, -0.0, 1.0, None]
    arrays = [pa.table({"x": ColumnType(kind, "number").array(values)}) for kind in kinds]
    expected = {(i, j) for i, a in enumerate(values) for j, b in enumerate(values) if naive.holds(op, a, b)}
    assert joined(f"l.x {op} r.x", *arrays) == expected


@pytest.mark.parametrize("width", ["0", "1", "0.5"])
def test_bands_around_nan_and_infinities(width: str) -> None:
    values = [NAN, INF, -INF, 0.0, 0.5, 1.0, 1.7976931348623157e308]
    table = column(values)
    bound = float(width)
    expected = {
        (i, j)
        for i, a in enumerate(values)
        for j, b in enumerate(values)
        if naive.holds("<=", abs(a - b), bound)  # inf - inf is NaN, larger than any width
    }
    assert joined(f"abs(l.x - r.x) <= {width}", table, table) == expected
    expected = {
        (i, j)
        for i, a in enumerate(values)
        for j, b in enumerate(values)
        if naive.between(a, b - bound, b + bound)
    }
    assert joined(f"l.x BETWEEN r.x - {width} AND r.x + {width}", table, table) == expected


def test_nan_with_integers_and_literals() -> None:
    assert values_joined("l.x > r.x", column([NAN, 1.0]), column([INT_MAX, 0])) == [
        *((pytest.approx(NAN, nan_ok=True), y) for y in (INT_MAX, 0)),
        (1.0, 0),
    ]
    assert len(joined("l.x > 1000 AND r.x = r.x", column([NAN, 1.0]), column([NAN, None]))) == 1


@pytest.mark.parametrize("op", OPERATORS)
def test_int64_against_uint64_above_2_to_53(op: str) -> None:
    lefts = [-1, 0, 2**53, 2**53 + 1, INT_MAX - 1, INT_MAX, INT_MIN]
    rights = [0, 2**53, 2**53 + 1, 2**53 + 2, INT_MAX - 1, INT_MAX, 2**63, 2**64 - 1]
    expected = {(i, j) for i, a in enumerate(lefts) for j, b in enumerate(rights) if naive.holds(op, a, b)}
    assert joined(f"l.x {op} r.x", column(lefts, pa.int64()), column(rights, pa.uint64())) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "abs(l.x - r.x) <= 1",
        "l.x BETWEEN r.x - 1 AND r.x + 1",
        "l.x <= r.x + 1 AND l.x >= r.x - 1",
        "l.x - r.x BETWEEN -1 AND 1",
        "NOT (abs(l.x - r.x) > 1)",
    ],
)
@pytest.mark.parametrize(
    "kinds", [(pa.int64(), pa.int64()), (pa.int64(), pa.uint64()), (pa.uint64(), pa.uint64())], ids=str
)
def test_integer_bands_never_wrap(condition: str, kinds: tuple[pa.DataType, pa.DataType]) -> None:
    pool = [
        INT_MIN,
        INT_MIN + 1,
        -1,
        0,
        1,
        2**53,
        2**53 + 1,
        2**53 + 2,
        INT_MAX - 1,
        INT_MAX,
        2**63,
        2**64 - 1,
    ]
    sides = [[v for v in pool if (v >= 0 if kind == pa.uint64() else v <= INT_MAX)] for kind in kinds]
    expected = {(i, j) for i, a in enumerate(sides[0]) for j, b in enumerate(sides[1]) if abs(a - b) <= 1}
    tables = [column(values, kind) for values, kind in zip(sides, kinds, strict=True)]
    assert joined(condition, *tables) == expected


def test_small_integers_do_not_wrap_either() -> None:
    left, right = column([-128, 127, 0], pa.int8()), column([-128, 127, 0], pa.int8())
    assert values_joined("l.x + r.x > 200", left, right) == [(127, 127)]
    assert values_joined("l.x * r.x >= 16384", left, right) == [(-128, -128)]
    assert values_joined("abs(l.x) > 127", left, right.slice(0, 1)) == [(-128, -128)]
    assert values_joined("-l.x > 127", left, right.slice(0, 1)) == [(-128, -128)]
    unsigned = column([0, 255], pa.uint8())
    assert values_joined("l.x - r.x < 0", unsigned, unsigned) == [(0, 255)]


def test_products_of_int64_are_exact() -> None:
    left = column([INT_MIN, INT_MAX, 3], pa.int64())
    right = column([INT_MIN, INT_MAX, 3037000500], pa.int64())
    product = [(a, b) for a in left["x"].to_pylist() for b in right["x"].to_pylist() if a * b > 2**63]
    assert values_joined(f"l.x * r.x > {2**63}", left, right) == product


def test_decimal_against_float() -> None:
    decimals = column([Decimal("0.10"), Decimal("0.25"), Decimal("0.30")], pa.decimal128(9, 2))
    floats = column([0.1, 0.25, 0.3, 0.1 + 0.2])
    # Only a quarter is a double; the double 0.1 is a little above a tenth, the double 0.3 a little below.
    assert values_joined("l.x = r.x", decimals, floats) == [(Decimal("0.25"), 0.25)]
    assert (Decimal("0.10"), 0.1) in values_joined("l.x < r.x", decimals, floats)
    assert (Decimal("0.30"), 0.3) in values_joined("l.x > r.x", decimals, floats)


def test_decimals_of_two_scales_are_exact() -> None:
    left = column([Decimal("1.10"), Decimal("99999999999999999.9")], pa.decimal128(20, 2))
    right = column([Decimal("1.1000"), Decimal("99999999999999999.9001")], pa.decimal128(24, 4))
    assert joined("l.x = r.x", left, right) == {(0, 0)}
    assert joined("r.x - l.x = 0.0001", left, right) == {(1, 1)}
    assert joined("abs(l.x - r.x) <= 0.0001", left, right) == {(0, 0), (1, 1)}


def test_decimal_at_its_full_width() -> None:
    top = Decimal(10**38 - 1)
    table = column([top, Decimal(1 - 10**38), Decimal(10**38 - 2)], pa.decimal128(38, 0))
    assert joined("l.x = r.x", table, table) == {(0, 0), (1, 1), (2, 2)}
    assert joined("abs(l.x - r.x) <= 1", table, table) == {(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)}
    assert joined("l.x < r.x", table, table) == {(1, 0), (1, 2), (2, 0)}


def test_a_fractional_literal_is_exact_next_to_integers() -> None:
    table = column([0, 1, 2])
    assert joined("l.x + 0.5 < r.x", table, table) == {(0, 1), (0, 2), (1, 2)}
    assert joined("l.x * 0.5 = r.x", table, table) == {(0, 0), (2, 1)}
    assert joined("abs(l.x - r.x) <= 0.999", table, table) == {(0, 0), (1, 1), (2, 2)}


def test_a_fractional_literal_is_the_nearest_double_next_to_floats() -> None:
    assert joined("l.x + 0.1 = r.x", column([0.2]), column([0.3, 0.1 + 0.2])) == {(0, 1)}
    assert joined("abs(l.x - r.x) <= 0.1", column([0.3]), column([0.2, 0.4, 0.4000001])) == {
        (0, j) for j, b in enumerate([0.2, 0.4, 0.4000001]) if abs(0.3 - b) <= 0.1
    }
    # float32 values are compared as the doubles that they are
    assert joined("l.x = 0.1 AND r.x = r.x", column([0.1], pa.float32()), column([0.0])) == set()


def test_a_float_band_is_the_rounded_difference() -> None:
    """Bounds moved to the other side would round otherwise; index and condition must agree to the last bit."""
    steps = [k / 10 for k in range(-30, 31)] + [math.nextafter(k / 10, INF) for k in range(-5, 6)]
    table = column(steps)
    expected = {(i, j) for i, a in enumerate(steps) for j, b in enumerate(steps) if abs(a - b) <= 0.3}
    assert joined("abs(l.x - r.x) <= 0.3", table, table) == expected
    expected = {(i, j) for i, a in enumerate(steps) for j, b in enumerate(steps) if b - 0.3 <= a <= b + 0.3}
    assert joined("l.x BETWEEN r.x - 0.3 AND r.x + 0.3", table, table) == expected
    expected = {(i, j) for i, a in enumerate(steps) for j, b in enumerate(steps) if a * 3 < b - 0.1}
    assert joined("l.x * 3 < r.x - 0.1", table, table) == expected


def test_huge_and_tiny_floats_in_one_band() -> None:
    values = [1e308, -1e308, 5e-324, 0.0, 1e16, 1e16 + 2, -1e16]
    table = column(values)
    for width in ("1", "2", "0.5", "20000000000000000"):
        expected = {
            (i, j) for i, a in enumerate(values) for j, b in enumerate(values) if abs(a - b) <= float(width)
        }
        assert joined(f"abs(l.x - r.x) <= {width}", table, table) == expected


def test_a_literal_with_an_exponent_is_a_double() -> None:
    """As in SQL: 1e23 is the double nearest to it, though its digits are those of an integer."""
    assert joined("l.x = 1e23 AND r.x = 1e-3", column([1e23, 1e22]), column([1e-3])) == {(0, 0)}
    values = [1e308, -1e308, 0.0, 1e16]
    expected = {(i, j) for i, a in enumerate(values) for j, b in enumerate(values) if abs(a - b) <= 1e308}
    assert joined("abs(l.x - r.x) <= 1e308", column(values), column(values)) == expected


def test_a_band_that_overflows_doubles() -> None:
    values = [NAN, INF, -INF, 0.0, 1e308, -1e308, 1.7976931348623157e308]
    wide = str(10**308)
    expected = {
        (i, j)
        for i, a in enumerate(values)
        for j, b in enumerate(values)
        if naive.between(a, b - float(wide), b + float(wide))
    }
    assert joined(f"l.x BETWEEN r.x - {wide} AND r.x + {wide}", column(values), column(values)) == expected


def test_division_is_double_and_by_zero_is_null() -> None:
    left, right = column([1, 2, 0]), column([0, 2, 4])
    assert joined("l.x / r.x = 0.5", left, right) == {(0, 1), (1, 2)}
    assert joined("(l.x / r.x) IS NULL", left, right) == {(0, 0), (1, 0), (2, 0)}
    assert joined("l.x / r.x < 1000", left, right) == {(i, j) for i in range(3) for j in (1, 2)}


def test_terms_that_cancel_keep_their_null() -> None:
    left = pa.table({"x": [1, None], "y": [None, 5]})
    right = pa.table({"x": [1, None], "y": [2, 2]})
    assert joined("l.x - l.x = 0 AND r.y = 2", left, right) == {(0, 0), (0, 1)}
    assert joined("0 * l.x <= r.y", left, right) == {(0, 0), (0, 1)}
    assert joined("l.x + r.y > l.x", left, right) == {(0, 0), (0, 1)}
    assert joined("l.x + r.x = r.x + 1", left, right) == {(0, 0)}
    assert joined("l.x = l.x AND r.x = r.x", left, right) == {(0, 0)}
    assert joined("l.x <= r.y OR l.x > r.y", left, right) == {(0, 0), (0, 1)}
    assert joined("NOT (l.x <> l.x)", left, right) == {(0, 0), (0, 1)}


def test_the_remainder_has_the_sign_of_its_dividend() -> None:
    left, right = column([-7, 7, 8, None]), column([3, -3, 0])
    assert joined("l.x % r.x = -1", left, right) == {(0, 0), (0, 1)}
    assert joined("l.x % r.x = 1", left, right) == {(1, 0), (1, 1)}
    assert joined("(l.x % r.x) IS NULL", left, right) == {(0, 2), (1, 2), (2, 2), (3, 0), (3, 1), (3, 2)}


def test_functions_and_cases() -> None:
    left = pa.table({"s": ["Ab", "ab", "c", None], "n": [1, -2, 3, 4]})
    right = pa.table({"s": ["AB", "C", None], "n": [1, 2, 3]})
    assert joined("upper(l.s) = r.s", left, right) == {(0, 0), (1, 0), (2, 1)}
    assert joined("lower(l.s) = lower(r.s) AND l.n > 0", left, right) == {(0, 0), (2, 1)}
    assert joined("length(l.s) = r.n", left, right) == {(0, 1), (1, 1), (2, 0)}
    assert joined("l.s LIKE 'a%' AND r.n = 1", left, right) == {(1, 0)}
    assert joined("coalesce(l.s, 'none') = coalesce(r.s, 'none')", left, right) == {(3, 2)}
    assert joined("CASE WHEN l.n > 0 THEN l.n ELSE -l.n END = r.n", left, right) == {(0, 0), (1, 1), (2, 2)}
    assert joined("greatest(l.n, r.n) = 3", left, right) == {(0, 2), (1, 2), (2, 0), (2, 1), (2, 2)}
    assert joined("l.s IS NOT DISTINCT FROM r.s", left, right) == {(3, 2)}
    assert joined("nullif(l.n, 1) = r.n", left, right) == {(2, 2)}


def test_a_column_of_type_null() -> None:
    nothing = column([None, None], pa.null())
    assert joined("l.x = r.x", nothing, column([1])) == set()
    assert joined("l.x IS NULL", nothing, column([1])) == {(0, 0), (1, 0)}


def test_minus_zero_equals_zero_as_a_hash_key() -> None:
    left, right = column([0.0, -0.0]), column([-0.0, 0.0])
    assert joined("l.x = r.x", left, right) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert joined("l.x = r.x", left, column([0], pa.int32())) == {(0, 0), (1, 0)}


# -- text, bytes, booleans --------------------------------------------------------------------------------


def test_strings_compare_by_their_bytes() -> None:
    table = column(["", "a", "a\x00", "b", "é", "\uffff", "\U0001f600", None])
    values = table["x"].to_pylist()
    for op in OPERATORS:
        expected = {
            (i, j) for i, a in enumerate(values) for j, b in enumerate(values) if naive.holds(op, a, b)
        }
        assert joined(f"l.x {op} r.x", table, table) == expected, op


def test_strings_alike_in_their_first_bytes() -> None:
    """An index may keep a prefix; what follows it must still decide."""
    long = "abcdefgh" * 4
    table = column([long, long + "a", long + "b", long[:-1], "abcdefgh", "abcdefgi"])
    values = table["x"].to_pylist()
    for op in OPERATORS:
        expected = {
            (i, j) for i, a in enumerate(values) for j, b in enumerate(values) if naive.holds(op, a, b)
        }
        assert joined(f"l.x {op} r.x", table, table) == expected, op


def test_equal_hashes_are_not_equal_keys() -> None:
    values = [k * 2**32 for k in range(-64, 64)] + [k * (2**61 - 1) for k in (-1, 1, 2)]
    assert joined("l.x = r.x", column(values), column(values)) == {(i, i) for i in range(len(values))}


def test_booleans() -> None:
    table = column([True, False, None])
    assert joined("l.x = r.x", table, table) == {(0, 0), (1, 1)}
    assert joined("l.x AND r.x", table, table) == {(0, 0)}
    assert joined("l.x OR r.x", table, table) == {(0, 0), (0, 1), (1, 0), (0, 2), (2, 0)}
    assert joined("NOT l.x AND r.x IS NULL", table, table) == {(1, 2)}
    assert joined("l.x < r.x", table, table) == {(1, 0)}


# -- time -------------------------------------------------------------------------------------------------


def test_zoned_against_naive_is_refused() -> None:
    zoned, plain = column([0], pa.timestamp("us", "UTC")), column([0], pa.timestamp("us"))
    join = sj.Join("l.x = r.x", window=sj.Rows(10))
    join.push(left=zoned)
    before = join.stats()
    with pytest.raises(sj.ConditionError):
        join.push(right=plain)
    assert join.stats() == before
    assert pairs_of(join.push(right=column([0], pa.timestamp("ns", "Asia/Tokyo")))) == [(0, 0)]


def test_zoned_against_naive_event_time_is_refused() -> None:
    join = sj.Join("TRUE", window=sj.Time("1 minute", on="ts"))
    join.push(left=column([0], pa.timestamp("us", "UTC"), "ts"))
    with pytest.raises(sj.SlidejoinError):
        join.push(right=column([0], pa.timestamp("us"), "ts"))
    assert pairs_of(join.push(right=column([59], pa.timestamp("s", "Europe/Zurich"), "ts"))) == [(0, 0)]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.int32()),
        (pa.duration("s"), pa.int64()),
        (pa.timestamp("s"), pa.duration("s")),
        (pa.list_(pa.int64()), pa.int64()),
    ],
    ids=str,
)
def test_types_that_sql_would_not_compare(left: pa.DataType, right: pa.DataType) -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(10))
    join.push(left=column([None], left))
    before = join.stats()
    with pytest.raises(sj.ConditionError):
        join.push(right=column([None], right))
    assert join.stats() == before


def test_instants_of_different_units_and_zones() -> None:
    seconds = column([0, 1, 1_700_000_000], pa.timestamp("s", "UTC"))
    nanos = column([0, 10**9 + 1, 1_700_000_000 * 10**9], pa.timestamp("ns", "America/New_York"))
    assert joined("l.x = r.x", seconds, nanos) == {(0, 0), (2, 2)}
    assert joined("l.x < r.x", seconds.slice(1, 1), nanos.slice(1, 1)) == {(0, 0)}
    band = "l.x BETWEEN r.x - INTERVAL '1' SECOND AND r.x + INTERVAL '1' SECOND"
    assert joined(band, seconds, nanos) == {(0, 0), (1, 0), (1, 1), (2, 2)}


def test_far_timestamps_of_coarse_units_against_fine_ones() -> None:
    """Seconds of the year 9999 do not fit nanoseconds in int64; comparing must not wrap."""
    far = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())
    seconds = column([far, -far, 0], pa.timestamp("s"))
    nanos = column([INT_MAX, INT_MIN + 1, 0], pa.timestamp("ns"))
    assert joined("l.x < r.x", seconds, nanos) == {(1, 0), (1, 1), (1, 2), (2, 0)}
    assert joined("l.x = r.x", seconds, nanos) == {(2, 2)}


def test_durations_of_different_units() -> None:
    left, right = column([1, 2], pa.duration("s")), column([1000, 1999, 2000], pa.duration("ms"))
    assert joined("l.x = r.x", left, right) == {(0, 0), (1, 2)}
    assert joined("l.x > r.x", left, right) == {(1, 0), (1, 1)}


def ticks(*times: int | None, kind: pa.DataType | None = None) -> pa.Table:
    return column(list(times), kind or pa.int64(), "ts")


def every(window: Any, **options: Any) -> sj.Join:
    return sj.Join("TRUE", window=window, **options)


def test_a_row_at_the_edge_of_the_window() -> None:
    join = every((sj.Time(10, on="ts"), sj.Time(5, on="ts")))
    join.push(left=ticks(100))
    assert set(pairs_of(join.push(right=ticks(94, 95, 100, 110, 111)))) == {(0, 1), (0, 2), (0, 3)}


def test_a_row_at_the_watermark_is_not_late() -> None:
    join = every(sj.Time(10, on="ts"), lateness=5, late="keep")
    join.push(left=ticks(100), right=ticks(100))
    assert join.stats()["watermark"] == 95
    assert set(pairs_of(join.push(left=ticks(95, 94)))) == {(1, 0)}
    late, none = join.late()
    assert late["ts"].to_pylist() == [94]
    assert none.num_rows == 0
    assert join.late()[0].num_rows == 0


def test_a_zero_length_window_joins_equal_times_only() -> None:
    join = every(sj.Time(0, on="ts"))
    assert set(pairs_of(join.push(left=ticks(1, 2, 3), right=ticks(2, 3, 3)))) == {(1, 0), (2, 1), (2, 2)}


def test_a_row_leaves_only_beyond_the_edge() -> None:
    join = every(sj.Time(10, on="ts"), how="left")
    join.push(left=ticks(0, 1), right=ticks(kind=pa.int64()))
    assert pairs_of(join.advance(left=10, right=10)) == []
    assert pairs_of(join.advance(left=11, right=11)) == [(0, -1)]
    assert pairs_of(join.push(right=ticks(11))) == [(1, 0)]


def test_a_row_out_of_order_behind_rows_that_were_dropped() -> None:
    """It is older than the oldest row that was left in the index when those that had left were dropped from it."""
    join = sj.Join("l.ts + 100 > r.ts", window=sj.Time(10, on="ts"), lateness=10)
    join.push(right=ticks(0, 30))
    join.push(left=ticks(40))
    assert set(pairs_of(join.push(left=ticks(35)))) == {(1, 1)}, "which drops the row at 0"
    join.push(right=ticks(25))
    assert set(pairs_of(join.push(left=ticks(37)))) == {(2, 1)}, "25 is too old"
    assert set(pairs_of(join.push(left=ticks(24)))) == {(3, 1), (3, 2)}
    join.check()


def test_an_idle_side_holds_the_watermark() -> None:
    join = every(sj.Time(10, on="ts"))
    for k in range(20):
        join.push(left=ticks(k * 100))
    stats = join.stats()
    assert stats["watermark"] is None
    assert stats["held_by"] == "right"
    assert stats["left"]["state_rows"] == 20
    # However old its first rows are, they are not late and find everything.
    assert set(pairs_of(join.push(right=ticks(0, 1905)))) == {(0, 0), (19, 1)}
    assert join.stats()["watermark"] == 1900
    assert join.stats()["held_by"] == "left"
    assert join.stats()["left"]["state_rows"] == 1


def test_a_heartbeat_frees_an_idle_side_that_never_showed_a_row() -> None:
    join = every(sj.Time(10, on="ts"), how="left")
    join.push(left=ticks(0, 50))
    matches = join.advance(right=60)
    assert join.stats()["watermark"] == 50
    assert join.stats()["held_by"] == "left"
    assert matches.num_rows == 1
    assert pairs_of(matches) == [(0, -1)]
    assert matches.to_table().num_rows == 1


def test_heartbeats_before_any_row() -> None:
    join = every(sj.Time(10, on="ts"), late="keep")
    join.advance(left=100, right=200)
    join.advance(left=50)
    join.push(left=ticks(99, 100))
    assert join.stats()["left"]["late"] == 1
    assert join.late()[0]["ts"].to_pylist() == [99]
    assert pairs_of(join.push(right=ticks(99, 110, 111))) == [(1, 1)]


@pytest.mark.parametrize("beat", [100, datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)])
def test_heartbeats_before_any_row_show_in_the_stats(beat: Any) -> None:
    join = every(sj.Time(10 if isinstance(beat, int) else "10 seconds", on="ts"))
    join.advance(left=beat)
    assert join.stats()["held_by"] == "right"
    join.advance(right=beat)
    assert join.stats()["watermark"] == beat
    assert join.stats()["held_by"] == "both"


def test_a_heartbeat_that_is_no_time_is_refused_at_once_or_harms_nothing() -> None:
    for value in ("soon", object(), 1.5, True):
        join = every(sj.Time(10, on="ts"))
        with pytest.raises(sj.SlidejoinError):
            join.advance(left=value)
        assert pairs_of(join.push(left=ticks(1), right=ticks(1))) == [(0, 0)]


def test_heartbeats_of_timestamps() -> None:
    join = sj.Join("TRUE", window=sj.Time("10 seconds", on="ts"), how="anti")
    join.push(left=ticks(0, kind=pa.timestamp("ms", "UTC")))
    join.advance(left=datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
    done = join.advance(right=datetime(1970, 1, 1, 1, 0, 11, tzinfo=UTC))
    assert pairs_of(done) == [(0, -1)]
    assert join.stats()["watermark"] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)


def test_a_clock_does_not_go_back() -> None:
    join = every(sj.Time(10, on="ts"))
    join.push(left=ticks(100), right=ticks(100))
    join.advance(left=50, right=50)
    assert join.stats()["watermark"] == 100


@pytest.mark.parametrize("end", [INT_MAX, INT_MIN])
@pytest.mark.parametrize("slide", [None, 7])
def test_time_plus_window_near_the_ends_of_int64(end: int, slide: int | None) -> None:
    step = -1 if end > 0 else 1
    times = [end + step * k for k in (0, 1, 9, 10, 11, 30)]
    window = naive.Time(10, slide)
    oracle = naive.Naive(lambda *pair: True, (window, window), how="full", lateness=40)
    join = every(sj.Time(10, on="ts", slide=slide), how="full", lateness=40)
    for left, right in ((times, times[:3]), (times[:2], times[3:]), (times[::-1], [])):
        expected = oracle.push([naive.Row(0, t) for t in left], [naive.Row(0, t) for t in right])
        assert Counter(pairs_of(join.push(left=ticks(*left), right=ticks(*right)))) == Counter(expected)
        assert join.stats()["watermark"] == oracle.watermark
        join.check()
    assert Counter(pairs_of(join.finish())) == Counter(oracle.finish())


def test_a_window_longer_than_all_of_int64() -> None:
    join = every(sj.Time(2**64, on="ts"))
    assert len(pairs_of(join.push(left=ticks(INT_MIN, 0, INT_MAX), right=ticks(INT_MAX, INT_MIN)))) == 6


def test_conditions_on_times_near_the_ends_do_not_wrap() -> None:
    table = ticks(INT_MAX, INT_MIN, 0)
    assert joined("l.ts BETWEEN r.ts - 10 AND r.ts + 10", table, table) == {(0, 0), (1, 1), (2, 2)}
    assert joined("l.ts - r.ts > 10", table, table) == {(0, 1), (0, 2), (2, 1)}


def test_dates_as_event_time() -> None:
    join = sj.Join("TRUE", window=sj.Time("2 days", on="d"))
    left = pa.table({"d": pa.array([date(2024, 2, 28)])})
    right = pa.table({"d": pa.array([date(2024, 3, 1), date(2024, 3, 2)])})
    assert pairs_of(join.push(left=left, right=right)) == [(0, 0)]


def test_negative_times_slide_towards_minus_infinity() -> None:
    # d = w = 10: windows [-20, -10) [-10, 0) [0, 10); -1 and 0 are apart though one tick away
    join = every(sj.Time(10, on="ts", slide=10))
    found = pairs_of(join.push(left=ticks(-1, -10, -11), right=ticks(0, -1, -10, -20)))
    assert set(found) == {(0, 1), (0, 2), (1, 1), (1, 2), (2, 3)}


def test_different_slides_take_the_earlier_rows_side() -> None:
    windows = (naive.Time(20, 10), naive.Time(12, 4))
    oracle = naive.Naive(lambda *pair: True, windows)
    join = every((sj.Time(20, on="ts", slide=10), sj.Time(12, on="ts", slide=4)))
    times = list(range(-25, 26))
    rows = [naive.Row(0, t) for t in times]
    assert set(pairs_of(join.push(left=ticks(*times), right=ticks(*times)))) == set(oracle.push(rows, rows))


# -- sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    "condition", ["l.x = r.x", "abs(l.x - r.x) <= 1", "l.x <> r.y", "l.x = r.x AND l.x < r.y"]
)
def test_a_thousand_identical_rows_on_both_sides(index: str, condition: str) -> None:
    left, right = pa.table({"x": [7] * 1000}), pa.table({"x": [7] * 1000, "y": [8] * 1000})
    try:
        with forced_index(index):
            join = sj.Join(condition, window=sj.Rows(600), index=index)
            join.push(left=left)
            matches = join.push(right=right)
    except InapplicableError:
        return
    assert matches.num_rows == 600 * 1000
    lefts, rights = matches.indices()
    assert np.array_equal(np.bincount(lefts, minlength=1000), [0] * 400 + [1000] * 600)
    assert np.array_equal(np.bincount(rights), [600] * 1000)
    assert np.bincount(lefts * 1000 + rights).max() == 1
    join.check()


@pytest.mark.parametrize("index", INDEXES)
def test_null_keys_between_others(index: str) -> None:
    """Rows without a key are in no index, so places among those with one are not row numbers."""
    with forced_index(index):
        join = sj.Join("l.a = r.b", window=sj.Rows(3), index=index)
        join.push(left={"a": [1]}, right={"b": [1]})
        join.push(left={"a": [1]})
    found = pairs_of(join.push(right={"b": [None, 1, None, 1]}))
    assert Counter(found) == Counter({(0, 2): 1, (1, 2): 1, (0, 4): 1, (1, 4): 1})


@pytest.mark.parametrize("index", INDEXES)
def test_rows_that_leave_in_the_middle_of_a_subwindow(index: str) -> None:
    """Old rows are many in one part of a structure and few in another; dropping them must keep it in shape."""
    tuning = sj.Tuning(subwindow_rows=8, chunk_rows=4)
    join = sj.Join("l.x = r.x", window=sj.Rows(2), index=index, tuning=tuning)
    oracle = naive.Naive(lambda *pair: True, (naive.Rows(2), naive.Rows(2)))
    for left, right in ((5, 2), (4, 2), (2, 1), (3, 0), (1, 1), (5, 5), (1, 3), (2, 2)):
        found = join.push(left={"x": [0] * left}, right={"x": pa.array([0] * right, pa.int64())})
        assert Counter(pairs_of(found)) == Counter(oracle.push([naive.Row(0)] * left, [naive.Row(0)] * right))
        join.check()


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_an_empty_side(how: str) -> None:
    empty = column([], pa.int64())
    for window in (sj.Rows(2), sj.Time(5, on="x")):
        join = sj.Join("l.x = r.x", window=window, how=how)
        assert join.push(right=empty).num_rows == 0
        found = Counter(pairs_of(join.push(left=column([1, 2, 3]))))
        found += Counter(pairs_of(join.push(left=empty, right=empty)))
        found += Counter(pairs_of(join.finish()))
        expected = {(k, -1): 1 for k in range(3)} if how in ("left", "full", "anti") else {}
        assert found == Counter(expected)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    "condition", ["l.x = r.x", "abs(l.x - r.x) <= 5", "l.x <> r.x", "l.x < r.x OR l.x > r.x"]
)
def test_all_null_keys(index: str, condition: str) -> None:
    nulls = column([None] * 5, pa.int64())
    try:
        with forced_index(index):
            join = sj.Join(condition, window=sj.Rows(3), how="full", index=index)
            first = join.push(left=nulls, right=nulls)
    except InapplicableError:
        return
    assert Counter(pairs_of(first)) == Counter({(0, -1): 1, (1, -1): 1, (-1, 0): 1, (-1, 1): 1})
    assert join.finish().num_rows == 6
    assert join.stats()["matches"] == 0
    assert join.stats()["left"]["evicted"] == 5


@pytest.mark.parametrize(
    "condition",
    ["FALSE", "NULL", "1 = 2", "l.x = 1 AND l.x = 2", "l.x < r.x AND l.x > r.x", "NULL = l.x", "NOT TRUE"],
)
def test_a_condition_that_is_never_true(condition: str) -> None:
    table = column([1, 2, None])
    join = sj.Join(condition, window=sj.Rows(10), how="full")
    assert join.push(left=table, right=table).num_rows == 0
    assert Counter(pairs_of(join.finish())) == Counter(
        {(0, -1): 1, (1, -1): 1, (2, -1): 1, (-1, 0): 1, (-1, 1): 1, (-1, 2): 1}
    )


@pytest.mark.parametrize("condition", ["TRUE", "1 = 1", "NOT FALSE", "l.x IS NULL OR l.x IS NOT NULL"])
def test_a_condition_that_is_always_true(condition: str) -> None:
    table = column([1, 2, None])
    assert len(joined(condition, table, table)) == 9


def test_ten_billion_pairs_are_counted_at_once_and_read_in_pieces() -> None:
    """In a process of its own, whose memory may not grow: 10^10 pairs would need 160 GB as indices."""
    script = """
        import itertools, resource, time
        import pyarrow as pa
        import slidejoin as sj
        for condition in ("l.x = r.x", "abs(l.x - r.x) <= 5", "TRUE", "l.x < r.y"):
            join = sj.Join(condition, window=sj.Rows(100_000))
            join.push(left=pa.table({"x": pa.array([1] * 100_000)}))
            small = pa.table({"x": pa.array([1]), "y": pa.array([9])})
            join.push(right=small)
            right = pa.table({"x": pa.array([1] * 100_000), "y": pa.array([9] * 100_000)})
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            start = time.perf_counter()
            matches = join.push(right=right)
            assert matches.num_rows == 10**10, matches.num_rows
            pieces = list(itertools.islice(iter(matches), 5))
            taken = time.perf_counter() - start
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            assert all(0 < piece.num_rows <= 65_536 for piece in pieces), [p.num_rows for p in pieces]
            assert pieces[0].schema.names == ["x_l", "x_r", "y"]
            assert grown < 300, (condition, grown)
            assert taken < 20, (condition, taken)
        """
    done = subprocess.run(  # noqa: PLW1510 - the assertion shows more
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


# -- text that wishes us ill ------------------------------------------------------------------------------


def refused(condition: str, seconds: float = 2.0) -> sj.ConditionError:
    start = time.perf_counter()
    with pytest.raises(sj.ConditionError) as caught:
        sj.Join(condition, window=sj.Rows(10)).push(left=column([1]), right=column([1]))
    assert time.perf_counter() - start < seconds, "refused, but slowly"
    assert len(str(caught.value)) < 2000
    return caught.value


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 10_000 + "l.x = r.x" + ")" * 10_000,
        "NOT " * 10_000 + "l.x = r.x",
        "-" * 9_999 + "l.x = r.x",
        "- " * 10_000 + "l.x = r.x",
        "abs(" * 10_000 + "l.x" + ")" * 10_000 + " = r.x",
        "(" * 1_000_000,
        " + ".join(["l.x"] * 10_000) + " = r.x",
        " AND ".join(["l.x = r.x"] * 100_000),
        "CASE WHEN " * 10_000 + "TRUE",
        "l.x = r.x " + "OR l.x IN (1)" * 50_000,
        "[" * 10_000,
        "{" * 10_000,
        "'" + "a" * 5_000_000,
        "l.x = " + "9" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_ten_thousand_deep_is_refused_quickly(condition: str) -> None:
    refused(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "   ",
        "-- nothing",
        "l.x = r.x; DROP TABLE t",
        "l.x = r.x; SELECT 1",
        "SELECT 1",
        "l.x = (SELECT 1)",
        "EXISTS (SELECT * FROM read_csv('/etc/passwd'))",
        "l.x IN (SELECT x FROM l)",
        "l.x = r.x UNION SELECT 1",
        "__import__('os').system('true')",
        "read_text('/etc/passwd') = l.x",
        "getenv('HOME') = 'x'",
        "l.x = query('select 1')",
        "pragma_version()",
        "COPY l TO 'x'",
        "l.x = r.x) OR (TRUE",
        "l.x = r.x OR",
        "= l.x",
        "l.x = = r.x",
        "l.x = 'unclosed",
        'l."x = r.x',
        "l.x = ?",
        "l.x = $1",
        "l.x = :name",
        "l.* = r.x",
        "count(l.x) > 1",
        "row_number() OVER () = 1",
        "random() < 0.5",
        "m.x = r.x",
        "x = y",
        "a.b.l.x = r.x",
        "l.nothere = r.x",
        "l.x",
        "l.x + r.x",
        "\x00",
        "l.x = r.x \x00",
        "ＬＩＫＥ",
    ],
)
def test_hostile_or_broken_text_is_refused(condition: str) -> None:
    refused(condition)


def test_an_error_says_where() -> None:
    error = refused("l.x = r.x AND l.nothere < r.x")
    assert error.position == 14
    assert "nothere" in str(error)


def test_sleeping_and_reading_functions_never_run(tmp_path: Any) -> None:
    target = tmp_path / "written"
    for condition in (f"l.x = write_text('{target}')", f"(COPY (SELECT 1) TO '{target}')"):
        refused(condition)
    assert not target.exists()


def test_comments_and_odd_spacing_are_fine() -> None:
    table = column([1, 2])
    assert joined("l.x\n=\tr.x -- the key", table, table) == {(0, 0), (1, 1)}
    assert joined("l.x /* why */ = /* not */ r.x", table, table) == {(0, 0), (1, 1)}


@pytest.mark.parametrize("name", ["a b", "select", 'q"q', "é", "X", "1", "l.x", "a;b", "--", ""])
def test_any_column_name_can_be_quoted(name: str) -> None:
    table = column([1, 2], name=name)
    quoted = '"' + name.replace('"', '""') + '"'
    if name == "":
        refused(f"l.{quoted} = r.{quoted}")
    else:
        assert joined(f"l.{quoted} = r.{quoted}", table, table) == {(0, 0), (1, 1)}


# -- windows that make no sense ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: sj.Rows(0),
        lambda: sj.Rows(-1),
        lambda: sj.Rows(10, slide=3),
        lambda: sj.Rows(10, slide=0),
        lambda: sj.Rows(1.5),
        lambda: sj.Time("soon", on="ts"),
        lambda: sj.Time("-1 second", on="ts"),
        lambda: sj.Time(-1, on="ts"),
        lambda: sj.Time(10, on="ts", slide=0),
        lambda: sj.Time(10, on="ts", slide=-5),
        lambda: sj.Time(float("inf"), on="ts"),
        lambda: sj.Join("TRUE", window=(sj.Rows(1), sj.Time(1, on="ts"))),
        lambda: sj.Join("TRUE", window=None),
        lambda: sj.Join("TRUE", window=sj.Rows(1), lateness=5),
        lambda: sj.Join("TRUE", window=sj.Rows(1)).advance(left=1),
        lambda: sj.Join("TRUE", window=sj.Time(1, on="ts"), lateness=-1),
    ],
)
def test_windows_that_make_no_sense(make: Any) -> None:
    with pytest.raises(sj.WindowError):
        make()


@pytest.mark.parametrize(
    "options",
    [
        {"how": "cross"},
        {"order": "sorted"},
        {"late": "ignore"},
        {"index": "btree9000"},
        {"flow": "nowhere"},
        {"threads": 0},
        {"threads": -1},
        {"threads": 1025},
        {"aliases": ("l", "l")},
        {"aliases": ("l",)},
        {"suffixes": ("", "")},
    ],
    ids=str,
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    """Told at once, by an error that names the option's value or its remedy."""
    with pytest.raises((sj.SlidejoinError, ValueError, TypeError)):
        sj.Join("l.x = r.x", window=sj.Rows(5), **options).push(left=column([1]), right=column([1]))


def test_a_length_of_the_wrong_kind_for_its_column() -> None:
    with pytest.raises(sj.SlidejoinError):
        every(sj.Time(10, on="ts")).push(left=ticks(0, kind=pa.timestamp("s")))
    with pytest.raises(sj.SlidejoinError):
        every(sj.Time("10 seconds", on="ts")).push(left=ticks(0))
    with pytest.raises(sj.SlidejoinError):
        every(sj.Time(10, on="ts")).push(left=column(["soon"], name="ts"))
    with pytest.raises(sj.SlidejoinError):
        every(sj.Time(10, on="ts")).push(left=column([1.5], name="ts"))
    with pytest.raises(sj.SlidejoinError):
        every(sj.Time(10, on="nothere")).push(left=ticks(0))


def test_the_end_is_the_end() -> None:
    join = every(sj.Rows(5), how="full")
    join.push(left=column([1]))
    assert pairs_of(join.finish()) == [(0, -1)]
    for call in (
        lambda: join.push(left=column([1])),
        lambda: join.push(right=column([1])),
        join.finish,
    ):
        with pytest.raises(sj.StateError):
            call()
    timed = every(sj.Time(5, on="ts"))
    timed.finish()
    with pytest.raises(sj.StateError):
        timed.advance(left=1)
    assert join.stats()["left"]["state_rows"] == 0


def test_a_failed_push_of_both_leaves_both_as_they_were() -> None:
    join = sj.Join("l.x = r.x", window=sj.Time(10, on="ts"), late="raise", how="full")
    good = pa.table({"x": [1, 2], "ts": [100, 101]})
    join.push(left=good, right=good)
    before = join.stats()
    with pytest.raises(sj.LateRowError):
        join.push(left=pa.table({"x": [1], "ts": [200]}), right=pa.table({"x": [1, 1], "ts": [300, 7]}))
    with pytest.raises(sj.SchemaError):
        join.push(left=pa.table({"x": [1], "ts": [200]}), right=pa.table({"x": ["one"], "ts": [300]}))
    assert join.stats() == before
    join.check()
    assert set(pairs_of(join.push(right=pa.table({"x": [1], "ts": [110]})))) == {(0, 2)}


def test_stats_by_name_and_by_attribute() -> None:
    join = every(sj.Time("1 minute", on="ts"))
    join.push(left=ticks(0, kind=pa.timestamp("us")), right=ticks(1, None, kind=pa.timestamp("us")))
    stats = join.stats()
    assert stats["right"]["null_time"] == stats.right.null_time == 1
    assert stats.matches == stats["matches"] == 1
    assert stats.watermark == datetime(1970, 1, 1)
    assert stats.held_by == "left"
    assert timedelta(0) == stats.watermark - datetime(1970, 1, 1)


def test_memory_does_not_grow_over_many_windows() -> None:
    """Two hundred turnovers of a window leave the process and the counters as they were after twenty."""
    join = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(2_000), threads=1)
    random = np.random.default_rng(0)
    sizes, peak = [], []
    for _turn in range(200):
        batch = {"x": random.integers(0, 10**6, 2_000)}
        assert join.push(left=batch, right=batch).num_rows >= 2_000
        sizes.append(join.stats()["state_bytes"])
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert max(sizes[20:]) <= 1.5 * max(sizes[5:20])
    assert peak[-1] - peak[20] < 64 * 1024  # KiB


@pytest.mark.parametrize("window", [sj.Rows(20), sj.Time(20, on="t")], ids=repr)
def test_few_large_rows_are_let_go(window: Any) -> None:
    """A megabyte a row: memory follows the window, although a subwindow has far fewer rows than usual."""
    join = sj.Join("l.x = r.x", window=window)
    text = "a" * 1_000_000
    for number in range(80):
        row = {"x": [number], "t": [number], "text": [text]}
        join.push(left=row, right=row)
        stats = join.stats()
        rows = stats.left.state_rows + stats.right.state_rows
        assert stats.state_bytes <= 1.5 * rows * (len(text) + 16) + 16 * rows + (16 << 20)
    join.check()


def test_an_empty_dict_tells_no_types() -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(10))
    assert join.push(left={"x": [1, 2]}, right={"x": []}).num_rows == 0
    assert join.push(right={"x": [2, 3]}).num_rows == 1
    assert join.push(right={"x": []}).num_rows == 0
    with pytest.raises(sj.SchemaError):
        join.push(right={"y": []})
    join.check()


def test_an_empty_dict_tells_names() -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(10), how="left")
    with pytest.raises(sj.ConditionError, match=r"l\.x"):
        join.push(left={"y": []})
    join.push(left={"x": [1]}, right={"x": [], "z": []})
    table = join.finish().to_table()
    assert table.column_names == ["x_l", "x_r", "z"]
    assert table.to_pylist() == [{"x_l": 1, "x_r": None, "z": None}]


def ends_well(script: str) -> None:
    """Run a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_join_forked_in_the_middle_of_a_call_is_refused() -> None:
    """The thread that made the call is not there in the child: waiting for it would be waiting for ever."""
    script = """
        import os, sys, threading
        import slidejoin as sj
        join = sj.Join("l.x = r.x", window=sj.Rows(10))
        join.push(left={"x": [1]})
        inside, leave = threading.Event(), threading.Event()
        def call():
            join._turns.take(lambda: (inside.set(), leave.wait(20)))
        thread = threading.Thread(target=call)
        thread.start()
        inside.wait(20)
        child = os.fork()
        if child == 0:
            try:
                join.push(left={"x": [1]})
            except sj.StateError as error:
                os._exit(0 if "forked" in str(error) else 3)
            os._exit(4)
        leave.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        child = os.fork()
        if child == 0:
            os._exit(0 if join.push(right={"x": [1]}).num_rows == 1 else 5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    ends_well(script)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_has_an_sql_engine_of_its_own() -> None:
    ends_well(
        """
        import os
        import slidejoin as sj
        join = sj.Join("abs(l.x - r.x) <= 3 AND sqrt(l.x + r.x) > 1", window=sj.Rows(100))
        join.push(left={"x": [1, 2, 3]}, right={"x": [1]})
        child = os.fork()
        if child == 0:
            os._exit(0 if join.push(right={"x": [4]}).num_rows == 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert join.push(right={"x": [4]}).num_rows == 3
        """
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_pushes_are_undone(threads: int) -> None:
    """A handler raises at any moment; a join that is never interrupted says what should have come out."""
    ends_well(
        f"""
        import random, signal
        import numpy as np
        import slidejoin as sj
        from slidejoin.index import REGISTRY
        for index in REGISTRY.values():
            index()  # loads its kernels: Numba cannot be interrupted there
        condition = "abs(l.x - r.x) <= 3 AND l.g < r.g OR abs(l.x - r.x) <= 1 AND l.g = r.g"
        settings = dict(window=sj.Time(900, on="t"), lateness=300, how="left")
        join, calm = (sj.Join(condition, **settings, threads=n) for n in ({threads}, 1))
        class Interruption(BaseException): pass
        def interrupt(*_): raise Interruption
        signal.signal(signal.SIGALRM, interrupt)
        draw, rng = random.Random(7), np.random.default_rng(7)
        def rows(at):
            n = 8500 if at % 3 == 0 else 300
            t = at * 20 + rng.integers(-150, 150, n)
            return {{"x": rng.integers(0, 40_000, n), "g": rng.integers(0, 3, n), "t": t}}
        def fed(join): return [join.stats()[side]["rows_in"] for side in ("left", "right")]
        interrupted = under_way = 0
        for at in range(420):
            batch = {{("left", "right")[at % 2]: rows(at)}}
            before, found = fed(join), None
            try:
                signal.setitimer(signal.ITIMER_REAL, 10 ** draw.uniform(-5, -2.3))
                found = join.push(**batch)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interruption:
                interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if at % 20 == 0:
                join.check()
            if fed(join) == before:
                under_way += 1
                continue
            expected = calm.push(**batch)
            if found is not None:
                assert sorted(zip(*found.indices())) == sorted(zip(*expected.indices())), at
        join.check()
        assert under_way > 50, (interrupted, under_way)
        left, right = join.stats(), calm.stats()
        assert left["left"] == right["left"] and left["right"] == right["right"]
        assert left["matches"] == right["matches"]
        """
    )


def test_a_handler_that_calls_the_join_in_a_call_is_refused() -> None:
    ends_well(
        """
        import signal
        import slidejoin as sj
        join = sj.Join("l.x = r.x", window=sj.Rows(10))
        refused = []
        def handler(*_):
            try:
                join.push(left={"x": [7]})
            except sj.StateError as error:
                refused.append(str(error))
        signal.signal(signal.SIGUSR1, handler)
        attempt = join._engine._attempt
        def signalled(*arguments):
            signal.raise_signal(signal.SIGUSR1)
            return attempt(*arguments)
        join._engine._attempt = signalled
        assert join.push(left={"x": [1, 2]}).num_rows == 0
        assert len(refused) == 1 and "within a call" in refused[0], refused
        assert join.stats().left.rows_in == 2
        """
    )


def test_a_join_that_was_half_undone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(10))
    join.push(left={"x": [1]})
    engine = join._engine

    def fails(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.worker, "join", fails)
    monkeypatch.setattr(engine.worker, "restore", fails)
    with pytest.raises(KeyboardInterrupt):
        join.push(left={"x": [2]})
    monkeypatch.undo()
    with pytest.raises(sj.StateError, match="again while it was undone"):
        join.push(left={"x": [2]})


def test_loading_kernels_can_be_interrupted_and_begun_again() -> None:
    ends_well(
        """
        from slidejoin import kernels
        before, count = kernels._cached, 0
        def interrupting(compiled):
            global count
            count += 1
            if count == 5:
                raise KeyboardInterrupt
            return before(compiled)
        kernels._cached = interrupting
        try:
            kernels.ready()
        except KeyboardInterrupt:
            count += 1
        assert count == 6
        kernels.ready()
        import slidejoin as sj
        join = sj.Join("l.x < r.x", window=sj.Rows(10))
        assert join.push(left={"x": [1]}, right={"x": [2]}).num_rows == 1
        """
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize(
    ("on", "pairs"),
    [("l.k = r.k", 100), ("l.k <= r.k", 5050), ("l.k <> r.k", 9900), ("abs(l.k - r.k) <= 1", 298)],
)
def test_columns_in_order_are_probed_with_as_they_lie(
    on: str, pairs: int, kind: pa.DataType, threads: int
) -> None:
    """What is sorted already is not copied: then kernels are given Arrow's own memory, which is not to be written."""
    rows = pa.record_batch({"k": pa.array(range(100), kind)})
    join = sj.Join(on, window=sj.Rows(100), threads=threads)
    join.push(left=rows)
    for _ in range(3):
        assert join.push(right=rows).num_rows == pairs


@pytest.mark.parametrize("columns", [0, 1, 12])
def test_rows_that_have_left_wait_in_bounded_memory(columns: int) -> None:
    """Light rows that no search meets are not copied out of the way, heavy ones and those that are met are."""
    rng = np.random.default_rng(columns)
    window, batch = 24_000, 1_000
    join = sj.Join("abs(l.k - r.k) <= 2", window=sj.Rows(window), index="bi_sort", threads=1)
    oracle: list[np.ndarray] = []
    for number in range(150):
        keys = rng.integers(0, 1 << 20, batch)
        rows = {"k": keys} | {f"c{n}": np.full(batch, number) for n in range(columns)}
        matches = join.push(**{("left", "right")[number % 2]: pa.table(rows)})
        others = np.concatenate(oracle[number % 2 == 0 :: 2][-window // batch :] or [keys[:0]])
        others.sort()
        expected = np.searchsorted(others, keys + 2, side="right") - np.searchsorted(others, keys - 2)
        assert matches.num_rows == int(expected.sum())
        oracle.append(keys)
        held = sum(join.stats()[side].state_rows for side in ("left", "right"))
        assert join.stats().state_bytes <= (1.5 * 8 * (1 + columns) + 16) * held + 2 * 48 * batch
    join.check()


@pytest.mark.parametrize(("window", "batch"), [(1_000, 40_000), (5_000, 30_000), (5_000, 8_000)])
def test_a_batch_longer_than_the_window_is_let_go(window: int, batch: int) -> None:
    rng = np.random.default_rng(window)
    join = sj.Join("abs(l.k - r.k) <= 1", window=sj.Rows(window), index="bi_sort", threads=1)
    for rows in (batch, batch, batch, 1, 1, 1):
        for side in ("left", "right"):
            join.push(**{side: {"k": rng.integers(0, 1 << 20, rows)}})
    assert join.stats().state_bytes <= 2 * window * (8 * 1.5 + 16) + 4096
    join.check()
