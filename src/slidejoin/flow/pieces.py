"""A push cut into pieces: what every flow does first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slidejoin.flow.slices import Pace, slices, worth_slicing
from slidejoin.window.arrivals import Arrivals


def pieces(
    arrivals: Sequence[Arrivals], size: int, *, together: bool, pace: Pace | None
) -> Iterator[list[Arrivals]]:
    """Groups of rows that are joined at a time. ``together``: the sides arrive interleaved by rank.

    Over time windows there is a ``pace`` for rows that span many; they may arrive in another order than they came in.
    """
    if together:
        return _interleaved(arrivals, size)
    if pace is not None and worth_slicing(arrivals, size, pace):
        return slices(arrivals, size, pace)
    return _in_turn(arrivals, size)


def _in_turn(arrivals: Sequence[Arrivals], size: int) -> Iterator[list[Arrivals]]:
    for one in arrivals:
        for at in range(0, one.rows, size):
            yield [one.slice(at, size)]


def _interleaved(arrivals: Sequence[Arrivals], size: int) -> Iterator[list[Arrivals]]:
    """Pieces of consecutive arrival ranks, whichever side they are of."""
    ranks = [one.ranks.array(one.rows) for one in arrivals]
    total = sum(one.rows for one in arrivals)
    for begin in range(0, total, size):
        group = []
        for one, rank in zip(arrivals, ranks, strict=True):
            a, b = (int(at) for at in np.searchsorted(rank, [begin, begin + size]))
            if b > a:
                group.append(one.slice(a, b - a))
        yield group
