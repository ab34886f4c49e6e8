"""Hash: equality keys found by one look-up.

Design      keys are mixed by a bijection and kept in sorted runs of mixed keys, so rows of one key are
            neighbours and an answer is a range. A directory over the top bits of the mixed keys points at
            each bucket; mixed keys are even, so buckets hold about two rows whatever the data.
Invariants  a run's mixed keys ascend; ``directory[b]`` is the first position of bucket b; runs get shorter.
Cost        insert O(log n) amortised a row; probe O(1) a row and run.
Reference   the symmetric hash join that seed 000 (section II) starts from, as runs so that a subwindow is
            immutable once it is complete.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges, in_order, numbered
from slidejoin.index.runs import Runs
from slidejoin.kernels.buckets import fill_directory, look_up, mix
from slidejoin.kernels.chores import Chores
from slidejoin.kernels.order import sort_order
from slidejoin.pools import ALONE, Crew

ROWS_PER_BUCKET = 2  # a directory of 2 bytes a row; longer buckets cost more steps than they save memory


class DirectoryRun(NamedTuple):
    keys: Int64s
    ids: Int32s
    directory: Int32s
    shift: int

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.directory.nbytes

    @staticmethod
    def build(entries: Entries, chores: Chores) -> DirectoryRun:
        """Of entries that are there when the chores so far are done: they are done now."""
        chores.perform()
        keys, ids = entries
        bits = max(1, (len(keys) // ROWS_PER_BUCKET).bit_length() - 1)
        directory = np.empty((1 << bits) + 1, dtype=np.int32)
        fill_directory(keys, 64 - bits, directory)
        return DirectoryRun(keys, ids, directory, 64 - bits)


class Hash(InTurn):
    name: ClassVar[str] = "hash"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"equality"})

    def __init__(self) -> None:
        self._runs = Runs(DirectoryRun.build)

    @staticmethod
    def arrange_entries(keys: Int64s, ids: Int32s | None, crew: Crew = ALONE) -> Entries:
        del crew  # not worth sharing
        keys, order = sort_order(mix(keys))
        return Entries(keys, in_order(ids, order))

    @staticmethod
    def arrange_probes(rows: Int32s | None, lows: Int64s, highs: Int64s, hint: Int32s | None) -> Probes:
        complete = rows is None and hint is not None and len(hint) == len(lows)
        rows = numbered(rows, len(lows))
        # An equality's interval is a point or, where no key can equal the value (1.5 against integers), empty.
        if not np.array_equal(lows, highs):
            points = np.flatnonzero(lows == highs)
            rows, lows, complete = rows[points], lows[points], False
        mixed = mix(lows)
        if complete and hint is not None:
            # The batch's own entries were sorted by the same mix, so neighbours share their cache lines.
            rows, mixed = rows[hint], mixed[hint]
        else:
            mixed, order = sort_order(mixed)
            rows = rows[order]
        return Probes(rows, mixed, mixed)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        self._runs.insert(entries, crew)

    def probe(self, probes: Probes) -> list[Ranges]:
        if len(probes) == 0:
            return []
        found = []
        _, rows, starts, ends = probes.scratch
        for run in self._runs.runs:
            kept, pairs = look_up(
                run.keys, run.directory, run.shift, probes.lows, probes.rows, rows, starts, ends
            )
            if kept:
                found.append(probes.found(kept, run.ids, pairs))
        return found

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        self._runs.drop_below(first, shift, crew)

    def merge(self, crew: Crew = ALONE) -> None:
        self._runs.merge(crew)

    def successor(self) -> Hash:
        return Hash()

    def check(self) -> None:
        self._runs.check()
        for run in self._runs.runs:
            buckets = (run.keys >> run.shift) + (1 << (63 - run.shift))
            expected = np.searchsorted(buckets, np.arange(len(run.directory)))
            assert np.array_equal(run.directory, expected), "the directory points at each bucket"

    @property
    def entries(self) -> int:
        return self._runs.entries

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes
