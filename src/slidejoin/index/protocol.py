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

from slidejoin.index.entries import Entries, Int32s, Int64s, Keys, in_order, numbered
from slidejoin.kernels.order import add_both
from slidejoin.pools import ALONE, Ahead, Crew

__all__ = [
    "Entries",
    "InTurn",
    "Index",
    "Int32s",
    "Int64s",
    "Keys",
    "Probes",
    "Ranges",
    "in_order",
    "numbered",
]


class Probes:
    """A batch of probes, arranged as the index wants it; bounds are inclusive.

    Where they lie as far below and above a centre in every row, the centres are enough.
    """

    __slots__ = ("_centres", "_ends", "_rows", "_scratch", "_unfinished", "above", "below")

    def __init__(self, rows: Int32s, lows: Int64s, highs: Int64s) -> None:
        self._rows = rows
        self._centres: Keys | None = None
        self.below, self.above = 0, 0
        self._ends: tuple[Int64s, Int64s] | None = (lows, highs)
        self._scratch: Int32s | None = None
        self._unfinished: Ahead | None = None

    @staticmethod
    def around(
        rows: Int32s, centres: Keys, below: int, above: int, unfinished: Ahead | None = None
    ) -> Probes:
        """Probes from ``centre + below`` to ``centre + above``; neither may overflow.

        ``unfinished``: another thread is still writing rows and centres.
        """
        probes = Probes(rows, centres, centres)
        probes._centres, probes.below, probes.above, probes._ends = centres, below, above, None
        probes._unfinished = unfinished
        return probes

    def settle(self) -> None:
        """Wait until everything is there."""
        if self._unfinished is not None:
            self._unfinished.settle()
            self._unfinished = None

    @property
    def places(self) -> tuple[Int32s, Keys | None]:
        """Rows and centres, if there are any, for who settles before reading them."""
        return self._rows, self._centres

    @property
    def rows(self) -> Int32s:
        self.settle()
        return self._rows

    @property
    def centres(self) -> Keys | None:
        self.settle()
        return self._centres

    @property
    def ends(self) -> tuple[Int64s, Int64s]:
        """The lower and the upper bounds."""
        if self._ends is None:
            centres = self.centres
            assert centres is not None
            self._ends = np.empty(len(self), dtype=np.int64), np.empty(len(self), dtype=np.int64)
            add_both(centres, self.below, self.above, *self._ends)
        return self._ends

    @property
    def lows(self) -> Int64s:
        return self.ends[0]

    @property
    def highs(self) -> Int64s:
        return self.ends[1]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def scratch(self) -> Int32s:
        """Four int32 rows as long as the batch, made once for all the indexes that it meets.

        One is for the index's own use, then probing rows, starts and ends of what was found.
        """
        if self._scratch is None:
            self._scratch = np.empty((4, len(self)), dtype=np.int32)
        return self._scratch

    def pieces(self, size: int) -> list[Probes]:
        """Cut into consecutive pieces of at least ``size``, of about equal length."""
        count = max(1, len(self) // size)
        if count == 1:
            return [self]
        ends = [len(self) * piece // count for piece in range(count + 1)]
        return [self.part(slice(at, end)) for at, end in itertools.pairwise(ends)]

    def part(self, which: slice | Int64s) -> Probes:
        """Some of them, in the same order, with a scratch of their own."""
        return Probes(self.rows[which], self.lows[which], self.highs[which])

    def twin(self) -> Probes:
        """The same probes with a scratch of their own, for another thread."""
        return self.part(slice(None))

    def found(self, kept: int, ids: Int32s, pairs: int) -> Ranges:
        """The first ``kept`` answers in the scratch, taken out of it."""
        rows, starts, ends = self.scratch[1:, :kept].copy()
        return Ranges(rows, starts, ends, ids, pairs)


class Ranges(NamedTuple):
    """Answers: probing row ``rows[i]`` matches ``ids[starts[i]:ends[i]]``; no range is empty.

    ``cut``: there is a first id that is asked for, and none of these is below it. ``unfinished``: another thread is still
    writing rows, starts and ends; how many pairs there are is known. ``cuts``: where pieces end that were found by one
    thread each, in ranges and in pairs.
    """

    rows: Int32s
    starts: Int32s
    ends: Int32s
    ids: Int32s
    pairs: int
    cut: bool = False
    unfinished: Ahead | None = None
    cuts: Int64s | None = None

    def settled(self) -> Ranges:
        """The same when everything is there."""
        if self.unfinished is not None:
            self.unfinished.settle()
        return self


class Index(Protocol):
    """One subwindow's structure. ``kinds`` are the access paths that it can serve.

    ``by_arrival``: its answers list ids in arrival order, so that a window cuts a range out of a range.
    ``several``: it holds several keys a row, one or more.
    ``by_key``: entries and probes are arranged by key, ascending, whatever else the index is.
    ``narrow``: it takes keys of 32 bits as well.
    ``shares``: a crew given to ``probe_all`` shares its work; otherwise threads are given a part of the probes each.
    """

    name: ClassVar[str]
    by_arrival: ClassVar[bool]
    several: ClassVar[bool]
    by_key: ClassVar[bool]
    shares: ClassVar[bool]
    narrow: ClassVar[bool]
    kinds: ClassVar[frozenset[str]]

    @staticmethod
    def arrange_entries(keys: Keys, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
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
    def probe_all(
        indexes: Sequence[Any], probes: Probes, crew: Crew = ALONE, first: Sequence[int] | None = None
    ) -> list[Sequence[Ranges]]:
        """What each of several indexes of this kind answers; asked together, they may save calls.

        ``first`` has an id for each: lower ones are not asked for, and left out where that costs little. Answers may be
        unfinished where a crew is given.
        """

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
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

    by_key: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    narrow: ClassVar[bool] = False

    @staticmethod
    def probe_all(
        indexes: Sequence[Any], probes: Probes, crew: Crew = ALONE, first: Sequence[int] | None = None
    ) -> list[Sequence[Ranges]]:
        del crew, first  # threads have probes of their own; ids are looked at later
        return [index.probe(probes) for index in indexes]
