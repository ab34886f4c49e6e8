"""The packer: one side's rows, gathered, sorted, routed, and sent as a few large messages.

Rows cross into a Python stateful operator slowly, one by one; as Arrow IPC blobs they cross four times as
fast. So tasks gather batches up to a size, set aside rows without a time, drop those that no pair could have,
sort by event time, and send each worker its rows as one message. The last messages of a task go to every
worker, with or without rows: they carry the side's clock, so that all workers agree on the watermark.

Cost        O(rows log rows) a task where times are out of order, O(rows) otherwise; a few copies of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.spark import task
from slidejoin.spark.columns import canonical
from slidejoin.spark.keys import worker_keys
from slidejoin.spark.message import SHUFFLED, Header, encode
from slidejoin.spark.query import Query
from slidejoin.spark.route import Target
from slidejoin.window.payload import concatenated
from slidejoin.window.spec import SIDES

# What is sent is the same whenever a task is run again: Spark compares, and gives a query up whose results have
# left already. So the time that packing took travels beside the message, and no further than to the shuffle.
PACKED = SHUFFLED.append(pa.field("pack_ns", pa.int64()))
GATHERED = 8 << 20  # bytes of rows that make a message; larger ones travel no faster (docs/spark.md)
TIMES = pa.schema([("time", pa.int64())])

Batches = Iterator[pa.RecordBatch]


def packer(text: str, side: int, partitions: int) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that packs one side; ``partitions`` is of the session, at planning."""

    def pack(batches: Batches) -> Batches:
        here = task.current()
        packing = Packing(Query.read(text), side, here.partition, here.batch or 0)
        keys = worker_keys(packing.query.workers, here.partitions or partitions)
        for worker, message in packing.run(batches):
            spent, packing.spent = packing.spent, 0
            columns = [
                pa.array([keys[worker]], pa.int32()), pa.array([message], pa.binary()), pa.array([spent], pa.int64())
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=PACKED)
        task.settle()

    pack.__name__ = pack.__qualname__ = f"slidejoin_pack_{SIDES[side]}"  # what DataFrame.explain() shows
    return pack


@dataclass
class Packing:
    """One task's work on one side."""

    query: Query
    side: int
    partition: int
    batch: int
    number: int = 0
    clock: int | None = None
    rows_in: int = 0
    null_time: int = 0
    spent: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)

    def run(self, batches: Batches) -> Iterator[tuple[int, bytes]]:
        """Messages with the workers that they are for."""
        held = 0
        schema = self.query.schemas[self.side]
        for batch in batches:
            if batch.num_rows == 0:
                continue
            began = perf_counter_ns()
            self.waiting.append(canonical(batch, schema))
            held += batch.nbytes
            self.spent += perf_counter_ns() - began
            if held >= GATHERED:
                yield from self._flush(last=False)
                held = 0
        if self.waiting or self.number:
            yield from self._flush(last=True)

    def _flush(self, *, last: bool) -> Iterator[tuple[int, bytes]]:
        began = perf_counter_ns()
        schema = self.query.schemas[self.side]
        rows = (
            concatenated(self.waiting, schema)
            if self.waiting
            else pa.RecordBatch.from_pylist([], schema=schema)
        )
        self.waiting = []
        self.rows_in += rows.num_rows
        dropped = None
        if self.query.timeline is not None:
            rows, dropped = self._timed(rows)
        targets = self._targets(rows)
        if last:
            reached = {target.worker for target in targets}
            targets += [
                Target(worker, slice(0, 0), [])
                for worker in range(self.query.workers)
                if worker not in reached
            ]
        self.spent += perf_counter_ns() - began
        for target in targets:
            began = perf_counter_ns()
            chosen = target.rows
            if chosen is None:
                part = rows
            elif isinstance(chosen, slice):
                part = rows.slice(chosen.start, chosen.stop - chosen.start)
            else:
                part = rows.take(pa.array(chosen))
            message = encode(self._header(target), part)
            self.spent += perf_counter_ns() - began
            yield target.worker, message
        if dropped is not None and len(dropped):
            times = pa.RecordBatch.from_arrays([pa.array(dropped)], schema=TIMES)
            self.number += 1
            yield 0, encode(Header(self.side, self.partition, self.number, filtered=True), times)

    def _header(self, target: Target) -> Header:
        self.number += 1
        header = Header(self.side, self.partition, self.number, target.homes, self.clock)
        if target.worker == 0:  # one worker keeps the account of what every worker hears of
            header = replace(header, rows_in=self.rows_in, null_time=self.null_time)
            self.rows_in = self.null_time = 0
        return header

    def _timed(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64] | None]:
        """Rows that have a time, in its order, less those that no pair could have; and the times of the latter."""
        query, timeline = self.query, self.query.timeline
        assert timeline is not None
        column = rows.column(query.time_column(self.side))
        if column.null_count:
            self.null_time += column.null_count
            rows = rows.filter(column.is_valid())
            column = rows.column(query.time_column(self.side))
        times = timeline.ticks(column, self.side)
        if len(times) == 0:
            return rows, None
        self.clock = max(int(times.max()), self.clock if self.clock is not None else int(times.max()))
        dropped = None
        passing = self._passing(rows)
        if passing is not None and not passing.all():
            dropped, times = times[~passing], times[passing]
            rows = rows.filter(pa.array(passing))
        if len(times) > 1 and bool(np.any(times[1:] < times[:-1])):
            rows = rows.take(pa.array(np.argsort(times, kind="stable")))
        return rows, dropped

    def _passing(self, rows: pa.RecordBatch) -> NDArray[np.bool_] | None:
        """Which rows pass the one-sided part of the condition; None where all must be sent."""
        settings, bound = self.query.settings, self.query.bound
        if self.side in settings.padded or self.query.keeps_late:
            return None
        passing = np.zeros(rows.num_rows, dtype=bool)
        for branch in bound.branches:
            predicate = branch.filters[self.side]
            if predicate is None:
                return None
            passing |= predicate.mask(*((rows, None) if self.side == 0 else (None, rows)))
        return passing

    def _targets(self, rows: pa.RecordBatch) -> list[Target]:
        if rows.num_rows == 0:
            return []
        return self.query.router.targets(self.side, rows, self.partition + self.batch)
