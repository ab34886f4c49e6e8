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
from generate.types import FAMILIES, SPECIAL_NUMBERS, ColumnType
from slidejoin.condition.paths import Intervals, crossed
from slidejoin.condition.predicate import Predicate
from slidejoin.index import REGISTRY, BPlusTree, CellRuns, SortTree, SpoJoin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

SEVERAL = [name for name, index in REGISTRY.items() if index.several]
OPERATORS = ("<", "<=", ">", ">=")
NAMES = ("a", "b", "c")
NUMBER = FAMILIES["number"][3]
SMALL = (
    (SpoJoin, {"merge_rows": 6, "piece": 2, "widths": (3, 4)}),
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


def typed(kind: str, name: str, types: tuple[ColumnType, ColumnType]) -> Node:
    left, right = (Column(side, name, types[side].kind, alias) for side, alias in enumerate("lr"))
    return band(left, right, number(2), number(1), 0) if kind == "band" else Compare(kind, left, right)


def fitting(of: ColumnType) -> list[Any]:
    """Values of a column: ties, extremes, NaN, infinities and NULL, as far as the type has them."""
    if of.family != "number":
        return [0, 1, 1, 2, 3, 5, 8, -1, 10**6, None]
    fitted = [of.fit(value) for value in (*range(-2, 9), *SPECIAL_NUMBERS)]
    return [value for value in fitted if value is not None] + [None]


@pytest.mark.parametrize("index", ["auto", *SEVERAL])
@examples(0.4)
@given(data=st.data(), how=st.sampled_from(HOWS), seed=st.integers(0, 2**32), tiny=st.booleans())
def test_every_type(index: str, data: st.DataObject, how: str, seed: int, tiny: bool) -> None:
    """Keys of any comparable types, mixed; an OR of ANDs on different keys; windows of a few rows and slides."""
    shuffle = random.Random(seed)
    names = NAMES[: data.draw(st.integers(2, 3))]
    types: dict[str, tuple[ColumnType, ColumnType]] = {}
    for name in names:
        pool = FAMILIES[data.draw(st.sampled_from(["number", "number", "number", "date", "naive", "zoned"]))]
        types[name] = data.draw(st.sampled_from(pool)), data.draw(st.sampled_from(pool))
    branches = []
    for _ in range(data.draw(st.integers(1, 2))):
        kinds = {
            name: data.draw(
                st.sampled_from([*OPERATORS, "=", *(["band"] if pair[0].family == "number" else [])])
            )
            for name, pair in types.items()
        }
        branches.append(
            Connective("AND", tuple(typed(kind, name, types[name]) for name, kind in kinds.items()))
        )
    lengths, slides = ((3, 4), (1, 2)) if tiny else ((40, 24), (5, 8))
    made = setup(
        ("<",) * len(names),
        how=how,
        columns=tuple((*((name, types[name][side]) for name in names), ("ts", NUMBER)) for side in (0, 1)),
        condition=branches[0] if len(branches) == 1 else Connective("OR", tuple(branches)),
        windows=tuple(naive.Rows(n, slide=d) for n, d in zip(lengths, slides, strict=True)),
        lengths=lengths,
        slides=slides,
    )

    def rows(side: int) -> list[dict[str, Any]]:
        return [
            {**{name: shuffle.choice(fitting(types[name][side])) for name in names}, "ts": number}
            for number in range(shuffle.choice([0, 1, 7, 20]))
        ]

    with small():
        fight(made, [Push(rows(0), rows(1)) for _ in range(4)], index=index)


@pytest.mark.parametrize("index", ["auto", *SEVERAL])
def test_a_stream_with_itself_across_a_restart(index: str, tmp_path: Path) -> None:
    """Q3 on one stream, saved and loaded while subwindows are being merged."""
    rng = np.random.default_rng(3)
    base = rng.integers(0, 400, 900)
    trips = np.stack([base + rng.integers(-9, 9, 900) for _ in range(2)], axis=1)
    found = []
    with small():
        join = sj.Join("l.d > r.d AND l.f < r.f", window=sj.Rows(200), index=index)
        for at in range(0, 900, 30):
            some = {"d": trips[at : at + 30, 0], "f": trips[at : at + 30, 1]}
            left, right = join.push(left=some, right=some).indices()
            found += list(zip(left.tolist(), right.tolist(), strict=True))
            if at % 210 == 0:
                join.save(tmp_path / "trips")
                join = sj.Join.load(tmp_path / "trips")
    # Of a push the left rows arrive first: a right row sees those of its own push, a left row does not.
    expected = [
        (i, j)
        for i in range(900)
        for j in range(900)
        if trips[i, 0] > trips[j, 0]
        and trips[i, 1] < trips[j, 1]
        and (
            (j // 30 >= i // 30 and i >= (j // 30 + 1) * 30 - 200)  # the right row arrives later
            or (j // 30 < i // 30 and j >= i // 30 * 30 - 200)
        )
    ]
    assert sorted(found) == sorted(expected)


# -- the plan ---------------------------------------------------------------------------------------------


def planned(condition: str, index: str = "auto", rows: int = 1500) -> str:
    rng = np.random.default_rng(1)
    join = sj.Join(condition, window=sj.Rows(100_000), index=index)
    tables = [
        pa.table(
            {
                "k": rng.integers(0, 40, rows),
                "u": rng.permutation(10**6)[:rows],
                "x": (x := rng.integers(0, 10_000, rows)),
                "y": rng.integers(0, 10_000, rows),
                "z": x + rng.integers(-20, 20, rows),
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
        (
            "l.x < r.x AND l.z > r.z AND l.y > r.y",
            "sort_tree on (r.x, r.z, r.y)",
        ),  # the first two run together
        ("l.y > r.y AND l.x < r.x AND l.z > r.z", "sort_tree on (r.x, r.z, r.y)"),
        ("l.x < r.x AND l.z > r.z AND abs(l.y - r.y) <= 100", "sort_tree on (r.x, r.z, r.y)"),
        ("l.u = r.u AND l.x < r.x", "bi_sort on r.u"),
        ("abs(l.x - r.x) <= 10", "bi_sort on r.x"),
    ],
)
def test_the_planner_chooses(condition: str, index: str) -> None:
    assert f"find right    {index}" in planned(condition)


def test_the_plan_says_what_was_measured() -> None:
    plan = planned("l.x < r.x AND l.y > r.y")
    assert "(each alone keeps much of the window: " in plan
    assert "; together 2" in plan
    assert "correlated at 0.0" in plan or "correlated at -0.0" in plan
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


ALWAYS, SOMETIMES, WITH_NULLS = (0, 50), (0, 100), (0, 101)  # from and to; of the last, 100 is NULL
PHASES = (ALWAYS, ALWAYS, ALWAYS, SOMETIMES, ALWAYS, WITH_NULLS, ALWAYS, ALWAYS, ALWAYS, ALWAYS)


@pytest.mark.parametrize("few", [0.05, 1.0], ids=["two keys", "one key"])
@pytest.mark.parametrize("flow", ["single", "panjoin"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("third", ["abs(l.c - r.c) <= 50", "l.c <= r.c + 50 AND l.d >= 0 - r.d"])
def test_a_comparison_that_always_holds_is_watched(few: float, flow: str, threads: int, third: str) -> None:
    """It need not be checked while the ends say so, and is when they do not; rows that made it so leave the window."""
    checked: list[int] = []
    mask = Predicate.mask

    def counted(self: Predicate, *batches: Any) -> Any:
        checked.append(len(batches[0]))
        return mask(self, *batches)

    narrow = 3 if few < 1 else 40  # where one key is searched, the second is no condition
    condition = " AND ".join(["abs(l.a - r.a) <= 3", *(["abs(l.b - r.b) <= 3"] if few < 1 else []), third])
    rng = np.random.default_rng(3)
    rows, window = 300, 600
    with mock.patch("slidejoin.plan.access.FEW", few), mock.patch.object(Predicate, "mask", counted):
        join = sj.Join(
            condition,
            window=sj.Rows(window),
            flow=flow,
            threads=threads,
            tuning=sj.Tuning(subwindow_rows=300),
        )
        seen: list[list[NDArray[Any]]] = [[], []]
        busy = []
        for low, high in PHASES:
            for side in (0, 1):
                c = rng.integers(low, high, rows)
                columns = {"a": rng.integers(0, 40, rows), "b": rng.integers(0, 40, rows), "c": c, "d": c}
                batch = pa.RecordBatch.from_pydict(
                    {
                        name: pa.array(values, mask=(c == 100) & (name == "c"))
                        for name, values in columns.items()
                    }
                )
                checked.clear()
                found = join.push(left=batch) if side == 0 else join.push(right=batch)
                busy.append(sum(checked))
                mine = np.stack([columns["a"], columns["b"], np.where(c == 100, 10**6, c)])
                other = np.concatenate(seen[1 - side], axis=1)[:, -window:] if seen[1 - side] else mine[:, :0]
                first = max(0, sum(part.shape[1] for part in seen[1 - side]) - window)
                left, right = (mine, other) if side == 0 else (other, mine)
                near = np.abs(left[:, :, None] - right[:, None, :])
                below = left[2][:, None] <= right[2][None, :] + 50
                valid = (left[2] < 10**6)[:, None] & (right[2] < 10**6)[None, :]
                passes = (
                    (near[0] <= 3)
                    & (near[1] <= narrow)
                    & valid
                    & ((near[2] <= 50) if "abs" in third else below)
                )
                own = sum(part.shape[1] for part in seen[side])
                offset = np.array([[own], [first]] if side == 0 else [[first], [own]])
                expected = np.argwhere(passes).T + offset
                assert sorted(zip(*found.indices(), strict=True)) == sorted(zip(*expected, strict=True))
                seen[side].append(mine)
                join.check()
    assert busy[2:6] == [0, 0, 0, 0], "the ends are enough"
    assert max(busy[6:10]) > 0, "then they are not"
    assert busy[-2:] == [0, 0], "and when the rows are gone they are again"
