"""The oracle against cases worked out by hand: it must not be wrong in the same way as the engine."""

from __future__ import annotations

import doctest
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import naive
from generate.conditions import conditions
from generate.expressions import Column
from generate.types import ColumnType, pick
from naive import Naive, Row, Rows, Time


def always(left: object, right: object) -> bool:
    return True


def equal(left: object, right: object) -> bool | None:
    return naive.holds("=", left, right)


def rows(*values: object) -> list[Row]:
    return [Row(value) for value in values]


def at(*times: int | None) -> list[Row]:
    return [Row(None, time) for time in times]


def test_docstrings() -> None:
    assert doctest.testmod(naive).failed == 0


def test_oracle_imports_nothing_of_the_library() -> None:
    assert "import slidejoin" not in Path(naive.__file__).read_text()


def test_rows_window_of_two() -> None:
    # left:   a0 a1 a2      b0 sees the last two of three rows
    # window:    [     ]
    join = Naive(always, (Rows(2), Rows(2)))
    assert join.push(left=rows(0, 1, 2)) == []
    assert join.push(right=rows(0)) == [(1, 0), (2, 0)]
    # A push of both: the left row arrives first and sees b0; then b1 sees the last two left rows, b2 too.
    assert join.push(left=rows(3), right=rows(1, 2)) == [(3, 0), (2, 1), (3, 1), (2, 2), (3, 2)]
    assert (join.sides[0].state_rows, join.sides[0].evicted) == (2, 2)


def test_rows_windows_of_different_lengths() -> None:
    join = Naive(always, (Rows(1), Rows(3)))
    join.push(left=rows(0, 1, 2), right=rows(0, 1, 2))
    assert join.push(left=rows(3)) == [(3, 0), (3, 1), (3, 2)]
    assert join.push(right=rows(3)) == [(3, 3)]


def test_rows_slide() -> None:
    # w = 4, d = 2: rows leave in twos. With 5 rows seen, rows 0 and 1 have left (5 - 0 > 4), 2 and 3 have not.
    join = Naive(always, (Rows(4, slide=2), Rows(4, slide=2)))
    join.push(left=rows(0, 1, 2, 3))
    assert join.push(right=rows(0)) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    join.push(left=rows(4))
    assert join.push(right=rows(1)) == [(2, 1), (3, 1), (4, 1)]
    join.push(left=rows(5))
    assert join.push(right=rows(2)) == [(2, 2), (3, 2), (4, 2), (5, 2)]


def test_by_merges_one_push() -> None:
    # by:  left 1 3 NULL, right 2 2 NULL  ->  l0 r0 r1 l1 l2 r2; ties left first, NULLs last
    join = Naive(always, (Rows(1), Rows(1)))
    result = join.push(left=[Row(0, 1), Row(0, 3), Row(0, None)], right=[Row(0, 2), Row(0, 2), Row(0, None)])
    assert result == [(0, 0), (0, 1), (1, 1), (2, 1), (2, 2)]


def test_by_sorts_within_a_stream_too() -> None:
    # by: left 5 1, right 3  ->  arrivals l1 r0 l0
    join = Naive(always, (Rows(1), Rows(1)))
    assert join.push(left=[Row(0, 5), Row(0, 1)], right=[Row(0, 3)]) == [(1, 0), (0, 0)]
    # A push of one side is not sorted: row 2 arrives before row 3 whatever `by` says.
    assert join.push(left=[Row(0, 9), Row(0, 7)]) == [(2, 0), (3, 0)]
    assert join.push(right=[Row(0, 0)]) == [(3, 1)]


def test_rows_row_that_leaves_within_its_push_is_padded_there() -> None:
    join = Naive(equal, (Rows(1), Rows(1)), how="full")
    assert join.push(left=rows(1, 2)) == [(0, -1)]
    assert join.push(right=rows(2, 3)) == [(1, 0)]
    assert join.finish() == [(-1, 1)]


def test_time_window_is_inclusive_and_takes_the_earlier_side() -> None:
    join = Naive(always, (Time(10), Time(5)))
    join.push(left=at(100))
    #      right: 94 is 6 before (its window is 5), 95 at its edge; 110 at the left row's edge, 111 beyond
    assert join.push(right=at(94, 95, 100, 110, 111)) == [(0, 1), (0, 2), (0, 3)]


