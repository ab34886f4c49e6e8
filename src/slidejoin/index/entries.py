"""Entries: keys and row ids, in the order that an index wants; for most, sorted by key."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels.merge import merge_runs, rows_of_first
from slidejoin.pools import Crew

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

SHARE = 1 << 15  # merged rows from which another thread pays: about a tenth of a millisecond


class Entries(NamedTuple):
    keys: Int64s
    ids: Int32s

    def merged(self, later: Entries, crew: Crew) -> Entries:
        """These and younger ones as one, both sorted by key; equal keys keep their order. O(rows).

        Each thread of the crew makes an equal stretch of the result, however the keys are spread.
        """
        total = len(self.keys) + len(later.keys)
        out = Entries(np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int32))
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
