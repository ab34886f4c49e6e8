"""One suite over every index that takes several keys: inserts, merges and drops in any order equal a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import kernels
from slidejoin.index import REGISTRY, Index, Ranges, cell_runs, sort_tree

kernels.ready()

SEVERAL = sorted(name for name, index in REGISTRY.items() if index.several)

SMALL = st.integers(-6, 6)
EXTREME = st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1])
KEY = SMALL | EXTREME
ACTIONS = ["insert", "insert", "merge", "drop", "probe", "probe", "next"]
LOWEST, GREATEST = -(2**63), 2**63 - 1


def small(name: str) -> type[Any]:
    """The index with sizes so small that splits and merges happen often."""
    sizes = {"merge_rows": 7, "piece": 2, "widths": (3, 4), "leaf": 2, "fan": 1, "rows_per_cell": 1, "growth": 2,
             "at_once": 9}  # fmt: skip
    index = REGISTRY[name]
    return type("Small", (index,), {key: value for key, value in sizes.items() if hasattr(index, key)})


def pairs(answers: list[Ranges]) -> list[tuple[int, int]]:
    """Every pair, spelled out, having checked what an answer promises about itself."""
    found = []
    for ranges in answers:
        assert np.all(ranges.ends > ranges.starts), "no range is empty"
        assert ranges.pairs == int((ranges.ends.astype(np.int64) - ranges.starts).sum())
        for row, start, end in zip(ranges.rows, ranges.starts, ranges.ends, strict=True):
            found += [(int(row), int(i)) for i in ranges.ids[start:end]]
    return sorted(found)


def insert(index: Index, keys: np.ndarray, ids: np.ndarray) -> None:
    index.insert(index.arrange_entries(keys.astype(np.int64), ids.astype(np.int32)))


def probe(index: Index, lows: np.ndarray, highs: np.ndarray, rows: np.ndarray | None = None) -> list[Ranges]:
    return list(index.probe(index.arrange_probes(rows, lows.astype(np.int64), highs.astype(np.int64), None)))


def expected(held: dict[int, np.ndarray], lows: np.ndarray, highs: np.ndarray) -> list[tuple[int, int]]:
    return sorted(
        (row, i)
        for row, (low, high) in enumerate(zip(lows, highs, strict=True))
        for i, key in held.items()
        if all(a <= k <= b for a, k, b in zip(low.tolist(), key.tolist(), high.tolist(), strict=True))
    )


@st.composite
def intervals(draw: st.DrawFn, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Bands, points, one-sided, whole and empty intervals, mixed."""
    rows = draw(st.integers(0, 12))
    lows, highs = np.empty((rows, keys), dtype=np.int64), np.empty((rows, keys), dtype=np.int64)
    for row in range(rows):
        for key in range(keys):
            at = draw(KEY)
            kind = draw(st.sampled_from(["band", "point", "up to", "from", "all", "none"]))
            width = draw(st.integers(0, 5)) if kind == "band" else 0
            lows[row, key] = LOWEST if kind in ("up to", "all") else max(LOWEST, at - width)
            highs[row, key] = GREATEST if kind in ("from", "all") else min(GREATEST, at + width)
            if kind == "none":
                lows[row, key], highs[row, key] = GREATEST, LOWEST
    return lows, highs


