"""Sensors by count window: readings that none of the other sensor's last 20 readings confirms (an anti join)."""

import os
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import join, settings

MIDNIGHT = np.datetime64(datetime(2026, 1, 5), "us")


def write(folder: Path, seed: int, faults: int, rows: int = 400) -> None:
    """A sensor's readings: a slow wave, some noise, and a few faults."""
    draw = np.random.default_rng(seed)
    value = 20 + 5 * np.sin(np.arange(rows) / 40) + draw.normal(0, 0.1, rows)
    value[draw.choice(rows // 2, faults, replace=False)] += 7
    moments = MIDNIGHT + np.arange(rows) * 1_000_000 + draw.integers(0, 1_000, rows)
    ts = pa.array(moments, pa.timestamp("us", "UTC"))
    table = pa.table({"ts": ts, "reading": np.arange(rows), "value": value.round(2)})
    folder.mkdir()
    for number, start in enumerate(range(0, rows, rows // 4)):
        pq.write_table(table.slice(start, rows // 4), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_000_000 + number, 1_000_000 + number))


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config(map=settings(partitions=2))
    spark = builder.config("spark.log.level", "ERROR").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "inside", 3, faults=4)
        write(Path(folder) / "outside", 4, faults=0)
        source = spark.readStream.option("maxFilesPerTrigger", 1).schema(
            "ts TIMESTAMP, reading LONG, value DOUBLE"
        )
        unconfirmed = join(
            source.parquet(f"{folder}/inside"), source.parquet(f"{folder}/outside"), how="anti",
            on="abs(l.value - r.value) <= 1", window=sj.Rows(20, by="ts"),
        )  # fmt: skip
        query = (
            unconfirmed.writeStream.format("memory").queryName("faults").trigger(availableNow=True).start()
        )
        query.awaitTermination()
        spark.sql("SELECT reading, value FROM faults ORDER BY reading").show()
    spark.stop()


if __name__ == "__main__":
    main()
