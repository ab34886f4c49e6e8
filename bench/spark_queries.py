"""Queries on Spark, in a process with a session of its own: ours, and Spark's own join with bucket keys.

Spark's own join refuses a condition without an equality. The way around it: cut the key's range into buckets
as wide as the band's half, copy each row of one side into three of them, join on the bucket and the time bounds,
and keep the pairs that really match. Both joins read the same files, have as many partitions as the master has
cores, and end in the same sink, which drops the rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep, time
from typing import Any

import numpy as np
import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

import slidejoin as sj
from bench.spark_feed import KINDS, columns_of, keys_for, write
from bench.spark_floor import floor
from slidejoin.spark import counters, join, settings
from slidejoin.spark.session import PROVIDER

STORES = {
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
OURS = {"ours": "slidejoin", "uncounted": None}  # what the counters are called
POLL = 0.2  # seconds between looks at a query that has a limit


class Spark:
    """A session and what can be asked of it; lives in a ``bench.stage.Stage``."""

    def __init__(self, cores: int = 2, partitions: int | None = None, plain: list[str] | None = None) -> None:
        """``plain``: settings of ours that are left at Spark's defaults."""
        self.folder = Path(tempfile.mkdtemp(prefix="slidejoin-bench-"))
        os.environ["SPARK_LOCAL_DIRS"] = str(self.folder / "scratch")
        ours = settings(partitions=partitions or cores)
        for name in plain or []:
            del ours[name]
        self.session = quietly(
            SparkSession.builder.master(f"local[{cores}]")
            .config(map=ours)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "5g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.network.timeout", "3600s")  # nobody is missed while it is another one's turn
            .config("spark.sql.warehouse.dir", str(self.folder / "warehouse"))
            .config("spark.sql.streaming.numRecentProgressUpdates", "1000"),
            self.folder / "log",
        )
        self.session.sparkContext.setLogLevel("ERROR")
        self.asked = 0
        self.under_way: UnderWay | None = None

    def run(self, *, limit: float | None = None, **asked: Any) -> dict[str, Any]:
        """``begin``, then ``end``."""
        self.begin(**asked)
        return self.end(limit)

    def begin(
        self,
        kind: str,
        window: int,
        sizes: list[int],
        rate: float = 2.0,
        join: str = "ours",
        routing: str = "auto",
        check: bool = False,
    ) -> None:
        """Stream files of these sizes, in the background.

        ``join``: ours, with counters or without (uncounted), no join (floor), or the state store of Spark's own (memory, rocksdb).
        """
        self.asked += 1
        folder = self.folder / str(self.asked)
        described = KINDS[kind]
        write(folder, described, sizes, keys_for(described, window, rate))
        condition = described.condition(window, rate)
        left, right = (
            self.session.readStream.schema(columns_of(described))
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / side))
            for side in ("left", "right")
        )
        self.session.conf.set(PROVIDER, STORES["memory" if join == "memory" else "rocksdb"])
        if join in OURS:
            joined = ours(left, right, condition, window, routing, OURS[join])
        elif join == "floor":
            joined = floor(left, right, condition, window, rate)
        else:
            joined = with_buckets(left, right, condition, window)
        if check:
            found = F.sum(F.xxhash64("id_l", "id_r") % 1_000_003)
            joined = joined.observe("found", F.count(F.lit(1)).alias("pairs"), found.alias("print"))
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        described_as = {
            "kind": kind, "window": window, "rate": rate, "join": join, "routing": routing, "condition": condition,
            "sizes": sizes,
        }  # fmt: skip
        self.under_way = UnderWay(query, folder, described_as)

    def done(self) -> int:
        """How many micro-batches are done."""
        last = self._query.query.lastProgress
        return 0 if last is None else last.batchId + 1

    def end(self, limit: float | None = None) -> dict[str, Any]:
        """Every micro-batch of the query: its rows, milliseconds and counters.

        ``limit``: seconds from now after which it is given up; micro-batches that are done by then count.
        """
        return self._query.end(limit)

    @property
    def _query(self) -> UnderWay:
        assert self.under_way is not None, "a query has begun"
        return self.under_way

    def close(self) -> None:
        self.session.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def quietly(builder: SparkSession.Builder, log: Path) -> SparkSession:
    """The session, with what its processes say in a file: workers report every start and end."""
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        return builder.getOrCreate()
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def ours(
    left: DataFrame, right: DataFrame, condition: str, window: int, routing: str, name: str | None
) -> DataFrame:
    spec = sj.Time(f"{window} milliseconds", on="ts")
    return join(left, right, on=condition, window=spec, routing=routing, name=name)


