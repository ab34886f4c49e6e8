"""The late buffer: few rows out of order are found apart from the others (window/subwindow.py).

arrivals   10 11 12 13  9 14 15 ...      a subwindow
timely     10 11 12 13    14 15 ...      ascend, bounds 10 to 15
late                    9                bounds 9 to 9
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
import slidejoin as sj
from slidejoin.window.subwindow import HANDFUL, Subwindow

BAND = "abs(l.x - r.x) <= 2 AND l.g <= r.g"
WINDOW, LATENESS, SPAN = (
    400,
    300,
    100,
)  # ticks; a subwindow is a quarter of the window, and rows reach back over several


def near(left: dict[str, int], right: dict[str, int]) -> bool:
    return abs(left["x"] - right["x"]) <= 2 and left["g"] <= right["g"]


def rows(
    rng: np.random.Generator, at: int, count: int, straying: float, ahead: float = 0.0
) -> dict[str, list[int]]:
    """Times that go on from ``at``; some reach back, some are far ahead."""
    times = np.arange(at, at + count)
    stray = rng.random(count) < straying
    times = np.where(stray, np.maximum(0, times - rng.integers(0, LATENESS, count)), times)
    times = np.where(rng.random(count) < ahead, times + rng.integers(0, 2 * WINDOW, count), times)
    return {
        "t": times.tolist(),
        "x": rng.integers(0, 60, count).tolist(),
        "g": rng.integers(0, 3, count).tolist(),
    }


def of_oracle(batch: dict[str, list[int]]) -> list[naive.Row]:
    return [
        naive.Row({"x": x, "g": g}, t) for t, x, g in zip(batch["t"], batch["x"], batch["g"], strict=True)
    ]


def subwindows(join: sj.Join) -> list[Subwindow]:
    return [one for ring in join._engine.worker.rings if ring is not None for one in ring.subwindows]


def made(how: str, subwindow_rows: int) -> sj.Join:
    tuning = sj.Tuning(subwindow_rows=subwindow_rows)
    return sj.Join(BAND, window=sj.Time(WINDOW, on="t"), lateness=LATENESS, how=how, threads=1, tuning=tuning)


def duel(join: sj.Join, how: str, straying: float, seed: int, ahead: float = 0.0) -> tuple[int, int]:
    """Push the same to the join and to the oracle; the most subwindows with late rows at a time, of how many."""
    window = naive.Time(WINDOW)
    oracle = naive.Naive(near, (window, window), how=how, lateness=LATENESS)
    rng = np.random.default_rng(seed)
    most = (0, 0)
    for at in range(0, 1000, 25):
        for side in ("left", "right"):
            batch = rows(rng, at, 25, straying, ahead)
            found: Any = join.push(**{side: batch})
            expected = oracle.push(**{side: of_oracle(batch)})
            pairs = sorted(zip(*(column.tolist() for column in found.indices()), strict=True))
            assert pairs == sorted(expected), (at, side)
            held_rows = [join.stats()[name]["state_rows"] for name in ("left", "right")]
            assert held_rows == [one.state_rows for one in oracle.sides], (at, side)
            join.check()
        held = subwindows(join)
        most = max(most, (sum(not one.late.empty for one in held), len(held)))
    found = join.finish()
    assert sorted(zip(*(column.tolist() for column in found.indices()), strict=True)) == sorted(
        oracle.finish()
    )
    return most


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
@pytest.mark.parametrize("straying", [0.01, 0.1, 0.6])
def test_every_kind_of_join(how: str, straying: float) -> None:
    late, held = duel(made(how, SPAN), how, straying, seed=3)
    assert held > 4
    assert late > 2


@pytest.mark.parametrize("how", ["inner", "full", "anti"])
@pytest.mark.parametrize("subwindow_rows", [7, 40])
def test_rows_far_ahead_make_others_late(how: str, subwindow_rows: int) -> None:
    duel(made(how, subwindow_rows), how, 0.03, seed=4, ahead=0.01)


@pytest.mark.parametrize("how", ["inner", "anti"])
def test_rows_ahead_of_an_older_subwindows_time_are_not_lost(how: str) -> None:
    """What is late for the rows of one subwindow may still be ahead of those that follow it."""
    join = sj.Join(
        "l.k = r.k", window=sj.Time(1500, on="t"), lateness=1, how=how, tuning=sj.Tuning(subwindow_rows=100)
    )

    def left(times: Any, key: int = 0) -> dict[str, list[int]]:
        return {"t": list(times), "k": [key for _ in times]}

    join.push(left=left([0, 16_000]))
    join.push(left=left(range(1300, 1400)))
    join.push(left=left([5100, 7200, 6300], 5))
    join.push(left=left(range(1900, 1960)))
    emitted = join.push(left=left(range(4700, 4740)), right={"t": [3600], "k": [9]})
    assert join.stats().left["state_rows"] == 44
    assert emitted.num_rows == (161 if how == "anti" else 0)
    join.check()
    assert join.push(right={"t": [3700], "k": [5]}).num_rows == (1 if how == "inner" else 0)


@pytest.mark.parametrize("flow", ["single", "panjoin"])
@pytest.mark.parametrize("index", sj.indexes())
def test_every_index(index: str, flow: str) -> None:
    """Against one that has no shelves worth the name: a nested loop over rows in one subwindow."""
    condition = "l.x = r.x" if index == "hash" else BAND
    asked: dict[str, Any] = {"window": sj.Time(WINDOW, on="t"), "lateness": LATENESS}
    tuning = sj.Tuning(subwindow_rows=SPAN, chunk_rows=64)
    join = sj.Join(condition, **asked, index=index, flow=flow, threads=2, tuning=tuning)
    plain = sj.Join(condition, **asked, index="scan", threads=1)
    rng = np.random.default_rng(5)
    late = 0
    for number, at in enumerate(range(0, 1500, 25)):
        batch: Any = {("left", "right")[number % 2]: rows(rng, at, 50, 0.05)}
        found, expected = (one.push(**batch).indices() for one in (join, plain))
        assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True)), at
        join.check()
        late = max(late, sum(not one.late.empty for one in subwindows(join)))
    assert late > 2


def test_few_rows_out_of_order_leave_the_others_in_order() -> None:
    join = sj.Join("l.x < r.x", window=sj.Time(1000, on="t"), lateness=500)
    join.push(left={"t": [*range(100, 200)], "x": [0] * 100})
    join.push(left={"t": [150, *range(200, 300), 120], "x": [0] * 102})
    (held,) = subwindows(join)
    assert held.late_ids.tolist() == [100, 201]
    assert (held.late.low, held.late.high) == (120, 150)
    assert (held.timely.low, held.timely.high, held.timely.ascending) == (100, 299, True)
    assert held.seqs.values.tolist() == []  # rows lie as they came: their numbers cost nothing


def test_many_rows_out_of_order_are_all_on_one_shelf() -> None:
    join = sj.Join("l.x < r.x", window=sj.Time(1000, on="t"), lateness=500)
    backwards = [*range(100, 100 + 2 * HANDFUL)][::-1]
    join.push(left={"t": backwards, "x": [0] * len(backwards)})
    (held,) = subwindows(join)
    assert held.late.empty
    assert not held.timely.ascending


def test_a_snapshot_has_rows_of_both_shelves(tmp_path: Any) -> None:
    rng = np.random.default_rng(9)
    join = sj.Join(
        BAND, window=sj.Time(WINDOW, on="t"), lateness=LATENESS, tuning=sj.Tuning(subwindow_rows=SPAN)
    )
    for at in range(0, 600, 25):
        join.push(left=rows(rng, at, 25, 0.05))
    assert any(not one.late.empty for one in subwindows(join))
    join.save(tmp_path / "join")
    again = sj.Join.load(tmp_path / "join")
    probe = rows(rng, 600, 25, 0.3)
    found, expected = (one.push(right=probe).indices() for one in (again, join))
    assert len(expected[0]) > 0
    assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True))
    again.check()
