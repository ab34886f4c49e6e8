"""LLAT, the linked list adaptive table: where partitions of unknown size keep their rows.

Design      keys and ids in two long arrays, cut into entries of ``width`` slots. A partition is a chain of
            entries, known by its first. The first ``chains`` entries are normal, one a partition; the others are
            reserved: the global pointer walks over them, and a chain that is full takes the one it points at.
Invariants  an entry belongs to one chain, or is spare, or is retired; in a chain every entry but the last is
            full; a first entry knows its chain's last. So chains take at most rows / width reserved entries,
            and with width = (N / P) * sigma, sigma > 1, N rows never need more than P of them (III-B2).
Cost        appending a sorted batch O(rows + chains touched); a chain is scanned in O(its rows).
Reference   seed 000, III-B2. We differ: a full entry is linked when the next row comes, not at once; the last
            entry is remembered, not walked to; N is only an estimate (windows over time have no fixed number of
            rows), so when the reserved entries are used up the arrays are copied into longer ones; a row is
            never taken out singly (expiry is whole, or repacks), so there is no Tail pointer.

Interface   ``Llat(width=, chains=, reserved=)``; chains ``0 .. chains - 1`` are there at once (none for a tree).
            ``allocate()``                       a new empty chain: its number
            ``append(chains, bounds, keys, ids)`` run r = rows ``bounds[r]:bounds[r + 1]`` go to ``chains[r]``
            ``rows_of(chains)``                  how many rows some chains hold
            ``content(chain)``                   a copy of a chain's keys and ids, in the order of arrival
            ``free(chain)``                      retire a chain; to split one: content, free, allocate twice, append
            ``scan(chains, probes, asked, most)`` ids within each probe's bounds, copied: boundary partitions
            ``whole(order, firsts, lasts, probes, asked)`` all rows of chains, as ranges over ``ids``: inner partitions
            ``packed(order, first)``             a read-only copy without gaps, chain ``order[k]`` as chain k

Answers point into ``ids`` for as long as they like, so a slot that has been written is never written again in the
same array: retired entries are taken into use again only when growth has moved everything to new arrays. For the
same reason a packed table refuses rows.
"""

from __future__ import annotations

import numpy as np

from slidejoin.index.protocol import Int32s, Int64s, Probes, Ranges
from slidejoin.kernels.llat import (
    END,
    LAST,
    NEXT,
    NONE,
    START,
    append_runs,
    count_ranges,
    count_rows,
    list_chains,
    pack_chains,
    scan_chains,
)

MOST_SLOTS = 2**31 - 1  # positions are int32


