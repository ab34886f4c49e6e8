"""Cells dealt to workers, against arithmetic on Python's own numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.kernels import ready
from slidejoin.kernels.deal import deal, touch

WORD = (1 << 64) - 1
LEAST, MOST = -(1 << 63), (1 << 63) - 1

cells = st.one_of(st.integers(-40, 40), st.integers(LEAST, MOST), st.integers(MOST - 40, MOST))


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    ready("deal")


def worker_of(cell: int, shift: int, workers: int) -> int:
    mixed = (cell // workers) & WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & WORD
    mixed ^= mixed >> 31
    return (cell % workers + mixed % workers + shift) % workers


@given(st.lists(cells, max_size=20), st.integers(1, 12), st.booleans())
def test_every_cell_has_its_worker(some: list[int], workers: int, shifted: bool) -> None:
    shifts = [7 * n % workers for n in range(len(some))] if shifted else []
    out = np.empty(len(some), dtype=np.int64)
    deal(np.array(some, dtype=np.int64), np.array(shifts, dtype=np.int64), workers, out)
    expected = [worker_of(cell, shifts[n] if shifted else 0, workers) for n, cell in enumerate(some)]
    assert out.tolist() == expected


def test_where_cells_go_stays() -> None:
    """A checkpoint's rows lie where these workers were when it was written."""
    out = np.empty(12, dtype=np.int64)
    deal(np.arange(-4, 8), np.empty(0, dtype=np.int64), 3, out)
    assert out.tolist() == [1, 0, 1, 2, 0, 1, 2, 1, 2, 0, 1, 2]


@given(
    st.lists(st.tuples(cells, st.integers(0, 60), st.integers(-1, 4)), max_size=12),
    st.integers(1, 7),
    st.data(),
)
def test_every_touched_worker_gets_a_copy(
    bands: list[tuple[int, int, int]], workers: int, data: st.DataObject
) -> None:
    spread = data.draw(st.integers(1, workers))
    # Some rows of a batch touch nothing.
    rows = data.draw(st.permutations(range(len(bands) + 2)))[: len(bands)]
    home = [-1] * (len(bands) + 2)
    shifts = [3 * n % workers for n in range(len(home))]
    for row, (_, _, given_home) in zip(rows, bands, strict=True):
        home[row] = min(given_home, workers - 1)
    firsts = [first for first, _, _ in bands]
    lasts = [min(first + more, MOST) for first, more, _ in bands]
    expected_home, expected = list(home), np.zeros((len(home), workers), dtype=bool)
    for row, first, last in zip(rows, firsts, lasts, strict=True):
        for cell in range(first, last + 1):
            worker = worker_of(cell, shifts[row], workers)
            if expected_home[row] < 0:
                expected_home[row] = worker
            for member in range(spread):
                expected[row, (worker + member) % workers] = True
        expected[row, expected_home[row]] = False
    found_home, found = np.array(home, dtype=np.int64), np.zeros_like(expected)
    touch(
        *(np.array(one, dtype=np.int64) for one in (rows, firsts, lasts, shifts)),
        workers,
        spread,
        found_home,
        found,
    )
    assert found_home.tolist() == expected_home
    np.testing.assert_array_equal(found, expected)


def test_a_band_over_everything_touches_everybody() -> None:
    home, copied = np.array([-1]), np.zeros((1, 5), dtype=bool)
    touch(np.array([0]), np.array([LEAST]), np.array([MOST]), np.empty(0, dtype=np.int64), 5, 1, home, copied)
    assert copied[0].sum() == 4
    assert not copied[0, home[0]]
