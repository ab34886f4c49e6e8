"""The WiB+-Tree, with nodes of four and leaves of three, so that every few rows split something."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slidejoin import kernels
from slidejoin.index import Ranges, wib_tree
from slidejoin.index.wib_tree import Ordered, Tree, WibTree
from slidejoin.kernels.llat import NEXT, NONE

kernels.ready()

LOW, HIGH = -(2**63), 2**63 - 1
SMALL = st.integers(-6, 6)
EXTREME = st.sampled_from([LOW, LOW + 1, -1, 0, 1, 2**53, HIGH - 1, HIGH])
KEYS = st.lists(SMALL | EXTREME | st.integers(LOW, HIGH), max_size=40)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "insert", "merge", "drop", "probe"]), KEYS), max_size=14
)
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def small() -> WibTree:
    return WibTree(node_width=4, leaf_width=3)


def insert(index: WibTree, keys: np.ndarray, first: int) -> None:
    ids = np.arange(first, first + len(keys), dtype=np.int32)
    index.insert(index.arrange_entries(np.asarray(keys, dtype=np.int64), ids))


def pairs(answers: list[Ranges]) -> list[tuple[int, int]]:
    return sorted(
        (int(row), int(i))
        for ranges in answers
        for row, start, end in zip(ranges.rows, ranges.starts, ranges.ends, strict=True)
        for i in ranges.ids[start:end]
    )


def probe(index: WibTree, lows: list[int], highs: list[int]) -> list[tuple[int, int]]:
    bounds = (np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64))
    return pairs(list(index.probe(index.arrange_probes(None, *bounds, None))))


def tree_of(index: WibTree) -> Tree:
    assert isinstance(index._held, Tree)
    return index._held


@pytest.mark.parametrize("patience", [0, 16, 10**9], ids=["always ordered", "either", "always scanned"])
@given(actions=ACTIONS, widths=st.lists(st.integers(-1, 4), min_size=40, max_size=40))
@settings(max_examples=10 if INTERPRETED else 60, deadline=None)
def test_equals_a_dictionary(patience: int, actions: list[tuple[str, list[int]]], widths: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wib_tree, "PATIENCE", patience)
        index = small()
        held: dict[int, int] = {}
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
            else:
                highs = [min(HIGH, max(LOW, k + w)) for k, w in zip(keys, widths, strict=False)]
                expected = sorted(
                    (row, i)
                    for row, (low, high) in enumerate(zip(keys, highs, strict=True))
                    for i, key in held.items()
                    if low <= key <= high
                )
                assert probe(index, keys, highs) == expected
            index.check()
            assert index.entries == len(held)


@pytest.mark.parametrize(
    ("keys", "more", "tops"),
    [
        ([10, 0, 30, 20], [11], [15]),  # in the middle of what they span, and unsorted as they were
        ([0, 1, 2, 1000], [3], [500]),  # a quarter is enough
        ([0, 1, 2, 3, 1000], [4], [2]),  # less is not: sorted, and cut in the middle
        ([0, 1, 2, 3], [4], [3]),  # all above: the leaf stays full
        ([5, 6, 7, 8], [4], [4]),  # all below
        ([LOW, HIGH, LOW + 1, HIGH - 1], [0], [-1]),
        ([0, 10, 20, 30], [11, 12, 13], [11]),  # too many for both halves, wherever they go
        ([7, 7, 7, 7], [7], []),  # one key, which is never cut
    ],
)
def test_where_a_full_leaf_is_cut(keys: list[int], more: list[int], tops: list[int]) -> None:
    index = WibTree(node_width=4, leaf_width=len(keys))
    for at, key in enumerate(keys):
        insert(index, np.array([key]), at)
    insert(index, np.array(more), len(keys))
    index.check()
    leaves = tree_of(index).leaves
    assert leaves.tops[leaves.in_order()].tolist() == [*tops, HIGH]
    assert probe(index, [LOW], [HIGH]) == [(0, i) for i in range(len(keys) + len(more))]


ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "random": lambda n: np.random.default_rng(1).permutation(n),
    "increasing": lambda n: n,
    "decreasing": lambda n: -n,
    "all equal": lambda n: n * 0 + 7,
    "few values": lambda n: n % 5,
    "mostly one": lambda n: np.where(n % 10 < 8, 3, n),
    "both ends": lambda n: np.where(n % 2 == 0, LOW + n, HIGH - n),
}


@pytest.mark.parametrize("batch", [1, 7, 100, 400])
@pytest.mark.parametrize("order", ORDERS)
def test_any_order_in_any_batches(order: str, batch: int) -> None:
    rows = 100 if INTERPRETED else 400
    keys = ORDERS[order](np.arange(rows)).astype(np.int64)
    index = small()
    for at in range(0, rows, batch):
        insert(index, keys[at : at + batch], at)
        index.check()
    wanted = np.unique(keys)
    rank = {int(key): row for row, key in enumerate(wanted)}
    expected = sorted((rank[int(key)], i) for i, key in enumerate(keys))
    assert probe(index, wanted.tolist(), wanted.tolist()) == expected
    index.merge()
    assert probe(index, wanted.tolist(), wanted.tolist()) == expected


@pytest.mark.parametrize("batch", [1, 10, 64])
@pytest.mark.parametrize("sign", [1, -1], ids=["increasing", "decreasing"])
def test_drifting_keys_leave_full_leaves_behind(sign: int, batch: int) -> None:
    index = WibTree(node_width=4, leaf_width=8)
    for at in range(0, 640, batch):
        insert(index, sign * np.arange(at, at + batch), at)
    index.check()
    tree = tree_of(index)
    leaves = tree.leaves.in_order()
    assert len(leaves) <= 640 // 8 + 2, "leaves are full"
    assert int(tree.nodes.state[1]) <= 5, "so are enough of the nodes"


def test_a_frequent_key_has_a_chain_of_its_own() -> None:
    """Rows of one key overflow their leaf; keys on both sides get leaves beside it, and the chain stays."""
    index = small()
    insert(index, np.full(50, 5), 0)
    insert(index, np.array([4, 6]), 50)
    insert(index, np.array([LOW, 5, HIGH]), 52)
    index.check()
    leaves = tree_of(index).leaves
    sizes = [len(leaves.content(int(leaf))[0]) for leaf in leaves.in_order()]
    assert sizes == [2, 51, 2]
    chained = [int(leaves.table[leaf, NEXT]) != NONE for leaf in leaves.in_order()]
    assert chained == [False, True, False]
    assert len(probe(index, [5], [5])) == 51
    assert probe(index, [LOW, 6], [4, HIGH]) == [(0, 50), (0, 52), (1, 51), (1, 54)]


def test_an_answer_outlives_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wib_tree, "PATIENCE", 10**9)
    index = small()
    rng = np.random.default_rng(7)
    keys = rng.integers(0, 50, 100)
    insert(index, keys, 0)
    answer = list(index.probe(index.arrange_probes(None, np.arange(50), np.arange(50), None)))
    before = pairs(answer)
    for at in range(100, 400, 50):
        insert(index, rng.integers(0, 50, 50), at)
    index.merge()
    assert pairs(answer) == before == sorted((int(key), i) for i, key in enumerate(keys))


def test_wide_probes_are_ranges_and_not_copies() -> None:
    """A hundred probes that match everything: a hundred ranges over one array, however many the pairs."""
    index = small()
    insert(index, np.arange(1000), 0)
    [ranges] = index.probe(index.arrange_probes(None, np.full(100, LOW), np.full(100, HIGH), None))
    assert (len(ranges.rows), ranges.pairs, len(ranges.ids)) == (100, 100_000, 1000)
    insert(index, np.arange(10), 1000)  # and the tree goes on growing
    index.check()
    assert len(probe(index, [3], [3])) == 2


def test_narrow_probes_leave_the_tree_as_it_is() -> None:
    index = WibTree()
    insert(index, np.arange(10_000), 0)
    assert probe(index, [17, 9_999, 20_000], [17, HIGH, HIGH]) == [(0, 17), (1, 9_999)]
    assert tree_of(index)._ordered is None


def test_merged_it_takes_rows_again() -> None:
    index = small()
    insert(index, np.arange(20), 0)
    index.merge()
    assert isinstance(index._held, Ordered)
    insert(index, np.arange(20), 20)
    index.check()
    assert len(tree_of(index).leaves.in_order()) > 6
    assert probe(index, [3], [4]) == [(0, 3), (0, 4), (0, 23), (0, 24)]


def test_empty() -> None:
    index = small()
    insert(index, np.array([], dtype=np.int64), 0)
    index.check()
    assert probe(index, [0], [0]) == probe(index, [], []) == []
    index.merge()
    index.drop_below(5)
    index.check()
    assert probe(index, [LOW], [HIGH]) == []
    assert index.entries == 0


def test_widths_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="expected nodes of at least 4"):
        WibTree(node_width=3)
    with pytest.raises(ValueError, match="leaves of at least 2"):
        WibTree(leaf_width=1)


def swap_separators(tree: Tree) -> None:
    tree.nodes.separators[0] = tree.nodes.separators[1]


def misplace_a_key(tree: Tree) -> None:
    tree.leaves.keys[0] = HIGH


def lose_a_leaf(tree: Tree) -> None:
    tree.leaves.after[0] = tree.leaves.after[tree.leaves.after[0]]


def tie_leaves_in_a_circle(tree: Tree) -> None:
    tree.leaves.after[tree.leaves.in_order()[-1]] = 0


def double_an_id(tree: Tree) -> None:
    tree.leaves.ids[0] = tree.leaves.ids[1]


def miscount(tree: Tree) -> None:
    tree.leaves.rows += 1


@pytest.mark.parametrize(
    "damage",
    [swap_separators, misplace_a_key, lose_a_leaf, tie_leaves_in_a_circle, double_an_id, miscount],
    ids=lambda damage: damage.__name__,
)
def test_check_sees_damage(damage: Callable[[Tree], None]) -> None:
    index = small()
    insert(index, np.arange(60), 0)
    index.check()
    damage(tree_of(index))
    with pytest.raises(AssertionError):
        index.check()


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreted run")
def test_interpreted() -> None:
    """The same suite with the compiler switched off: what Numba runs is what Python would."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            str(Path(__file__)),
        ],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_what_kernels_borrow_is_given_back() -> None:
    tree = Tree(4, 3, 16, 0)
    keys = np.sort(np.random.default_rng(3).integers(0, 500, 3000))
    tree.insert(wib_tree.Entries(keys, np.arange(3000, dtype=np.int32)))
    tree.check()
    held = [weakref.ref(array) for array in (keys, *tree.nodes, tree.leaves.keys, tree.leaves.table)]
    del keys, tree
    assert [array() for array in held] == [None] * len(held)
