"""A streaming query in a process of its own, with traps: run again and again until no trap is left.

    python -m spark.fault_driver MASTER FOLDER

A trap is a file ``traps/POINT-BATCH`` that says whom to kill; the first task that comes by removes it and kills,
always with SIGKILL. So a fault happens at a known point of a known micro-batch, and once. Points:

    arriving  a task has taken the first rows of the left side; nothing has been packed
    leaving   a task has the first rows of the result; the join's worker is still writing
    done      a task has all of its result: its state is written, the micro-batch is not committed

Victims: ``driver`` (its Python and its JVM), ``workers`` (every Python worker of the task's executor, those of
the join among them), ``executor`` (the JVM that the task runs in).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark.sql import SparkSession

from slidejoin.spark import join, settings, task
from spark.streams import CONDITIONS, as_oracle, drain, sides_of, time_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

JOIN: dict[str, Any] = {
    "on": CONDITIONS["band"][0], "window": time_window(6, 4)[0], "how": "full", "lateness": "2 seconds", "partitions": 2,
}  # fmt: skip


def trapped(traps: Path, start: str, end: str | None) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` that passes everything on, and springs what lies at its points."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch = task.current().batch
        first = next(batches, None)
        spring(traps / f"{start}-{batch}")
        if first is not None:
            yield first
        yield from batches
        if end is not None:
            spring(traps / f"{end}-{batch}")

    return pass_on


def spring(trap: Path) -> None:
    try:
        victim = trap.read_text()
        trap.unlink()  # one task of several gets it, and no later attempt
    except FileNotFoundError:
        return
    me = psutil.Process()
    if victim == "driver":
        os.killpg(int((trap.parent / "driver").read_text()), signal.SIGKILL)
    elif victim == "executor":
        next(process for process in me.parents() if process.name() == "java").kill()
    else:
        for process in me.parent().children():  # the daemon's, this one included
            process.kill()


def main(master: str, folder: Path) -> None:
    traps = folder / "traps"
    (traps / "driver").write_text(str(os.getpgid(0)))
    spark = (
        SparkSession.builder.master(master)
        .config(map=settings(partitions=2))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    left, right = sides_of(spark, folder)
    left = left.mapInArrow(trapped(traps, "arriving", None), left.schema)
    joined = join(left, right, **JOIN)
    drain(joined.mapInArrow(trapped(traps, "leaving", "done"), joined.schema), folder)
    found = spark.read.schema(joined.schema).parquet(str(folder / "out")).collect()
    (folder / "found.json").write_text(json.dumps([as_oracle(row) for row in found]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
