"""Collecting: the same pairs as pushing at once, joined when there are enough rows or when it is time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.collect import Collector

Pairs = list[tuple[int, int]]


def pairs(matches: sj.Matches | None) -> Pairs:
    if matches is None:
        return []
    left, right = matches.indices()
    return list(zip(left.tolist(), right.tolist(), strict=True))


def arrivals(rng: np.random.Generator, calls: int) -> list[dict[str, Any]]:
    made, time = [], 0
    for _ in range(calls):
        call = {}
        for side in ("left", "right"):
            if rng.random() < 0.6:
                rows = int(rng.integers(0, 4))
                call[side] = {"x": rng.integers(0, 30, rows), "t": time + rng.integers(0, 5, rows)}
        time += int(rng.integers(0, 4))
        made.append(call)
    return made


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
@pytest.mark.parametrize(
    "window",
    [
        sj.Rows(12),
        sj.Rows(20, slide=5),
        (sj.Rows(7), sj.Rows(30)),
        sj.Time(15, on="t"),
        sj.Time(20, on="t", slide=4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("rows", [1, 5, 64, 10_000])
def test_the_same_pairs_as_pushed_one_by_one(window: Any, how: str, rows: int) -> None:
    """Row numbers tell: over count windows, rows meet in the order of the calls, whichever side they are of."""
    timed = isinstance(window, sj.Time)
    options: dict[str, Any] = {"window": window, "how": how, **({"lateness": 1000} if timed else {})}
    plain, collected = (sj.Join("abs(l.x - r.x) <= 2", **options) for _ in range(2))
    feed = collected.collect(rows=rows)
    expected, found = [], []
    for call in arrivals(np.random.default_rng(rows), 120):
        expected += pairs(plain.push(**call))
        found += pairs(feed.push(**call))
        assert feed.waiting < rows
        collected.check()
    found += pairs(feed.flush()) + pairs(collected.finish())
    expected += pairs(plain.finish())
    assert sorted(found) == sorted(expected)
    assert expected or how == "anti"
    assert collected.stats().left == plain.stats().left


def test_rows_in_the_order_of_a_column_are_so_within_a_batch() -> None:
    together, feed = (sj.Join("l.x = r.x", window=sj.Rows(1, by="t")) for _ in range(2))
    collector = feed.collect()
    collector.push(right={"t": [3], "x": [1]})
    collector.push(left={"t": [1, 2], "x": [1, 5]})
    both = together.push(left={"t": [1, 2], "x": [1, 5]}, right={"t": [3], "x": [1]})
    assert pairs(collector.flush()) == pairs(both) == []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_has_waited_long_enough_is_joined() -> None:
    join, clock = sj.Join("l.x = r.x", window=sj.Rows(9)), Clock()
    feed = Collector(join._engine, join._turns, 100, 2.0, clock)
    assert feed.due_in is None
    feed.push(left={"x": [1]})
    clock.now = 1.5
    feed.push(right={"x": [1]})
    assert (feed.due_in, feed.poll(), feed.waiting) == (0.5, None, 2), "the oldest row counts"
    clock.now = 2.0
    assert pairs(feed.poll()) == [(0, 0)]
    assert (feed.due_in, feed.poll(), feed.waiting) == (None, None, 0)
    clock.now = 5.0
    assert feed.push(left={"x": [1]}) is None, "the time begins anew"
    clock.now = 7.5
    assert sorted(pairs(feed.push(right={"x": [1]}))) == [(0, 1), (1, 0), (1, 1)], (
        "a push looks at the clock, too"
    )


def test_what_can_never_be_joined_is_refused_at_once() -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(9))
    feed = join.collect()
    with pytest.raises(sj.ConditionError, match="lacks"):
        feed.push(left={"y": [1]})
    feed.push(left={"x": [1]}, right={"x": []})
    with pytest.raises(sj.SchemaError, match="schema changed"):
        feed.push(left={"x": ["a"]}, right={"x": [1]})
    with pytest.raises(sj.ConditionError):
        feed.push(right={"x": ["text"]})
    assert feed.waiting == 1
    assert repr(feed) == "<Collector of 32,768 rows; waiting: 1 left, 0 right>"
    feed.push(right={"x": [1]})
    assert pairs(feed.flush()) == [(0, 0)]


def test_a_batch_that_the_join_refuses_goes_on_waiting() -> None:
    join = sj.Join("l.x = r.x", window=sj.Time(5, on="t"), late="raise")
    feed = join.collect()
    feed.push(left={"x": [1], "t": [100]}, right={"x": [1], "t": [100]})
    assert pairs(feed.flush()) == [(0, 0)]
    feed.push(left={"x": [1, 1], "t": [1, 101]})
    for _ in range(2):
        with pytest.raises(sj.LateRowError):
            feed.flush()
    assert feed.waiting == 2
    left, right = feed.take()
    assert left is not None
    assert left.to_pydict() == {"x": [1, 1], "t": [1, 101]}
    assert (right, feed.waiting) == (None, 0)
    assert pairs(feed.push(left=left.slice(1))) + pairs(feed.flush()) == [(1, 0)]


def test_an_interruption_after_the_join_has_taken_effect_joins_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(9))
    feed, push = join.collect(), join._engine.push
    feed.push(left={"x": [1]}, right={"x": [1]})

    def interrupted(*arguments: Any) -> None:
        push(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(join._engine, "push", interrupted)
        with pytest.raises(KeyboardInterrupt):
            feed.flush()
    assert (feed.waiting, join.stats().left.rows_in) == (0, 1)
    assert feed.flush().num_rows == 0


def test_a_join_that_has_ended() -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(9))
    feed = join.collect()
    feed.push(left={"x": [1]})
    join.finish()
    for call in (lambda: feed.push(left={"x": [2]}), feed.flush):
        with pytest.raises(sj.StateError, match="finish"):
            call()


@pytest.mark.parametrize(
    "limits", [{"rows": 0}, {"rows": 1.5}, {"rows": True}, {"seconds": 0}, {"seconds": -1}, {"seconds": "1"}]
)
def test_limits_that_are_none(limits: dict[str, Any]) -> None:
    with pytest.raises(sj.WindowError, match=next(iter(limits))):
        sj.Join("l.x = r.x", window=sj.Rows(9)).collect(**limits)
