"""Further keys: the third and more of an index that holds several, beside what it does with the first two.

They are held by id, once for the whole index, so that merging runs does not move them; and the index knows between which
ends they lie, so that they need no looking at where the bounds of a batch leave nothing out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidejoin.index.protocol import Int32s, Int64s
from slidejoin.kernels.further_keys import keep_by_id

NO_KEYS: Int64s = np.empty((0, 0), dtype=np.int64)


class FurtherKeys:
    """The third key and more of an index's rows, by id: held once, whichever runs the rows are merged into.

    Threads that are probing may hold ``keys`` while rows are added: those that they ask for stay as they are.
    """

    def __init__(self, keys: Int64s = NO_KEYS, base: int = 0, span: int = 0, room: int = 0) -> None:
        # A row for each key, a column for each id - base; what stands in gaps between ids is never read.
        self.keys, self.base, self.span = keys, base, span
        self._room = room  # to begin with

    def successor(self) -> FurtherKeys:
        """Of the next subwindow, which is going to have about as many rows."""
        return FurtherKeys(room=self.span)

    def add(self, columns: Int64s, ids: Int32s, base: int, span: int) -> None:
        """Those of younger rows, which come with their first two keys; ids are from ``base`` on."""
        if self.span == 0:
            self.base = base
        span += base - self.base
        if span > self.keys.shape[1]:
            grown = np.empty(
                (len(columns) - 2, max(min(self._room, 4 * span), span + span // 2)), dtype=np.int64
            )
            if self.span:
                grown[:, : self.span] = self.keys[:, : self.span]
            self.keys = grown
        keep_by_id(columns, ids, self.base, self.keys)
        self.span = span

    def without(self, first: int, shift: int) -> FurtherKeys:
        """Those of ids from ``first`` on, which are less by ``shift``."""
        gone = min(self.span, max(0, first - self.base))
        return FurtherKeys(self.keys[:, gone : self.span].copy(), self.base + gone - shift, self.span - gone)

    def of(self, ids: Int32s) -> Int64s:
        """Those of some rows."""
        return self.keys.take(ids - np.int32(self.base), axis=1)


class Ends(NamedTuple):
    """Between these lies each further key of some rows: the least and the greatest, of rows that are gone too."""

    least: Int64s
    most: Int64s

    @staticmethod
    def of(keys: Int64s) -> Ends:
        """A row for each key."""
        return Ends(keys.min(axis=1), keys.max(axis=1))

    def with_those(self, other: Ends) -> Ends:
        """Of the rows of both."""
        return Ends(np.minimum(self.least, other.least), np.maximum(self.most, other.most))

    def within(self, tightest: Ends) -> bool:
        """Whether they lie within the bounds of every probe: the least upper and the greatest lower one of each key."""
        return bool((self.most <= tightest.least).all() and (self.least >= tightest.most).all())


def at_least_two(keys: Int64s) -> Int64s:
    """A single key stands for both: a row within its bounds once is so twice."""
    return np.repeat(keys, 2, axis=1) if keys.shape[1] == 1 else keys


def in_columns(keys: Int64s) -> Int64s:
    """A row for each key; without copying where each is in one piece already, as arranged ones are."""
    return np.ascontiguousarray(keys.T)
