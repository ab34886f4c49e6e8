"""Edge cases by name: values where other engines round, wrap or disagree."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from condition.check import check
from slidejoin.condition import BoundCondition, parse

INF, NAN = float("inf"), float("nan")
MAX, MIN = 2**63 - 1, -(2**63)


def bind(text: str, left: pa.RecordBatch, right: pa.RecordBatch) -> BoundCondition:
    return parse(text).bind(left.schema, right.schema)


def pairs(text: str, left: dict, right: dict) -> set[tuple[int, int]]:
    """Pairs that match; also checks that every path gives the same."""
    a, b = pa.record_batch(left), pa.record_batch(right)
    bound = bind(text, a, b)
    n, m = a.num_rows, b.num_rows
    rows = [(i, j) for i in range(n) for j in range(m)]
    mask = bound.predicate.mask(
        a.take(pa.array([i for i, _ in rows], pa.int64())), b.take(pa.array([j for _, j in rows], pa.int64()))
    )
    found = {row for row, kept in zip(rows, mask, strict=True) if kept}
    check(bound, a, b, found)
    return found


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", {(0, 0)}),
        ("<>", {(0, 1), (1, 0), (1, 1)}),
        ("<", {(1, 0)}),
        ("<=", {(0, 0), (1, 0)}),
        (">", {(0, 1), (1, 1)}),
        (">=", {(0, 0), (0, 1), (1, 1)}),
    ],
)
def test_nan_under_every_operator(operator: str, expected: set) -> None:
    # (1, 1) is inf against 5.0; NaN is above both
    assert pairs(f"l.f {operator} r.f", {"f": [NAN, INF]}, {"f": [NAN, 5.0]}) == expected


def test_negative_zero_equals_zero() -> None:
    assert pairs("l.f = r.f", {"f": [0.0, -0.0]}, {"f": [-0.0, 0.0]}) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert pairs("l.f < r.f", {"f": [-0.0]}, {"f": [0.0]}) == set()


def test_every_nan_is_the_same() -> None:
    weird = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64).view(np.float64)
    assert len(pairs("l.f = r.f", {"f": weird}, {"f": weird})) == 9
    assert len(pairs("l.f = r.f AND l.g = r.g", {"f": weird, "g": weird}, {"f": weird, "g": weird})) == 9


def test_nan_and_differences() -> None:
    left, right = {"f": [NAN, 1.0, INF, -INF]}, {"f": [NAN, 1.0, INF, -INF]}
    assert pairs("abs(l.f - r.f) <= 1", left, right) == {(1, 1)}
    # inf - inf is NaN, which is above every number
    assert (2, 2) in pairs("l.f - r.f > 1", left, right)
    assert (1, 0) in pairs("r.f - l.f >= 1", left, right)


def test_integers_never_wrap() -> None:
    ends = {"x": [MAX, MIN, 0]}
    assert pairs("abs(l.x - r.x) <= 10", ends, ends) == {(0, 0), (1, 1), (2, 2)}
    assert pairs("l.x + 1 > r.x", ends, ends) == {(0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (2, 2)}
    assert pairs("l.x * 2 = r.x * 2", ends, ends) == {(0, 0), (1, 1), (2, 2)}
    assert pairs("l.x * r.x > 0", ends, ends) == {(0, 0), (1, 1)}
    assert pairs("-l.x = r.x", ends, ends) == {(2, 2)}
    assert pairs("abs(l.x) > r.x", ends, {"x": [MAX]}) == {(1, 0)}


def test_uint64_against_int64_above_2_53() -> None:
    left = {"u": pa.array([2**63, 2**53 + 1, 0, 2**64 - 1], pa.uint64())}
    right = {"x": pa.array([MAX, 2**53 + 1, 2**53, -1], pa.int64())}
    assert pairs("l.u = r.x", left, right) == {(1, 1)}
    assert pairs("l.u > r.x", left, right) == {
        (0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 0), (3, 1), (3, 2), (3, 3),
    }  # fmt: skip
    assert pairs("l.u - r.x <= 1", left, right) == {
        (0, 0),
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
        (2, 1),
        (2, 2),
        (2, 3),
    }


def test_int64_is_not_squeezed_through_float64() -> None:
    assert pairs("l.x = r.f", {"x": [2**53 + 1, 2**53]}, {"f": [2.0**53]}) == {(1, 0)}
    assert pairs("l.x <= r.f", {"x": [MAX]}, {"f": [2.0**63, 9.223372036854775e18, NAN, INF]}) == {
        (0, 0), (0, 2), (0, 3),
    }  # fmt: skip


def test_decimal_against_float_is_exact() -> None:
    left = {"d": pa.array([Decimal("0.10"), Decimal("0.50")], pa.decimal128(5, 2))}
    assert pairs("l.d = r.f", left, {"f": [0.1, 0.5]}) == {(1, 1)}
    assert pairs("l.d < r.f", left, {"f": [0.1, 0.5]}) == {(0, 0), (0, 1)}  # the double 0.1 is above 1/10


def test_literals_adapt() -> None:
    assert pairs(
        "l.f = 0.1 AND r.d = 0.1", {"f": [0.1]}, {"d": pa.array([Decimal("0.1")], pa.decimal128(5, 1))}
    )
    assert pairs("l.f < 9007199254740993", {"f": [2.0**53]}, {"f": [1.0]}) == {(0, 0)}
    assert pairs("l.x < 0.5 AND l.x > -0.5", {"x": [0, 1]}, {"x": [1]}) == {(0, 0)}


def test_band_is_as_the_expression_rounds() -> None:
    # 100.05 - 100.0 is 0.04999999999999716 in doubles, so it is inside; 0.3 - 0.25 is 0.04999999999999999
    left, right = {"p": [100.05, 0.3, 0.35]}, {"p": [100.0, 0.25, 0.3]}
    assert pairs("abs(l.p - r.p) <= 0.05", left, right) == {
        (i, j) for i, a in enumerate(left["p"]) for j, b in enumerate(right["p"]) if abs(a - b) <= 0.05
    }


def test_float32_widens() -> None:
    assert pairs("l.h = r.f", {"h": pa.array([0.1], pa.float32())}, {"f": [0.1, float(np.float32(0.1))]}) == {
        (0, 1)
    }


def test_timestamps_of_all_units_and_zones_are_instants() -> None:
    left = {"t": pa.array([1_700_000_000], pa.timestamp("s", "Europe/Berlin"))}
    right = {"t": pa.array([1_700_000_000 * 10**9, 1_700_000_000 * 10**9 + 1], pa.timestamp("ns", "UTC"))}
    assert pairs("l.t = r.t", left, right) == {(0, 0)}
    assert pairs("r.t - l.t <= INTERVAL '1 nanosecond'", left, right) == {(0, 0), (0, 1)}


def test_seconds_against_nanoseconds_beyond_int64() -> None:
    left = {"t": pa.array([MAX, MIN], pa.timestamp("s"))}
    right = {"t": pa.array([MAX, 0], pa.timestamp("ns"))}
    assert pairs("l.t > r.t", left, right) == {(0, 0), (0, 1)}
    assert pairs("abs(l.t - r.t) < INTERVAL '1 second'", left, right) == set()


def test_dates_are_midnights() -> None:
    left = {"d": pa.array([19723], pa.date32())}
    right = {"t": pa.array([19723 * 86_400_000, 19723 * 86_400_000 + 1], pa.timestamp("ms"))}
    assert pairs("l.d = r.t", left, right) == {(0, 0)}
    assert pairs("r.t - l.d > INTERVAL '0 seconds'", left, right) == {(0, 1)}
    assert pairs("l.d = '2024-01-01' AND r.t >= TIMESTAMP '2024-01-01 00:00:00.001'", left, right) == {(0, 1)}


def test_strings_compare_by_bytes() -> None:
    words = {"s": ["Z", "a", "é", "abcdefgh", "abcdefghz", ""]}
    rows = [word.encode() for word in words["s"]]
    for operator, test in (("<", bytes.__lt__), (">=", bytes.__ge__), ("=", bytes.__eq__)):
        expected = {(i, j) for i, a in enumerate(rows) for j, b in enumerate(rows) if test(a, b)}
        assert pairs(f"l.s {operator} r.s", words, words) == expected


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_all_string_layouts(kind: pa.DataType) -> None:
    values = pa.array(["a", None, "b", "c" * 300, ""])
    column = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    left, right = pa.record_batch({"s": column}), pa.record_batch({"s": values})
    bound = bind("l.s = r.s AND l.s <= r.s", left, right)
    assert bound.predicate.mask(left, right).tolist() == [True, False, True, True, True]
    for path in bound.branches[0].paths(0):
        keys, items = path.keys(left), path.intervals(right)
        inside = (items.lo <= keys.values) & (keys.values <= items.hi) & keys.valid
        assert inside.tolist() == [True, False, True, True, True]


def test_binary_of_fixed_size() -> None:
    left = {"b": pa.array([b"\xff\x00", b"ab"], pa.binary(2))}
    right = {"b": pa.array([b"ab", b"\xff\x00"], pa.binary())}
    assert pairs("l.b = r.b", left, right) == {(0, 1), (1, 0)}
    assert pairs("l.b > r.b", left, right) == {(0, 0)}


def test_sliced_batches() -> None:
    table = pa.record_batch(
        {"x": pa.array([9, None, 3, 4, None, 6]), "b": [True, None, False, True, None, True], "s": list("abcdef"),
         "d": pa.array([Decimal(i) for i in range(6)], pa.decimal128(20, 3))}
    )  # fmt: skip
    part = table.slice(1, 4)
    copy = pa.RecordBatch.from_pylist(part.to_pylist(), schema=table.schema)
    for text in ("l.x < r.x", "l.b = r.b", "l.s = r.s", "l.d <= r.d", "l.b OR r.b", "l.s < r.s"):
        bound = bind(text, table, table)
        assert (bound.predicate.mask(part, part) == bound.predicate.mask(copy, copy)).all()
        for path in bound.branches[0].paths(0):
            one, two = path.keys(part), path.keys(copy)
            keep = slice(None) if two.valid is None else two.valid
            assert (one.values[keep] == two.values[keep]).all()


def test_null_is_never_true() -> None:
    left, right = {"x": pa.array([None, 1], pa.int64())}, {"x": pa.array([None, 1], pa.int64())}
    assert pairs("l.x = r.x", left, right) == {(1, 1)}
    assert pairs("l.x <> r.x", left, right) == set()
    assert pairs("NOT (l.x = r.x)", left, right) == set()
    assert pairs("l.x IS NOT DISTINCT FROM r.x", left, right) == {(0, 0), (1, 1)}
    assert pairs("l.x IS DISTINCT FROM r.x", left, right) == {(0, 1), (1, 0)}
    assert pairs("l.x = r.x OR l.x IS NULL", left, right) == {(0, 0), (0, 1), (1, 1)}
    assert pairs("(l.x = r.x) IS NOT TRUE", left, right) == {(0, 0), (0, 1), (1, 0)}
    assert pairs("l.x - l.x + r.x = 1", left, right) == {(1, 1)}
    assert pairs("l.x NOT IN (5, NULL)", left, right) == set()


def test_constants() -> None:
    one = {"x": [1]}
    for text, count in (
        ("TRUE", 1),
        ("FALSE", 0),
        ("NULL", 0),
        ("1 = 1", 1),
        ("2 < 1", 0),
        ("l.x = r.x OR TRUE", 1),
    ):
        assert len(pairs(text, one, one)) == count
    assert bind("FALSE", pa.record_batch(one), pa.record_batch(one)).branches == ()
    assert bind("l.x = r.x AND 1 > 2", pa.record_batch(one), pa.record_batch(one)).branches == ()


def test_division_and_remainder() -> None:
    left, right = {"x": [7, -7, 1]}, {"y": [2, 0, -2]}
    assert pairs("l.x / r.y = 3.5", left, right) == {(0, 0), (1, 2)}
    assert pairs("(l.x / r.y) IS NULL", left, right) == {(0, 1), (1, 1), (2, 1)}
    assert pairs("l.x % r.y = -1", left, right) == {(1, 0), (1, 2)}
    assert pairs("(l.x % r.y) IS NULL", left, right) == {(0, 1), (1, 1), (2, 1)}


def test_booleans_are_ordered() -> None:
    both = {"b": [False, True, None]}
    assert pairs("l.b < r.b", both, both) == {(0, 1)}
    assert pairs("l.b = r.b", both, both) == {(0, 0), (1, 1)}
    assert pairs("l.b AND NOT r.b", both, both) == {(1, 0)}


def test_functions() -> None:
    left, right = {"s": ["Ann", "bob", None, "x1"]}, {"s": ["ANN", "Bob", "12", "xx"]}
    assert pairs("upper(l.s) = upper(r.s)", left, right) == {(0, 0), (1, 1)}
    assert pairs("l.s LIKE 'x%' AND length(r.s) = 2", left, right) == {(3, 2), (3, 3)}
    assert pairs("levenshtein(l.s, r.s) <= 1", left, right) == {(1, 1), (3, 3)}
    assert pairs("coalesce(l.s, '12') = r.s", left, right) == {(2, 2)}
    assert pairs("CASE WHEN l.s = 'bob' THEN r.s ELSE l.s END = '12'", left, right) == {(1, 2)}
    assert pairs("CAST(r.s AS INTEGER) = 12 AND l.s IS NULL", left, right) == {(2, 2)}
    assert pairs("nullif(l.s, 'x1') IS NULL AND r.s = 'xx'", left, right) == {(2, 3), (3, 3)}
    assert pairs("greatest(l.s, r.s) = 'bob'", left, right) == {(1, 0), (1, 1), (1, 2)}


def test_date_functions() -> None:
    left = {"t": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))}
    right = {"d": pa.array([19675, 19676], pa.date32())}
    assert pairs("date_trunc('day', l.t) = r.d", left, right) == {(0, 0)}
    assert pairs("extract(year FROM l.t) = extract(year FROM r.d)", left, right) == {(0, 0), (0, 1)}
    assert pairs("CAST(l.t AS DATE) = r.d", left, right) == {(0, 0)}


def test_run_time_errors_are_null() -> None:
    assert pairs("CAST(l.s AS INTEGER) = r.x", {"s": ["1", "abc"]}, {"x": [1]}) == {(0, 0)}
    assert pairs("l.x // r.x = 1", {"x": [1]}, {"x": [0, 1]}) == {(0, 1)}


def test_empty_batches() -> None:
    schema = pa.schema({"x": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.decimal128(30, 2)})
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for text in ("abs(l.x - r.x) <= 1", "abs(l.f - r.f) <= 1", "l.s = r.s", "l.s < r.s", "l.d = r.d", "l.x = r.f",
                 "upper(l.s) = r.s", "l.x <> r.x", "abs(l.x - r.x) > 3", "l.f - r.f - r.f < 1"):  # fmt: skip
        check(parse(text).bind(schema, schema), empty, empty, set())


def test_garbage_under_nulls_is_ignored() -> None:
    data = pa.py_buffer(np.array([MAX, 5, MIN], np.int64))
    column = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(bytes([0b010])), data])
    assert pairs("abs(l.x - r.x) <= 1", {"x": column}, {"x": [5, 6, 9]}) == {(1, 0), (1, 1)}
