"""Intake: whatever the user pushes, as one Arrow batch with the stream's schema.

Takes pyarrow tables, batches and readers, anything with an Arrow C stream or array (Polars, DuckDB,
nanoarrow), pandas frames and dicts of arrays. Rows are copied where the giver could change them later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import SchemaError
from slidejoin.window.dictionaries import narrowed, wide
from slidejoin.window.payload import detached, one_batch
from slidejoin.window.spec import SIDES

TEXT = (pa.string(), pa.large_string(), pa.string_view())
BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())


def to_batch(data: Any, side: int, known: pa.Schema | None = None) -> pa.RecordBatch:
    """One batch of what was pushed, whatever it came as; if as a batch of the ``known`` schema, it is as it should be."""
    if known is not None and isinstance(data, pa.RecordBatch) and data.schema.equals(known, True):
        return data
    batch = _converted(data, side)
    names = batch.schema.names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise SchemaError(
            f"the {SIDES[side]} batch has several columns named {twice}; expected distinct names; rename them"
        )
    if batch.schema.metadata is not None:
        batch = batch.replace_schema_metadata(None)
    return batch if known is None else _of_known_types(batch, known)


def held_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column is held as: Arrow cannot gather from views, so text views become plain text."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(held_type(field.type)) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(held_type(kind.key_type), kind.item_field.with_type(held_type(kind.item_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(held_type(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(held_type(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(held_type(kind.value_type)))
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, held_type(kind.value_type), kind.ordered)
    return kind


def held_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that rows are held in, the same object if all types are; results are given back in their own."""
    held = pa.schema([field.with_type(wide(held_type(field.type))) for field in schema])
    return schema if held.equals(schema) else held


def gatherable(schema: pa.Schema, side: int) -> None:
    """Refuse columns of types that Arrow cannot gather rows of, before any row is held."""
    for field in held_schema(schema):
        try:
            pa.array([], type=field.type).take(pa.array([], type=pa.int64()))
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(
                f"the {SIDES[side]} column {field.name!r} is {field.type}, of which Arrow cannot gather rows; "
                "expected a type that it can; decode or cast the column before the join"
            ) from error


def late_table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Rows that were held aside, in the stream's own types."""
    own = [narrow for batch in batches for narrow in narrowed(batch, schema)]
    return pa.Table.from_batches(own, schema)


def typed(batch: pa.RecordBatch, known: pa.Schema | None) -> pa.RecordBatch | None:
    """No rows in columns of no type (``{"x": []}``) tell nothing of the types: they are the known ones, if any."""
    if batch.num_rows or pa.null() not in batch.schema.types:
        return batch
    if known is None:
        return None
    return one_batch(known.empty_table()) if batch.schema.names == known.names else batch


def _of_known_types(batch: pa.RecordBatch, known: pa.Schema) -> pa.RecordBatch:
    """The batch in the known types where they differ in nothing that counts.

    A column that has only NULLs has no type of its own; and text and bytes are the same however Arrow lays them out, as
    which Polars, pandas and pyarrow differ.
    """
    if batch.schema.types == known.types or batch.schema.names != known.names:
        return batch
    columns = [_of_type(column, field.type) for column, field in zip(batch.columns, known, strict=True)]
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if column.type == kind or not _alike(column.type, kind):
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        raise SchemaError(
            f"text or bytes of type {column.type} do not fit {kind}, the type pushed first ({error}); expected less in one "
            "push; push fewer rows at a time"
        ) from error


def _alike(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of both types are the same, however they are laid out."""
    return kind == other or any(kind in layouts and other in layouts for layouts in (TEXT, BYTES))


def _taken_for(kind: pa.DataType, known: pa.DataType) -> bool:
    """Whether a column of a type is taken for one of the known type; NULLs alone are of any."""
    return pa.types.is_null(kind) or _alike(kind, known)


def same_schema(known: pa.Schema, batch: pa.RecordBatch, side: int) -> None:
    """Refuse a batch whose columns differ from those pushed before."""
    now = batch.schema
    if now.equals(known):
        return
    if now.names == known.names and now.types == known.types:
        for field in known:
            if not field.nullable and batch.column(field.name).null_count:
                raise SchemaError(
                    f"the {SIDES[side]} column {field.name!r} has NULLs, but was declared not null in the first push; "
                    "expected none; declare it nullable from the start"
                )
        return
    differences = [
        f"{name} was {known.field(name).type if name in known.names else 'absent'}, "
        f"is {now.field(name).type if name in now.names else 'absent'}"
        for name in dict.fromkeys([*known.names, *now.names])
        if name not in known.names
        or name not in now.names
        or not _taken_for(now.field(name).type, known.field(name).type)
    ]
    what = "; ".join(differences) or f"the columns are in another order: {now.names}"
    raise SchemaError(
        f"the {SIDES[side]} schema changed between pushes ({what}); expected {known.names} as pushed first; "
        "cast or reorder the columns before pushing"
    )


def _converted(data: Any, side: int) -> pa.RecordBatch:
    if isinstance(data, pa.RecordBatch):
        return data
    if isinstance(data, pa.Table):
        return one_batch(data)
    try:
        if isinstance(data, Mapping):
            for name, values in data.items():
                if not hasattr(values, "__len__") or isinstance(values, (str, bytes)):
                    several = hasattr(values, "__iter__") and not isinstance(values, (str, bytes))
                    hint = "make a list of it" if several else f"one row is {{{name!r}: [{values!r:.40}]}}"
                    raise SchemaError(
                        f"the {SIDES[side]} column {name!r} is of type {type(values).__name__}; expected an array or a list of "
                        f"values; {hint}"
                    )
            lengths = {name: len(values) for name, values in data.items()}
            if len(set(lengths.values())) > 1:
                raise SchemaError(
                    f"the {SIDES[side]} columns have different lengths {lengths}; expected one length; "
                    "check the dict that was pushed"
                )
            return one_batch(pa.table({str(name): _owned(values) for name, values in data.items()}))
        if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
            return detached(one_batch(pa.Table.from_pandas(data, preserve_index=False)))
        if hasattr(data, "__arrow_c_stream__"):
            return one_batch(pa.table(data))
        if hasattr(data, "__arrow_c_array__"):
            return pa.record_batch(data)
    except SchemaError:
        raise
    except Exception as error:  # whatever the giver's own code raises
        raise SchemaError(
            f"the {SIDES[side]} batch could not be read as Arrow columns ({error}); expected columns of one type "
            "and length each; convert it with pyarrow.table(...) to see what is wrong"
        ) from error
    hint = "collect() it first" if hasattr(data, "collect") else "wrap it in pyarrow.table(...)"
    raise SchemaError(
        f"the {SIDES[side]} batch is of type {type(data).__name__}; expected Arrow, Polars, pandas, DuckDB or a dict of "
        f"arrays; {hint}"
    )


def _owned(values: Any) -> Any:
    """A copy, where the giver could write into what he gave."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    return pa.array(np.array(values, copy=True)) if isinstance(values, np.ndarray) else pa.array(values)
