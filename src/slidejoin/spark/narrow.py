"""Rows in fewer bytes: whole numbers and times as their differences from row to row, where these are small.

Rows are sorted by time before they are sent and stored in that order, so times, and numbers that are counted up, grow
by little from one row to the next: two bytes a row instead of eight as a rule. Every byte of a message is copied some
ten times on its way (Spark's rows, shuffle, checksums, state), and every byte of an entry is written three times, so
that what is saved there is worth several times what a difference costs.

Design      a column becomes its differences in the narrowest whole numbers that hold all but a few of them. The first
            value, the few (where rows of one task follow those of another, time leaps back), and the schema as it was
            ride in the metadata. Columns with NULLs, and those that would not become narrower, stay. Differences wrap
            around as the sums that undo them do, so that no value is out of reach.
Cost        O(rows) a column that becomes narrower, O(1) for most others.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCHEMA = b"slidejoin.schema"
LEAPS = b"slidejoin.leaps"
LOOK = 256  # differences that tell whether it is worth looking at the others
MOST_LEAPS = 64  # differences that may be wider than the others
KINDS = tuple(np.dtype(kind) for kind in (np.int8, np.int16, np.int32))

Leaps = list[tuple[int, int]]  # rows, and what is added there; the first value is added at row 0


def narrowed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in fewer bytes, and what it takes to undo it in the metadata."""
    columns: list[pa.Array] = list(rows.columns)
    leaps: list[Leaps | None] = [None] * rows.num_columns
    for number, column in enumerate(columns):
        values = numbers_of(column)
        found = None if values is None else steps_of(values)
        if found is not None:
            columns[number], leaps[number] = pa.array(found[0]), found[1]
    if not any(leaps):
        return rows
    fields = [field.with_type(column.type) for field, column in zip(rows.schema, columns, strict=True)]
    metadata = (rows.schema.metadata or {}) | {
        SCHEMA: rows.schema.remove_metadata().serialize().to_pybytes(),
        LEAPS: json.dumps(leaps),
    }
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata))


def widened(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they were before ``narrowed``."""
    metadata = dict(rows.schema.metadata or {})
    if SCHEMA not in metadata:
        return rows
    schema = pa.ipc.read_schema(pa.py_buffer(metadata.pop(SCHEMA)))
    columns = [
        column if leaps is None else summed(column, leaps, field.type)
        for column, leaps, field in zip(rows.columns, json.loads(metadata.pop(LEAPS)), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.with_metadata(metadata or None))


def numbers_of(column: pa.Array) -> NDArray[Any] | None:
    """The whole numbers that a column holds; None if it holds others, or none."""
    kind = column.type
    whole = pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    if not whole or column.null_count or len(column) < 2:
        return None
    return np.frombuffer(column.buffers()[1], f"i{kind.bit_width // 8}")[column.offset :][: len(column)]


def steps_of(values: NDArray[Any]) -> tuple[NDArray[Any], Leaps] | None:
    """The differences from row to row in the narrowest type, and its leaps; None if it is no narrower."""
    steps = np.diff(values[: LOOK + 1])
    narrower = [kind for kind in KINDS if kind.itemsize < values.dtype.itemsize]
    kinds = [kind for kind in narrower if len(leaping(steps, kind)) <= MOST_LEAPS]
    if kinds and len(values) > LOOK + 1:
        steps = np.diff(values)
    for kind in kinds:
        rows = leaping(steps, kind)
        if len(rows) <= MOST_LEAPS:
            found: NDArray[Any] = np.zeros(len(values), dtype=kind)
            found[1:] = steps
            found[rows + 1] = 0
            leaps = [(int(row) + 1, int(steps[row])) for row in rows]
            return found, [(0, int(values[0])), *leaps]
    return None


def leaping(steps: NDArray[Any], kind: np.dtype[Any]) -> NDArray[np.int64]:
    """Which differences the type does not hold."""
    bounds = np.iinfo(kind)
    if steps.min() >= bounds.min and steps.max() <= bounds.max:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero((steps < bounds.min) | (steps > bounds.max))


def summed(steps: pa.Array, leaps: Leaps, kind: pa.DataType) -> pa.Array:
    """The values whose differences these are."""
    values = steps.to_numpy().astype(f"i{kind.bit_width // 8}")
    for row, leap in leaps:
        values[row] = leap
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.cumsum(values, out=values))])
