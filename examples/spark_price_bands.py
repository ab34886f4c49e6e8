"""Trades and quotes whose prices are within five cents and whose times are within ten seconds, on Spark."""

import os
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import counters, join, settings

OPENING = np.datetime64(datetime(2026, 1, 5, 9, 30), "us")


def write(folder: Path, seed: int, key: str, amount: str, rows: int = 2_000) -> None:
    """Two minutes of a feed in two files; each will be a micro-batch, in the order of their times."""
    draw = np.random.default_rng(seed)
    moments = OPENING + np.sort(draw.integers(0, 120_000_000, rows))
    ts = pa.array(moments, pa.timestamp("us", "UTC"))
    price = draw.uniform(10, 200, rows).round(2)
    table = pa.table({"ts": ts, key: np.arange(rows), "price": price, amount: draw.integers(1, 1_000, rows)})
    folder.mkdir()
    for number, start in enumerate(range(0, rows, rows // 2)):
        pq.write_table(table.slice(start, rows // 2), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_000_000 + number, 1_000_000 + number))


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config(map=settings(partitions=2))
    spark = builder.config("spark.log.level", "ERROR").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as home:
        write(Path(home) / "trades", 1, "trade", "qty")
        write(Path(home) / "quotes", 2, "quote", "size")
        feed = spark.readStream.option("maxFilesPerTrigger", 1)
        trades = feed.schema("ts TIMESTAMP, trade LONG, price DOUBLE, qty LONG").parquet(f"{home}/trades")
        quotes = feed.schema("ts TIMESTAMP, quote LONG, price DOUBLE, size LONG").parquet(f"{home}/quotes")
        on = "abs(l.price - r.price) <= 0.05 AND l.qty <= r.size"
        matches = join(trades, quotes, on, window=sj.Time("10 seconds", on="ts"), lateness="5 seconds")
        query = matches.writeStream.format("memory").queryName("matches").trigger(availableNow=True).start()
        query.awaitTermination()
        shown = spark.table("matches").select("trade", "quote", "price_l", "price_r", "qty", "size")
        shown.orderBy("trade", "quote").limit(5).show()
        state = counters(query.lastProgress)["state_rows"]
        print(f"{spark.table('matches').count()} matches; {state} rows are still in the windows")
    spark.stop()


if __name__ == "__main__":
    main()
