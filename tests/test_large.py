"""Thousands of rows: where several threads probe, subwindows have their own sizes, and results come in pieces.

The nested loop is too slow here; the same rules are written out once more with NumPy, over all pairs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import slidejoin as sj
from duel import InapplicableError, forced_index

Array = NDArray[Any]
PUSHES = ((4200, 0), (0, 4200), (4200, 4200), (1, 300), (900, 1))  # rows left and right of each push


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few thousand rows are work for several threads."""
    monkeypatch.setattr("slidejoin.worker.SHARE", 512)
    monkeypatch.setattr("slidejoin.pools.SHARE", 512)
    monkeypatch.setattr("slidejoin.index.by_key.SHARE", 512)
    monkeypatch.setattr("slidejoin.flow.single.SHARE", 512)
    monkeypatch.setattr("slidejoin.flow.panjoin.PIECE_ROWS", 1024)


@dataclass(frozen=True)
class Stream:
    """All rows of one side, with when each arrived among both sides, and in which push."""

    x: Array
    y: Array
    ts: Array
    moment: Array
    push: Array

    def batch(self, number: int) -> dict[str, Array]:
        rows = self.push == number
        return {"x": self.x[rows], "y": self.y[rows], "ts": self.ts[rows]}


@functools.cache
def streams() -> tuple[Stream, Stream]:
    """Two streams; within a push of both the left arrives first. Times go forward with some disorder."""
    random = np.random.default_rng(7)
    moments: list[list[int]] = [[], []]
    pushes: list[list[int]] = [[], []]
    clock = 0
    for number, counts in enumerate(PUSHES):
        for side, count in enumerate(counts):
            moments[side] += range(clock, clock + count)
            pushes[side] += [number] * count
            clock += count
    made = []
    for side in (0, 1):
        moment = np.array(moments[side])
        made.append(
            Stream(
                x=random.integers(0, 20_000, len(moment)),
                y=random.integers(0, 50, len(moment)),
                ts=moment + random.integers(-500, 500, len(moment)),
                moment=moment,
                push=np.array(pushes[side]),
            )
        )
    return made[0], made[1]


def rows_pairs(left: Stream, right: Stream, size: int, slide: int) -> Array:
    """Rules 2 and 4 for every pair: was the earlier still visible when the later arrived?"""
    seen = [np.searchsorted(a.moment, b.moment) for a, b in ((left, right), (right, left))]
    slot = [np.arange(len(s.moment)) // slide * slide for s in (left, right)]
    left_first = left.moment[:, None] < right.moment[None, :]
    left_visible = seen[0][None, :] - slot[0][:, None] <= size
    right_visible = seen[1][:, None] - slot[1][None, :] <= size
    return np.where(left_first, left_visible, right_visible)


def time_pairs(left: Stream, right: Stream, size: int) -> Array:
    """Rule 3; nothing is late under a patient lateness."""
    return np.abs(left.ts[:, None] - right.ts[None, :]) <= size


CONDITIONS: dict[str, Callable[[Stream, Stream], Array]] = {
    "l.x = r.x": lambda l, r: l.x[:, None] == r.x[None, :],  # noqa: E741
    "abs(l.x - r.x) <= 3": lambda l, r: np.abs(l.x[:, None] - r.x[None, :]) <= 3,  # noqa: E741
    "l.x BETWEEN r.x - r.y AND r.x + 2 AND l.y < r.y": lambda l, r: (  # noqa: E741
        (l.x[:, None] >= (r.x - r.y)[None, :])
        & (l.x[:, None] <= r.x[None, :] + 2)
        & (l.y[:, None] < r.y[None, :])
    ),
    "l.y <> r.y AND l.x = r.x OR l.x + r.x < 150": lambda l, r: (  # noqa: E741
        (l.y[:, None] != r.y[None, :]) & (l.x[:, None] == r.x[None, :]) | (l.x[:, None] + r.x[None, :] < 150)
    ),
}


@functools.cache
def truth(condition: str, window: str, size: int, slide: int = 1) -> tuple[Array, Array]:
    """The pairs of the result, as row numbers."""
    left, right = streams()
    near = time_pairs(left, right, size) if window == "time" else rows_pairs(left, right, size, slide)
    return np.nonzero(near & CONDITIONS[condition](left, right))


def answer(join: sj.Join) -> list[tuple[Array, Array, sj.Matches]]:
    """Row numbers and rows of every push, and of the end."""
    left, right = streams()
    results = []
    for number, (lefts, rights) in enumerate(PUSHES):
        given = {
            **({"left": left.batch(number)} if lefts else {}),
            **({"right": right.batch(number)} if rights else {}),
        }
        matches = join.push(**given)
        results.append((*matches.indices(), matches))
    join.check()
    last = join.finish()
    results.append((*last.indices(), last))
    return results


def check_pairs(result: list[tuple[Array, Array, sj.Matches]], pairs: tuple[Array, Array]) -> None:
    """Each pair in the push in which the later of the two arrived, and nothing else."""
    left, right = streams()
    i, j = pairs
    push = np.maximum(left.push[i], right.push[j])
    for number, (lefts, rights, matches) in enumerate(result[:-1]):
        expected = i[push == number] * len(right.x) + j[push == number]
        assert matches.num_rows == len(lefts) == len(expected)
        assert np.array_equal(np.sort(lefts * len(right.x) + rights), np.sort(expected))
        if matches.num_rows:
            table = matches.to_table()
            assert np.array_equal(table["x_l"].to_numpy(), left.x[lefts])
            assert np.array_equal(table["ts_r"].to_numpy(), right.ts[rights])


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    ("index", "flow"),
    [(index, flow) for index in sj.indexes() for flow in sj.flows() if (index, flow) != ("scan", "panjoin")],
    ids="-".join,  # all pairs take seconds, and a scan has nothing that two workers could confuse
)
def test_every_index_with_threads(index: str, flow: str, condition: str) -> None:
    for threads in (1, 2):
        try:
            with forced_index(index):
                join = sj.Join(condition, window=sj.Rows(3000), index=index, flow=flow, threads=threads)
                result = answer(join)
        except InapplicableError:
            return
        check_pairs(result, truth(condition, "rows", 3000))


