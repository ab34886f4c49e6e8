"""A call that fails in the middle leaves the join as it was, wherever it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin import worker
from slidejoin.worker import Worker

TUNING = sj.Tuning(subwindow_rows=7, chunk_rows=4)


def rows(rng: np.random.Generator, count: int, at: int) -> dict[str, Any]:
    return {"x": rng.integers(0, 12, count), "t": at + rng.integers(0, 5, count)}


def feed(rng: np.random.Generator, step: int) -> dict[str, Any]:
    sides: dict[str, Any] = {}
    for name in ("left", "right"):
        if rng.random() < 0.7:
            sides[name] = rows(rng, int(rng.integers(0, 15)), 3 * step)
    return sides


def drain(join: sj.Join, pushes: list[dict[str, Any]]) -> list[list[tuple[int, int]]]:
    return [*(pairs(join.push(**sides)) for sides in pushes), pairs(join.finish())]


def pairs(matches: sj.Matches) -> list[tuple[int, int]]:
    left, right = matches.indices()
    return sorted(zip(left.tolist(), right.tolist(), strict=True))


class TroubleError(Exception):
    """What the test lets happen."""


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
@pytest.mark.parametrize("window", [sj.Rows(20), sj.Rows(20, by="t"), sj.Time(10, on="t")], ids=repr)
@pytest.mark.parametrize("method", ["store", "fill", "probing", "_answers", "expire", "_mark"])
@pytest.mark.parametrize(
    ("index", "flow"), [("scan", "single"), *(("auto", flow) for flow in sj.flows())], ids="-".join
)
def test_a_failure_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, how: str, window: Any, method: str, index: str, flow: str
) -> None:
    rng = np.random.default_rng(11)
    pushes = [feed(rng, step) for step in range(12)]
    condition = "abs(l.x - r.x) <= 1 AND l.t <> r.t"

    def make() -> sj.Join:
        return sj.Join(condition, window=window, how=how, index=index, flow=flow, threads=2, tuning=TUNING)

    expected = drain(make(), pushes)
    join = make()
    real = getattr(Worker, method)
    for number, sides in enumerate(pushes):
        before = join.stats()
        for allowed in range(3):
            calls = 0

            def fails(self: Worker, *args: Any, allowed: int = allowed, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls > allowed:
                    raise TroubleError
                return real(self, *args, **options)

            monkeypatch.setattr(Worker, method, fails)
            try:
                matches = join.push(**sides)
            except TroubleError:
                monkeypatch.setattr(Worker, method, real)
                after = join.stats()
                assert {**after, "state_bytes": 0} == {**before, "state_bytes": 0}
                join.check()
                continue
            break
        else:
            monkeypatch.setattr(Worker, method, real)
            matches = join.push(**sides)
        monkeypatch.setattr(Worker, method, real)
        left, right = matches.indices()
        assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == expected[number]
        join.check()
    assert pairs(join.finish()) == expected[-1]


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("kernel", ["mark_ids", "mark_ranges"])
@pytest.mark.parametrize("order", ["none", "strict"])
def test_marks_are_taken_back_if_marking_itself_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, how: str, kernel: str, order: str
) -> None:
    """The interruption comes when rows are marked and nothing but the kernel has been done with it."""
    rng = np.random.default_rng(12)
    pushes = [{("left", "right")[step % 2]: rows(rng, 40, 3 * step)} for step in range(8)]

    def make() -> sj.Join:
        return sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(60), how=how, order=order)

    expected = drain(make(), pushes)
    join = make()
    real, hits = getattr(worker, kernel), 0

    def interrupted(*arguments: Any) -> Any:
        if real(*arguments):
            raise KeyboardInterrupt
        return 0

    answers = []
    for sides in pushes:
        attempt = counted(join)
        monkeypatch.setattr(worker, kernel, interrupted)
        try:
            matches = join.push(**sides)
        except KeyboardInterrupt:
            hits += 1
            assert counted(join) == attempt
            join.check()
            monkeypatch.setattr(worker, kernel, real)
            matches = join.push(**sides)
        answers.append(pairs(matches))
    monkeypatch.setattr(worker, kernel, real)
    assert [*answers, pairs(join.finish())] == expected
    by_ranges = how != "right" and (
        order == "none" or how in ("left", "full")
    )  # right rows match when they come
    assert hits or (kernel == "mark_ranges" and not by_ranges)


def counted(join: sj.Join) -> dict[str, Any]:
    """The counters, but for the bytes: what a failed call had built is built again when it is needed."""
    return {name: value for name, value in join.stats().items() if name != "state_bytes"}
