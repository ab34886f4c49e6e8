"""Scan: no structure at all; every row of the subwindow is a candidate.

Design      row ids in arrival order; a probe answers with all of them, the caller evaluates the condition.
Invariants  ids ascend.
Cost        insert O(batch), probe O(1) a row and O(subwindow) a row for whoever checks the candidates.
Reference   the nested loop that every seed starts from; the simplest correct index.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges, numbered
from slidejoin.pools import ALONE, Crew


class Scan(InTurn):
    name: ClassVar[str] = "scan"
    by_arrival: ClassVar[bool] = True
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._ids: Int32s = np.empty(0, dtype=np.int32)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        del crew  # not worth sharing
        return Entries(np.zeros_like(keys), numbered(ids, len(keys)))  # every row is a candidate

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        del hint  # nor is there an order to keep
        return Probes(numbered(rows, len(lows)), lows, highs)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # there is nothing to share
        self._ids = np.concatenate([self._ids, entries.ids])

    def probe(self, probes: Probes) -> list[Ranges]:
        held, asked = len(self._ids), len(probes)
        if held == 0 or asked == 0:
            return []
        starts = np.zeros(asked, dtype=np.int32)
        ends = np.full(asked, held, dtype=np.int32)
        return [Ranges(probes.rows, starts, ends, self._ids, held * asked)]

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        del crew  # one pass of copying
        self._ids = self._ids[np.searchsorted(self._ids, first) :] - np.int32(shift)

    def merge(self, crew: Crew = ALONE) -> None:
        """Nothing to reorganise."""

    def successor(self) -> Scan:
        return Scan()

    def check(self) -> None:
        assert bool(np.all(np.diff(self._ids) > 0)), "ids must ascend"

    @property
    def entries(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        return self._ids.nbytes
