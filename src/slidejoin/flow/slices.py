"""Slices: a push that spans many time windows, cut so that rows meet those of their own time.

Design      rows are found by their keys and looked at for their time afterwards. That is cheap while a piece of a push
            spans less than a window; where it spans hundreds, as when a day is read again, nearly all that is found of
            a loose condition is thrown away. Over time windows the order of arrival changes no result, so such a push is
            put in the order of time, both sides side by side, and cut into slices: a slice of one side meets the
            slices of the other that came just before it. Where results are to come in the order of arrival, it is cut
            as it came.
Pace        a piece has a price however few its rows, so slices get shorter while what is thrown away costs more than
            that, and longer while it costs much less. What is learnt holds for the next push too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt

import numpy as np

from slidejoin.window.arrivals import Arrivals
from slidejoin.window.ring import SMALLEST
from slidejoin.worker import Vain

MANY = 2  # times what one row reaches: a push that spans less is joined as it came
WORTH = 1 << 17  # candidates that are thrown away in the time that a piece costs whatever it holds
SLACK = 8  # slices of twice the rows throw away four times as much: they get longer if that is still well below it


class Pace:
    """How many rows a slice has; None while nothing was thrown away and no push has been cut.

    ``ordered``: results are wanted in the order of arrival.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.rows: int | None = None

    def learn(self, vain: Vain, longest: int) -> None:
        """What the last piece has looked at in vain; one that met nobody says nothing."""
        if vain.candidates > WORTH:
            shorter = max(2, isqrt(vain.candidates // WORTH))
            self.rows = max(shortest(longest), (self.rows or longest) // shorter)
        elif self.rows is not None and vain.probed and vain.candidates * SLACK < WORTH:
            self.rows = min(longest, self.rows * 2)


def shortest(longest: int) -> int:
    """The fewest rows of a slice: subwindows have no fewer."""
    return min(SMALLEST, longest)


def worth_slicing(arrivals: Sequence[Arrivals], longest: int, pace: Pace) -> bool:
    """Whether a push spans many windows, and what is known of it does not speak against cutting it.

    Where the sides cannot take turns, the first of them would be cut without anybody knowing what for.
    """
    some = [one for one in arrivals if one.rows]
    taking_turns = len(some) == 2 and not pace.ordered
    promising = taking_turns if pace.rows is None else pace.rows < longest
    if not promising or sum(one.rows for one in some) <= shortest(longest):
        return False
    earliest, latest = min(one.reach.low for one in some), max(one.reach.low_most for one in some)
    return latest - earliest >= MANY * max(one.reach.high - one.reach.low_most + 1 for one in some)


def slices(arrivals: Sequence[Arrivals], longest: int, pace: Pace) -> Iterator[list[Arrivals]]:
    """Rows of one side at a time, in the order of time."""
    if pace.rows is None:
        pace.rows = shortest(longest)
    sides = [in_time(one) for one in arrivals if one.rows]
    times = [one.positions.array(one.rows) for one in sides]
    begins = [0] * len(sides)
    while True:
        left = [
            int(time[min(begin + pace.rows, len(time)) - 1])
            for begin, time in zip(begins, times, strict=True)
            if begin < len(time)
        ]
        if not left:
            return
        until = min(left)
        for side, (one, time) in enumerate(zip(sides, times, strict=True)):
            begin = begins[side]
            end = min(int(np.searchsorted(time, until, side="right")), begin + longest)
            if end > begin:
                begins[side] = end
                yield [one.slice(begin, end - begin)]


def in_time(arrivals: Arrivals) -> Arrivals:
    """The rows in the order of their time."""
    times = arrivals.positions.array(arrivals.rows)
    if bool(np.all(times[1:] >= times[:-1])):
        return arrivals
    return arrivals.select(np.argsort(times, kind="stable").astype(np.int32))
