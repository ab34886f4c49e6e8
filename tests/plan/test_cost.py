"""The planner: what it measures, what it chooses, and that plans may change at any boundary without a trace."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.index.sizes import OWN
from slidejoin.plan import cost
from slidejoin.plan.cost import Choice, Figures, Seen, lifetime, pick, table

STEADY = Figures(window=1 << 20, batch=1 << 15, matches=2, drift=0.1, probes=1)


def test_the_table_is_complete() -> None:
    kinds = {entry.kind for entry in table()}
    assert kinds == {"bi_sort", "rap_table", "wib_tree", "hash", "bi_sort_paper"}
    shapes = [{(e.drifting, e.rows, e.batch) for e in table() if e.kind == kind} for kind in kinds]
    assert all(shape == shapes[0] for shape in shapes), "the same circumstances for every structure"
    assert all(e.insert > 0 and min(e.growing.values()) > 0 and min(e.complete.values()) > 0 for e in table())


@pytest.mark.parametrize("window", [1 << 10, 1 << 17, 1 << 23])
@pytest.mark.parametrize("batch", [1, 1000, 1 << 16])
@pytest.mark.parametrize("matches", [0.0, 2.0, 5000.0])
@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_another_structure_is_chosen_only_by_a_clear_margin(
    window: int, batch: int, matches: float, drift: float
) -> None:
    figures = Figures(window, batch, matches, drift, 1.0)
    choice = pick(figures, tuple(sj.indexes()))
    usual = lifetime("bi_sort", figures, 2)
    if (choice.kind, choice.subwindows) != ("bi_sort", 2):
        assert lifetime(choice.kind, figures, choice.subwindows) <= cost.MARGIN * usual
    assert "bi_sort" in choice.reason
    assert f"batches of {batch:,}" in choice.reason


def test_a_structure_that_cannot_serve_the_condition_is_not_weighed() -> None:
    assert "hash" not in pick(STEADY, ("bi_sort", "rap_table")).reason


def test_what_is_seen() -> None:
    seen = Seen()
    for at in range(10):
        seen.stored(100, np.arange(at * 100, at * 100 + 100))
        seen.probed(50, 150)
    first = seen.summed_up(700)
    assert first == Figures(window=700, batch=100, matches=3, drift=0, probes=0.5)
    for at in range(10):  # as before: all but the edges are where the keys were
        seen.stored(100, np.arange(at * 100, at * 100 + 100))
    assert seen.summed_up(700).drift < 0.2
    for at in range(10, 20):  # ids that grow
        seen.stored(100, np.arange(at * 100, at * 100 + 100))
    assert seen.summed_up(700).drift == 1


@pytest.mark.parametrize("flow", sj.flows())
@pytest.mark.parametrize("window", [sj.Rows(60), sj.Rows(60, by="t"), sj.Time(40, on="t")], ids=repr)
@pytest.mark.parametrize("condition", ["l.x = r.x", "l.x = r.x OR l.x + 9 = r.x"])
def test_plans_that_change_at_every_boundary_change_no_result(
    monkeypatch: pytest.MonkeyPatch, flow: str, window: Any, condition: str
) -> None:
    """Subwindows of all kinds side by side, each probed as its kind wants it."""
    kinds = itertools.cycle(["hash", "rap_table", "wib_tree", "bi_sort", "bi_sort_paper"])
    tuning = sj.Tuning(subwindow_rows=7, chunk_rows=5)
    plain = sj.Join(
        condition, window=window, index="bi_sort", flow="single", threads=1, how="full", tuning=tuning
    )
    join = sj.Join(condition, window=window, flow=flow, threads=2, how="full", tuning=tuning)
    monkeypatch.setattr(
        "slidejoin.plan.access.measured",
        lambda: [(name, OWN) for name in sj.indexes()],
    )
    monkeypatch.setattr("slidejoin.plan.access.pick", lambda *_: Choice(next(kinds), 2, "in turn"))
    rng = np.random.default_rng(6)
    mixed = 0
    for at in range(25):
        sides = {
            name: {"x": rng.integers(0, 20, 9), "t": 4 * at + rng.integers(0, 4, 9)}
            for name in ("left", "right")
            if rng.random() < 0.8
        }
        found = [
            sorted(zip(*(side.tolist() for side in one.push(**sides).indices()), strict=True))
            for one in (plain, join)
        ]
        assert found[0] == found[1]
        join.check()
        ring = join._engine.worker.rings[0]
        if ring is not None:
            mixed = max(
                mixed, len({type(sub.timely.indexes[0]) for sub in ring.subwindows if sub.timely.indexes})
            )
    assert mixed > 2
    assert "in turn" in join.explain()


def test_a_name_is_kept() -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(3000), index="hash")
    for at in range(6):
        join.push(left={"x": np.arange(1000) + 1000 * at})
        join.push(right={"x": np.arange(1000) + 1000 * at})
    assert join.explain().count("hash on") == 2
    assert "ns a row" not in join.explain()


def test_explain_tells_the_figures() -> None:
    join = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(3000))
    assert "ns a row" not in join.explain()
    for at in range(8):
        join.push(left={"x": np.arange(1000) + 1000 * at})
        join.push(right={"x": np.arange(1000) + 1000 * at})
    text = join.explain()
    assert "ns a row: " in text
    assert "batches of 1,000" in text
    assert "100% of the keys drift" in text
