"""Batches by key: how indexes over one ordered key want what they are given.

Entries are sorted by key and probes by the lower end of their interval, so that neighbours in a batch are neighbours
in the index as well (seed 000, III-E).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slidejoin.index.protocol import Entries, Int32s, Int64s, Probes, in_order
from slidejoin.kernels.chores import Chores, write_sort
from slidejoin.kernels.order import COUNTERS, ascends, gather_ascending, sort_order
from slidejoin.pools import ALONE, SHARE, Crew


class ByKey:
    by_key: ClassVar[bool] = True

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        keys, order = sort_shared(keys, crew)
        return Entries(keys, in_order(ids, order))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        if hint is not None and rows is None and len(hint) == len(lows):
            # A band's lower bounds are usually in the order of the batch's own keys, which is known.
            hinted, hinted_highs = np.empty_like(lows), np.empty_like(highs)
            if gather_ascending(lows, highs, hint, hinted, hinted_highs):
                return Probes(hint, hinted, hinted_highs)
        lows, order = sort_order(lows)
        return Probes(in_order(rows, order), lows, highs[order])


def sort_shared(keys: Int64s, crew: Crew) -> tuple[Int64s, Int32s]:
    """``sort_order``, each thread a range of keys: those that it is going to probe with as well."""
    pieces = min(crew.threads, len(keys) // SHARE)
    if pieces < 2 or ascends(keys):
        return sort_order(keys)
    rows, order = np.empty_like(keys), np.empty(len(keys), dtype=np.int32)
    spare, counters = np.empty(2 * len(keys), dtype=np.int64), np.empty(pieces * COUNTERS, dtype=np.int32)
    chores = Chores()
    write_sort(chores.room(pieces), keys, rows, order, spare, counters)
    crew.share(chores)
    return rows, order
