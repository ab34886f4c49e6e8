"""The engine against the oracle: random joins, complete multisets, after every call."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
import slidejoin as sj
from duel import fight
from generate.cases import HOWS, Advance, Call, Push, Setup, cases
from generate.conditions import band, conditions, numeric_pairs
from generate.expressions import Abs, Arithmetic, Column, Compare, Node, interval, number
from generate.profiles import examples
from generate.types import ALL_TYPES, FAMILIES, NUMBERS, SMALL_NUMBERS, SPECIAL_NUMBERS, ColumnType

INDEXES = ("auto", *sj.indexes())
FLOWS = ("auto", *sj.flows())


@examples(5)
@given(cases(), st.sampled_from(INDEXES), st.sampled_from(FLOWS))
def test_any_join(case: tuple[Setup, list[Call]], index: str, flow: str) -> None:
    fight(*case, index=index, flow=flow)


@pytest.mark.parametrize("window", ["rows", "time"])
@pytest.mark.parametrize("how", HOWS)
@examples(1)
@given(data=st.data())
def test_every_kind_of_join(how: str, window: str, data: st.DataObject) -> None:
    fight(*data.draw(cases(how=how, window=window)))


@pytest.mark.parametrize("window", ["rows", "time"])
@pytest.mark.parametrize("order", ["arrival", "strict"])
@examples(1.5)
@given(data=st.data())
def test_every_order(order: str, window: str, data: st.DataObject) -> None:
    index = data.draw(st.sampled_from(INDEXES))
    fight(*data.draw(cases(order=order, window=window)), index=index)


@pytest.mark.parametrize("late", ["count", "keep", "raise"])
@examples(1.5)
@given(data=st.data())
def test_every_late_policy(late: str, data: st.DataObject) -> None:
    fight(*data.draw(cases(late=late, window="time")))


# -- every pair of types under every operator -------------------------------------------------------------


def specials(kind: ColumnType) -> list[Any]:
    """All values of the pools that a type can hold, and NULL."""
    if kind.family == "number":
        numbers = [kind.fit(number) for number in (*SMALL_NUMBERS[::2], *SPECIAL_NUMBERS)]
        return [number for number in numbers if number is not None] + [None]
    second = 10**9 // kind.nanos if kind.nanos <= 10**9 else 1
    values: dict[str, list[Any]] = {
        "text": ["", "a", "A", "aa", "é", "e\u0301", "\uffff", "\U0001f600", "a\x00b", "a\x00"],
        "bytes": [b"", b"\x00", b"\x00\x00", b"a", b"\xff", b"\x80\x00"],
        "bool": [True, False],
        "date": [0, 1, -1, 19_000, -141_427, 2_932_896],
        "naive": [-second, -1, 0, 1, second, second * 1_700_000_000 + 1],
    }
    values["zoned"] = values["span"] = values["naive"]
    return [*values[kind.family], None]


def one_push(
    columns: tuple[dict[str, ColumnType], dict[str, ColumnType]],
    rows: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    condition: Node,
) -> tuple[Setup, list[Call]]:
    """All rows of both sides at once, in a window that holds them all: the condition alone decides."""
    setup = Setup(
        columns=(tuple(columns[0].items()), tuple(columns[1].items())),
        pools=((), ()),
        condition=condition,
        windows=(naive.Rows(1000), naive.Rows(1000)),
        position=None,
        lengths=(1000, 1000),
        slides=(1, 1),
        chunk_rows=16,
        subwindow_rows=16,
    )
    return setup, [Push(rows[0], rows[1])]


def special_push(left: ColumnType, right: ColumnType, condition: Node) -> tuple[Setup, list[Call]]:
    rows = [{"x": x} for x in specials(left)], [{"y": y} for y in specials(right)]
    return one_push(({"x": left}, {"y": right}), rows, condition)


@pytest.mark.parametrize("left", ALL_TYPES, ids=lambda kind: str(kind.arrow))
def test_special_values_of_every_pair_of_types(left: ColumnType) -> None:
    for right in FAMILIES[left.family]:
        x, y = Column(0, "x", left.kind, "l"), Column(1, "y", right.kind, "r")
        for op in ("=", "<", ">=", "<>"):
            fight(*special_push(left, right, Compare(op, x, y)))


BANDED = [kind for kind in ALL_TYPES if kind.family in ("number", "date", "naive", "zoned", "span")]


@pytest.mark.parametrize("left", BANDED, ids=lambda kind: str(kind.arrow))
def test_bands_of_special_values_of_every_pair_of_types(left: ColumnType) -> None:
    """Bounds computed from extremes: nothing wraps, nothing rounds that should not."""
    for spelling, right in enumerate(FAMILIES[left.family]):
        x, y = Column(0, "x", left.kind, "l"), Column(1, "y", right.kind, "r")
        if left.family == "number":
            width: Node = number((1, Fraction(1, 20), 0, 127)[spelling % 4])
        else:
            width = interval(1, "day" if left.family == "date" else "second")
        fight(
            *special_push(
                left, right, band(x, y, width, width, spelling % (3 if left.family == "date" else 4))
            )
        )
        if left.family != "date":
            fight(*special_push(left, right, Compare("<=", Abs(Arithmetic("-", x, y)), width)))


@st.composite
def neighbours(draw: st.DrawFn) -> list[int | Fraction | float]:
    """A few numbers, what is next to them, and what is a width away: all that decides at an edge."""
    base = draw(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.floats(-1e3, 1e3),
            st.sampled_from(SPECIAL_NUMBERS[7:]),
            st.decimals(-100, 100, places=2).map(Fraction),
        )
    )
    pool: list[int | Fraction | float] = [base]
    for width in (1, Fraction(1, 20), Fraction(1, 10), 5):
        exact = Fraction(base)
        pool += [exact + width, exact - width, float(base) + float(width), float(base) - float(width)]
    floats = [math.nextafter(float(value), toward) for value in pool for toward in (math.inf, -math.inf)]
    return pool + [value for value in floats if math.isfinite(value)] + [draw(st.sampled_from(SMALL_NUMBERS))]


@examples(3)
@given(
    pool=neighbours(),
    kinds=st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4),
    flip=st.booleans(),
    data=st.data(),
)
def test_numbers_to_the_last_bit(
    pool: list[int | Fraction | float], kinds: list[ColumnType], flip: bool, data: st.DataObject
) -> None:
    """Every spelling of every numeric predicate, on values at the very edge of being true."""
    columns = ({"x": kinds[0], "w": kinds[1]}, {"y": kinds[2], "v": kinds[3]})
    operands = [[Column(side, n, k.kind, "lr"[side]) for n, k in columns[side].items()] for side in (0, 1)]
    pair = (operands[0][0], operands[1][0])
    condition = data.draw(numeric_pairs(*(pair[::-1] if flip else pair), *operands))
    rows: list[list[dict[str, Any]]] = []
    for side in columns:
        cells = {n: [v for v in map(k.fit, pool) if v is not None] or [k.fit(0)] for n, k in side.items()}
        length = max(map(len, cells.values()))
        rows.append([{n: values[i % len(values)] for n, values in cells.items()} for i in range(length)])
    fight(*one_push(columns, (rows[0], rows[1]), condition), index=data.draw(st.sampled_from(INDEXES)))


# -- larger windows, so that more than toy structures are met ---------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
@examples(0.1)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_hundreds_of_rows(index: str, data: st.DataObject, seed: int) -> None:
    """Windows of hundreds of rows with the engine's own chunk sizes; the condition is drawn, rows are seeded."""
    shuffle = random.Random(seed)
    kinds = [data.draw(st.sampled_from(FAMILIES["number"][:10])) for _ in range(2)]
    columns = tuple(((("a", kind), ("b", FAMILIES["number"][3]))) for kind in kinds)
    operands = [
        [Column(side, name, kind.kind, "lr"[side]) for name, kind in columns[side]] for side in (0, 1)
    ]
    setup = Setup(
        columns=columns,
        pools=(([], []), ([], [])),
        condition=data.draw(conditions(operands[0], operands[1], depth=1)),
        windows=(naive.Rows(150), naive.Rows(90, slide=30)),
        position=None,
        lengths=(150, 90),
        slides=(1, 30),
        how=data.draw(st.sampled_from(HOWS)),
        order=data.draw(st.sampled_from(("none", "strict"))),
        threads=2,
    )

    def rows(side: int) -> list[dict[str, Any]]:
        fit = columns[side][0][1].fit
        return [
            {"a": fit(shuffle.randrange(120)), "b": shuffle.choice([None, *range(30)])}
            for _ in range(shuffle.choice([0, 1, 70]))
        ]

    fight(setup, [Push(rows(0), rows(1)) for _ in range(4)], index=index)


