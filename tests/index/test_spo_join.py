"""SPO-Join: merging by the meter, baselines that answer alike, and entries that expire whole."""

from __future__ import annotations

import numpy as np
import pytest

from slidejoin import kernels
from slidejoin.index import SpoCss, SpoHash, SpoJoin
from slidejoin.index.bplus_tree import LEAF_SLOTS
from slidejoin.index.protocol import Probes
from slidejoin.index.spo_join import PACE, PIECE, SpoCssBits

kernels.ready()


class Small(SpoJoin):
    merge_rows, piece = 1000, 10


def rows(rng: np.random.Generator, count: int, keys: int = 2) -> np.ndarray:
    return rng.integers(0, 1000, (count, keys))


def filled(index: SpoJoin, count: int, batch: int, seed: int = 1) -> np.ndarray:
    held = rows(np.random.default_rng(seed), count)
    for at in range(0, count, batch):
        some = held[at : at + batch]
        index.insert(index.arrange_entries(some, np.arange(at, at + len(some), dtype=np.int32)))
    return held


def answer(index: SpoJoin, lows: np.ndarray, highs: np.ndarray) -> list[tuple[int, int]]:
    probes = index.arrange_probes(None, lows, highs, None)
    return sorted(
        (int(row), int(i))
        for ranges in index.probe(probes)
        for row, start, end in zip(ranges.rows, ranges.starts, ranges.ends, strict=True)
        for i in ranges.ids[start:end]
    )


def test_no_insertion_pays_for_a_whole_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows moved by each insertion are bounded by the rows it adds, and merges keep up nevertheless."""
    index = Small()
    moved: list[int] = []
    advance = SpoJoin.advance

    def metered(self: SpoJoin, budget: int) -> int:
        left = advance(self, budget)
        moved.append(budget - left)
        return left

    monkeypatch.setattr(SpoJoin, "advance", metered)
    filled(index, 10_000, 20)
    assert max(moved) <= PACE * 2 * 20 + LEAF_SLOTS
    assert sum(moved) >= 8 * 4 * 1000, "each entry takes four moves a row: two orders, positions, permutation"
    assert len(index._held.waiting) <= 1
    assert len(index._held.entries) >= 8
    index.check()


def test_rows_that_arrive_during_a_merge_are_met_once() -> None:
    index = Small()
    rng = np.random.default_rng(3)
    held = rows(rng, 4000)
    seen_waiting = 0
    for at in range(0, 4000, 25):
        index.insert(index.arrange_entries(held[at : at + 25], np.arange(at, at + 25, dtype=np.int32)))
        seen_waiting += bool(index._held.waiting)
        lows, highs = np.array([[-1, 300], [100, 0]]), np.array([[500, 2000], [200, 900]])
        expected = [
            (row, int(i))
            for row in range(2)
            for i in np.flatnonzero(((held[: at + 25] >= lows[row]) & (held[: at + 25] <= highs[row])).all(1))
        ]
        assert answer(index, lows, highs) == expected
    assert seen_waiting > 20, "the merges took several insertions each"


def test_the_subwindow_before_is_merged_by_its_successor() -> None:
    index = Small()
    filled(index, 1500, 50)
    index.merge()
    assert index._held.waiting
    after = index.successor()
    filled(after, 1500, 50)
    assert not index._held.waiting
    assert not index.behind
    index.check()


def test_entries_expire_whole() -> None:
    index = Small()
    filled(index, 5000, 100)
    before = index._held.entries
    index.drop_below(2000)
    assert index._held.entries == before[2:], "two are gone, the others are the same objects"
    index.drop_below(2500)
    assert next(entry.rows for entry in index._held.entries) == 500


@pytest.mark.parametrize("baseline", [SpoHash, SpoCss, SpoCssBits])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_baselines_answer_alike(baseline: type[SpoJoin], keys: int) -> None:
    rng = np.random.default_rng(keys)
    held, centre = rows(rng, 3000, keys), rows(rng, 50, keys)
    lows, highs = centre - rng.integers(0, 400, (50, keys)), centre + rng.integers(-20, 400, (50, keys))
    found = []
    for kind in (SpoJoin, baseline):
        index = type("Small", (kind,), {"merge_rows": 1000})()
        for at in range(0, 3000, 250):
            index.insert(index.arrange_entries(held[at : at + 250], np.arange(at, at + 250, dtype=np.int32)))
        index.check()
        found.append(answer(index, lows, highs))
    assert found[0] == found[1]


def test_a_failed_step_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that runs out of memory half-way starts again; it is never taken for finished."""
    index = Small()
    filled(index, 1010, 505)

    def failing(_self: object, _piece: int):  # type: ignore[no-untyped-def]
        yield 1
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(SpoJoin.merging, "steps", failing)
        with pytest.raises(MemoryError):
            index.advance(PIECE)
    assert index._held.waiting
    index.advance(10 * PIECE)
    index.check()
    assert [entry.rows for entry in index._held.entries] == [1000]


def test_no_probes_no_answers() -> None:
    nothing = np.empty((0, 2), dtype=np.int64)
    assert Small().probe(Probes(np.empty(0, dtype=np.int32), nothing, nothing)) == []


@pytest.mark.parametrize("widths", [(2, 4), (64, 64)])
def test_the_mutable_part_marks_the_fewer_rows(widths: tuple[int, int]) -> None:
    """Most of the rows, few, all or none are within; ids have gaps, which nobody may take for rows."""
    kind = type("Unmerged", (SpoJoin,), {"merge_rows": 1 << 20, "widths": widths})
    rng = np.random.default_rng(5)
    held, ids = rows(rng, 700), np.sort(rng.choice(5000, 700, replace=False)).astype(np.int32)
    index = kind()
    for at in range(0, 700, 70):
        index.insert(index.arrange_entries(held[at : at + 70], ids[at : at + 70]))
        index.check()
    ends = np.array([-(2**63), -5, 0, 30, 480, 500, 970, 999, 1000, 2**63 - 1])
    lows, highs = (rng.choice(ends, (400, 2)) for _ in range(2))
    expected = [
        (row, int(i))
        for row in range(400)
        for i in ids[((held >= lows[row]) & (held <= highs[row])).all(axis=1)]
    ]
    assert answer(index, lows, highs) == expected
