"""Rows in fewer bytes: what comes back is what was given, whatever the values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.spark.message import Header, decode, encode, ipc_bytes, rows_in
from slidejoin.spark.narrow import narrowed, widened

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("values", "kind", "narrow"),
    [
        ([5, 6, 7, 7, 9], pa.int64(), pa.int8()),
        ([5, 700] * 50, pa.int64(), pa.int16()),
        ([5, 70_000] * 50, pa.int64(), pa.int32()),
        ([5, 2**40] * 50, pa.int64(), None),
        ([5, 6, 2**40, 7, 2**40, 9], pa.int64(), pa.int8()),  # a few leaps are set aside
        ([MOST, LEAST, MOST, LEAST + 1], pa.int64(), pa.int8()),  # differences wrap around, and back again
        ([LEAST, 0, MOST, 0, LEAST], pa.int64(), pa.int8()),
        ([0, 2**31 - 1, -(2**31)], pa.int32(), pa.int8()),
        ([0, 2**31 - 1, -(2**31)] * 50, pa.int32(), None),
        ([2**31 - 2, 2**31 - 1, -(2**31)], pa.int32(), pa.int8()),
        ([3, 130, 4], pa.int16(), pa.int8()),
        ([1, 2, 3], pa.int8(), None),
        (list(range(0, 99_000, 1_000)), pa.timestamp("us", "UTC"), pa.int16()),
        (list(range(0, 99_000, 1_000)) * 60, pa.timestamp("ns"), pa.int16()),  # as of sixty tasks
        (list(range(0, 99_000, 1_000)), pa.duration("us"), pa.int16()),
        ([1, None, 3], pa.int64(), None),
        ([7], pa.int64(), None),
        ([], pa.int64(), None),
        (["a", "b", None], pa.string(), None),
        ([1.0, 2.0], pa.float64(), None),
        ([True, False], pa.bool_(), None),
        ([Decimal("1.10"), Decimal("1.20")], pa.decimal128(9, 2), None),
        ([[1, 2], [3]], pa.list_(pa.int64()), None),
    ],
)
def test_values_come_back(values: list[Any], kind: pa.DataType, narrow: pa.DataType | None) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind)], schema=pa.schema([("x", kind)]))
    assert narrowed(rows).schema.field("x").type == (narrow or kind)
    back = rows_in(ipc_bytes(rows))
    assert back.schema.equals(rows.schema, check_metadata=True)
    assert back.equals(rows)


def test_late_leaps_are_seen() -> None:
    """Columns that begin like ones that become narrower; of these the second has too many leaps."""
    for leaps, narrow in ((60, pa.int8()), (70, pa.int64())):
        values = np.append(np.arange(5_000), np.cumsum(np.full(leaps, 2**50)))
        rows = pa.RecordBatch.from_arrays([pa.array(values)], names=["x"])
        assert narrowed(rows).schema.field("x").type == narrow
        assert widened(narrowed(rows)).equals(rows)


def test_slices_and_metadata() -> None:
    schema = pa.schema(
        [pa.field("t", pa.timestamp("us", "UTC"), nullable=False), ("k", pa.int32()), ("s", pa.string())],
        metadata={b"kept": b"as it is"},
    )
    times = pa.array(range(0, 100_000, 1_000), pa.timestamp("us", "UTC"))
    keys = pa.array([(7**n) % 2_000_000_011 for n in range(100)], pa.int64()).cast(pa.int32())
    rows = pa.RecordBatch.from_arrays([times, keys, pa.array(["x"] * 100)], schema=schema).slice(17, 60)
    back = rows_in(ipc_bytes(rows))
    assert back.schema.equals(schema, check_metadata=True)
    assert back.equals(rows)


def test_messages_keep_header_and_schema() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(range(1000))], names=["t"])
    message = decode(encode(Header(1, 2, 3, [(0, 1000)], clock=999), rows))
    assert message.header == Header(1, 2, 3, [(0, 1000)], clock=999)
    assert message.rows.schema.equals(rows.schema, check_metadata=True)
    assert message.rows.equals(rows)
