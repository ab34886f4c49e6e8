"""What a task can know about the query that it is part of; Spark tells it by local properties."""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"


class Task(NamedTuple):
    """``partition`` numbers the tasks of a stage; the rest is None outside a streaming query."""

    partition: int
    batch: int | None
    query: str | None
    partitions: int | None  # of the state, as the checkpoint has it, whatever the session says now


def current() -> Task:
    """The task that this code runs in."""
    context = TaskContext.get()
    if context is None:
        return Task(0, None, None, None)
    batch, partitions = context.getLocalProperty(BATCH), context.getLocalProperty(PARTITIONS)
    return Task(
        context.partitionId(),
        None if batch is None else int(batch),
        context.getLocalProperty(QUERY),
        None if partitions is None else int(partitions),
    )
