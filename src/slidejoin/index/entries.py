"""Entries: keys and row ids, in the order that an index wants; for most, sorted by key.

Keys are int64, or int32 where an index chose to hold them so.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels.merge import drop_below, merge_runs, rows_of_first
from slidejoin.pools import Crew

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Keys = NDArray[Any]  # int64, or int32

INT32 = np.iinfo(np.int32)
LINE = 64  # bytes of a cache line
SHARE = 1 << 15  # merged rows from which another thread pays: about a tenth of a millisecond


def in_order(ids: Int32s | None, order: Int32s) -> Int32s:
    """The ids in another order; None stands for 0, 1, 2, ..."""
    return order if ids is None else ids[order]


def aligned(rows: int, dtype: Any) -> NDArray[Any]:
    """Fresh memory from a cache line's begin: a block of 16 narrow keys is then one line, not parts of two."""
    width = np.dtype(dtype).itemsize
    room = np.empty(rows + LINE // width, dtype=dtype)
    skip = -room.ctypes.data % LINE // width
    return room[skip : skip + rows]


class Entries(NamedTuple):
    keys: Keys
    ids: Int32s

    def shifted(self, first: int) -> Entries:
        """The same with ids from ``first`` on."""
        return self if first == 0 else Entries(self.keys, self.ids + np.int32(first))

    def without(self, first: int, shift: int = 0) -> Entries:
        """Those with ids from ``first`` on, less ``shift``; the order stays."""
        count = int(np.count_nonzero(self.ids >= first))
        keys = aligned(count + 1, self.keys.dtype)  # the kernel writes before it knows whether to keep
        ids = np.empty(count + 1, dtype=np.int32)
        drop_below(self.keys, self.ids, first, shift, keys, ids)
        return Entries(keys[:count], ids[:count])

    def narrowed(self) -> Entries:
        """The same, sorted by key, with keys of 32 bits if all of them fit."""
        keys = self.keys
        if keys.dtype == np.int32 or len(keys) == 0 or keys[0] < INT32.min or keys[-1] > INT32.max:
            return self
        return Entries(keys.astype(np.int32), self.ids)

    def merged(self, later: Entries, crew: Crew) -> Entries:
        """These and younger ones as one, both sorted by key; equal keys keep their order. O(rows).

        Each thread of the crew makes an equal stretch of the result, however the keys are spread.
        """
        if self.keys.dtype != later.keys.dtype:
            return self.widened().merged(later.widened(), crew)
        total = len(self.keys) + len(later.keys)
        out = Entries(aligned(total, self.keys.dtype), np.empty(total, dtype=np.int32))
        shares = min(crew.threads, max(1, total // SHARE))
        if shares == 1:
            merge_runs(self.keys, self.ids, later.keys, later.ids, out.keys, out.ids)
            return out
        ends = [total * share // shares for share in range(shares + 1)]
        cuts = [rows_of_first(self.keys, later.keys, end) for end in ends]

        def stretch(share: int) -> None:
            at, end = ends[share], ends[share + 1]
            a, b = slice(cuts[share], cuts[share + 1]), slice(at - cuts[share], end - cuts[share + 1])
            merge_runs(
                self.keys[a], self.ids[a], later.keys[b], later.ids[b], out.keys[at:end], out.ids[at:end]
            )

        crew.each([partial(stretch, share) for share in range(shares)])
        return out

    def widened(self) -> Entries:
        """The same with keys of 64 bits."""
        return Entries(self.keys.astype(np.int64, copy=False), self.ids)
