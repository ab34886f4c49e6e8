"""Rows of several sources gathered into one batch, column by column.

Arrow gathers from one source at a time, and what it has gathered from each has to be put together after that: every
value is copied twice. Values of 32 or 64 bits, none of them NULL, are written where they belong at once; all others
are left to Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.kernels.gather import gather
from slidejoin.window.payload import Ids

WORDS = {32: np.int32, 64: np.int64}  # that a kernel copies, by their bits


class Picked(NamedTuple):
    """Rows of one source by their ids, which count the rows of its batches."""

    batches: Sequence[pa.RecordBatch]
    ids: Ids

    def places(self, column: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Where the values of a column lie: the address of each piece, and how many rows there are up to its end.

        None if some are NULL: they are not all there.
        """
        places, ends, end = [], [], 0
        for batch in self.batches:
            values = batch.column(column)
            if values.null_count:
                return None
            end += len(values)
            places.append(values.buffers()[1].address + values.offset * width // 8)
            ends.append(end)
        return np.array(places, dtype=np.int64), np.array(ends, dtype=np.int64)


def plain_width(kind: pa.DataType) -> int | None:
    """The bits of a value, if a kernel can copy it; None if that is Arrow's affair."""
    plain = pa.types.is_primitive(kind) and kind.bit_width in WORDS
    return int(kind.bit_width) if plain else None


def plain_column(picked: Sequence[Picked], column: int, kind: pa.DataType) -> pa.Array | None:
    """A column of all that was picked, one source after the other; None if that is Arrow's affair."""
    width = plain_width(kind)
    if width is None:
        return None
    found = []
    for one in picked:
        lie = one.places(column, width)
        if lie is None:
            return None
        found.append((lie, one.ids))
    values = np.empty(sum(len(one.ids) for one in picked), dtype=WORDS[width])
    at = 0
    for lie, ids in found:
        gather(*lie, ids, values[at : at + len(ids)])
        at += len(ids)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
