"""Dictionary columns: a stream has more values than the index of one batch may be able to count.

Every push may bring values of its own (pandas counts categories with eight bits), so rows are held with an index that is
wide enough for all of them together, and given back in batches that the stream's own index can count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

WIDE = pa.int32()  # as many values as a subwindow has rows


def wide(kind: pa.DataType) -> pa.DataType:
    """The type in which values of many batches can be held."""
    if not pa.types.is_dictionary(kind) or kind.index_type.bit_width >= WIDE.bit_width:
        return kind
    return pa.dictionary(WIDE, kind.value_type, kind.ordered)


def narrowed(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in the types of the schema; in several batches if one has more values than an index can count."""
    columns = [_counted_as(column, kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
    if all(column is not None for column in columns):
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        return
    half = batch.num_rows // 2  # one row has one value, which any index counts
    yield from narrowed(batch.slice(0, half), schema)
    yield from narrowed(batch.slice(half), schema)


def _counted_as(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The column in another type; None if it has too many values for that."""
    if column.type == kind:
        return column
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    countable = int(np.iinfo(kind.index_type.to_pandas_dtype()).max) + 1
    if len(column.dictionary) > countable:  # most may be of other rows
        column = column.dictionary_decode().dictionary_encode()
        if len(column.dictionary) > countable:
            return None
    return pa.DictionaryArray.from_arrays(
        column.indices.cast(kind.index_type), column.dictionary.cast(kind.value_type), ordered=kind.ordered
    )
