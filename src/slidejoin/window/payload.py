"""The rows of a subwindow as Arrow batches: appended, gathered, never searched.

Many small pushes would leave thousands of small batches, and gathering from those is slow; so every 16
batches of a generation become one batch of the next, and each row is copied O(log n / log 16) times. Large batches
are left as they came until somebody gathers rows: those who ask for row numbers alone have none copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

FAN_IN = 16  # batches that make one of the next generation
LARGE = 1 << 16  # rows that are put together from small batches in any case
# Arrow puts several batches together to gather from them, all of their rows. To take from each what it has, and put that
# in order, costs as much as copying so many bytes for each row taken, and for each batch.
ID_BYTES, BATCH_BYTES = 128, 1 << 17

Ids = NDArray[np.int32]


class Payload:
    """Rows in arrival order; a row's id is its position here."""

    def __init__(self, schema: pa.Schema, *, gathered: bool = False) -> None:
        self.schema = schema
        self.rows = 0
        self.nbytes = 0
        self.gathered = gathered  # whether somebody takes rows, from here or from the subwindow before
        self._row_bytes = sum(row_bytes(kind) for kind in schema.types)
        # Replaced whole: results are read while rows arrive.
        self._generations: tuple[tuple[pa.RecordBatch, ...], ...] = ()

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
        kept_apart = not self.gathered and FAN_IN * batch.num_rows > LARGE
        full: list[tuple[pa.RecordBatch, ...]] = []
        for generation in self._generations:
            if len(generation) + 1 < FAN_IN or kept_apart:
                break
            batch = concatenated((*generation, batch), self.schema)
            full.append(())
        else:
            generation = ()
        at = len(full)
        self._generations = (*full, (*generation, batch), *self._generations[at + 1 :])

    def consolidate(self) -> None:
        """Make one batch of all: no more rows will come."""
        batches = self.batches()
        if len(batches) > 1:
            whole = concatenated(batches, self.schema)
            self._generations = ((whole,),)
            self.nbytes = whole.nbytes

    def batches(self) -> list[pa.RecordBatch]:
        """All rows in arrival order."""
        return [batch for generation in reversed(self._generations) for batch in generation]

    def take(self, ids: Ids, names: Sequence[str]) -> pa.RecordBatch:
        """The rows with these ids, some columns of them."""
        self.gathered = True
        return self._taken(ids, names)

    def _taken(self, ids: Ids, names: Sequence[str]) -> pa.RecordBatch:
        batches = self.batches()
        if len(batches) == 1:
            return take(batches[0], ids, names)
        if not names or not batches:
            return no_columns(len(ids))
        if self.nbytes <= ID_BYTES * len(ids) + BATCH_BYTES * len(batches):
            table = pa.Table.from_batches(batches, self.schema).select(list(names))
            return one_batch(table.unify_dictionaries().take(pa.array(ids)))
        ends = np.cumsum([batch.num_rows for batch in batches])
        which = np.searchsorted(ends, ids, side="right")
        firsts = ends - [batch.num_rows for batch in batches]
        return from_several(
            lambda number, some: take(batches[number], some - np.int32(firsts[number]), names), which, ids
        )

    def select(self, ids: Ids | slice) -> Payload:
        """Some rows, in a payload that holds nothing else."""
        some = Payload(self.schema, gathered=self.gathered)
        if not isinstance(ids, slice):
            some.append(self._taken(ids, self.schema.names))
            return some
        first = 0
        for batch in self.batches():
            begin, end = max(ids.start - first, 0), min(ids.stop - first, batch.num_rows)
            first += batch.num_rows
            if begin < end:
                whole = end - begin == batch.num_rows
                some.append(batch if whole else detached(batch.slice(begin, end - begin)))
        return some

    def copy(self) -> Payload:
        """A second payload over the same batches: appending to one leaves the other."""
        twin = Payload.__new__(Payload)
        twin.__dict__.update(self.__dict__)
        return twin


def from_several(
    taken: Callable[[int, Ids], pa.RecordBatch], which: NDArray[np.integer], ids: Ids
) -> pa.RecordBatch:
    """Rows of several sources, each id's by its number in ``which``, in the order of the ids."""
    if len(ids) == 0 or bool((which == which[0]).all()):
        return taken(int(which[0]) if len(ids) else 0, ids)
    order = np.argsort(which, kind="stable")
    numbers = which[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    parts = [
        taken(int(numbers[begin]), ids[order[begin:end]])
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True)
    ]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return concatenated(parts, parts[0].schema).take(pa.array(back))


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
