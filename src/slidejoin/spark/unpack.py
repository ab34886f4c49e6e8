"""The unpacker: pieces of the result back into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


def unpacker() -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that gives the rows of every piece; counters are left behind."""

    def slidejoin_unpack(batches: Batches) -> Batches:
        for batch in batches:
            for piece in batch.column(0):
                if piece.is_valid:
                    with pa.ipc.open_stream(piece.as_buffer()) as reader:
                        yield from reader

    return slidejoin_unpack
