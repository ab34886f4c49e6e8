"""Slices: a push that spans many windows is cut by time, loses nothing, and looks at few rows in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.flow.slices import WORTH, Pace, slices, worth_slicing
from slidejoin.window.arrivals import Arrivals, Numbers, Reach
from slidejoin.worker import Vain, Worker

LOOSE = "l.k < r.k"
ROWS = 6000
LENGTH = 9


def feed(seed: int, *, shuffled: bool = False, rows: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows, rows))
    return {"ts": rng.permutation(times) if shuffled else times, "k": rng.integers(0, 1000, rows)}


def expected(left: dict[str, Any], right: dict[str, Any]) -> set[tuple[int, int]]:
    near = np.abs(left["ts"][:, None] - right["ts"][None, :]) <= LENGTH
    rows, others = np.nonzero(near & (left["k"][:, None] < right["k"][None, :]))
    return set(zip(rows.tolist(), others.tolist(), strict=True))


def found(*several: Any) -> list[tuple[int, int]]:
    return [
        pair
        for matches in several
        for pair in zip(*(numbers.tolist() for numbers in matches.indices()), strict=True)
    ]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What every piece has looked at in vain."""
    seen: list[int] = []
    ask = Worker.in_vain

    def asked(self: Worker) -> Vain:
        answer = ask(self)
        if answer.probed or answer.candidates:
            seen.append(answer.candidates)
        return answer

    monkeypatch.setattr(Worker, "in_vain", asked)
    return seen


@pytest.mark.parametrize("flow", ["single", "panjoin"])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("order", ["none", "arrival"])
def test_every_pair_once(flow: str, shuffled: bool, threads: int, order: str) -> None:
    left, right = feed(1, shuffled=shuffled), feed(2, shuffled=shuffled)
    join = sj.Join(
        LOOSE, window=sj.Time(LENGTH, on="ts"), lateness=ROWS, flow=flow, threads=threads, order=order
    )
    pairs = found(join.push(left=left, right=right), join.finish())
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected(left, right)


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_kinds_of_join(how: str) -> None:
    """The same rows as when they come a few at a time, so that nothing is cut."""
    left, right = feed(3, shuffled=True), feed(4, shuffled=True)
    results = []
    for size in (ROWS, 500):
        join = sj.Join("l.k = r.k", window=sj.Time(LENGTH, on="ts"), how=how, lateness=ROWS)
        several = [
            join.push(
                left={name: column[at : at + size] for name, column in left.items()},
                right={name: column[at : at + size] for name, column in right.items()},
            )
            for at in range(0, ROWS, size)
        ]
        results.append(sorted(found(*several, join.finish())))
        assert join.stats().left["evicted"] == ROWS
    assert results[0] == results[1]


@pytest.mark.parametrize("order", ["none", "strict"])
@pytest.mark.parametrize("together", [True, False])
def test_little_is_looked_at_in_vain(watched: list[int], order: str, together: bool) -> None:
    """Half of all pairs have keys that match, and only one in a thousand of these is within a window."""
    rows = 40_000
    left, right = feed(1, rows=rows), feed(2, rows=rows)
    join = sj.Join(LOOSE, window=sj.Time(LENGTH, on="ts"), lateness=rows, order=order, threads=1)
    if together:
        join.push(left=left, right=right)
    else:
        join.push(left=left)
        join.push(right=right)
    assert sum(watched) < rows * rows // 2 // 15


def test_in_the_order_of_arrival_nothing_is_cut_that_came_in_any_other(watched: list[int]) -> None:
    left, right = (feed(number, rows=20_000, shuffled=True) for number in (1, 2))
    join = sj.Join("l.k = r.k", window=sj.Time(LENGTH, on="ts"), lateness=20_000, order="arrival", threads=1)
    join.push(left=left, right=right)
    assert len(watched) == 1


def test_a_tight_condition_is_not_cut(watched: list[int]) -> None:
    join = sj.Join("l.k = r.k AND l.k < 0", window=sj.Time(LENGTH, on="ts"), threads=1, lateness=10**6)
    for number in range(6):
        left, right = feed(number, rows=30_000), feed(10 + number, rows=30_000)
        for batch in (left, right):
            batch["ts"] = batch["ts"] + 30_000 * number
        watched.clear()
        join.push(left=left, right=right)
    assert len(watched) <= 2


