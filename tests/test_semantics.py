"""The engine against the oracle: random joins, complete multisets, after every call."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
import slidejoin as sj
from duel import fight
from generate.cases import HOWS, Advance, Call, Push, Setup, cases
from generate.conditions import conditions
from generate.expressions import Column, Compare
from generate.profiles import examples
from generate.types import ALL_TYPES, FAMILIES, SMALL_NUMBERS, SPECIAL_NUMBERS, ColumnType

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


def one_push(left: ColumnType, right: ColumnType, op: str, how: str = "inner") -> tuple[Setup, list[Call]]:
    windows = (naive.Rows(1000), naive.Rows(1000))
    setup = Setup(
        columns=((("x", left),), (("y", right),)),
        pools=(([],), ([],)),
        condition=Compare(op, Column(0, "x", left.kind, "l"), Column(1, "y", right.kind, "r")),
        windows=windows,
        position=None,
        lengths=(1000, 1000),
        slides=(1, 1),
        how=how,
        chunk_rows=16,
        subwindow_rows=16,
    )
    return setup, [Push([{"x": x} for x in specials(left)], [{"y": y} for y in specials(right)])]


@pytest.mark.parametrize("left", ALL_TYPES, ids=lambda kind: str(kind.arrow))
def test_special_values_of_every_pair_of_types(left: ColumnType) -> None:
    for right in FAMILIES[left.family]:
        for op in ("=", "<", ">=", "<>"):
            fight(*one_push(left, right, op))


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
