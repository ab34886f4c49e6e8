"""Merging by the meter: what an insertion may cost, and that nothing is lost on the way. Runs here are plain lists."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from slidejoin.index.merging import PACE, Merging

if TYPE_CHECKING:
    from collections.abc import Generator

AT_ONCE = 20


class Listed:
    """A run of ids."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = np.array(ids, dtype=np.int32)

    @property
    def rows(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes

    def check(self) -> None:
        assert self.rows > 0


class Meter:
    """Merges row by row, and counts the rows; fails at the step that it is told to."""

    def __init__(self) -> None:
        self.moved = 0
        self.fails_at = -1

    def merged(self, older: Listed, younger: Listed) -> Generator[int, None, Listed]:
        for _ in range(older.rows + younger.rows):
            self.moved += 1
            if self.moved == self.fails_at:
                raise MemoryError
            yield 1
        return Listed([*older.ids, *younger.ids])


def held(merging: Merging[Listed]) -> list[int]:
    merging.check()
    return [int(i) for run in merging.runs for i in run.ids]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_no_insertion_pays_for_a_whole_merge(size: int) -> None:
    meter = Meter()
    merging = Merging(meter.merged, at_once=AT_ONCE)
    most = 0
    for at in range(0, 6000, size):
        before = meter.moved
        merging.insert(Listed(list(range(at, at + size))))
        # Short runs are merged at once, a few times in a row; of longer merges, so much for each row.
        assert meter.moved - before <= PACE * size + 4 * AT_ONCE
        assert held(merging) == list(range(at + size))
        most = max(most, len(merging.runs))
    assert most <= 16, "merging keeps up"


def test_the_next_subwindow_pays_for_the_rest() -> None:
    meter = Meter()
    merging = Merging(meter.merged, at_once=AT_ONCE)
    for at in range(0, 3000, 50):
        merging.insert(Listed(list(range(at, at + 50))))
    before = meter.moved
    merging.merge()
    assert meter.moved - before <= AT_ONCE + 1
    assert merging.behind
    following = Merging(meter.merged, at_once=AT_ONCE, before=merging)
    for at in range(0, 1500, 50):
        following.insert(Listed(list(range(at, at + 50))))
        assert held(merging) == list(range(3000))
    assert len(merging.runs) == 1
    assert not merging.behind
    assert held(following) == list(range(1500))


def test_a_merge_that_fails_is_begun_again() -> None:
    meter = Meter()
    merging = Merging(meter.merged, at_once=AT_ONCE)
    born = 0
    shuffle = random.Random(5)
    for _ in range(300):
        size = shuffle.choice([1, 9, 40])
        meter.fails_at = meter.moved + shuffle.randrange(1, 400)
        run = Listed(list(range(born, born + size)))
        try:
            merging.insert(run)
        except MemoryError:
            kept = held(merging)
            assert kept in (list(range(born)), list(range(born + size))), "all of the run, or nothing"
            if len(kept) == born:
                continue
        born += size
        assert held(merging) == list(range(born))
    meter.fails_at = -1
    merging.merge()
    merging.advance(1 << 30)
    assert len(merging.runs) == 1
    assert held(merging) == list(range(born))


def test_what_is_dropped_does_not_come_back() -> None:
    """A merge in the making is of rows that were dropped meanwhile."""
    meter = Meter()
    merging = Merging(meter.merged, at_once=AT_ONCE)
    for at in range(0, 600, 30):
        merging.insert(Listed(list(range(at, at + 30))))
    merging.merge()
    assert merging.behind, "something is in the making"

    def kept(run: Listed) -> Listed | None:
        ids = [int(i) for i in run.ids if i >= 345]
        return Listed(ids) if ids else None

    merging.keep(kept)
    assert held(merging) == list(range(345, 600))
    merging.advance(1 << 30)
    assert held(merging) == list(range(345, 600))
    assert len(merging.runs) == 1