@pytest.mark.parametrize("order", ["arrival", "strict"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("flow", sj.flows())
def test_order_with_threads(order: str, flow: str, threads: int) -> None:
    left, right = streams()
    condition = "abs(l.x - r.x) <= 3"
    join = sj.Join(condition, window=sj.Rows(3000, slide=100), order=order, flow=flow, threads=threads)
    result = answer(join)
    check_pairs(result, truth(condition, "rows", 3000, 100))
    for lefts, rights, _ in result[:-1]:
        later = np.maximum(left.moment[lefts], right.moment[rights])
        earlier = np.minimum(left.moment[lefts], right.moment[rights])
        assert np.all(np.diff(later) >= 0)
        if order == "strict":
            assert np.array_equal(np.lexsort((earlier, later)), np.arange(len(later)))


PATIENCE = 12_000  # for the disorder of the times, and for a push of one side that overtakes the other


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("size", [50, 2000])
@pytest.mark.parametrize("flow", sj.flows())
def test_time_windows(flow: str, size: int, condition: str) -> None:
    join = sj.Join(condition, window=sj.Time(size, on="ts"), lateness=PATIENCE, flow=flow, threads=2)
    check_pairs(answer(join), truth(condition, "time", size))


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("window", ["rows", "time"])
@pytest.mark.parametrize("flow", sj.flows())
def test_rows_that_never_match(how: str, flow: str, window: str) -> None:
    left, right = streams()
    condition = "l.x = r.x"
    options: dict[str, Any] = {"window": sj.Rows(2000)}
    if window == "time":
        options = {"window": sj.Time(2000, on="ts"), "lateness": PATIENCE}
    result = answer(sj.Join(condition, how=how, flow=flow, threads=2, **options))
    lefts = np.concatenate([one[0] for one in result])
    rights = np.concatenate([one[1] for one in result])
    found = set(zip(lefts.tolist(), rights.tolist(), strict=True))
    assert len(found) == len(lefts)
    i, j = (side.tolist() for side in truth(condition, window, 2000))
    pairs = set(zip(i, j, strict=True))
    lonely_left = {(row, -1) for row in set(range(len(left.x))) - set(i)}
    lonely_right = {(-1, row) for row in set(range(len(right.x))) - set(j)}
    expected = {
        "left": pairs | lonely_left,
        "right": pairs | lonely_right,
        "full": pairs | lonely_left | lonely_right,
        "semi": {(row, -1) for row in i},
        "anti": lonely_left,
    }
    assert found == expected[how]