@pytest.mark.parametrize("name", SEVERAL)
@given(data=st.data(), keys=st.integers(1, 4))
def test_equals_a_dictionary(name: str, data: st.DataObject, keys: int) -> None:
    index = small(name)()
    held: dict[int, np.ndarray] = {}
    born = 0
    for _ in range(data.draw(st.integers(0, 10))):
        action = data.draw(st.sampled_from(ACTIONS))
        if action == "insert":
            rows = data.draw(st.lists(st.tuples(*[KEY] * keys), max_size=30))
            gaps = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
            ids = born - 1 + np.cumsum([1, *gaps])[1:]  # rows whose key is NULL are not there
            batch = np.array(rows, dtype=np.int64).reshape(len(rows), keys)
            insert(index, batch, ids)
            held.update(zip(ids.tolist(), batch, strict=True))
            born = int(ids[-1]) + 1 if len(ids) else born
        elif action == "merge":
            index.merge()
        elif action == "drop":
            first = born // 2
            shift = data.draw(st.sampled_from([0, first]))
            index.drop_below(first, shift)
            held = {i - shift: key for i, key in held.items() if i >= first}
            born -= shift
        elif action == "next":
            index, held, born = index.successor(), {}, 0
        else:
            lows, highs = data.draw(intervals(keys))
            assert pairs(probe(index, lows, highs)) == expected(held, lows, highs)
        index.check()
        assert index.entries == len(held)
        assert (index.nbytes > 0) or not held


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("keys", [1, 2, 3])
@pytest.mark.parametrize("piece", [64, 4096])
def test_thousands_of_rows(name: str, keys: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The structures at their own sizes; correlated keys, so that wide intervals have few rows in common.

    In pieces so small, merges are in the making most of the time.
    """
    for module in (sort_tree, cell_runs):
        monkeypatch.setattr(module, "PIECE", piece)
    rng = np.random.default_rng(keys)
    rows = 6000
    base = rng.integers(0, 10_000, rows)
    held = np.stack([base + rng.integers(-300, 300, rows) for _ in range(keys)], axis=1)
    index = REGISTRY[name]()
    at = 0
    while at < rows:
        size = int(rng.choice([1, 60, 900]))
        insert(index, held[at : at + size], np.arange(at, min(rows, at + size)))
        at += size
    centre = rng.integers(0, 10_000, (40, 1))
    bands = centre - 200, centre + 200
    lows = np.broadcast_to(bands[0], (40, keys)).copy()
    highs = np.broadcast_to(bands[1], (40, keys)).copy()
    lows[::2, 0], highs[1::4, -1] = LOWEST, GREATEST  # q3: up to here on one key, from there on the other
    highs[::3, 0], lows[::3, -1] = GREATEST, LOWEST
    entries = dict(enumerate(held))
    for _ in range(2):
        assert pairs(probe(index, lows, highs)) == expected(entries, lows, highs)
        index.check()
        index.merge()
    index.drop_below(4321)
    index.check()
    entries = {i: key for i, key in entries.items() if i >= 4321}
    assert pairs(probe(index, lows, highs)) == expected(entries, lows, highs)


@pytest.mark.parametrize("third", ["as the first", "anything"])
def test_sort_trees_with_little_room(third: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers in many pieces; blocks that a third key leaves whole, in part or not at all."""
    monkeypatch.setattr(sort_tree, "ROOM", 1)
    monkeypatch.setattr(sort_tree, "LISTED", 1)
    rng = np.random.default_rng(7)
    first = np.arange(3000)
    other = first if third == "as the first" else rng.integers(0, 3000, 3000)
    held = np.stack([first, rng.integers(0, 3000, 3000), other, rng.integers(0, 4, 3000)], axis=1)
    index = REGISTRY["sort_tree"]()
    for at in range(0, 3000, 1000):
        insert(index, held[at : at + 1000], np.arange(at, at + 1000))
    index.merge()
    lows, highs = rng.integers(-500, 2000, (30, 4)), rng.integers(1000, 3500, (30, 4))
    lows[:, 3], highs[:, 3] = rng.integers(-1, 2, 30), rng.integers(2, 5, 30)
    assert pairs(probe(index, lows, highs)) == expected(dict(enumerate(held)), lows, highs)
    index.check()


@pytest.mark.parametrize("name", SEVERAL)
def test_an_answer_outlives_later_insertions(name: str) -> None:
    index = small(name)()
    rng = np.random.default_rng(7)
    keys = rng.integers(0, 9, (60, 2))
    insert(index, keys, np.arange(60))
    lows, highs = np.array([[0, 3], [4, 0]]), np.array([[5, 8], [8, 8]])
    answer = probe(index, lows, highs)
    before = pairs(answer)
    for at in range(60, 300, 10):
        insert(index, rng.integers(0, 9, (10, 2)), np.arange(at, at + 10))
    index.merge()
    assert pairs(answer) == before == expected(dict(enumerate(keys)), lows, highs)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_intervals_of_one_row(name: str) -> None:
    """An OR on one key gives a row several probes; their rows are named."""
    index = REGISTRY[name]()
    insert(index, np.array([[1, 5], [2, 5], [3, 5]]), np.arange(3))
    lows, highs = np.array([[1, 5], [3, 0]]), np.array([[1, 5], [3, 9]])
    found = pairs(probe(index, lows, highs, np.array([4, 4], dtype=np.int32)))
    assert found == [(4, 0), (4, 2)]
