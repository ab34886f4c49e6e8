"""Kernels of chains and range partitions against plain Python; also run interpreted, by ``test_partition_interpreted``."""

from __future__ import annotations

import numpy as np
import pytest

from slidejoin import kernels

kernels.ready()

from slidejoin.kernels.llat import (  # noqa: E402
    append_runs,
    count_ranges,
    count_rows,
    list_chains,
    pack_chains,
    scan_chains,
)
from slidejoin.kernels.partition import divide_probes, gallop_to, measure, split_batch  # noqa: E402

LOW, HIGH = -(2**63), 2**63 - 1


def i32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def room(count: int) -> np.ndarray:
    return np.empty(count, dtype=np.int32)


def chained() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two chains in entries of two slots: 0 (then 2, then 3) with five rows, and 1 with one."""
    table = np.array([[2 * e, 2 * e, -1, e] for e in range(4)], dtype=np.int32)
    keys, ids = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int32)
    rows = np.array([1, 2, 3, 4, 5, 9]), i32(10, 11, 12, 13, 14, 15)
    done = append_runs(table, keys, ids, 2, i32(2, 3), 0, i32(0, 1), i32(0, 5, 6), *rows, 0, 0)
    assert done == (2, 6, 2)
    return table, keys, ids


def test_append_runs_stops_without_spare_entries() -> None:
    table = np.array([[0, 0, -1, 0]], dtype=np.int32)
    keys, ids = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int32)
    done = append_runs(table, keys, ids, 2, room(0), 0, i32(0), i32(0, 3), np.arange(3), i32(0, 1, 2), 0, 0)
    assert done == (0, 2, 0)
    assert keys.tolist() == [0, 1]


def test_append_and_pack() -> None:
    table, keys, ids = chained()
    assert table.tolist() == [[0, 2, 2, 3], [2, 3, -1, 1], [4, 6, 3, 2], [6, 7, -1, 3]]
    assert count_rows(table, i32(0, 1)) == 6
    out_keys, out_ids, out_table = np.empty(7, dtype=np.int64), room(7), np.empty((2, 4), dtype=np.int32)
    assert pack_chains(table, keys, ids, i32(1, 0), 12, out_keys, out_ids, out_table) == 4
    assert (out_keys[:4].tolist(), out_ids[:4].tolist()) == ([9, 3, 4, 5], [15, 12, 13, 14])
    assert out_table.tolist() == [[0, 1, -1, 0], [1, 4, -1, 1]]
    histogram = np.empty((2, 3), dtype=np.int64)
    measure(out_table[:, 1].copy(), out_keys[:4], histogram)
    assert histogram.tolist() == [[1, 9, 9], [3, 3, 5]]


def test_scan_chains() -> None:
    table, keys, ids = chained()
    lows, highs, rows = np.array([2, 2, 7]), np.array([4, 4, HIGH]), i32(20, 21, 22)
    out, starts, ends, copied = (room(13) for _ in range(4))
    found = scan_chains(
        table, keys, ids, i32(0, 0, 1), i32(0, 1, 2), lows, highs, rows, out, starts, ends, copied
    )
    assert found == (3, 7, 4)
    assert [a[:3].tolist() for a in (out, starts, ends)] == [[20, 21, 22], [0, 0, 3], [3, 3, 4]]
    assert copied[:4].tolist() == [11, 12, 13, 15]


def test_list_chains() -> None:
    table, _, _ = chained()
    out, starts, ends = (room(5) for _ in range(3))
    assert count_ranges(table, i32(0, 1), i32(0), i32(1)) == 4
    found = list_chains(table, i32(0, 1), i32(0), i32(1), i32(0), i32(7), False, out, starts, ends)
    assert found == (3, 6)
    assert [a[:3].tolist() for a in (out, starts, ends)] == [[7, 7, 7], [0, 4, 2], [2, 7, 3]]


def test_split_batch() -> None:
    histogram = np.array([[0, HIGH, LOW], [1, 5, 5], [0, HIGH, LOW]])
    partitions, bounds = room(4), room(5)
    runs = split_batch(i32(0, 0, 1, 1), np.array([LOW, -1, 4, 6]), histogram, partitions, bounds)
    assert runs == 2
    assert (partitions[:2].tolist(), bounds[:3].tolist()) == ([0, 1], [0, 2, 4])
    assert histogram.tolist() == [[2, LOW, -1], [3, 4, 6], [0, HIGH, LOW]]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 50])
def test_gallop_to(count: int) -> None:
    splitters = np.sort(np.random.default_rng(count).integers(-9, 9, count))
    for start in range(count + 1):
        for want in range(-10, 11):
            expected = max(start, int(np.searchsorted(splitters, want)))
            assert gallop_to(splitters, np.uint64(start), np.int64(want)) == expected


def test_divide_probes() -> None:
    """Keys 1..4 | 11..14 | none | 31..34, splitters 10, 20, 30."""
    splitters = np.array([10, 20, 30])
    histogram = np.array([[4, 1, 4], [4, 11, 14], [0, HIGH, LOW], [4, 31, 34]])
    lows = np.array([LOW, 2, 2, 2, 3, 15, 20])
    highs = np.array([HIGH, 1, 3, 3, 32, 35, 20])
    firsts = np.searchsorted(splitters, lows).astype(np.int32)
    outs = [room(7) for _ in range(7)]
    counts = divide_probes(splitters, histogram, lows, highs, firsts, *outs)
    lower, upper, wholes, scanned, listed = counts
    low_items = list(zip(outs[0][:lower].tolist(), outs[1][:lower].tolist(), strict=True))
    high_items = list(zip(outs[2][:upper].tolist(), outs[3][:upper].tolist(), strict=True))
    whole_items = list(zip(*(out[:wholes].tolist() for out in outs[4:]), strict=True))
    assert low_items == [(2, 0), (3, 0), (4, 0)]
    assert high_items == [(4, 3)]
    assert whole_items == [(0, 0, 3), (4, 1, 2), (5, 2, 3)]
    assert (scanned, listed) == (4 + 4 + 4, 4 + 2 + 2)
