"""The stateful operator: Spark's side of a worker. Messages in, rows of the result and counters out.

Beside counters, a thousand rows of the result are one of Spark's: an array of structs, which Spark takes apart again
without Python (``inline``). So rows that were found cross to Spark once, as Arrow, and counters are collected from a few rows.
Without counters rows cross as they are, which takes Spark less: nothing is to be taken apart or collected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from slidejoin.spark import cache, progress, task
from slidejoin.spark.arrowed import arrowed
from slidejoin.spark.folder import Folder
from slidejoin.spark.keys import worker_keys
from slidejoin.spark.log import Log
from slidejoin.spark.message import decode
from slidejoin.spark.query import Query
from slidejoin.spark.shard import PIECE_BYTES
from slidejoin.window.payload import one_batch

ROWS = "rows"
NAMES = [ROWS, progress.COLUMN]
ARRAY_ROWS = 1024  # of a piece beside counters: what Spark copies at a time stays in the second-level cache


def output(result: StructType) -> StructType:
    """What the operator gives where it counts: pieces of the result, and the counters of a worker."""
    return StructType(
        [
            StructField(ROWS, ArrayType(result, containsNull=False)),
            StructField(progress.COLUMN, progress.KIND),
        ]
    )


class MapStore:
    """Spark's MapState as a map of numbers to bytes."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        # StructType rather than text: parsing DDL costs a call to the JVM in every task.
        self._state = handle.getMapState(
            "log",
            StructType([StructField("id", LongType())]),
            StructType([StructField("value", BinaryType())]),
        )
        self.spent = 0

    def get(self, key: int) -> bytes | None:
        began = perf_counter_ns()
        found: Any = self._state.getValue((key,))
        self.spent += perf_counter_ns() - began
        return None if found is None else bytes(found[0])

    def put(self, key: int, value: bytes) -> None:
        began = perf_counter_ns()
        self._state.updateValue((key,), (value,))
        self.spent += perf_counter_ns() - began

    def remove(self, key: int) -> None:
        began = perf_counter_ns()
        self._state.removeKey((key,))
        self.spent += perf_counter_ns() - began


class JoinProcessor(StatefulProcessor):
    """One task's worker. It holds what the query asks for and nothing else; state is in the log, shards in the cache."""

    def __init__(self, text: str, partitions: int, *, counting: bool) -> None:
        self._text = text
        self._partitions = partitions
        self._counting = counting

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = MapStore(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's names
    ) -> Iterator[pd.DataFrame]:
        query, here = Query.read(self._text), task.current()
        worker = worker_keys(query.workers, here.partitions or self._partitions).index(int(key[0]))
        began = perf_counter_ns()
        messages = [decode(message) for frame in rows for message in frame["message"]]
        join = hashlib.sha256(self._text.encode()).hexdigest()[:16]
        name = cache.Key(here.query, join, worker)
        log = Log(query, self._store, Folder.of(here.query, worker, query.budget))
        replica, hit = cache.resume(name, query, log)
        outcome = replica.shard.take_in(messages)
        spent = perf_counter_ns() - began
        emitted, names = 0, query.result.names
        results = [replica.shard.rows_of(matches) for matches in outcome.matches]
        for source in (*results, replica.shard.late_rows(outcome.late)):
            began = perf_counter_ns()
            for batch in source:
                emitted += batch.num_rows
                for piece in pieces(batch):
                    found = with_counters(piece, None) if self._counting else arrowed(piece.columns, names)
                    spent += perf_counter_ns() - began
                    yield found
                    began = perf_counter_ns()
            spent += perf_counter_ns() - began
        # State is written while Spark is busy with the results that it has been given.
        began = perf_counter_ns()
        replica.record(outcome, log)
        spent += perf_counter_ns() - began
        if self._counting:
            report = progress.report(
                replica, outcome, log, hit=hit, emitted=emitted,
                join_ns=spent - self._store.spent, state_ns=self._store.spent,
            )  # fmt: skip
            yield with_counters(one_batch(query.result.empty_table()), report)
        cache.keep(name, replica, query.budget)
        task.settle()

    def close(self) -> None:
        """Nothing is held open."""


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices of a bounded size, if its rows are longer than expected."""
    count = max(1, -(-batch.nbytes // PIECE_BYTES))
    rows = max(1, -(-batch.num_rows // count))
    for at in range(0, batch.num_rows, rows):
        yield batch.slice(at, rows)


def with_counters(rows: pa.RecordBatch, report: dict[str, Any] | None) -> pd.DataFrame:
    """The rows as arrays of structs, beside what is reported with them, if something is. Nothing is copied."""
    bounds = np.append(
        np.arange(0, max(1, rows.num_rows), ARRAY_ROWS, dtype=np.int32), np.int32(rows.num_rows)
    )
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    arrays = pa.ListArray.from_arrays(pa.array(bounds), structs)
    reports = pa.nulls(len(arrays), progress.ARROW) if report is None else pa.array([report], progress.ARROW)
    return arrowed([arrays, reports], NAMES)
