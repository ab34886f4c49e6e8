"""RaP-Table: the contract with tiny partitions, Algorithm 1, and how fast splitters converge (figures 4, 10f)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import kernels
from slidejoin.index.protocol import Ranges
from slidejoin.index.rap_table import RapTable, adjusted, spread

kernels.ready()

LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.lists(
    st.integers(-6, 6) | st.sampled_from([LOW, LOW + 1, -1, 0, 2**53 + 1, HIGH - 1, HIGH]), max_size=40
)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "merge", "drop", "probe", "next"]), KEYS), max_size=15
)


def insert(index: RapTable, keys: np.ndarray, first: int = 0) -> None:
    ids = np.arange(first, first + len(keys), dtype=np.int32)
    index.insert(index.arrange_entries(np.asarray(keys, dtype=np.int64), ids))


def pairs(answers: list[Ranges]) -> list[tuple[int, int]]:
    found = []
    for ranges in answers:
        assert np.all(ranges.ends > ranges.starts)
        assert ranges.pairs == int((ranges.ends.astype(np.int64) - ranges.starts).sum())
        for row, start, end in zip(ranges.rows.tolist(), ranges.starts, ranges.ends, strict=True):
            found += [(row, i) for i in ranges.ids[start:end].tolist()]
    return sorted(found)


def probe(index: RapTable, lows: np.ndarray, highs: np.ndarray) -> list[Ranges]:
    return index.probe(index.arrange_probes(None, np.asarray(lows), np.asarray(highs), None))


@given(
    actions=ACTIONS,
    widths=st.lists(st.integers(-1, 9) | st.just(2**64), min_size=40, max_size=40),
    partitions=st.sampled_from([None, 1, 2, 7]),
    partition_rows=st.sampled_from([1, 3, 32]),
    sorting=st.sampled_from([0, 32]),
)
def test_equals_a_dictionary(
    actions: list[tuple[str, list[int]]],
    widths: list[int],
    partitions: int | None,
    partition_rows: int,
    sorting: int,
) -> None:
    index = RapTable(partitions=partitions, partition_rows=partition_rows, sorting=sorting)
    held: dict[int, int] = {}
    answers: list[tuple[list[Ranges], list[tuple[int, int]]]] = []
    born = 0
    for action, keys in actions:
        if action == "insert":
            insert(index, np.array(keys, dtype=np.int64), born)
            held.update(zip(range(born, born + len(keys)), keys, strict=True))
            born += len(keys)
        elif action == "merge":
            index.merge()
        elif action == "drop":
            index.drop_below(born // 2)
            held = {i: key for i, key in held.items() if i >= born // 2}
        elif action == "next":
            index, held, born = index.successor(), {}, 0
        else:
            highs = [min(HIGH, max(LOW, k + w)) for k, w in zip(keys, widths, strict=False)]
            found = probe(index, np.array(keys, dtype=np.int64), np.array(highs, dtype=np.int64))
            expected = sorted(
                (row, i)
                for row, (low, high) in enumerate(zip(keys, highs, strict=True))
                for i, key in held.items()
                if low <= key <= high
            )
            assert pairs(found) == expected
            answers.append((found, expected))
        index.check()
        assert index.entries == len(held)
    for found, expected in answers:
        assert pairs(found) == expected, "an answer never changes"


@pytest.mark.parametrize("name", ["equal", "increasing", "decreasing", "two values", "extremes", "random"])
@pytest.mark.parametrize("merged", [False, True])
def test_many_subwindows(name: str, merged: bool) -> None:
    rng = np.random.default_rng(8)
    index = RapTable(partition_rows=4)
    for number in range(4):
        held = np.empty(0, dtype=np.int64)
        for at in range(0, 900, 300):
            keys = {
                "equal": np.full(300, 7),
                "increasing": np.arange(300) + 900 * number + at,
                "decreasing": -np.arange(300) - 900 * number - at,
                "two values": rng.integers(0, 2, 300) * 10**6,
                "extremes": rng.choice(np.array([LOW, HIGH, 0, -1]), 300),
                "random": rng.integers(LOW, HIGH, 300),
            }[name]
            insert(index, keys, at)
            index.check()
            held = np.concatenate([held, keys])
        if merged:
            index.merge()
        asked = np.concatenate([rng.choice(held, 30), [LOW, 0, HIGH]])
        reach = np.where(asked > HIGH - 500, HIGH, asked + 500)
        for lows, highs in ((asked, asked), (asked, reach), (np.full_like(asked, LOW), asked)):
            expected = sorted(
                (row, int(i))
                for row, (low, high) in enumerate(zip(lows, highs, strict=True))
                for i in np.flatnonzero((held >= low) & (held <= high))
            )
            assert pairs(probe(index, lows, highs)) == expected
        index = index.successor()


def test_equal_keys_are_ranges() -> None:
    index = RapTable()
    insert(index, np.full(10_000, 7))
    for most in (2, 1):  # the normal entry and the reserved ones; then, packed, all in one place
        [ranges] = probe(index, np.array([7, 8]), np.array([7, 8]))
        assert ranges.pairs == 10_000
        assert len(ranges.rows) <= most
        index.merge()


def test_neighbouring_partitions_are_one_range_once_packed() -> None:
    index = RapTable(partition_rows=4)
    insert(index, np.arange(1000))
    index.merge()
    lows, highs = np.arange(10), np.arange(10) + 900
    answers = probe(index, lows, highs)
    assert sum(ranges.pairs for ranges in answers) == 10 * 901
    assert sum(len(ranges.rows) for ranges in answers) <= 30, "two ends and a middle"


def test_probes_that_scan_too_much_are_answered_in_order() -> None:
    index = RapTable(partitions=1)
    insert(index, np.arange(10_000))
    lows = np.arange(2000)
    answers = probe(index, lows, lows + 5000)
    assert [len(ranges.ids) for ranges in answers] == [10_000], "not 2000 copies of 5000 ids"
    index.check()
    insert(index, np.array([3]), 10_000)
    index.check()


def test_packing_gives_the_slack_back() -> None:
    index = RapTable()
    insert(index, np.random.default_rng(1).integers(0, 10**9, 10_000))
    before = index.nbytes
    index.merge()
    assert 10_000 * 12 <= index.nbytes < before / 2


# -- Algorithm 1 ---------------------------------------------------------------------------------------


def test_adjustment_of_the_papers_figure_3() -> None:
    """N = 16, P = 4, counts 2, 3, 5, 6: bal_2 = 8 is in (5, 10], so the second splitter is in partition 3."""
    histogram = np.array([[2, 0, 10], [3, 20, 40], [5, 100, 200], [6, 300, 600]])
    assert adjusted(histogram, 4).tolist() == [20 + 20 * 2 // 3, 100 + 100 * 3 // 5, 300 + 300 * 2 // 6]


def test_the_least_key_is_added() -> None:
    """Without it, splitters of keys far from zero would all be near zero."""
    histogram = np.array([[100, 10**12, 10**12 + 1000]])
    assert adjusted(histogram, 4).tolist() == [10**12 + 250, 10**12 + 500, 10**12 + 750]


def test_adjustment_at_the_ends_of_int64() -> None:
    assert adjusted(np.array([[4, LOW, HIGH]]), 4).tolist() == [LOW + 2**62 - 1, -1, 2**62 - 1]
    assert adjusted(np.array([[1, LOW, LOW], [1, HIGH, HIGH]]), 4).tolist() == [LOW, LOW, LOW]


@given(rows=st.lists(st.tuples(st.integers(0, 9), st.integers(LOW, HIGH)), min_size=1), p=st.integers(1, 20))
def test_adjusted_splitters_ascend_within_the_keys(rows: list[tuple[int, int]], p: int) -> None:
    marks = sorted(key for _, key in rows)
    histogram = np.array([[n, key, key] for (n, _), key in zip(rows, marks, strict=True)])
    if histogram[:, 0].sum() == 0:
        return
    splitters = adjusted(histogram, p)
    assert len(splitters) == p - 1
    assert np.all(splitters[1:] >= splitters[:-1])
    assert set(splitters.tolist()) <= set(marks)


# -- convergence ---------------------------------------------------------------------------------------


def errors(draw, partitions: int, iterations: int, low: int = 0, high: int = 2**32 - 1) -> list[float]:
    """The normalised mean error of the partitions' sizes, subwindow by subwindow, starting from nothing known."""
    index = RapTable(partitions=partitions, splitters=spread(partitions, low, high))
    found = []
    for _ in range(iterations + 1):
        insert(index, draw())
        index.check()
        found.append(index.imbalance)
        index = index.successor()
    return found


