"""Sizes of indexes: who has which, what was asked for goes first, and no size changes a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.index import OWN, REGISTRY, BiSort, BiSortPaper, RapTable, Sizes, SpoJoin, sized
from slidejoin.plan import access as planning
from slidejoin.plan.cost import Choice

ALL = Sizes(partition_rows=3, buffer_rows=5, merge_rows=6)
HAS = {
    "rap_table": {"partition_rows"}, "bi_sort_paper": {"buffer_rows"},
    "spo_join": {"merge_rows"}, "spo_hash": {"merge_rows"}, "spo_css": {"merge_rows"},
}  # fmt: skip
CONDITION = "l.x <= r.x AND l.y >= r.y"


def test_an_index_takes_the_sizes_that_it_has() -> None:
    for name, kind in REGISTRY.items():
        assert ALL.of(kind).keys() == HAS.get(name, set()), name
        made = sized(kind, ALL)
        assert (made is kind) == (name not in HAS)
        assert made.name == name
        assert type(made().successor()) is made, "the next subwindow has them too"


def test_what_was_asked_for_goes_first() -> None:
    asked = Sizes(buffer_rows=7)
    assert asked.over(ALL) == Sizes(3, 7, 6)
    assert OWN.over(asked) == asked
    assert sized(BiSort, OWN) is BiSort


def ids_found(join: sj.Join, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for at in range(30):
        rows = {"x": rng.integers(0, 40, 9), "y": rng.integers(0, 40, 9)}
        matches = join.push(left=rows) if at % 2 else join.push(right=rows)
        join.check()
        found.append(sorted(zip(*(side.tolist() for side in matches.indices()), strict=True)))
    return found


@pytest.mark.parametrize("index", HAS)
@pytest.mark.parametrize("flow", sj.flows())
def test_sizes_change_no_result(index: str, flow: str) -> None:
    condition = CONDITION if REGISTRY[index].several else "abs(l.x - r.x) <= 3"
    plain = sj.Join(condition, window=sj.Rows(60), threads=1, flow="single")
    other = sj.Join(
        condition, window=sj.Rows(60), index=index, flow=flow, threads=2,
        tuning=sj.Tuning(subwindow_rows=25, partition_rows=2, buffer_rows=4, merge_rows=11),
    )  # fmt: skip
    assert ids_found(other, 3) == ids_found(plain, 3)
    held = other._engine.worker.rings[0]
    assert held is not None
    for subwindow in held.subwindows:
        kind: Any = type(subwindow.timely.indexes[0])
        wanted = {"partition_rows": 2, "buffer_rows": 4, "merge_rows": 11}
        assert {name: getattr(kind, name) for name in HAS[index]} == {
            name: wanted[name] for name in HAS[index]
        }


def test_delta_is_a_slide_or_a_part_of_one() -> None:
    """SPO-Join's mutable part is merged when it has the rows that were asked for."""
    join = sj.Join(
        CONDITION, window=sj.Rows(1000, slide=100), index="spo_join",
        tuning=sj.Tuning(subwindow_rows=500, merge_rows=100),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(20):
        for side in ("left", "right"):
            join.push(**{side: {"x": rng.integers(0, 99, 25), "y": rng.integers(0, 99, 25)}})
    ring = join._engine.worker.rings[0]
    assert ring is not None
    index: Any = ring.subwindows[0].timely.indexes[0]
    index.advance(1 << 20)
    assert [entry.rows for entry in index._held.entries] == [100] * 5


def test_sizes_can_be_changed_between_pushes() -> None:
    join = sj.Join(CONDITION, window=sj.Rows(60), index="spo_join", tuning=sj.Tuning(subwindow_rows=20))
    plain = sj.Join(CONDITION, window=sj.Rows(60), index="scan")
    for seed in range(4):
        join.tune(merge_rows=5 + seed)
        assert ids_found(join, seed) == ids_found(plain, seed)
    ring = join._engine.worker.rings[1]
    assert ring is not None
    newest: Any = ring.subwindows[-1].timely.indexes[0]
    assert newest.merge_rows == 8
    assert join._engine.settings.tuning == sj.Tuning(subwindow_rows=20, merge_rows=8)


def test_the_planner_chooses_sizes_unless_they_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Sizes(partition_rows=3)
    monkeypatch.setattr(planning, "pick", lambda *_: Choice("rap_table", 2, "sized", chosen))
    monkeypatch.setattr(planning, "suiting", lambda *_: chosen)
    kinds = []
    for index, tuning in (
        ("auto", sj.Tuning(subwindow_rows=20)),
        ("rap_table", sj.Tuning(subwindow_rows=20)),
        ("rap_table", sj.Tuning(subwindow_rows=20, partition_rows=9)),
    ):
        join = sj.Join("l.x <= r.x", window=sj.Rows(60), index=index, tuning=tuning)
        ids_found(join, 1)
        ring = join._engine.worker.rings[0]
        assert ring is not None
        kinds.append(type(ring.subwindows[-1].timely.indexes[0]))
    rap_table: Any = RapTable
    assert kinds == [sized(rap_table, chosen), sized(rap_table, chosen), sized(rap_table, Sizes(9))]


@pytest.mark.parametrize("name", Sizes._fields)
def test_sizes_that_are_none(name: str) -> None:
    with pytest.raises(sj.WindowError, match=f"{name}=0"):
        sj.Tuning(**{name: 0})


def test_defaults() -> None:
    assert (RapTable.partition_rows, BiSortPaper.buffer_rows, SpoJoin.merge_rows) == (16, 1024, 1 << 14)
