"""Entries: keys and row ids, in the order that an index wants; for most, sorted by key.

Keys are int64, or int32 where an index chose to hold them so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels.bits import fits_32
from slidejoin.kernels.chores import Chores, place_of, write_count, write_drop, write_merge, write_shift
from slidejoin.pools import ALONE, Crew

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Keys = NDArray[Any]  # int64, or int32

LINE = 64  # bytes of a cache line


def in_order(ids: Int32s | None, order: Int32s) -> Int32s:
    """The ids in another order; None stands for 0, 1, 2, ..."""
    return order if ids is None else ids[order]


def numbered(ids: Int32s | None, rows: int) -> Int32s:
    """The ids as they are; None stands for 0, 1, 2, ..."""
    return np.arange(rows, dtype=np.int32) if ids is None else ids


def aligned(rows: int, dtype: Any) -> NDArray[Any]:
    """Fresh memory from a cache line's begin: a block of 16 narrow keys is then one line, not parts of two."""
    width = np.dtype(dtype).itemsize
    room = np.empty(rows + LINE // width, dtype=dtype)
    skip = -place_of(room) % LINE // width
    return room[skip : skip + rows]


class Entries(NamedTuple):
    keys: Keys
    ids: Int32s

    def shifted(self, first: int) -> Entries:
        """The same with ids from ``first`` on."""
        return self if first == 0 else Entries(self.keys, self.ids + np.int32(first))

    def shifting(self, first: int, chores: Chores) -> Entries:
        """What ``shifted`` gives, as soon as the chores are done."""
        if first == 0:
            return self
        ids = np.empty(len(self.ids), dtype=np.int32)
        write_shift(chores.room(), self.ids, first, ids)
        chores.hold(self.ids, ids)
        return Entries(self.keys, ids)

    def among(self, chosen: NDArray[np.bool_]) -> Entries:
        """Those of chosen ids; the order stays."""
        here = chosen[self.ids]
        return Entries(self.keys[here], self.ids[here])

    def without(self, first: int, shift: int = 0, crew: Crew = ALONE) -> Entries:
        """Those with ids from ``first`` on, less ``shift``; the order stays. The crew's threads share the work."""
        pieces = crew.pieces(len(self.keys))
        counts, counting, dropping = np.empty(pieces, dtype=np.int64), Chores(), Chores()
        write_count(counting.room(pieces), self.ids, first, counts)
        crew.share(counting)
        kept = int(counts.sum())
        rest = Entries(aligned(kept, self.keys.dtype), np.empty(kept, dtype=np.int32))
        write_drop(dropping.room(pieces), *self, first, shift, counts, *rest)
        crew.share(dropping)
        return rest

    def narrowed(self) -> Entries:
        """The same, sorted by key, with keys of 32 bits if all of them fit, and of 64 if not."""
        keys = self.keys
        narrow = len(keys) > 0 and fits_32(keys[0], keys[-1])
        return Entries(keys.astype(np.int32 if narrow else np.int64, copy=False), self.ids)

    def merged(self, later: Entries, crew: Crew) -> Entries:
        """These and younger ones as one, both sorted by key; equal keys keep their order. O(rows).

        Each thread of the crew makes an equal stretch of the result, however the keys are spread.
        """
        if self.keys.dtype != later.keys.dtype:
            return self.widened().merged(later.widened(), crew)
        chores = Chores()
        out = self.merging(later, chores, crew.pieces(len(self.keys) + len(later.keys)))
        crew.share(chores)
        return out

    def merging(self, later: Entries, chores: Chores, stretches: int = 1) -> Entries:
        """What ``merged`` gives, as soon as the chores are done; several stretches need both to be there now."""
        total = len(self.keys) + len(later.keys)
        out = Entries(aligned(total, self.keys.dtype), np.empty(total, dtype=np.int32))
        write_merge(chores.room(stretches), *self, *later, *out)
        chores.hold(*self, *later, *out)
        return out

    def widened(self) -> Entries:
        """The same with keys of 64 bits."""
        return Entries(self.keys.astype(np.int64, copy=False), self.ids)
