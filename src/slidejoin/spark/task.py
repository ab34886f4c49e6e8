"""What a task can know about the query that it is part of, and what it leaves behind in its process."""

from __future__ import annotations

import gc
from functools import cache
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
    """The task that this code runs in. Spark tells about it by local properties."""
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


@cache
def settle() -> None:
    """Once in a process, when its first task is done: what has been loaded by then is here to stay.

    Spark collects garbage after every task. With all that a join imports, looking at each object once takes 80 ms,
    of every task; frozen objects are not looked at.
    """
    gc.collect()
    gc.freeze()
