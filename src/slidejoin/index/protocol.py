"""What every index is: keys in, ranges out.

An index serves one subwindow. It maps int64 keys to the subwindow's row ids and answers probes with ranges
over an array of row ids (PanJoin's record format), so that a probe that matches a billion pairs costs no
more than one that matches none. It knows nothing of streams, windows or SQL.

Most indexes hold one key a row: keys and bounds are arrays of one dimension. One that holds ``several`` gets
a row of them instead, ``keys[i, j]``, the most selective first, and a probe matches where every key is within
its own bounds. A row with a NULL among its keys is never inserted, whichever it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from slidejoin.index.entries import Entries, Int32s, Int64s, Keys, in_order
from slidejoin.pools import ALONE, Crew

__all__ = ["Entries", "InTurn", "Index", "Int32s", "Int64s", "Keys", "Probes", "Ranges", "in_order"]


class Probes:
    """A batch of probes, arranged as the index wants it; bounds are inclusive."""

    __slots__ = ("_scratch", "highs", "lows", "rows")

    def __init__(self, rows: Int32s, lows: Int64s, highs: Int64s) -> None:
        self.rows, self.lows, self.highs = rows, lows, highs
        self._scratch: Int32s | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def scratch(self) -> Int32s:
        """Four int32 rows as long as the batch, made once for all the indexes that it meets.

        One is for the index's own use, then probing rows, starts and ends of what was found.
        """
        if self._scratch is None:
            self._scratch = np.empty((4, len(self.rows)), dtype=np.int32)
        return self._scratch

    def pieces(self, size: int) -> list[Probes]:
        """Cut into consecutive pieces of at least ``size``, of about equal length."""
        count = max(1, len(self.rows) // size)
        if count == 1:
            return [self]
        ends = [len(self.rows) * piece // count for piece in range(count + 1)]
        return [
            Probes(self.rows[at:end], self.lows[at:end], self.highs[at:end])
            for at, end in itertools.pairwise(ends)
        ]

    def twin(self) -> Probes:
        """The same probes with a scratch of their own, for another thread."""
        return Probes(self.rows, self.lows, self.highs)

    def found(self, kept: int, ids: Int32s, pairs: int) -> Ranges:
        """The first ``kept`` answers in the scratch, taken out of it."""
        rows, starts, ends = self.scratch[1:, :kept].copy()
        return Ranges(rows, starts, ends, ids, pairs)


class Ranges(NamedTuple):
    """Answers: probing row ``rows[i]`` matches ``ids[starts[i]:ends[i]]``; no range is empty."""

    rows: Int32s
    starts: Int32s
    ends: Int32s
    ids: Int32s
    pairs: int


class Index(Protocol):
    """One subwindow's structure. ``kinds`` are the access paths that it can serve.

    ``by_arrival``: its answers list ids in arrival order, so that a window cuts a range out of a range.
    ``several``: it holds several keys a row, one or more.
    """

    name: ClassVar[str]
    by_arrival: ClassVar[bool]
    several: ClassVar[bool]
    kinds: ClassVar[frozenset[str]]

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None) -> Entries:
        """Order a batch for ``insert``; done once, whichever subwindow it goes to. ``ids`` None: 0, 1, 2, ..."""

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        """Order a batch for ``probe``; done once for all subwindows. ``rows`` None: one probe a row.

        ``hint`` is an order of the rows that was right for something alike and may be right again.
        """

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        """Add a batch of new ids; the crew's threads may share the work."""

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        """The ranges that the probes match. Arrays in the answer are never changed afterwards."""

    @staticmethod
    def probe_all(indexes: Sequence[Any], probes: Probes) -> list[Sequence[Ranges]]:
        """What each of several indexes of this kind answers; asked together, they may save calls."""

    def drop_below(self, first: int, shift: int = 0) -> None:
        """Forget ids below ``first`` (rows that left the window); the others are less by ``shift`` from now on."""

    def merge(self, crew: Crew = ALONE) -> None:
        """The subwindow is complete: reorganise for probing alone; the crew's threads may share the work."""

    def successor(self) -> Index:
        """An empty index for the next subwindow, which may start from what this one has learnt of the data."""

    def check(self) -> None:
        """Assert every invariant."""

    @property
    def entries(self) -> int:
        """How many ids are held."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""


class InTurn:
    """For an index that gains nothing from being asked together with others."""

    @staticmethod
    def probe_all(indexes: Sequence[Any], probes: Probes) -> list[Sequence[Ranges]]:
        return [index.probe(probes) for index in indexes]
