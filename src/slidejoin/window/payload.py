"""The rows of a subwindow as Arrow batches: appended, gathered, never searched.

Many small pushes would leave thousands of small batches, and gathering from those is slow; so every 16
batches of a generation become one batch of the next, and each row is copied O(log n / log 16) times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

FAN_IN = 16  # batches that make one of the next generation


class Payload:
    """Rows in arrival order; a row's id is its position here."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows = 0
        self.nbytes = 0
        self._row_bytes = sum(row_bytes(kind) for kind in schema.types)
        self._generations: list[list[pa.RecordBatch]] = []
        self._table: pa.Table | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows; a slice of something much larger is copied, so that the rest can be freed."""
        if batch.num_rows == 0:
            return
        held = buffers = batch.get_total_buffer_size()
        if buffers > self._row_bytes * batch.num_rows + 4096:
            held = batch.nbytes  # its own; asked for only then, as it takes longer than everything else here
            if buffers > 2 * held + 4096:
                batch = detached(batch)
                held = batch.nbytes
        self.rows += batch.num_rows  # before anything that an interruption would leave half done
        self.nbytes += held
        self._table = None
        for generation in self._generations:
            generation.append(batch)
            if len(generation) < FAN_IN:
                return
            batch = concatenated(generation, self.schema)
            generation.clear()
        self._generations.append([batch])

    def consolidate(self) -> None:
        """Make one batch of all: no more rows will come."""
        batches = self.batches()
        if len(batches) > 1:
            self._generations = [[concatenated(batches, self.schema)]]
            self._table = None
            self.nbytes = self._generations[0][0].nbytes

    def batches(self) -> list[pa.RecordBatch]:
        """All rows in arrival order."""
        return [batch for generation in reversed(self._generations) for batch in generation]

    def take(self, ids: NDArray[np.int32], names: Sequence[str]) -> pa.RecordBatch:
        """The rows with these ids, some columns of them."""
        batches = self.batches()
        if len(batches) == 1:
            return take(batches[0], ids, names)
        if self._table is None:
            self._table = pa.Table.from_batches(batches, self.schema).unify_dictionaries()
        if not names:
            return no_columns(len(ids))
        return one_batch(self._table.select(list(names)).take(pa.array(ids)))

    def select(self, ids: NDArray[np.int32] | slice) -> Payload:
        """Some rows, in a payload that holds nothing else."""
        some = Payload(self.schema)
        if isinstance(ids, slice):
            table = pa.Table.from_batches(self.batches(), self.schema)
            some.append(detached(one_batch(table[ids])))
        else:
            some.append(self.take(ids, self.schema.names))
        return some

    def copy(self) -> Payload:
        """A second payload over the same batches: appending to one leaves the other."""
        twin = Payload.__new__(Payload)
        held = [list(generation) for generation in self._generations]
        twin.__dict__.update(self.__dict__, _generations=held)
        return twin


def row_bytes(kind: pa.DataType) -> int:
    """What a row of a type takes at least."""
    try:
        return int(kind.bit_width) // 8
    except ValueError:  # of no fixed width
        return 0


def take(batch: pa.RecordBatch, ids: NDArray[np.int32], names: Sequence[str]) -> pa.RecordBatch:
    """The given rows of one batch, some columns of them."""
    if not names:
        return no_columns(len(ids))
    return batch.select(list(names)).take(pa.array(ids))


def no_columns(rows: int) -> pa.RecordBatch:
    """A batch that has rows but no columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, type=pa.struct([])))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table's rows as one batch."""
    if table.num_columns == 0:
        return no_columns(table.num_rows)
    batches = table.unify_dictionaries().combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays(
            [pa.array([], type=f.type) for f in table.schema], schema=table.schema
        )
    return pa.concat_batches(batches)


def concatenated(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Consecutive batches as one."""
    if len(schema) == 0:
        return no_columns(sum(batch.num_rows for batch in batches))
    return one_batch(pa.Table.from_batches(batches, schema))


def detached(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy that holds nothing but its own rows."""
    return pa.concat_batches([batch]) if batch.num_columns else no_columns(batch.num_rows)
