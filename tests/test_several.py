"""Several comparisons at once against the oracle: every mix of operators, structures so small that they merge often."""

from __future__ import annotations

import itertools
import random
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import slidejoin as sj
from duel import fight
from generate.cases import HOWS, Call, Push, Setup
from generate.conditions import band
from generate.expressions import Column, Compare, Connective, Node, number
from generate.profiles import examples
from generate.types import FAMILIES
from slidejoin.condition.paths import Intervals, crossed
from slidejoin.index import REGISTRY, BPlusTree, CellRuns, SortTree, SpoJoin

if TYPE_CHECKING:
    from collections.abc import Iterator

SEVERAL = [name for name, index in REGISTRY.items() if index.several]
OPERATORS = ("<", "<=", ">", ">=")
NAMES = ("a", "b", "c")
NUMBER = FAMILIES["number"][3]
SMALL = (
    (SpoJoin, {"delta": 6, "piece": 2, "widths": (3, 4)}),
    (SortTree, {"leaf": 1, "fan": 1, "at_once": 5}),
    (CellRuns, {"rows_per_cell": 1, "at_once": 5}),
    (BPlusTree, {"widths": (2, 4)}),
)


@contextmanager
def small() -> Iterator[None]:
    with ExitStack() as patches:
        for index, sizes in SMALL:
            for name, size in sizes.items():
                patches.enter_context(mock.patch.object(index, name, size))
        yield


def comparison(kind: str, name: str) -> Node:
    left, right = Column(0, name, NUMBER.kind, "l"), Column(1, name, NUMBER.kind, "r")
    if kind == "band":
        return band(left, right, number(2), number(1), 0)
    return Compare(kind, left, right)


def setup(kinds: tuple[str, ...], **more: Any) -> Setup:
    names = NAMES[: len(kinds)]
    parts = tuple(comparison(kind, name) for kind, name in zip(kinds, names, strict=True))
    settings: dict[str, Any] = {
        "columns": ((*((name, NUMBER) for name in names), ("ts", NUMBER)),) * 2,
        "pools": (([], []), ([], [])),
        "condition": Connective("AND", parts) if len(parts) > 1 else parts[0],
        "windows": (naive.Rows(40), naive.Rows(24, slide=8)),
        "position": None,
        "lengths": (40, 24),
        "slides": (1, 8),
        "subwindow_rows": 12,
        "chunk_rows": 9,
    }
    return Setup(**(settings | more))


def calls(kinds: tuple[str, ...], seed: int, pushes: int = 5) -> list[Call]:
    shuffle = random.Random(seed)
    clock = itertools.count()

    def rows() -> list[dict[str, Any]]:
        made = []
        for _ in range(shuffle.choice([0, 1, 7, 20])):
            base = shuffle.randrange(12)  # the columns run together, more or less
            cells = {
                name: shuffle.choice([base + shuffle.randrange(-2, 3)] * 9 + [None])
                for name in NAMES[: len(kinds)]
            }
            made.append({**cells, "ts": next(clock) // 3})
        return made

    return [Push(rows(), rows()) for _ in range(pushes)]


TIMED: dict[str, Any] = {
    "windows": (naive.Time(9), naive.Time(14)),
    "position": ("ts", "ts"),
    "lengths": (9, 14),
    "slides": (None, None),
    "lateness_given": 0,
}


@pytest.mark.parametrize("index", ["auto", *SEVERAL])
def test_every_mix_of_operators(index: str) -> None:
    with small():
        for seed, kinds in enumerate(itertools.product((*OPERATORS, "band", "="), repeat=2)):
            fight(setup(kinds), calls(kinds, seed, 3), index=index)


@pytest.mark.parametrize("how", HOWS)
@examples(0.4)
@given(
    kinds=st.lists(st.sampled_from([*OPERATORS, "band", "=", "<>"]), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
    index=st.sampled_from(["auto", *SEVERAL, "bplus_tree"]),
    order=st.sampled_from(["none", "none", "arrival", "strict"]),
    threads=st.sampled_from([1, 2]),
    timed=st.booleans(),
)
def test_every_kind_of_join(
    how: str, kinds: list[str], seed: int, index: str, order: str, threads: int, timed: bool
) -> None:
    more: dict[str, Any] = {"how": how, "order": order, "threads": threads} | (TIMED if timed else {})
    with small():
        fight(setup(tuple(kinds), **more), calls(tuple(kinds), seed), index=index)


# -- the plan ---------------------------------------------------------------------------------------------


def planned(condition: str, index: str = "auto", rows: int = 1500) -> str:
    rng = np.random.default_rng(1)
    join = sj.Join(condition, window=sj.Rows(100_000), index=index)
    tables = [
        pa.table(
            {
                "k": rng.integers(0, 40, rows),
                "u": rng.permutation(10**6)[:rows],
                "x": rng.integers(0, 10_000, rows),
                "y": rng.integers(0, 10_000, rows),
            }
        )
        for _ in range(2)
    ]
    join.push(right=tables[1])
    join.push(left=tables[0])
    return join.explain().splitlines()[-1]


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 50", "cell_runs on (r.x, r.y)"),
        ("l.x < r.x AND abs(l.y - r.y) <= 10", "cell_runs on (r.y, r.x)"),
        ("l.k = r.k AND l.x < r.x", "cell_runs on (r.k, r.x)"),
        ("l.x < r.x AND l.y > r.y", "sort_tree on (r."),
        ("l.x < r.x AND l.y > r.y AND l.k <= r.k", "sort_tree on (r."),
        ("l.u = r.u AND l.x < r.x", "bi_sort on r.u"),
        ("abs(l.x - r.x) <= 10", "bi_sort on r.x"),
    ],
)
def test_the_planner_chooses(condition: str, index: str) -> None:
    assert f"find right    {index}" in planned(condition)


def test_the_plan_says_what_was_measured() -> None:
    plan = planned("l.x < r.x AND l.y > r.y")
    assert "each alone keeps much of the window, together 2" in plan
    assert "r.x > l.x 5" in plan or "r.x > l.x 4" in plan
    assert "then check" not in plan, "both are answered by the index"


def test_what_no_key_covers_is_checked() -> None:
    plan = planned("l.x < r.x AND l.y > r.y AND l.x * r.y > 100")
    assert "sort_tree" in plan
    assert "then check l.x * r.y > 100" in plan


@pytest.mark.parametrize("index", SEVERAL)
def test_one_key_is_enough(index: str) -> None:
    assert f"{index} on r.x" in planned("abs(l.x - r.x) <= 10", index)


def test_boxes_of_several_intervals() -> None:
    """Row 0 has two intervals of the first key, row 1 none, row 2 one; the second key has one a row."""
    first = Intervals(np.array([0, 0, 2], dtype=np.int32), np.array([1, 5, 9]), np.array([2, 6, 9]))
    second = Intervals(None, np.array([10, 20, 30]), np.array([11, 21, 31]))
    rows, lows, highs = crossed([first, second], 3)
    assert rows is not None
    assert rows.tolist() == [0, 0, 2]
    assert lows.tolist() == [[1, 10], [5, 10], [9, 30]]
    assert highs.tolist() == [[2, 11], [6, 11], [9, 31]]
    rows, lows, _ = crossed([first, first], 3)
    assert rows is not None
    assert rows.tolist() == [0, 0, 0, 0, 2]
    assert lows.tolist() == [[1, 1], [1, 5], [5, 1], [5, 5], [9, 9]]
