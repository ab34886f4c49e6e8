"""Two small feeds, as files of every format, and a nested loop to compare with."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

START = datetime(2026, 1, 5, 9, 30)
BAND = "abs(l.price - r.price) <= 0.5"
TIMED = ["--on", BAND, "--window", "10 seconds", "--time", "ts"]


def feed(seed: int, key: str, rows: int = 400) -> pa.Table:
    draw = np.random.default_rng(seed)
    seconds = np.sort(draw.uniform(0, 120, rows)).round(3)
    return pa.table(
        {
            "ts": pa.array([START + timedelta(seconds=float(s)) for s in seconds], pa.timestamp("us")),
            key: pa.array(np.arange(rows)),
            "price": pa.array(draw.uniform(0, 50, rows).round(2)),
        }
    )


def within(left: pa.Table, right: pa.Table, seconds: float = 10, band: float = 0.5) -> set[tuple[int, int]]:
    """The pairs that TIMED asks for, by nested loop: (trade, quote)."""
    return {
        (a["trade"], b["quote"])
        for a in left.to_pylist()
        for b in right.to_pylist()
        if abs((a["ts"] - b["ts"]).total_seconds()) <= seconds and abs(a["price"] - b["price"]) <= band
    }


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["trade"].to_pylist(), table["quote"].to_pylist(), strict=True))


def write(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pa.parquet.write_table(table, path, row_group_size=100)
        case ".csv":
            pa.csv.write_csv(table, path)
        case ".ndjson":
            rows = [{**row, "ts": row["ts"].isoformat(sep=" ")} for row in table.to_pylist()]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".arrows":
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=90)
        case ".arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=90)
    return path


def read(path: Path) -> pa.Table:
    match path.suffix:
        case ".parquet":
            return pa.parquet.read_table(path)
        case ".csv":
            return pa.csv.read_csv(path)
        case ".ndjson":
            return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])
        case _:
            return pa.ipc.open_stream(path.read_bytes()).read_all()
