"""The order of rows that arrive together: both sides merged by the column ``by``, whatever types the two have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.errors import SchemaError

Order = NDArray[np.int64]


def merge_order(columns: Sequence[pa.Array]) -> Order:
    """Rows of both columns, one after the other, by value: left first on ties, NaN above other numbers, NULLs last."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in columns
    ]
    left, right = (column.type for column in columns)
    if _rounds(left, right) or _rounds(right, left):
        return _exact_order(columns)
    try:
        if left != right:
            columns = [_sortable(column) for column in columns]
        both = pa.concat_tables(
            [pa.table({"by": column}) for column in columns], promote_options="permissive"
        )
        both = both.append_column("at", pa.array(np.arange(both.num_rows)))
        order = pc.sort_indices(both, [("by", "ascending"), ("at", "ascending")])
    except pa.ArrowException as error:
        raise SchemaError(
            f"the columns to order by are {left} and {right}, which cannot be put in one order ({error}); "
            "expected comparable types; cast one before the join"
        ) from error
    merged: Order = order.to_numpy().astype(np.int64)
    return merged


def _rounds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether a number of the other type would be rounded to compare it with a float."""
    return bool(pa.types.is_floating(kind) and (pa.types.is_integer(other) or pa.types.is_decimal(other)))


def _exact_order(columns: Sequence[pa.Array]) -> Order:
    """The order by Python, which compares integers and decimals with floats as they are; Arrow would round them.

    Each column by itself is in order as a rule, and merging what is in order takes few comparisons.
    """
    values = [
        column.cast(pa.float64()) if pa.types.is_floating(column.type) else column for column in columns
    ]
    places = [_place(value) for column in values for value in column.to_pylist()]
    return np.array(sorted(range(len(places)), key=places.__getitem__), dtype=np.int64)


def _place(value: Any) -> tuple[int, Any]:
    if value is None:
        return 2, 0
    return (1, 0) if value != value else (0, value)  # noqa: PLR0124 - NaN is what differs from itself


def _sortable(column: pa.Array) -> pa.Array:
    """A column in a type that can be put in one order with the other side's."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_integer(kind):
        return column.cast(pa.decimal128(20, 0))  # holds int64 and uint64 alike
    return column
