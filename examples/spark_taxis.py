"""Taxi pickups near each other: two bands, on longitude and latitude, over five minutes. A stream with itself."""

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

MORNING = np.datetime64(datetime(2026, 1, 5, 8), "us")


def write(folder: Path, rows: int = 3_000) -> None:
    """An hour of pickups around a centre."""
    draw = np.random.default_rng(7)
    moments = MORNING + np.sort(draw.integers(0, 3_600_000_000, rows))
    where = {
        "lon": draw.normal(-73.98, 0.02, rows).round(5),
        "lat": draw.normal(40.75, 0.02, rows).round(5),
    }
    ts = pa.array(moments, pa.timestamp("us", "UTC"))
    table = pa.table({"ts": ts, "taxi": draw.integers(0, 500, rows), **where})
    folder.mkdir()
    for number, start in enumerate(range(0, rows, rows // 3)):
        pq.write_table(table.slice(start, rows // 3), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_000_000 + number, 1_000_000 + number))


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config(map=settings(partitions=2))
    spark = builder.config("spark.log.level", "ERROR").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "pickups")
        source = spark.readStream.option("maxFilesPerTrigger", 1)
        pickups = source.schema("ts TIMESTAMP, taxi LONG, lon DOUBLE, lat DOUBLE").parquet(
            f"{folder}/pickups"
        )
        on = "abs(l.lon - r.lon) <= 0.0005 AND abs(l.lat - r.lat) <= 0.0005 AND l.taxi < r.taxi"
        near = join(pickups, pickups, on, window=sj.Time("5 minutes", on="ts"))
        query = near.writeStream.format("memory").queryName("near").trigger(availableNow=True).start()
        query.awaitTermination()
        spark.sql("""
            SELECT date_format(least(ts_l, ts_r), 'mm:ss') AS first,
                   date_format(greatest(ts_l, ts_r), 'mm:ss') AS second, taxi_l, taxi_r, lon_l, lat_l
            FROM near ORDER BY first, second, taxi_l LIMIT 5""").show()
        print(f"{spark.table('near').count()} pairs of pickups within about fifty metres and five minutes")
    spark.stop()


if __name__ == "__main__":
    main()
