"""The join of two DataFrames: checks everything, then composes pack, shuffle, join, unpack."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StructField, StructType

from slidejoin.errors import SchemaError, StateError, WindowError
from slidejoin.settings import Settings
from slidejoin.spark.backfill import joiner
from slidejoin.spark.columns import arrow_schema, result_schema
from slidejoin.spark.operator import ROWS, JoinProcessor, output
from slidejoin.spark.pack import packer
from slidejoin.spark.progress import observed, packing_observed
from slidejoin.spark.query import LATE, Query
from slidejoin.spark.route import Grid, Hash, resolve
from slidejoin.spark.session import PARTITIONS, require_rocksdb, shuffle_partitions
from slidejoin.window.spec import SIDES, Rows, Window

PACKED = StructType(
    [
        StructField("worker", IntegerType()),
        StructField("message", BinaryType()),
        StructField("pack_ns", LongType()),
    ]
)
MOST_WORKERS = 64  # without being asked for: with more, messages get small before work does
LARGEST_BUDGET = 4 << 30


def join(
    left: DataFrame,
    right: DataFrame,
    on: str,
    window: Window | tuple[Window, Window] | None = None,
    how: str = "inner",
    lateness: Any = None,
    late: str = "count",
    partitions: int | None = None,
    routing: str = "auto",
    *,
    index: str = "auto",
    aliases: tuple[str, str] = ("l", "r"),
    suffixes: tuple[str, str] = ("_l", "_r"),
    spread: int = 1,
    cache_bytes: int | None = None,
    name: str | None = "slidejoin",
) -> DataFrame:
    """Join two DataFrames, both streaming or both static, on any SQL condition over sliding windows.

    ``partitions``: workers of the join, by default as many as the session's shuffles have. ``routing``: how
    rows find them: auto, split, hash or grid. ``spread``: how many workers share the rows of a key (hash) or of
    a cell (grid), for hot ones; a full join only loses by it. ``cache_bytes``: what one Python process may
    keep in memory, and a host in files, between micro-batches; 0 keeps nothing, which is slow and as exact.
    ``name``: where the counters appear in the progress; give each join of a query its own. None counts nothing, and
    spares Spark some work with every row of the result.

    Nothing runs and no setting is changed; what can be found wrong is raised here.
    """
    _frames(left, right)
    session = left.sparkSession
    if left.isStreaming != right.isStreaming:
        kinds = ["a streaming" if frame.isStreaming else "a batch" for frame in (left, right)]
        raise SchemaError(
            f"the left is {kinds[0]} DataFrame and the right {kinds[1]} one; expected two of a kind; read both with "
            "readStream or both with read (for a fixed table beside a stream, Spark's own stream-static join serves)"
        )
    _named(name)
    query = planned(
        left,
        right,
        on,
        window,
        how,
        lateness,
        late,
        partitions,
        routing,
        index,
        aliases,
        suffixes,
        spread,
        cache_bytes,
    )
    if left.isStreaming:
        require_rocksdb(session)
    text, tasks = query.text(), shuffle_partitions(session)
    packed = plainly_named(left).mapInArrow(packer(text, 0, tasks), PACKED)
    packed = packed.unionByName(plainly_named(right).mapInArrow(packer(text, 1, tasks), PACKED))
    extra = [StructField(LATE, BooleanType(), nullable=False)] if query.keeps_late else []
    names = query.result if not extra else query.result.remove(len(query.result) - 1)
    schema = result_schema((left.schema, right.schema), names, extra)
    if not left.isStreaming:
        return (
            packed.select("worker", "message")
            .repartition(tasks, "worker")
            .mapInArrow(joiner(text, tasks), schema)
        )
    counting = name is not None
    workers = (packing_observed(packed, name) if name is not None else packed).select("worker", "message")
    joined = workers.groupBy("worker").transformWithStateInPandas(
        JoinProcessor(text, tasks, counting=counting),
        outputStructType=output(schema) if counting else schema,
        outputMode="Append",
        timeMode="None",
    )
    return joined if name is None else observed(joined, name).select(F.inline(ROWS))


def plainly_named(frame: DataFrame) -> DataFrame:
    """The frame with names that ``mapInArrow`` finds: it takes a dot or a backtick in a name for syntax."""
    if not any(sign in name for name in frame.columns for sign in ".`"):
        return frame
    return frame.toDF(*(f"column_{number}" for number in range(len(frame.columns))))


def explain(
    left: DataFrame,
    right: DataFrame,
    on: str,
    window: Window | tuple[Window, Window] | None = None,
    how: str = "inner",
    lateness: Any = None,
    late: str = "count",
    partitions: int | None = None,
    routing: str = "auto",
    *,
    index: str = "auto",
    aliases: tuple[str, str] = ("l", "r"),
    suffixes: tuple[str, str] = ("_l", "_r"),
    spread: int = 1,
    cache_bytes: int | None = None,
    name: str | None = "slidejoin",
) -> str:
    """What ``join`` with the same arguments would do: the condition taken apart, routing and why, state."""
    _frames(left, right)
    _named(name)
    query = planned(
        left,
        right,
        on,
        window,
        how,
        lateness,
        late,
        partitions,
        routing,
        index,
        aliases,
        suffixes,
        spread,
        cache_bytes,
    )
    settings, router = query.settings, query.router
    lines = [query.bound.describe().rstrip(), ""]
    for side, stated in enumerate(settings.windows):
        lines.append(f"{SIDES[side] + ' window':<13} {stated}")
    if settings.timed:
        lines.append(f"lateness      {settings.lateness or 0}, late rows: {settings.late}")
    lines += [
        f"join          {settings.how}, {'streaming' if left.isStreaming else 'batch'}, {counted(name)}",
        f"workers       {query.workers}, of {shuffle_partitions(left.sparkSession)} shuffle partitions",
        f"routing       {router.name}{' (auto)' if routing == 'auto' else ''}: {router.reason}",
        f"state         {held(query)}",
    ]
    return "\n".join(lines)


def counted(name: str | None) -> str:
    return "no counters" if name is None else f"counters as {name!r}"


def held(query: Query) -> str:
    """Which rows are held where."""
    how, workers = query.settings.how, query.workers
    if isinstance(query.router, Hash) and query.spread > 1:
        left, right = (query.router.group.copies(side) for side in (0, 1))
        return f"left rows at {left} and right rows at {right} of the {query.spread} workers of their key"
    if workers == 1 or query.routing == "hash":
        return "each row at one worker"
    if isinstance(query.router, Grid):
        anchored = [SIDES[side] for side, cells in enumerate(query.router.cells) if cells is not None]
        touched = "workers whose cells" if query.spread == 1 else f"{query.spread} workers of every cell that"
        if len(anchored) == 2:
            return f"each row at its home and at the {touched} its band touches"
        return f"{anchored[0]} rows at one worker, the others at the {touched} their band touches"
    if how == "inner":
        return f"each row at one of {workers} workers; all of them probe"
    if how == "full":
        return f"every row at each of {workers} workers"
    single = query.settings.padded[0]
    return f"{SIDES[single]} rows at one worker each, {SIDES[1 - single]} rows at each of {workers}"


def planned(
    left: DataFrame,
    right: DataFrame,
    on: Any,
    window: Any,
    how: Any,
    lateness: Any,
    late: Any,
    partitions: Any,
    routing: Any,
    index: Any,
    aliases: Any,
    suffixes: Any,
    spread: Any,
    cache_bytes: Any,
) -> Query:
    """The query that the arguments ask for, checked as far as that goes without rows."""
    settings = Settings.checked(
        on, window, how, lateness, late, "none", index, "auto", 1, aliases, suffixes, None
    )
    for stated in settings.windows:
        if isinstance(stated, Rows) and stated.by is None:
            raise WindowError(
                f"Rows({stated.n}) has no by; expected a column that orders the rows of a micro-batch, as Spark keeps "
                "no order; try Rows(1000, by='ts')"
            )
    schemas = arrow_schema(left.schema, 0), arrow_schema(right.schema, 1)
    workers = _workers(partitions, shuffle_partitions(left.sparkSession))
    shared = _spread(spread, workers)
    draft = Query(settings, schemas, workers, "split", _budget(cache_bytes))
    draft.check()
    name = resolve(routing, draft.bound, settings, schemas, workers, shared)
    return Query(settings, schemas, workers, name, draft.budget, shared)


def _frames(*given: Any) -> None:
    for side, frame in enumerate(given):
        if not isinstance(frame, DataFrame):
            raise SchemaError(
                f"the {SIDES[side]} is of type {type(frame).__name__}; expected a Spark DataFrame; read it with "
                "spark.readStream or spark.read, or make one with spark.createDataFrame"
            )


def _named(name: Any) -> None:
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise StateError(
            f"name={name!r}; expected a text, under which the counters are in the progress, or None for no counters; leave "
            "it out for 'slidejoin'"
        )


def _workers(asked: Any, tasks: int) -> int:
    if asked is None:
        return min(tasks, MOST_WORKERS)
    if not _whole(asked) or not 1 <= asked <= tasks:
        raise StateError(
            f"partitions={asked!r}; expected a whole number from 1 to {tasks}, the session's {PARTITIONS}, so that "
            f"each worker has a task of its own; lower partitions, or set {PARTITIONS}"
        )
    return int(asked)


def _spread(asked: Any, workers: int) -> int:
    if not _whole(asked) or not 1 <= asked <= workers:
        hint = (
            "lower spread, or raise partitions" if _whole(asked) and asked > workers else "leave it out for 1"
        )
        raise StateError(
            f"spread={asked!r}; expected a whole number from 1 to {workers}, the workers of the join, as that many "
            f"share a key or a cell; {hint}"
        )
    return int(asked)


def _budget(asked: Any) -> int:
    if asked is None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
        return min(LARGEST_BUDGET, memory // 4) if memory else LARGEST_BUDGET
    if not _whole(asked) or asked < 0:
        raise StateError(
            f"cache_bytes={asked!r}; expected a number of bytes, 0 for no cache; leave it out for a quarter of memory"
        )
    return int(asked)


def _whole(asked: Any) -> bool:
    return isinstance(asked, Integral) and not isinstance(asked, bool)