class Llat:
    """Chains of (key, id) rows.

    >>> llat = Llat(width=2, chains=2, reserved=1)
    >>> llat.append(np.array([0, 1], np.int32), np.array([0, 1, 4], np.int32), np.array([5, 7, 8, 9]),
    ...             np.arange(4, dtype=np.int32))
    >>> llat.content(1)[0], llat.entries_used
    (array([7, 8, 9]), 3)
    """

    def __init__(self, *, width: int, chains: int, reserved: int) -> None:
        entries = max(1, chains + reserved)
        if width < 1 or entries * width > MOST_SLOTS:
            raise ValueError(
                f"a table of {entries} entries of {width} slots; expected 1 to {MOST_SLOTS} slots in all; "
                "use smaller subwindows"
            )
        self.width = width
        self.sealed = False  # packed: read-only, chains lie one after the other
        self.rows = 0
        self.keys = np.empty(entries * width, dtype=np.int64)
        self.ids = np.empty(entries * width, dtype=np.int32)
        self.table = empty_entries(0, entries, width)
        self._spare = np.arange(chains, entries, dtype=np.int32)
        self._pointer = 0  # the global pointer: spare[pointer] is the first unused entry
        self._retired: list[int] = []

    def allocate(self) -> int:
        """A new empty chain."""
        assert not self.sealed, "a packed table takes no rows"
        if self._pointer == len(self._spare):
            self._grow()
        self._pointer += 1
        return int(self._spare[self._pointer - 1])

    def append(self, chains: Int32s, bounds: Int32s, keys: Int64s, ids: Int32s) -> None:
        """Append run r of the batch, rows ``bounds[r]:bounds[r + 1]``, to ``chains[r]``; runs are consecutive."""
        assert not self.sealed, "a packed table takes no rows"
        if len(chains) == 0:
            return
        run, row = 0, int(bounds[0])
        while True:
            run, row, self._pointer = append_runs(
                self.table,
                self.keys,
                self.ids,
                self.width,
                self._spare,
                self._pointer,
                chains,
                bounds,
                keys,
                ids,
                run,
                row,
            )
            if run == len(chains):
                break
            self._grow()
        self.rows += int(bounds[-1]) - int(bounds[0])

    def rows_of(self, chains: Int32s) -> int:
        """How many rows some chains hold together; O(their entries)."""
        return int(count_rows(self.table, chains))

    def content(self, chain: int) -> tuple[Int64s, Int32s]:
        """A copy of a chain's keys and ids, in the order in which they came."""
        only = np.array([chain], dtype=np.int32)
        rows = self.rows_of(only)
        keys, ids = np.empty(rows + 1, dtype=np.int64), np.empty(rows + 1, dtype=np.int32)
        pack_chains(self.table, self.keys, self.ids, only, 0, keys, ids, empty_entries(0, 1, 0))
        return keys[:rows], ids[:rows]

    def free(self, chain: int) -> None:
        """Retire a chain. Answers may still point at its rows, so its room comes back with the next growth."""
        assert not self.sealed, "a packed table does not change"
        entry = chain
        while entry != NONE:
            self._retired.append(entry)
            self.rows -= int(self.table[entry, END] - self.table[entry, START])
            entry = int(self.table[entry, NEXT])

    def scan(self, chains: Int32s, probes: Int32s, asked: Probes, most: int) -> Ranges | None:
        """For item k, the ids of ``chains[k]`` within the bounds of probe ``probes[k]``, copied.

        ``most`` is at least the number of rows in all the items' chains. Neighbours that ask the same share
        one copy, so order the items by probe.
        """
        rows, starts, ends = (np.empty(len(chains) + 1, dtype=np.int32) for _ in range(3))
        copied = np.empty(most + 1, dtype=np.int32)  # one more: the kernel writes first and counts afterwards
        kept, pairs, used = scan_chains(
            self.table,
            self.keys,
            self.ids,
            chains,
            probes,
            asked.lows,
            asked.highs,
            asked.rows,
            rows,
            starts,
            ends,
            copied,
        )
        if kept == 0:
            return None
        return Ranges(
            rows[:kept].copy(), starts[:kept].copy(), ends[:kept].copy(), copied[:used].copy(), pairs
        )

    def whole(
        self, order: Int32s, firsts: Int32s, lasts: Int32s, probes: Int32s, asked: Probes
    ) -> Ranges | None:
        """For item k, every row of the chains ``order[firsts[k]..lasts[k]]`` as ranges over ``ids``.

        A packed table was packed in that order, so it ignores ``order`` and answers each item with one range.
        """
        room = len(firsts) if self.sealed else count_ranges(self.table, order, firsts, lasts)
        rows, starts, ends = (np.empty(room + 1, dtype=np.int32) for _ in range(3))
        kept, pairs = list_chains(
            self.table, order, firsts, lasts, probes, asked.rows, self.sealed, rows, starts, ends
        )
        if kept == 0:
            return None
        return Ranges(rows[:kept].copy(), starts[:kept].copy(), ends[:kept].copy(), self.ids, pairs)

    def packed(self, order: Int32s, first: int = 0) -> Llat:
        """A read-only copy without gaps: chain ``order[k]`` becomes chain k; ids below ``first`` are left out."""
        held = self.rows_of(order)
        keys, ids = np.empty(held + 1, dtype=np.int64), np.empty(held + 1, dtype=np.int32)
        twin = Llat(width=1, chains=len(order), reserved=0)
        twin.sealed, twin.width = True, self.width
        twin.rows = rows = pack_chains(self.table, self.keys, self.ids, order, first, keys, ids, twin.table)
        all_kept = rows == held  # then one slot is left over, which is not worth a copy
        twin.keys = keys[:rows] if all_kept else keys[:rows].copy()
        twin.ids = ids[:rows] if all_kept else ids[:rows].copy()
        return twin

    def _grow(self) -> None:
        """Twice the entries, in new arrays; the old ones are left to the answers that point there."""
        entries = len(self.table)
        if 2 * entries * self.width > MOST_SLOTS:
            raise ValueError(
                f"a table of {2 * entries} entries of {self.width} slots; expected at most {MOST_SLOTS} slots; "
                "use smaller subwindows"
            )
        keys = np.empty(2 * entries * self.width, dtype=np.int64)
        ids = np.empty(2 * entries * self.width, dtype=np.int32)
        keys[: len(self.keys)], ids[: len(self.ids)] = self.keys, self.ids
        self.keys, self.ids = keys, ids
        self.table = np.concatenate([self.table, empty_entries(entries, 2 * entries, self.width)])
        again = np.array(self._retired, dtype=np.int32)
        if len(again):
            self.table[again] = empty_entries(0, entries, self.width)[again]
        fresh = np.arange(entries, 2 * entries, dtype=np.int32)
        self._spare = np.concatenate([self._spare[self._pointer :], again, fresh])
        self._pointer, self._retired = 0, []

    def check(self, chains: Int32s) -> None:
        """Assert every invariant; ``chains`` are all that are in use. O(entries)."""
        table = self.table
        seen: list[int] = []
        rows = 0
        for chain in chains.tolist():
            entry, last = chain, chain
            while entry != NONE:
                seen.append(entry)
                last = entry
                start, end, entry = (int(v) for v in table[entry, :LAST])
                rows += end - start
                if not self.sealed:
                    assert start == last * self.width, "an entry has its own slots"
                    assert start <= end <= start + self.width, "an entry holds at most its width"
                    assert entry == NONE or end == start + self.width, "only a chain's last entry has room"
            assert int(table[chain, LAST]) == last, "a chain knows its last entry"
        assert rows == self.rows, "rows are counted"
        others = [*self._retired, *self._spare[self._pointer :].tolist()]
        assert sorted(seen + others) == list(range(len(table))), "an entry is in one chain, spare or retired"
        if self.sealed:
            assert np.array_equal(table[1:, START], table[:-1, END]), "a packed table has no gaps"
            assert len(self.keys) == len(self.ids) == rows, "a packed table has no room"
        else:
            assert len(seen) - len(chains) <= rows // self.width, "reserved entries are for full chains"
            spare = self._spare[self._pointer :]
            assert np.array_equal(table[spare, START], table[spare, END]), "spare entries are empty"

    @property
    def entries_used(self) -> int:
        """Entries that chains have or had, in these arrays."""
        return len(self.table) - len(self._spare) + self._pointer

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.table.nbytes + self._spare.nbytes


def empty_entries(begin: int, end: int, width: int) -> Int32s:
    """Rows of the table for entries that hold nothing."""
    entries = np.arange(begin, end, dtype=np.int32)
    table = np.empty((end - begin, 4), dtype=np.int32)
    table[:, START] = table[:, END] = entries * width
    table[:, NEXT] = NONE
    table[:, LAST] = entries
    return table