def with_buckets(left: DataFrame, right: DataFrame, condition: str, window: int) -> DataFrame:
    """Spark's own join for a band on k."""
    reach = int(condition.rpartition(" ")[2])
    a = left.withWatermark("ts", "0 seconds").withColumn("bucket", F.floor(F.col("k") / reach)).alias("l")
    b = (
        right.withWatermark("ts", "0 seconds")
        .withColumn("own", F.floor(F.col("k") / reach))
        .withColumn("bucket", F.explode(F.array(F.col("own") - 1, F.col("own"), F.col("own") + 1)))
        .alias("r")
    )
    length = F.expr(f"INTERVAL {window} MILLISECONDS")
    timely = (F.col("l.ts") >= F.col("r.ts") - length) & (F.col("l.ts") <= F.col("r.ts") + length)
    near = F.abs(F.col("l.k") - F.col("r.k")) <= reach
    joined = a.join(b, (F.col("l.bucket") == F.col("r.bucket")) & timely & near)
    return joined.select(
        F.col("l.ts").alias("ts_l"), F.col("l.id").alias("id_l"), F.col("l.k").alias("k_l"),
        F.col("r.ts").alias("ts_r"), F.col("r.id").alias("id_r"), F.col("r.k").alias("k_r"),
    )  # fmt: skip


class UnderWay:
    """A query that runs, and somebody who looks at the CPU time that it takes."""

    def __init__(self, query: Any, folder: Path, described: dict[str, Any]) -> None:
        self.query, self.folder, self.described = query, folder, described
        self.began = perf_counter()
        self.looks = [(time(), cpu_seconds())]
        self._looking = Thread(target=self._look, daemon=True)
        self._looking.start()

    def _look(self) -> None:
        while self.query.isActive:
            sleep(POLL)
            self.looks.append((time(), cpu_seconds()))

    def batches(self) -> list[Any]:
        """What Spark tells of the micro-batches that are done."""
        return [progress for progress in self.query.recentProgress if progress.numInputRows]

    def end(self, limit: float | None) -> dict[str, Any]:
        """Wait for the end, or give up."""
        if limit is None:
            self.query.awaitTermination()  # raises what went wrong
        elif limit > 0:
            self.query.awaitTermination(limit)
        given_up = self.query.isActive
        self.query.stop()
        seconds = perf_counter() - self.began
        self._looking.join()
        batches = [batch_of(progress, self.looks) for progress in self.batches()]
        shutil.rmtree(self.folder)
        return {**self.described, "given_up": given_up, "seconds": seconds, "batches": batches}


def cpu_seconds() -> float:
    """CPU time so far of this process, its JVM and the Python workers."""
    used = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a worker that has just ended: its parent has its time
            taken = process.cpu_times()
            used += taken.user + taken.system + taken.children_user + taken.children_system
    return used


def batch_of(progress: Any, looks: list[tuple[float, float]]) -> dict[str, Any]:
    """What is kept of a micro-batch; its CPU time is between two looks, so it is good for several together."""
    begin = datetime.fromisoformat(progress.timestamp).timestamp()
    times, used = zip(*looks, strict=True)
    cpu = np.interp([begin, begin + progress.durationMs["triggerExecution"] / 1000], times, used)
    found = progress.observedMetrics.get("found")
    took = dict(progress.durationMs)
    kept = ("pack_ms", "join_ms", "state_ms", "matches", "state_rows", "state_bytes", "cache_hits", "catch_up_reads",
            "rows_all_workers", "rows_busiest_worker", "workers")  # fmt: skip
    mine = counters(progress)
    return {
        "at": begin,
        "rows": progress.numInputRows,
        "ms": took["triggerExecution"],
        "cpu_ms": 1000 * float(cpu[1] - cpu[0]),
        "phases": took,
        **{name: mine[name] for name in kept if name in mine},
        **({} if found is None else {"pairs": found["pairs"], "print": found["print"]}),
    }
