"""The paper's BI-Sort: when rows wait in the buffer, when they are merged, and what a probe finds in both."""

from __future__ import annotations

import numpy as np
import pytest

from slidejoin import kernels
from slidejoin.index import BiSort, BiSortPaper

kernels.ready()


def filled(index: BiSortPaper | BiSort, keys: np.ndarray, batch: int) -> None:
    for at in range(0, len(keys), batch):
        some = keys[at : at + batch]
        index.insert(index.arrange_entries(some, np.arange(at, at + len(some), dtype=np.int32)))


def pairs(index: BiSortPaper | BiSort, lows: np.ndarray, highs: np.ndarray) -> list[tuple[int, int]]:
    found = []
    for ranges in index.probe(index.arrange_probes(None, lows, highs, None)):
        for row, start, end in zip(ranges.rows, ranges.starts, ranges.ends, strict=True):
            found += [(int(row), int(i)) for i in ranges.ids[start:end]]
    return sorted(found)


@pytest.mark.parametrize("batch", [1, 7, 15, 16, 40])
@pytest.mark.parametrize("partitions", [None, 1, 4, 1000])
def test_answers_as_ours_does(batch: int, partitions: int | None) -> None:
    rng = np.random.default_rng(batch)
    keys = rng.integers(0, 300, 500)
    paper, ours = BiSortPaper(partitions=partitions, buffer=16), BiSort()
    for at in range(0, len(keys), 100):
        for index in (paper, ours):
            ids = np.arange(at, at + 100, dtype=np.int32)
            for first in range(0, 100, batch):
                some = slice(at + first, min(at + first + batch, at + 100))
                index.insert(index.arrange_entries(keys[some], ids[first : first + batch]))
        paper.check()
        lows = rng.integers(-5, 305, 50)
        highs = lows + rng.integers(-2, 40, 50)
        assert pairs(paper, lows, highs) == pairs(ours, lows, highs)


def test_small_batches_wait_and_large_ones_do_not() -> None:
    index = BiSortPaper(buffer=16)
    waiting = lambda: len(index._held[1].keys)  # noqa: E731
    filled(index, np.arange(15), 5)
    assert waiting() == 15
    index.insert(index.arrange_entries(np.arange(20), np.arange(100, 120, dtype=np.int32)))
    assert (waiting(), len(index._held[0].entries.keys)) == (15, 20), "as large as the buffer: merged at once"
    index.insert(index.arrange_entries(np.array([3]), np.array([200], dtype=np.int32)))
    assert (waiting(), index.entries) == (0, 36), "full: sorted and merged"
    index.check()


def test_many_matches_in_the_buffer_are_ranges_not_copies() -> None:
    index = BiSortPaper(buffer=1000)
    filled(index, np.zeros(900, dtype=np.int64), 900)
    probes = np.zeros(5000, dtype=np.int64)
    answers = index.probe(index.arrange_probes(None, probes, probes, None))
    assert sum(ranges.pairs for ranges in answers) == 900 * 5000
    assert sum(len(ranges.ids) for ranges in answers) == 900


def test_the_index_array_has_the_length_asked_for() -> None:
    index = BiSortPaper(partitions=64)
    filled(index, np.random.default_rng(2).integers(0, 10**6, 10_000), 2000)
    assert len(index._held[0].samples) in (63, 64)
    index.check()


@pytest.mark.parametrize("wrong", [{"buffer": 0}, {"partitions": 0}])
def test_nonsense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        BiSortPaper(**wrong)
