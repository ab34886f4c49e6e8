"""Pieces of a result on their way to Spark: how large they are, and how they look beside counters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.matches import BATCH_ROWS
from slidejoin.spark import progress
from slidejoin.spark.operator import ARRAY_ROWS, NAMES, pieces, with_counters
from slidejoin.spark.shard import PIECE_BYTES, piece_rows

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int32())])


def batch(rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(-numbers.astype(np.int32))], schema=SCHEMA)


@pytest.mark.parametrize("rows", [1, ARRAY_ROWS - 1, ARRAY_ROWS, ARRAY_ROWS + 1, 5 * ARRAY_ROWS])
def test_rows_beside_counters_are_arrays(rows: int) -> None:
    frame = with_counters(batch(rows), None)
    arrays, reports = (pa.array(frame[name].array) for name in NAMES)
    assert len(arrays) == len(reports) == reports.null_count == -(-rows // ARRAY_ROWS)
    assert max(len(one) for one in arrays) <= ARRAY_ROWS
    assert pa.RecordBatch.from_struct_array(arrays.flatten()).equals(batch(rows))


def test_counters_come_with_no_rows() -> None:
    report = dict.fromkeys(progress.KIND.names) | {"matches": 3}
    frame = with_counters(batch(0), report)
    arrays, reports = (pa.array(frame[name].array) for name in NAMES)
    assert arrays.to_pylist() == [[]]
    assert reports.to_pylist() == [report]


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        (SCHEMA, PIECE_BYTES // 12),
        (pa.schema([("x", pa.int64()), ("text", pa.string())]), BATCH_ROWS),
        (pa.schema([]), BATCH_ROWS),
    ],
)
def test_rows_of_a_piece(schema: pa.Schema, rows: int) -> None:
    assert piece_rows(schema) == rows


def test_long_rows_are_cut_further() -> None:
    long = pa.RecordBatch.from_pydict({"text": ["x" * (PIECE_BYTES // 3)] * 10})
    cut = list(pieces(long))
    assert max(piece.num_rows for piece in cut) == 3
    assert pa.Table.from_batches(cut).equals(pa.Table.from_batches([long]))