def test_time_slide() -> None:
    # d = 10, w = 20: windows [.. 0,20) [10,30) ..; 9 lasts until 20, 10 until 30; -1 is in [-10, 10)
    join = Naive(always, (Time(20, slide=10), Time(20, slide=10)))
    join.push(left=at(9, 10, -1))
    assert join.push(right=at(19, 20, 29, 30, 9, 10)) == [
        *[(0, 0), (1, 0)],  # 19
        *[(1, 1)],  # 20
        *[(1, 2)],  # 29
        *[(0, 4), (1, 4), (2, 4)],  # 9; 10 - 9: 9 lasts until 20; -1 lasts until 10
        *[(0, 5), (1, 5)],  # 10
    ]


def test_watermark_and_lateness() -> None:
    join = Naive(always, (Time(10), Time(10)), lateness=5)
    join.push(left=at(100))
    assert join.watermark is None
    assert join.held_by == "right"
    # Within one push nothing is late against that push's own clock.
    join.push(right=at(120, 80))
    assert join.watermark == 95
    assert join.held_by == "left"
    # 95 is at the watermark and not late, 94 is.
    join.push(left=at(95, 94, None))
    left = join.sides[0]
    assert (left.rows_in, len(left.accepted), left.late, left.null_time) == (4, 2, 1, 1)
    join.advance(left=90)  # a clock does not go back
    assert join.watermark == 95
    join.advance(left=200, right=120)
    assert join.watermark == 115
    assert join.held_by == "right"


def test_eviction_is_below_watermark_minus_own_window() -> None:
    join = Naive(always, (Time(10), Time(3)), how="full")
    join.push(left=at(0, 1, 9), right=at(0, 7, 8))
    assert [s.seq for s in join.sides[0].accepted if s.live] == [0, 1, 2]  # watermark 8: from -2 on
    assert [s.seq for s in join.sides[1].accepted if s.live] == [1, 2]  # from 5 on
    assert join.advance(left=11, right=11) == []  # from 1 on; from 8 on
    assert [s.seq for s in join.sides[0].accepted if s.live] == [1, 2]
    assert [s.seq for s in join.sides[1].accepted if s.live] == [2]


def test_eviction_with_slide() -> None:
    join = Naive(always, (Time(20, slide=10), Time(20, slide=10)), how="left")
    join.push(left=at(9, 10))
    assert join.advance(left=19, right=19) == []
    assert join.advance(left=20, right=20) == [(0, -1)]
    assert join.advance(left=29, right=29) == []
    assert join.advance(left=30, right=30) == [(1, -1)]


@pytest.mark.parametrize(
    ("how", "first", "second", "end"),
    [
        ("inner", [(0, 0), (0, 1)], [(1, 1)], []),
        ("left", [(0, 0), (0, 1)], [(1, 1)], [(2, -1)]),
        ("right", [(0, 0), (0, 1)], [(1, 1)], [(-1, 2)]),
        ("full", [(0, 0), (0, 1)], [(1, 1)], [(2, -1), (-1, 2)]),
        ("semi", [(0, -1)], [(1, -1)], []),
        ("anti", [], [], [(2, -1)]),
    ],
)
def test_kinds(how: str, first: list[naive.Pair], second: list[naive.Pair], end: list[naive.Pair]) -> None:
    near = {(0, 0), (0, 1), (1, 1)}
    join = Naive(lambda *pair: pair in near, (Rows(9), Rows(9)), how=how)
    assert join.push(left=rows(0), right=rows(0, 1, 2)) == first
    assert join.push(left=rows(1, 2)) == second
    assert join.finish() == end
    assert join.matches == 3
    assert join.emitted == len(first) + len(second) + len(end)
    assert sum(side.state_rows for side in join.sides) == 0