@pytest.mark.parametrize("partitions", [4, 16, 256, 1024, 65536])
def test_worst_case_of_figure_4(partitions: int) -> None:
    """The greatest key is at the splitter, the next at a P-th of it, and so on: each adjustment frees one key."""
    keys, key = [0], 2**32 - 1
    while key:
        keys.append(key)
        key //= partitions
    index = RapTable(partitions=partitions, splitters=spread(partitions, 0, 2**32 * partitions))
    insert(index, np.array(keys))
    most = [int(index._table.histogram[:, 0].max())]
    for _ in range(math.ceil(32 / math.log2(partitions))):
        index = index.successor()
        insert(index, np.array(keys))
        index.check()
        most.append(int(index._table.histogram[:, 0].max()))
    assert most[0] == len(keys), "at first, one partition has them all"
    assert most[-1] <= max(2, math.ceil(len(keys) / partitions)), most


DRAWS = {
    "uniform": lambda rng, n: rng.integers(0, 2**32, n),
    "uniform in a hundredth": lambda rng, n: rng.integers(2**31, 2**31 + 2**32 // 100, n),
    "normal": lambda rng, n: rng.normal(2**31, 2**32 * 0.01, n),
    "normal, 4 modes": lambda rng, n: rng.normal(rng.integers(1, 5, n) * 2**32 / 5, 2**32 * 0.01),
    "normal, 16 modes": lambda rng, n: rng.normal(rng.integers(1, 17, n) * 2**32 / 17, 2**32 * 0.001),
    # view counts: 99 % of them in the lowest 1 % of their range, which is 0.01 % of a 32-bit integer's
    "rank-size": lambda rng, n: np.minimum(4300 * rng.pareto(1.0, n), 2**32 // 100),
}


@pytest.mark.parametrize("partitions", [256, 1024])
@pytest.mark.parametrize("name", DRAWS)
def test_converges_within_three_subwindows(name: str, partitions: int) -> None:
    rng = np.random.default_rng(10)
    rows = 1 << 16
    found = errors(lambda: DRAWS[name](rng, rows).astype(np.int64), partitions, 6)
    least = min(found[4:])
    assert found[3] <= 1.15 * least + 0.01, [round(error, 3) for error in found]
    noise = math.sqrt(2 / math.pi * partitions / rows)  # of partitions that are even but for chance
    assert found[3] <= max(0.15, 3 * noise), [round(error, 3) for error in found]
