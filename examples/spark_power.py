"""Data-centre power: racks that draw less than another rack and yet run hotter. Two inequalities, no equality."""

import os
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import explain, join, settings

MIDNIGHT = np.datetime64(datetime(2026, 1, 5), "us")
SCHEMA = "ts TIMESTAMP, rack STRING, kilowatts DOUBLE, celsius DOUBLE"


def write(folder: Path, hall: str, seed: int, rows: int = 600) -> None:
    """Ten minutes of a hall's readings: the more power, the warmer, but for a few."""
    draw = np.random.default_rng(seed)
    power = draw.uniform(4, 16, rows).round(2)
    heat = (20 + power + np.where(draw.random(rows) < 0.02, 9, 0) + draw.normal(0, 0.3, rows)).round(1)
    racks = [f"{hall}{number:02}" for number in draw.integers(0, 40, rows)]
    seconds = pa.array(MIDNIGHT + np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC"))
    table = pa.table({"ts": seconds, "rack": racks, "kilowatts": power, "celsius": heat})
    folder.mkdir()
    for number, start in enumerate(range(0, rows, rows // 2)):
        pq.write_table(table.slice(start, rows // 2), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_000_000 + number, 1_000_000 + number))


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config(map=settings(partitions=2))
    spark = builder.config("spark.log.level", "ERROR").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "north", "N", 1)
        write(Path(folder) / "south", "S", 2)
        source = spark.readStream.option("maxFilesPerTrigger", 1).schema(SCHEMA)
        halls = [source.parquet(f"{folder}/{hall}") for hall in ("north", "south")]
        asked = {
            "on": "l.kilowatts < r.kilowatts AND l.celsius > r.celsius + 3",
            "window": sj.Time("30 seconds", on="ts"),
        }
        print(next(line for line in explain(*halls, **asked).splitlines() if line.startswith("routing")))
        hotter = join(*halls, **asked)
        query = hotter.writeStream.format("memory").queryName("hotter").trigger(availableNow=True).start()
        query.awaitTermination()
        spark.sql("""
            SELECT rack_l AS rack, count(*) AS cooler_neighbours, max(celsius_l) AS celsius
            FROM hotter GROUP BY rack_l ORDER BY cooler_neighbours DESC, rack LIMIT 5""").show()
    spark.stop()


if __name__ == "__main__":
    main()
