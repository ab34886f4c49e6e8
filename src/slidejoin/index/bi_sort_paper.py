"""BI-Sort as the paper has it: one main array and an unsorted insertion buffer, to compare ours with.

Design      a main array sorted by key, with an index array of about P samples beside it; in front a buffer of less
            than B rows in no order. A batch of at least B rows is merged into the main array at once; smaller
            ones gather in the buffer until it is full, and are then sorted and merged. Probes are sorted: the
            search over the samples rebounds from the probe before, the partition found is stepped through
            as in a merge, and the answer is a range. The buffer is looked through by every probe.
Invariants  main ascends; ``samples[j] == keys[stride * j + stride - 1]`` with ``stride = ceil(M / P)``; the buffer has
            less than B rows; an id is held once.
Cost        insert O((M + B) / B) amortised a row, or (M + batch) / batch for larger batches: the weakness that
            ``bi_sort`` mends; probe O(log P + M / P) at most a row, and O(B).
Reference   seed 000, III-D and III-E. We differ: the end of a range is galloped to from its start or from the end
            before it, whichever is later, so that wide bands cost no more; unless it is given, P makes partitions of 128 rows (the paper's 8 M rows with P = 64 K); and
            where copying from the buffer would cost more than sorting it, a sorted copy answers with ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from slidejoin import kernels
from slidejoin.index.bi_sort import BiSort
from slidejoin.index.by_key import ByKey
from slidejoin.index.protocol import Entries, Int64s, InTurn, Probes, Ranges
from slidejoin.kernels.nested import copy_within, count_within
from slidejoin.kernels.search import find_by_merging
from slidejoin.pools import ALONE, Crew

BUFFER_ROWS = 1024  # as in the paper's evaluation
PARTITION_ROWS = 128  # 8 M / 64 K
COPIES = 4  # ids copied a probe, from which a sorted copy of the buffer is the cheaper answer

NO_ENTRIES = Entries(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))


class Main(NamedTuple):
    """The main array and its index array."""

    entries: Entries
    samples: Int64s
    stride: int

    @staticmethod
    def build(entries: Entries, partitions: int | None) -> Main:
        rows = len(entries.keys)
        stride = PARTITION_ROWS if partitions is None else max(1, -(-rows // partitions))
        return Main(entries, entries.keys[stride - 1 :: stride].copy(), stride)

    def probe(self, probes: Probes) -> list[Ranges]:
        blocks, rows, starts, ends = probes.scratch
        keys, ids = self.entries
        kept, pairs = find_by_merging(
            keys,
            self.samples,
            self.stride,
            probes.lows,
            probes.highs,
            probes.rows,
            blocks,
            rows,
            starts,
            ends,
        )
        return [probes.found(kept, ids, pairs)] if kept else []


class BiSortPaper(ByKey, InTurn):
    """``partitions``: P, the length of the index array; ``buffer``: B, rows that wait to be merged, by default the class's."""

    name: ClassVar[str] = "bi_sort_paper"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = BiSort.kinds
    buffer_rows: ClassVar[int] = BUFFER_ROWS

    def __init__(self, *, partitions: int | None = None, buffer: int | None = None) -> None:
        buffer = self.buffer_rows if buffer is None else buffer
        if buffer < 1 or (partitions is not None and partitions < 1):
            raise ValueError(
                f"a BI-Sort of {partitions} partitions and a buffer of {buffer}; expected at least 1 of each; "
                "leave them out for the usual ones"
            )
        kernels.ready("nested")
        self._partitions, self._limit = partitions, buffer
        # Replaced whole: other threads may be probing.
        self._held = (Main.build(NO_ENTRIES, partitions), NO_ENTRIES)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        main, buffer = self._held
        if len(entries.keys) < self._limit:
            buffer = Entries(
                np.concatenate([buffer.keys, entries.keys]), np.concatenate([buffer.ids, entries.ids])
            )
            if len(buffer.keys) < self._limit:
                self._held = (main, buffer)
                return
            entries, buffer = self.arrange_entries(*buffer), NO_ENTRIES
        self._held = (Main.build(main.entries.merged(entries, crew), self._partitions), buffer)

    def probe(self, probes: Probes) -> Sequence[Ranges]:
        main, buffer = self._held
        if len(probes) == 0:
            return []
        return main.probe(probes) + self._probe_buffer(buffer, probes)

    def _probe_buffer(self, buffer: Entries, probes: Probes) -> list[Ranges]:
        if len(buffer.keys) == 0:
            return []
        counts, rows, starts, ends = probes.scratch
        pairs = count_within(buffer.keys, probes.lows, probes.highs, counts)
        if pairs > COPIES * (len(probes) + len(buffer.keys)):
            return Main.build(self.arrange_entries(*buffer), None).probe(probes)
        ids = np.empty(pairs + 1, dtype=np.int32)
        kept = copy_within(
            *buffer, probes.lows, probes.highs, probes.rows, counts, rows, starts, ends, ids
        )  # fmt: skip
        return [probes.found(kept, ids[:pairs], pairs)] if kept else []

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        main, buffer = (held.without(first, shift, crew) for held in (self._held[0].entries, self._held[1]))
        self._held = (Main.build(main, self._partitions), buffer)

    def merge(self, crew: Crew = ALONE) -> None:
        main, buffer = self._held
        if len(buffer.keys):
            merged = main.entries.merged(self.arrange_entries(*buffer), crew)
            self._held = (Main.build(merged, self._partitions), NO_ENTRIES)

    def successor(self) -> BiSortPaper:
        return type(self)(partitions=self._partitions, buffer=self._limit)

    def check(self) -> None:
        (entries, samples, stride), buffer = self._held
        assert bool(np.all(entries.keys[1:] >= entries.keys[:-1])), "the main array ascends"
        assert np.array_equal(samples, entries.keys[stride - 1 :: stride]), "samples are every stride-th key"
        assert self._partitions is None or len(samples) <= self._partitions, "no more samples than asked for"
        assert len(buffer.keys) == len(buffer.ids) < self._limit, "a full buffer is merged"
        ids = np.concatenate([entries.ids, buffer.ids])
        assert len(np.unique(ids)) == len(ids), "an id is held once"

    @property
    def entries(self) -> int:
        main, buffer = self._held
        return len(main.entries.keys) + len(buffer.keys)

    @property
    def nbytes(self) -> int:
        main, buffer = self._held
        return sum(array.nbytes for array in (*main.entries, main.samples, *buffer))
