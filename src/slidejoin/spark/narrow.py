"""Rows in fewer bytes: whole numbers and times as their differences from row to row, where these are small.

Rows are sorted by time before they are sent and stored in that order, so times, and numbers that are counted up, grow
by little from one row to the next: two bytes a row instead of eight as a rule. Every byte of a message is copied some
ten times on its way (Spark's rows, shuffle, checksums, state), and every byte of an entry is written three times, so
that what is saved there is worth several times what a difference costs.

Design      a column becomes its differences in the narrowest whole numbers that hold them; the first value and the
            schema as it was ride in the metadata. Columns with NULLs, and those that would not become narrower, stay.
            Differences wrap around as the sums that undo them do, so that no value is out of reach.
Cost        O(rows) a column that becomes narrower, O(1) for others.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCHEMA = b"slidejoin.schema"
FIRSTS = b"slidejoin.firsts"
LOOK = 256  # differences that tell whether it is worth looking at the others
STEPS = (np.int8, np.int16, np.int32)


def narrowed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in fewer bytes, and what it takes to undo it in the metadata."""
    columns: list[pa.Array] = list(rows.columns)
    firsts: list[int | None] = [None] * rows.num_columns
    for number, column in enumerate(columns):
        values = numbers_of(column)
        steps = None if values is None else steps_of(values)
        if values is not None and steps is not None:
            columns[number], firsts[number] = pa.array(steps), int(values[0])
    if not any(first is not None for first in firsts):
        return rows
    fields = [field.with_type(column.type) for field, column in zip(rows.schema, columns, strict=True)]
    before = rows.schema.metadata or {}
    metadata = before | {
        SCHEMA: rows.schema.remove_metadata().serialize().to_pybytes(),
        FIRSTS: json.dumps(firsts),
    }
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata))


def widened(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they were before ``narrowed``."""
    metadata = dict(rows.schema.metadata or {})
    if SCHEMA not in metadata:
        return rows
    schema = pa.ipc.read_schema(pa.py_buffer(metadata.pop(SCHEMA)))
    columns = [
        column if first is None else summed(column, first, field.type)
        for column, first, field in zip(rows.columns, json.loads(metadata.pop(FIRSTS)), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.with_metadata(metadata or None))


def numbers_of(column: pa.Array) -> NDArray[Any] | None:
    """The whole numbers that a column holds; None if it holds others, or none."""
    kind = column.type
    whole = pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    if not whole or column.null_count or len(column) < 2:
        return None
    return np.frombuffer(column.buffers()[1], f"i{kind.bit_width // 8}")[column.offset :][: len(column)]


def steps_of(values: NDArray[Any]) -> NDArray[Any] | None:
    """The differences from row to row, zero for the first, in the narrowest type; None if it is no narrower."""
    if narrowest(np.diff(values[:LOOK]), values.dtype.itemsize) is None:
        return None
    steps = np.diff(values)
    kind = narrowest(steps, values.dtype.itemsize)
    if kind is None:
        return None
    found: NDArray[Any] = np.zeros(len(values), dtype=kind)
    found[1:] = steps
    return found


def narrowest(steps: NDArray[Any], size: int) -> type | None:
    """The narrowest type that holds all of them, if it has fewer bytes than ``size``."""
    low, high = int(steps.min()), int(steps.max())
    for kind in STEPS:
        bounds = np.iinfo(kind)
        if bounds.min <= low and high <= bounds.max:
            return kind if bounds.bits < 8 * size else None
    return None


def summed(steps: pa.Array, first: int, kind: pa.DataType) -> pa.Array:
    """The values whose differences these are."""
    dtype = np.dtype(f"i{kind.bit_width // 8}")
    values = np.cumsum(steps.to_numpy(), dtype=dtype)
    values += dtype.type(first)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