# -- found once, kept for ever ----------------------------------------------------------------------------


def time_case(*calls: Call, **change: Any) -> tuple[Setup, list[Call]]:
    """An integer-time join on equality of `k`, the window 10 ticks."""
    kind = FAMILIES["number"][3]
    settings: dict[str, Any] = {
        "columns": ((("k", kind), ("ts", kind)),) * 2,
        "pools": (([], []), ([], [])),
        "condition": Compare("=", Column(0, "k", "int", "l"), Column(1, "k", "int", "r")),
        "windows": (naive.Time(10), naive.Time(10)),
        "position": ("ts", "ts"),
        "lengths": (10, 10),
        "slides": (None, None),
        "lateness_given": 0,
    }
    return Setup(**(settings | change)), list(calls)


def at(*times: int | None) -> list[dict[str, Any]]:
    return [{"k": 1, "ts": time} for time in times]


@example(time_case(Push(at(0), None), Push(None, at(10, 11)), Push(at(10), at(0)), how="full"))
@example(
    time_case(
        Push(at(5), at(5)), Push(at(4, 5), at(15, 16)), Advance(50, None), Advance(None, 50), how="left"
    )
)
@example(time_case(Push(at(None, 1), at(None)), Push(at(-9), at(11)), how="anti"))
@example(time_case(Push(at(100), at(100)), Push(at(99), None), Push(at(101), at(20)), late="keep"))
@example(
    time_case(
        Push(at(9, 10, -1), at(19, 20, 29, 30, 9, 10)),
        windows=(naive.Time(20, 10), naive.Time(20, 10)),
        lengths=(20, 20),
        slides=(10, 10),
        how="full",
    )
)
@examples(0.1)
@given(cases(window="time"))
def test_worked_cases(case: tuple[Setup, list[Call]]) -> None:
    fight(*case)
