"""PanJoin's own promises: who owns what, what is done meanwhile, and what may change between pushes."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.flow import PanJoin
from slidejoin.window.arrivals import Arrivals
from slidejoin.worker import Placed, Ready, Worker

BAND = "abs(l.x - r.x) <= 1"


def batches(rng: np.random.Generator, count: int, rows: int) -> list[dict[str, Any]]:
    return [{("left", "right")[n % 2]: {"x": rng.integers(0, 60, rows)}} for n in range(count)]


def pairs(join: sj.Join, push: dict[str, Any]) -> list[tuple[int, int]]:
    left, right = join.push(**push).indices()
    return sorted(zip(left.tolist(), right.tolist(), strict=True))


def make(**options: Any) -> sj.Join:
    tuning = sj.Tuning(subwindow_rows=20, chunk_rows=8)
    arguments = {"window": sj.Rows(100), "flow": "panjoin", "threads": 2, "tuning": tuning} | options
    return sj.Join(BAND, **arguments)


def test_subwindows_go_to_workers_in_turn_and_only_their_owners_touch_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every errand of a piece belongs to one worker; none reads a subwindow of another."""
    seen: list[tuple[int, set[int]]] = []
    work = PanJoin._work

    def watched(self: PanJoin, errands: Any) -> Any:
        numbers = {one.home.subwindow.number for one in errands.fills}
        for tasks in errands.probes:
            numbers |= {
                near.subwindow.number
                for task in tasks
                for asking in task.args[0]
                for near in asking.group.near
            }
        seen.append((self.workers, numbers))
        return work(self, errands)

    monkeypatch.setattr(PanJoin, "_work", watched)
    join = make()
    for push in batches(np.random.default_rng(3), 20, 30):
        join.push(**push)
    assert seen
    assert all(len({number % workers for number in numbers}) == 1 for workers, numbers in seen)
    assert max(number for _, numbers in seen for number in numbers) > 10


def test_the_next_piece_is_sorted_while_this_one_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probing waits until somebody has prepared the next piece: without a pipeline it would wait in vain."""
    join = make(tuning=sj.Tuning(chunk_rows=8))
    join.push(left={"x": np.arange(40)})
    join.push(right={"x": np.arange(8)})
    prepared = Event()
    prepare, answers = Worker.prepare, Worker._answers
    waited: list[bool] = []

    def preparing(self: Worker, arrivals: Arrivals) -> Ready:
        ready = prepare(self, arrivals)
        if arrivals.seqs.first >= 16:
            prepared.set()
        return ready

    def answering(self: Worker, *arguments: Any) -> Any:
        if not waited:
            waited.append(prepared.wait(20))
        return answers(self, *arguments)

    monkeypatch.setattr(Worker, "prepare", preparing)
    monkeypatch.setattr(Worker, "_answers", answering)
    assert join.push(right={"x": np.arange(16)}).num_rows > 0
    assert waited == [True]


def test_workers_and_sizes_change_between_pushes() -> None:
    rng = np.random.default_rng(5)
    pushes = batches(rng, 30, 17)
    plain, tuned = make(flow="single", threads=1), make(threads=1)
    for number, push in enumerate(pushes):
        if number % 3 == 0:
            tuned.tune(threads=1 + number % 4, subwindow_rows=5 + number, chunk_rows=1 + number)
        assert pairs(tuned, push) == pairs(plain, push)
        tuned.check()
        assert tuned.stats().left == plain.stats().left
    assert "6 workers on 3 threads" not in plain.explain()
    tuned.tune(threads=3)
    assert "6 workers on 3 threads" in tuned.explain()


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"subwindow_rows": -1}, {"chunk_rows": "many"}])
def test_a_wrong_size_changes_nothing(wrong: dict[str, Any]) -> None:
    join = make()
    before = join.explain()
    with pytest.raises(sj.WindowError, match="expected"):
        join.tune(**wrong)
    assert join.explain() == before


def test_a_finished_join_is_not_tuned() -> None:
    join = make()
    join.finish()
    with pytest.raises(sj.StateError, match="tune"):
        join.tune(threads=1)


def test_tuning_is_saved(tmp_path: Any) -> None:
    join = make()
    join.push(left={"x": [1]})
    join.tune(threads=3, subwindow_rows=7)
    join.save(tmp_path / "join.snapshot")
    again = sj.Join.load(tmp_path / "join.snapshot")
    assert again.explain() == join.explain()
    assert "6 workers" in again.explain()


def test_a_worker_that_fails_is_an_error_and_nothing_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = batches(np.random.default_rng(8), 9, 40)
    plain, join = make(), make()
    for push in pushes[:-1]:
        assert pairs(plain, push) == pairs(join, push)
    before = join.stats()
    fill = Worker.fill

    def failing(self: Worker, placed: Placed, *crew: Any) -> None:
        fill(self, placed, *crew)
        if placed.home.first > 0:
            raise MemoryError("no room in this worker")

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "fill", failing)
        with pytest.raises(MemoryError, match="no room"):
            join.push(**pushes[-1])
    join.check()
    assert {**join.stats(), "state_bytes": 0} == {**before, "state_bytes": 0}
    assert pairs(join, pushes[-1]) == pairs(plain, pushes[-1])


def test_first_rows_of_both_sides_in_one_push_are_indexed_once() -> None:
    """Indexes are chosen when the first probe comes, and built from rows that are stored: not filled again."""
    for by in (None, "t"):
        window = sj.Rows(100, by=by)
        sides = {
            name: {"x": np.arange(30) % 7, "t": np.arange(30) + start}
            for name, start in (("left", 0), ("right", 10))
        }
        plain = sj.Join(BAND, window=window, flow="single", threads=1)
        join = make(window=window)
        for _ in range(4):
            assert pairs(join, sides) == pairs(plain, sides)
            join.check()
