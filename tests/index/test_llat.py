"""LLAT against a dictionary of lists: appending, splitting and growing in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import kernels
from slidejoin.index import Probes, Ranges
from slidejoin.index.llat import Llat

kernels.ready()

KEYS = st.lists(st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=12)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "split", "allocate"]), st.integers(0, 9), KEYS),
    max_size=25,
)


def i32(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def spelled(ranges: Ranges | None) -> list[tuple[int, int]]:
    if ranges is None:
        return []
    assert np.all(ranges.ends > ranges.starts)
    assert ranges.pairs == int((ranges.ends - ranges.starts).sum())
    spans = zip(ranges.rows.tolist(), ranges.starts, ranges.ends, strict=True)
    return [(row, i) for row, start, end in spans for i in ranges.ids[start:end].tolist()]


def append(llat: Llat, chain: int, rows: list[tuple[int, int]]) -> None:
    keys, ids = np.array([key for key, _ in rows], dtype=np.int64), i32([i for _, i in rows])
    llat.append(i32([chain]), i32([0, len(rows)]), keys, ids)


def everything(llat: Llat, chains: list[int], asked: Probes) -> list[tuple[int, int]]:
    last = len(chains) - 1
    return spelled(llat.whole(i32(chains), i32([0]), i32([last]), i32([0]), asked))


@given(actions=ACTIONS, width=st.integers(1, 4), normal=st.integers(1, 3), reserved=st.integers(0, 3))
def test_equals_lists(
    actions: list[tuple[str, int, list[int]]], width: int, normal: int, reserved: int
) -> None:
    llat = Llat(width=width, chains=normal, reserved=reserved)
    held: dict[int, list[tuple[int, int]]] = {chain: [] for chain in range(normal)}
    asked = Probes(i32([7]), np.array([-1]), np.array([3]))
    answers: list[tuple[Ranges | None, list[tuple[int, int]]]] = []
    born = 0
    for action, number, keys in actions:
        chain = list(held)[number % len(held)]
        if action == "append":
            rows = list(zip(keys, range(born, born + len(keys)), strict=True))
            append(llat, chain, rows)
            held[chain] += rows
            born += len(rows)
        elif action == "allocate":
            held[llat.allocate()] = []
        else:
            rows = sorted(zip(*(part.tolist() for part in llat.content(chain)), strict=True))
            assert rows == sorted(held.pop(chain))
            llat.free(chain)
            for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                fresh = llat.allocate()
                append(llat, fresh, part)
                held[fresh] = part
        chains = list(held)
        llat.check(i32(chains))
        assert llat.rows == llat.rows_of(i32(chains)) == sum(map(len, held.values()))
        ids = [(7, i) for chain in chains for _, i in held[chain]]
        whole = llat.whole(i32(chains), i32([0]), i32([len(chains) - 1]), i32([0]), asked)
        assert spelled(whole) == ids
        answers.append((whole, ids))
        found = spelled(llat.scan(i32(chains), i32([0] * len(chains)), asked, llat.rows))
        assert found == [(7, i) for chain in chains for key, i in held[chain] if -1 <= key <= 3]
        packed = llat.packed(i32(chains), born // 2)
        packed.check(np.arange(len(chains), dtype=np.int32))
        assert everything(packed, chains, asked) == [(7, i) for _, i in ids if i >= born // 2]
    for whole, ids in answers:
        assert spelled(whole) == ids, "an answer never changes"


def test_twice_the_partitions_are_enough() -> None:
    """Whatever the skew, N rows in entries of N / P * sigma slots need no more than 2P of them."""
    rng = np.random.default_rng(4)
    partitions, rows = 16, 1024
    for heavy in range(1, partitions + 1):
        llat = Llat(width=int(rows / partitions * 1.25), chains=partitions, reserved=partitions)
        chains = np.sort(rng.integers(0, heavy, rows)).astype(np.int32)
        bounds = np.searchsorted(chains, np.arange(partitions + 1)).astype(np.int32)
        order = np.arange(partitions, dtype=np.int32)
        llat.append(order, bounds, np.arange(rows), np.arange(rows, dtype=np.int32))
        llat.check(order)
        assert llat.entries_used <= len(llat.table) == 2 * partitions, "never grown"


def test_a_long_chain_in_one_go_is_one_range() -> None:
    llat = Llat(width=4, chains=1, reserved=1)
    append(llat, 0, [(key, key) for key in range(100)])
    ranges = llat.whole(i32([0]), i32([0]), i32([0]), i32([0]), Probes(i32([0]), np.zeros(1), np.zeros(1)))
    assert ranges is not None
    assert (len(ranges.rows), ranges.pairs) == (1, 100)


def test_the_same_question_is_copied_once() -> None:
    llat = Llat(width=4, chains=1, reserved=1)
    append(llat, 0, [(key % 3, key) for key in range(99)])
    asked = Probes(i32([0, 1, 2]), np.array([1, 1, 2]), np.array([1, 1, 2]))
    ranges = llat.scan(i32([0, 0, 0]), i32([0, 1, 2]), asked, 297)
    assert ranges is not None
    assert (ranges.pairs, len(ranges.ids)) == (99, 66)


def test_a_packed_table_takes_no_rows() -> None:
    packed = Llat(width=4, chains=1, reserved=1).packed(i32([0]))
    with pytest.raises(AssertionError, match="takes no rows"):
        append(packed, 0, [(1, 1)])


def test_too_many_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="use smaller subwindows"):
        Llat(width=2**20, chains=2**11, reserved=0)
