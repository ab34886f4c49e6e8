"""Batches by key: how indexes over one ordered key want what they are given.

Entries are sorted by key and probes by the lower end of their interval, so that neighbours in a batch are neighbours
in the index as well (seed 000, III-E).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from slidejoin.index.protocol import Entries, Int32s, Int64s, Keys, Probes, in_order
from slidejoin.kernels.chores import Chores, write_merge, write_sort
from slidejoin.kernels.order import COUNTERS, gather_ascending, overview, sort_order, width_for
from slidejoin.pools import ALONE, SHARE, Ahead, Crew


class SortedAhead(NamedTuple):
    """A batch that another thread is sorting: what the entries hold is not to be read before that is settled.

    Its keys lie between ``least`` and ``most``, which are among them.
    """

    entries: Entries
    least: int
    most: int
    unfinished: Ahead


class ByKey:
    by_key: ClassVar[bool] = True
    narrow: ClassVar[bool] = False

    @classmethod
    def arrange_entries(cls, keys: Keys, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        ascending, order = sort_shared(keys, crew, narrow=cls.narrow)
        return Entries(ascending, in_order(ids, order))

    @classmethod
    def arrange_ahead(cls, keys: Keys, crew: Crew) -> SortedAhead | None:
        """Let another thread do what ``arrange_entries`` does with ids that count; None if it is not worth it."""
        if len(keys) < 2 * SHARE or not crew.idle:
            return None
        chores = Chores()
        if keys.dtype == np.int32:
            # Whoever sorts looks for the extremes too; here that would delay the beginning.
            entries = sorting(keys, 0, -1, 1, chores, narrow=cls.narrow)
            unfinished = crew.ahead(chores)
            _, least, most = overview(keys)
        else:
            ascending, least, most = overview(keys)
            if ascending:
                return None
            entries = sorting(keys, least, most, 1, chores, narrow=cls.narrow)
            unfinished = crew.ahead(chores)
        return None if unfinished is None else SortedAhead(entries, least, most, unfinished)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        """See ``Index``."""
        raise NotImplementedError

    def insert_ahead(self, ahead: SortedAhead, first: int, crew: Crew) -> None:
        """``insert``, with ids from ``first`` on, what may not be sorted yet."""
        ahead.unfinished.settle()
        self.insert(ahead.entries.shifted(first), crew)

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        if hint is not None and rows is None and len(hint) == len(lows):
            # A band's lower bounds are usually in the order of the batch's own keys, which is known.
            hinted, hinted_highs = np.empty_like(lows), np.empty_like(highs)
            if gather_ascending(lows, highs, hint, hinted, hinted_highs):
                return Probes(hint, hinted, hinted_highs)
        lows, order = sort_order(lows)
        return Probes(in_order(rows, order), lows, highs[order])


def sort_shared(values: Keys, crew: Crew, *, narrow: bool = False) -> tuple[Keys, Int32s]:
    """``sort_order``, each thread a piece of the batch; then they merge what they have, each an equal stretch."""
    pieces = 1
    while 2 * pieces * SHARE <= len(values) and 2 * pieces <= crew.threads:
        pieces *= 2
    if pieces == 1:
        return sort_order(values, narrow=narrow)
    ascending, least, most = overview(values)
    if ascending:
        return values, np.arange(len(values), dtype=np.int32)
    chores = Chores()
    keys, order = sorting(values, least, most, pieces, chores, narrow=narrow)
    ends = [len(values) * piece // pieces for piece in range(pieces + 1)]
    crew.share(chores)
    while len(ends) > 2:
        merging, stretches = Chores(), 2 * pieces // (len(ends) - 1)
        merged, merged_order = np.empty_like(keys), np.empty_like(order)
        for begin, middle, end in zip(ends[:-2:2], ends[1::2], ends[2::2], strict=True):
            write_merge(
                merging.room(stretches),
                keys[begin:middle],
                order[begin:middle],
                keys[middle:end],
                order[middle:end],
                merged[begin:end],
                merged_order[begin:end],
            )
        crew.share(merging)
        keys, order, ends = merged, merged_order, ends[::2]
    return keys, order


def sorting(values: Keys, least: int, most: int, pieces: int, chores: Chores, *, narrow: bool) -> Entries:
    """Sorted values and their positions, in so many pieces, each when its chore is done."""
    rows = len(values)
    keys: Keys = np.empty(rows, dtype=width_for(values, least, most, narrow=narrow))
    order = np.empty(rows, dtype=np.int32)
    # Not the thread's own memory for it: what the caller does beside may need that.
    counters, words = np.empty(pieces * COUNTERS, dtype=np.int32), np.empty((2, rows), dtype=np.uint64)
    moved_order = np.empty(rows, dtype=np.int32)
    write_sort(chores.room(pieces), values, least, most, counters, *words, moved_order, keys, order)
    chores.hold(values, counters, words, moved_order, keys, order)
    return Entries(keys, order)
