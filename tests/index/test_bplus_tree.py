"""The tree on its own: small nodes, so that splits reach the root; order of arrival, duplicates, bulk building."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import kernels
from slidejoin.index import BPlusTree
from slidejoin.index.bplus_tree import KeyTree

kernels.ready()
kernels.ready("bplus_tree")

KEYS = st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1]) | st.integers(-1000, 1000)
WIDTHS = [(2, 4), (3, 5), (4, 4), (64, 64)]


class Small(BPlusTree):
    widths = (2, 4)


@pytest.mark.parametrize("widths", WIDTHS)
@given(batches=st.lists(st.lists(KEYS, max_size=25), max_size=12))
def test_batches(widths: tuple[int, int], batches: list[list[int]]) -> None:
    tree = KeyTree(*widths)
    held: list[int] = []
    for batch in batches:
        keys = np.sort(np.array(batch, dtype=np.int64))
        tree.insert(keys, np.arange(len(held), len(held) + len(keys), dtype=np.int32))
        held += keys.tolist()
        tree.check()
    keys, ids = tree.in_order()
    assert keys.tolist() == sorted(held)
    assert [held[i] for i in ids] == keys.tolist()
    built = KeyTree.build(keys, ids, *widths)
    built.check()
    assert built.in_order()[1].tolist() == ids.tolist()
    built.insert(np.array([3], dtype=np.int64), np.array([len(held)], dtype=np.int32))
    built.check()


@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "random"])
def test_one_row_at_a_time(order: str) -> None:
    values = {
        "ascending": np.arange(500),
        "descending": np.arange(500)[::-1],
        "equal": np.full(500, 7),
        "random": np.random.default_rng(5).integers(0, 100, 500),
    }[order]
    tree = KeyTree(4, 4)
    for i, value in enumerate(values):
        tree.insert(np.array([value], dtype=np.int64), np.array([i], dtype=np.int32))
    tree.check()
    assert tree.in_order()[0].tolist() == sorted(values.tolist())


def test_ascending_keys_leave_full_leaves() -> None:
    tree = KeyTree(8, 4)
    for at in range(0, 800, 10):
        tree.insert(np.arange(at, at + 10), np.arange(at, at + 10, dtype=np.int32))
    tree.check()
    assert int(tree.arrays.state[2]) == 100


@given(
    keys=st.lists(KEYS, max_size=60),
    probes=st.lists(st.tuples(KEYS, KEYS), max_size=20),
    when=st.sampled_from(["growing", "complete", "complete and more"]),
)
def test_probes_of_a_deep_tree(keys: list[int], probes: list[tuple[int, int]], when: str) -> None:
    index = Small()
    given_keys = np.array(keys, dtype=np.int64)
    half = len(keys) // 2 if when == "complete and more" else len(keys)
    index.insert(index.arrange_entries(given_keys[:half], np.arange(half, dtype=np.int32)))
    if when != "growing":
        index.merge()
    index.insert(index.arrange_entries(given_keys[half:], np.arange(half, len(keys), dtype=np.int32)))
    lows, highs = (np.array([probe[end] for probe in probes], dtype=np.int64) for end in (0, 1))
    found = [
        (int(row), int(i))
        for ranges in index.probe(index.arrange_probes(None, lows, highs, None))
        for row, start, end in zip(ranges.rows, ranges.starts, ranges.ends, strict=True)
        for i in ranges.ids[start:end]
    ]
    index.check()
    assert sorted(found) == sorted(
        (row, i) for row, (low, high) in enumerate(probes) for i, key in enumerate(keys) if low <= key <= high
    )


def test_widths_are_checked() -> None:
    with pytest.raises(ValueError, match="at least 2 rows"):
        KeyTree(1, 4)