def test_late_policies() -> None:
    def fresh(late: str) -> Naive:
        join = Naive(always, (Time(10), Time(10)), late=late)
        join.push(left=at(50), right=at(50))
        return join

    keep = fresh("keep")
    keep.push(left=at(49, 50), right=at(10))
    assert keep.late_rows() == ([1], [1])
    assert keep.late_rows() == ([], [])
    refuse = fresh("raise")
    with pytest.raises(naive.LateError):
        refuse.push(left=at(60, 49))
    assert refuse.sides[0].rows_in == 1
    assert refuse.sides[0].clock == 50
    refuse.finish()
    with pytest.raises(naive.FinishedError):
        refuse.push(left=at(60))


def test_unknown_never_matches() -> None:
    join = Naive(equal, (Rows(5), Rows(5)), how="left")
    assert join.push(left=rows(None, 1), right=rows(None, 1)) == [(1, 1)]
    assert join.finish() == [(0, -1)]


def test_values() -> None:
    nan, inf = float("nan"), float("inf")
    assert naive.compare(nan, nan) == 0
    assert naive.compare(nan, inf) == 1
    assert naive.compare(3, nan) == -1
    assert naive.compare(2**63, float(2**63)) == 0
    assert naive.compare(2**63 - 1, float(2**63)) == -1
    assert naive.compare(Fraction(1, 10), 0.1) == -1  # the double nearest to 0.1 is a little more
    assert naive.compare("\uffff", "\U0001f600") == -1  # UTF-16 would order these the other way
    assert naive.is_in(1, [2, None]) is None
    assert naive.is_in(2, [2, None]) is True
    assert naive.between(1, 2, None) is False
    assert naive.between(3, 2, None) is None
    assert naive.divide(1, 0) is None
    assert naive.divide(0.0, -0.0) is None
    assert naive.divide(1, 2) == 0.5
    assert naive.sql_or(None, True) is True
    assert naive.sql_and(None, True) is None


# -- the generated conditions: text and meaning must be one ------------------------------------------------

FRIENDLY = {  # types and values for which DuckDB's semantics are ours (it has no abs of an interval)
    "int": (ColumnType(pa.int64(), "number"), [None, 0, 1, -1, 2, 3, 5, 10, 50]),
    "float": (ColumnType(pa.float64(), "number"), [None, 0.0, -0.0, 0.5, 0.25, 1.0, 3.0, math.nan, math.inf]),
    "text": (ColumnType(pa.string(), "text"), [None, "", "a", "b", "é", "it's"]),
    "bool": (ColumnType(pa.bool_(), "bool"), [None, True, False]),
}


@given(st.data())
def test_generated_conditions_mean_what_they_say(data: st.DataObject) -> None:
    """Each condition's text, evaluated by DuckDB over a cross join, agrees with its tree evaluated in Python."""
    kinds = [data.draw(st.lists(st.sampled_from(sorted(FRIENDLY)), min_size=1, max_size=3)) for _ in range(2)]
    columns = [
        [Column(side, f"c{i}", FRIENDLY[kind][0].kind, "lr"[side]) for i, kind in enumerate(kinds[side])]
        for side in (0, 1)
    ]
    condition = data.draw(conditions(*columns))
    tables, rows = [], []
    for side in (0, 1):
        cells = [
            pick(FRIENDLY[kind][1], data.draw(st.binary(min_size=8, max_size=8))) for kind in kinds[side]
        ]
        named = {f"c{i}": values for i, values in enumerate(cells)}
        types = {f"c{i}": FRIENDLY[kind][0] for i, kind in enumerate(kinds[side])}
        tables.append(
            pa.table({"id": list(range(8)), **{name: types[name].array(named[name]) for name in named}})
        )
        rows.append([{name: types[name].sql(named[name][i]) for name in named} for i in range(8)])
    with duckdb.connect() as connection:
        connection.sql("SET ieee_floating_point_ops = false")  # division by zero is NULL
        connection.register("l", tables[0])
        connection.register("r", tables[1])
        try:
            found = connection.sql(f"SELECT l.id, r.id FROM l, r WHERE {condition.bare}").fetchall()
        except (duckdb.OutOfRangeException, duckdb.InvalidInputException):
            # Its integers end, and it may refuse to divide by zero; ours do not, and we do not.
            reject()
    expected = {
        (i, j) for i, j in product(range(8), range(8)) if condition.value(rows[0][i], rows[1][j]) is True
    }
    assert set(found) == expected
