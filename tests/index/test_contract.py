"""One suite over every registered index: inserts, merges and drops in any order equal a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import kernels
from slidejoin.index import REGISTRY, Index, Ranges
from slidejoin.pools import Crew

kernels.ready()

SINGLE = [name for name, index in REGISTRY.items() if not index.several]  # the others: test_several.py
SMALL = st.integers(-6, 6)
EXTREME = st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1])
KEYS = st.lists(SMALL | EXTREME, max_size=40)
ACTIONS = st.lists(st.tuples(st.sampled_from(["insert", "merge", "drop", "probe"]), KEYS), max_size=12)


def pairs(answers: list[Ranges]) -> list[tuple[int, int]]:
    """Every pair, spelled out, having checked what an answer promises about itself."""
    found = []
    for ranges in answers:
        assert np.all(ranges.ends > ranges.starts), "no range is empty"
        assert ranges.pairs == int((ranges.ends.astype(np.int64) - ranges.starts).sum())
        for row, start, end in zip(ranges.rows, ranges.starts, ranges.ends, strict=True):
            found += [(int(row), int(i)) for i in ranges.ids[start:end]]
    return sorted(found)


def probe(index: Index, lows: list[int], highs: list[int]) -> list[tuple[int, int]]:
    arranged = index.arrange_probes(
        None, np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64), None
    )
    return pairs(list(index.probe(arranged)))


def expected(name: str, held: dict[int, int], lows: list[int], highs: list[int]) -> list[tuple[int, int]]:
    return sorted(
        (row, i)
        for row, (low, high) in enumerate(zip(lows, highs, strict=True))
        for i, key in held.items()
        if name == "scan" or low <= key <= high
    )


@pytest.mark.parametrize("name", SINGLE)
@given(actions=ACTIONS, widths=st.lists(st.integers(-1, 4), min_size=40, max_size=40))
def test_equals_a_dictionary(name: str, actions: list[tuple[str, list[int]]], widths: list[int]) -> None:
    index = REGISTRY[name]()
    held: dict[int, int] = {}
    born = 0
    for action, keys in actions:
        if action == "insert":
            ids = np.arange(born, born + len(keys), dtype=np.int32)
            index.insert(index.arrange_entries(np.array(keys, dtype=np.int64), ids))
            held.update(zip(ids.tolist(), keys, strict=True))
            born += len(keys)
        elif action == "merge":
            index.merge()
        elif action == "drop":
            first = born // 2
            shift = first if len(keys) % 2 else 0  # a subwindow that is renewed counts its rows anew
            index.drop_below(first, shift)
            held = {i - shift: key for i, key in held.items() if i >= first}
            born -= shift
        else:
            highs = keys
            if name != "hash":
                highs = [
                    min(2**63 - 1, max(-(2**63), key + width))
                    for key, width in zip(keys, widths, strict=False)
                ]
            assert probe(index, keys, highs) == expected(name, held, keys, highs)
        index.check()
        assert index.entries == len(held)


@pytest.mark.parametrize("name", SINGLE)
def test_asked_together_or_in_turn(name: str) -> None:
    rng = np.random.default_rng(4)
    indexes = [REGISTRY[name]() for _ in range(3)]
    for index in indexes[::2]:  # the one in the middle is empty
        for at in range(0, 90, 30):
            ids = np.arange(at, at + 30, dtype=np.int32)
            index.insert(index.arrange_entries(rng.integers(0, 20, 30), ids), Crew(2))
    points = np.arange(-1, 21)
    probes = REGISTRY[name].arrange_probes(None, points, points, None)
    together = REGISTRY[name].probe_all(indexes, probes)
    assert [pairs(list(answers)) for answers in together] == [pairs(list(i.probe(probes))) for i in indexes]


@pytest.mark.parametrize("name", ["bi_sort", "hash"])
def test_an_answer_outlives_later_merges(name: str) -> None:
    index = REGISTRY[name]()
    rng = np.random.default_rng(7)
    keys = rng.integers(0, 50, 300)
    index.insert(index.arrange_entries(keys, np.arange(300, dtype=np.int32)))
    answer = index.probe(index.arrange_probes(None, np.arange(50), np.arange(50), None))
    before = pairs(list(answer))
    for at in range(300, 900, 100):
        index.insert(index.arrange_entries(rng.integers(0, 50, 100), np.arange(at, at + 100, dtype=np.int32)))
    index.merge()
    assert pairs(list(answer)) == before == sorted((int(key), i) for i, key in enumerate(keys))


@pytest.mark.parametrize("name", ["bi_sort", "hash"])
def test_one_frequent_key(name: str) -> None:
    index = REGISTRY[name]()
    index.insert(index.arrange_entries(np.full(10_000, 7), np.arange(10_000, dtype=np.int32)))
    [ranges] = index.probe(index.arrange_probes(None, np.array([7, 8]), np.array([7, 8]), None))
    assert (ranges.pairs, len(ranges.rows)) == (10_000, 1)


def test_a_wrong_hint_is_not_believed() -> None:
    index = REGISTRY["bi_sort"]
    wrong = np.array([0, 1, 2], dtype=np.int32)
    probes = index.arrange_probes(None, np.array([3, 1, 2]), np.array([3, 1, 2]), wrong)
    assert probes.lows.tolist() == [1, 2, 3]
    assert probes.rows.tolist() == [1, 2, 0]


def test_a_hint_for_fewer_rows_is_not_believed() -> None:
    index = REGISTRY["hash"]
    lows, highs = np.array([5, 6, 7, 8]), np.array([5, 6, 7, 3])
    probes = index.arrange_probes(None, lows, highs, np.array([3, 0, 2], dtype=np.int32))
    assert sorted(probes.rows.tolist()) == [0, 1, 2]


def test_runs_stay_in_order_when_rows_are_dropped() -> None:
    index = REGISTRY["bi_sort"]()
    index.insert(index.arrange_entries(np.arange(32), np.arange(32, dtype=np.int32)))
    index.insert(index.arrange_entries(np.arange(5), np.arange(32, 37, dtype=np.int32)))
    index.drop_below(30)
    index.check()
    assert index.entries == 7


def test_keys_that_fit_32_bits_take_32_bits() -> None:
    """All but the least and the greatest of 32 bits, which stand for bounds beyond them."""
    index = REGISTRY["bi_sort"]()
    edge = 2**31 - 2
    index.insert(index.arrange_entries(np.array([-edge, 7, edge] * 40), None))
    assert index._runs.runs[0].keys.dtype == np.int32  # type: ignore[attr-defined]
    assert probe(index, [edge, edge + 1, -edge - 9], [edge + 5, edge + 9, -edge - 1]) == [
        (0, i) for i in range(2, 120, 3)
    ]
    index.insert(index.arrange_entries(np.array([edge + 1] * 40), None).shifted(120))  # they are merged
    assert [run.keys.dtype for run in index._runs.runs] == [np.int64]  # type: ignore[attr-defined]
    index.check()
    assert probe(index, [edge], [edge + 1]) == [(0, i) for i in [*range(2, 120, 3), *range(120, 160)]]


def test_keys_of_32_bits_are_taken_as_they_are() -> None:
    index = REGISTRY["bi_sort"]()
    ends = np.iinfo(np.int32)
    for rows, keys in ((3, [5, -9, 5]), (400, [ends.max - 1, 0, ends.min + 1, -4])):
        index.insert(index.arrange_entries(np.resize(np.array(keys, dtype=np.int32), rows), None))
        assert all(run.keys.dtype == np.int32 for run in index._runs.runs)  # type: ignore[attr-defined]
        index = REGISTRY["bi_sort"]()
    keys = np.resize(np.array([ends.max, 3, ends.min], dtype=np.int32), 300)
    index.insert(index.arrange_entries(keys, None))
    index.check()
    assert index._runs.runs[0].keys.dtype == np.int64  # type: ignore[attr-defined]
    assert len(probe(index, [ends.max, ends.min - 5], [ends.max + 9, ends.min])) == 200
    assert probe(index, [ends.max + 1, ends.min - 5], [ends.max + 9, ends.min - 1]) == []


def test_runs_stay_few() -> None:
    index = REGISTRY["bi_sort"]()
    rng = np.random.default_rng(3)
    for at in range(0, 4000, 10):
        index.insert(
            index.arrange_entries(rng.integers(0, 10**9, 10), np.arange(at, at + 10, dtype=np.int32))
        )
    assert len(index._runs.runs) <= 5  # type: ignore[attr-defined]