def test_a_failed_push_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = feed(1, shuffled=True), feed(2, shuffled=True)
    join = sj.Join(LOOSE, window=sj.Time(LENGTH, on="ts"), lateness=ROWS, how="full", threads=1)
    complete, calls = Worker.complete, []

    def failing(self: Worker, side: int) -> None:
        calls.append(side)
        if len(calls) == 5:
            raise MemoryError
        complete(self, side)

    monkeypatch.setattr(Worker, "complete", failing)
    with pytest.raises(MemoryError):
        join.push(left=left, right=right)
    join.check()
    assert join.stats().left["rows_in"] == 0
    pairs = found(join.push(left=left, right=right), join.finish())
    assert set(pairs) >= expected(left, right)
    assert len(pairs) == len(set(pairs))


def test_the_pace_follows_what_is_thrown_away() -> None:
    pace = Pace(ordered=False)
    nothing, little, much = (Vain(candidates, True) for candidates in (0, WORTH // 2, WORTH + 1))
    pace.learn(nothing, 64)
    assert pace.rows is None, "nothing was thrown away: nothing is known"
    pace.learn(much, 1 << 14)
    assert pace.rows == 1 << 13
    pace.learn(Vain(16 * WORTH, True), 1 << 14)
    assert pace.rows == 1 << 11, "it throws away as much as the square of its rows"
    for _ in range(9):
        pace.learn(much, 1 << 14)
    assert pace.rows == 1 << 10
    pace.learn(little, 1 << 14)
    pace.learn(Vain(0, False), 1 << 14)
    assert pace.rows == 1 << 10
    pace.learn(Vain(WORTH // 10, True), 1 << 14)
    assert pace.rows == 1 << 11
    pace.learn(nothing, 1 << 20)
    assert pace.rows == 1 << 14
    pace.learn(nothing, 1 << 14)
    assert pace.rows == 1 << 14


def arrived(side: int, times: list[int], length: int) -> Arrivals:
    positions = np.array(times, dtype=np.int64)
    batch = pa.record_batch({"n": pa.array(range(len(times)), pa.int64())})
    reach = Reach.of(positions - length, positions + length)
    return Arrivals(side, batch, len(times), Numbers(0), Numbers(0, positions), reach)


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=40), min_size=1, max_size=2),
    st.integers(1, 9),
    st.integers(0, 4),
)
def test_slices_have_every_row_once_in_the_order_of_time(
    times: list[list[int]], longest: int, length: int
) -> None:
    arrivals = [arrived(side, some, length) for side, some in enumerate(times)]
    pace = Pace(ordered=False)
    groups = list(slices(arrivals, longest, pace))
    for one in arrivals:
        mine = [piece for [piece] in groups if piece.side == one.side]
        assert all(0 < piece.rows <= longest for piece in mine)
        rows = np.concatenate([piece.seqs.array(piece.rows) for piece in mine] or [np.empty(0, np.int64)])
        assert sorted(rows.tolist()) == list(range(one.rows))
        assert rows.tolist() == [n for piece in mine for n in piece.batch.column("n").to_pylist()]
        placed = [n for piece in mine for n in piece.positions.array(piece.rows).tolist()]
        assert placed == sorted(times[one.side])
        assert [low + length for piece in mine for low in piece.reach.lows.tolist()] == placed


def test_what_is_worth_cutting() -> None:
    wide = [arrived(side, [0, 20, 40, 60], 3) for side in (0, 1)]
    close = [arrived(side, [0, 2, 4, 6], 3) for side in (0, 1)]
    back_and_forth = [arrived(0, [0, 60, 0, 60, 0, 60], 3)]
    fresh, known, in_order = Pace(ordered=False), Pace(ordered=False), Pace(ordered=True)
    known.rows = 2
    assert worth_slicing(wide, 2, fresh)
    assert worth_slicing(wide[:1], 2, fresh)
    assert worth_slicing(wide, 3, known)
    assert not worth_slicing(close, 2, fresh), "it spans a window"
    assert not worth_slicing(wide, 8, fresh), "there are too few rows"
    assert not worth_slicing(wide, 2, known), "nothing was thrown away in the longest pieces"
    assert worth_slicing(wide, 2, in_order)
    assert worth_slicing(back_and_forth, 2, fresh)
    assert not worth_slicing(back_and_forth, 2, in_order), "slices of rows as they came would overlap"
    assert not worth_slicing([arrived(0, [], 3)], 2, fresh)
