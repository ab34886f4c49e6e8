"""PO-Join: the immutable half of SPO-Join, several sorted orders tied together by permutations.

Design      for each key the rows' keys in ascending order; for the first key also the ids; for every other key the
            permutation: where the i-th row of its order stands in the first key's order. A probe finds its stretch
            of every order, sets a flag for each row of the other keys' stretches through the permutations, and scans
            the first key's stretch of the flags. The places of a whole batch's bounds are the offset array, found in
            one pass where the batch is dense (kernels/search.py).
Invariants  keys ascend; each permutation is one; all orders have the same ids.
Cost        made from sorted orders in O(k n), in steps; probe O(log n + the other keys' stretches + n / 8).
Reference   seed 002, 3.3 and 3.4. We differ: offsets are those of the arriving batch in the stored rows, not of one
            stored interval in the other, since rows that are stored have met each other already; any number of keys,
            whose flags are combined word by word; and a flag is a byte, not a bit, which is twice as fast on keys that
            run together and no slower elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.index.bplus_tree import KeyTree
from slidejoin.index.protocol import Int32s, Int64s, Probes, Ranges
from slidejoin.kernels.bplus_tree import NO_LEAF, read_leaves
from slidejoin.kernels.order import sort_order
from slidejoin.kernels.po_join import note_positions, permute, probe_entry
from slidejoin.kernels.search import find_blocks

LISTED = 1 << 18  # ids listed at a time: a megabyte
GREATEST = 2**63 - 1
NOTHING: Int32s = np.empty(0, dtype=np.int32)


def places(keys: Int64s, wanted: Int64s) -> Int32s:
    """The first position whose key is not below each wanted one; O(keys + wanted) where they are dense."""
    ascending, order = sort_order(wanted)
    found = np.empty(len(wanted), dtype=np.int32)
    find_blocks(keys, np.ascontiguousarray(ascending), found)
    out = np.empty_like(found)
    out[order] = found
    return out


def stretches(keys: Int64s, lows: Int64s, highs: Int64s) -> tuple[Int32s, Int32s]:
    """Where the keys within each ``[low, high]`` begin and end."""
    above = places(keys, np.where(highs < GREATEST, highs + (highs < GREATEST), GREATEST))
    above[highs == GREATEST] = len(keys)
    return places(keys, np.ascontiguousarray(lows)), above


def spelled_out(rows: Int32s, ends: Int32s, ids: Int32s) -> list[Ranges]:
    """One answer of ids listed one probe after the other; probe i's end at ``ends[i]``."""
    if len(ends) == 0 or ends[-1] == 0:
        return []
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1]
    some = np.flatnonzero(ends > starts)
    return [Ranges(rows[some], starts[some], ends[some], ids, int(ends[-1]))]


class Entry(NamedTuple):
    """One interval of rows, immutable."""

    keys: NDArray[np.int64]  # an ascending row for each key
    ids: Int32s  # in the first key's order
    permutations: NDArray[np.int32]  # a row for each other key

    def probe(self, probes: Probes) -> list[Ranges]:
        bounds = [stretches(keys, probes.lows[:, j], probes.highs[:, j]) for j, keys in enumerate(self.keys)]
        if len(bounds) == 1:
            starts, ends = bounds[0]
            some = np.flatnonzero(ends > starts)
            pairs = int((ends[some].astype(np.int64) - starts[some]).sum())
            return [Ranges(probes.rows[some], starts[some], ends[some], self.ids, pairs)] if pairs else []
        starts, ends = (np.stack(column) for column in zip(*bounds, strict=True))
        words = [np.zeros(len(self.ids) // 8 + 1, dtype=np.uint64) for _ in range(2)]
        flags = [some.view(np.uint8) for some in words]
        ids = np.empty(max(len(self.ids), LISTED), dtype=np.int32)
        _, out_rows, out_starts, out_ends = probes.scratch
        found = []
        at = 0
        while at < len(probes):
            at, kept, pairs = probe_entry(
                starts, ends, self.permutations, self.ids, probes.rows, at,
                flags[0], words[0], flags[1], words[1], out_rows, out_starts, out_ends, ids,
            )  # fmt: skip
            if kept:
                found.append(probes.found(kept, ids[:pairs].copy(), pairs))
        return found

    def without(self, first: int, shift: int = 0) -> Entry:
        """The rows whose ids are at least ``first``, less by ``shift``."""
        kept = self.ids >= first
        moved = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        keys = [self.keys[0][kept]]
        permutations = []
        for j, permutation in enumerate(self.permutations, 1):
            here = kept[permutation]
            keys.append(self.keys[j][here])
            permutations.append(moved[permutation[here]])
        return Entry(np.stack(keys), self.ids[kept] - np.int32(shift), _stacked(permutations, len(keys[0])))

    @property
    def rows(self) -> int:
        return len(self.ids)

    @property
    def highest(self) -> int:
        return int(self.ids.max())

    @property
    def lowest(self) -> int:
        return int(self.ids.min())

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self.permutations.nbytes

    def check(self) -> None:
        assert bool(np.all(self.keys[:, 1:] >= self.keys[:, :-1])), "keys ascend"
        assert len(np.unique(self.ids)) == len(self.ids) > 0, "an id is held once, and some are"
        for permutation in self.permutations:
            assert np.array_equal(np.sort(permutation), np.arange(len(self.ids))), "a permutation is one"


class Merge:
    """An entry in the making, from trees that take no more rows, a few rows at a time."""

    def __init__(self, trees: Sequence[KeyTree], base: int, span: int) -> None:
        self._trees, self._base, rows = trees, base, trees[0].rows
        self._keys = np.empty((len(trees), rows), dtype=np.int64)
        self._ids = np.empty((len(trees), rows), dtype=np.int32)
        self._positions = np.empty(span, dtype=np.int32)

    def steps(self, piece: int) -> Iterator[int]:
        """Work until the next ``yield``, which says how many rows were moved."""
        for tree, keys, ids in zip(self._trees, self._keys, self._ids, strict=True):
            leaf = at = 0
            while leaf != NO_LEAF:
                before = at
                leaf, at = read_leaves(tree.arrays, leaf, at, piece, keys, ids)
                yield at - before
        rows = self._ids.shape[1]
        for begin in range(0, rows, piece) if len(self._ids) > 1 else ():
            note_positions(self._ids[0], self._base, begin, min(rows, begin + piece), self._positions)
            yield piece
        for ids in self._ids[1:]:
            for begin in range(0, rows, piece):
                # In place: each id is read before its permutation is written over it.
                permute(ids, self._base, self._positions, begin, min(rows, begin + piece), ids)
                yield piece

    def result(self) -> Entry:
        """The entry, when all steps are done."""
        return Entry(self._keys, self._ids[0], self._ids[1:])

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._ids.nbytes + self._positions.nbytes


def _stacked(arrays: list[NDArray[np.int32]], rows: int) -> NDArray[np.int32]:
    return np.stack(arrays) if arrays else np.empty((0, rows), dtype=np.int32)
