"""Slices: a push that spans many time windows, cut so that rows meet those of their own time.

Design      rows are found by their keys and looked at for their time afterwards. That is cheap while a piece of a push
            spans less than a window; where it spans hundreds, as when a day is read again, nearly all that is found of
            a loose condition is thrown away. Over time windows the order of arrival changes no result, so such a push is
            put in the order of time and cut into slices, which become subwindows as short: a slice meets those of its
            time alone. Where results are to come in the order of arrival, it is cut as it came, if that is about the
            order of time.
Pace        a piece has a price however few its rows, so slices get shorter while what is thrown away costs more than
            that, and longer while it costs much less, until nothing is cut. The first are short, as nothing is known
            before the other side has come, and rows that are stored in long pieces stay so. What is learnt holds for the
            next push too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt

import numpy as np

from slidejoin.window.arrivals import Arrivals
from slidejoin.window.ring import SMALLEST
from slidejoin.worker import Vain

MANY = 2  # times what one row reaches: a push that spans less is joined as it came
OVERLAP = 2  # times the span of a push that its pieces span together, at most, if it came about in the order of time
WORTH = 1 << 17  # candidates that are thrown away in the time that a piece costs whatever it holds
SLACK = 8  # times less than that, and slices get longer
LONGER = 8  # times, at most, from one slice to the next


class Pace:
    """How many rows a slice has; None while nothing was thrown away and nothing has been cut.

    ``ordered``: results are wanted in the order of arrival.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.rows: int | None = None

    def learn(self, vain: Vain, longest: int) -> None:
        """What the last piece has looked at in vain, which grows with the square of its rows.

        One that met nobody says nothing.
        """
        if vain.candidates > WORTH:
            shorter = max(2, isqrt(vain.candidates // WORTH))
            self.rows = max(shortest(longest), (self.rows or longest) // shorter)
        elif self.rows is not None and vain.probed and SLACK * vain.candidates < WORTH:
            longer = min(LONGER, isqrt(WORTH // (2 * vain.candidates + 1)))
            self.rows = min(longest, self.rows * longer)


def shortest(longest: int) -> int:
    """The fewest rows of a slice: subwindows have no fewer."""
    return min(SMALLEST, longest)


def worth_slicing(arrivals: Sequence[Arrivals], longest: int, pace: Pace) -> bool:
    """Whether a push spans many windows, and nothing that is known speaks against cutting it."""
    some = [one for one in arrivals if one.rows]
    if (pace.rows or 0) >= longest or sum(one.rows for one in some) <= shortest(longest):
        return False
    earliest, latest = min(one.reach.low for one in some), max(one.reach.low_most for one in some)
    if latest - earliest < MANY * max(one.reach.high - one.reach.low_most + 1 for one in some):
        return False
    return not pace.ordered or all(about_in_time(one, pace.rows or shortest(longest)) for one in some)


def about_in_time(arrivals: Arrivals, size: int) -> bool:
    """Whether pieces of so many rows, as they came, hardly overlap in time."""
    times, begins = arrivals.positions.array(arrivals.rows), np.arange(0, arrivals.rows, size)
    least, most = (ends.reduceat(times, begins).tolist() for ends in (np.minimum, np.maximum))
    spans = sum(high - low for low, high in zip(least, most, strict=True))
    return bool(spans <= OVERLAP * (max(most) - min(least)))


def slices(arrivals: Sequence[Arrivals], longest: int, pace: Pace) -> Iterator[list[Arrivals]]:
    """Rows of one side after the other, in the order of time or as they came."""
    if pace.rows is None:
        pace.rows = shortest(longest)
    for one in arrivals:
        rows, at = one if pace.ordered else in_time(one), 0
        while at < rows.rows:
            piece = rows.slice(at, pace.rows)
            yield [piece]
            at += piece.rows


def in_time(arrivals: Arrivals) -> Arrivals:
    """The rows in the order of their time."""
    times = arrivals.positions.array(arrivals.rows)
    if bool(np.all(times[1:] >= times[:-1])):
        return arrivals
    return arrivals.select(np.argsort(times, kind="stable").astype(np.int32))
