"""``slidejoin run --engine spark`` writes what ``--engine local`` writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.feeds import TIMED, feed, read, write
from slidejoin.cli import on_spark

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *words: object, **changed: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: the session is its own too."""
    scratch = {"SPARK_LOCAL_DIRS": str(folder), "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-m", "slidejoin.cli", "run", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, **scratch, **changed},
    )


def both(folder: Path, *words: object, out: str = "out.parquet") -> tuple[pa.Table, pa.Table, dict]:
    """The result of both engines, and what Spark's summary says."""
    said = {}
    for engine in ("local", "spark"):
        (folder / engine).mkdir()
        done = run(folder, *words, "--out", folder / engine / out, "--engine", engine, "--json")
        assert done.returncode == 0, done.stderr
        said[engine] = json.loads(done.stdout)
        assert [path.name for path in (folder / engine).iterdir()] == [out]  # no pieces are left
    assert said["spark"]["rows_in"] == said["local"]["rows_in"]
    assert said["spark"]["rows_out"] == said["local"]["rows_out"] > 0
    return read(folder / "local" / out), read(folder / "spark" / out), said["spark"]


def multiset(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def test_a_folder_of_text_and_awkward_types(tmp_path: Path) -> None:
    """Parquet with types that Spark lacks, a folder of CSV, rows without a time."""
    trades, quotes = feed(1, "trade"), feed(2, "quote")
    count = trades.num_rows
    ts = trades["ts"].cast(pa.timestamp("ns", "Europe/Berlin")).to_pylist()
    ts[5] = None
    odd = {
        "ts": pa.array(ts, pa.timestamp("ns", "Europe/Berlin")),
        "small": pa.array([n % 200 for n in range(count)], pa.uint8()),
        "word": pa.array([f"w{n % 3}" for n in range(count)]).dictionary_encode(),
        "cost": pa.array([Decimal(n) / 100 for n in range(count)], pa.decimal128(9, 2)),
        "parts": pa.array([[n, None] for n in range(count)], pa.large_list(pa.uint32())),
        "blank": pa.array(["" if n % 2 else None for n in range(count)]),
    }
    left = pa.table({**odd, "trade": trades["trade"], "price": trades["price"]})
    pq.write_table(left, tmp_path / "trades.parquet")
    quotes = quotes.set_column(0, "ts", quotes["ts"].cast(pa.timestamp("us", "UTC")))
    for number in range(3):
        write(quotes.slice(number * 150, 150), tmp_path / "quotes" / f"day={number}" / "part.csv")
    words = ["--left", tmp_path / "trades.parquet", "--right", tmp_path / "quotes", *TIMED, "--how", "full"]
    local, spark, said = both(tmp_path, *words)
    assert spark.schema.equals(local.schema)
    assert multiset(spark) == multiset(local)
    assert said["stats"]["left"] == {"rows_in": count, "null_time": 1, "late": 0}


def test_count_windows_and_ndjson(tmp_path: Path) -> None:
    left, right = (
        write(feed(number, key), tmp_path / f"{key}.ndjson")
        for number, key in enumerate(("trade", "quote"), 3)
    )
    words = ["--left", left, "--right", right, "--on", "l.price < r.price AND l.trade % 5 = 0", "--rows", "20,30",
             "--by", "ts", "--how", "anti", "--threads", 2]  # fmt: skip
    local, spark, _ = both(tmp_path, *words, out="out.csv")
    assert multiset(spark) == multiset(local)


def test_what_goes_wrong_is_said(tmp_path: Path) -> None:
    left, right = (
        write(feed(1, "trade"), tmp_path / "l" / "a.csv"),
        write(feed(2, "quote"), tmp_path / "r.csv"),
    )
    (left.parent / "b.csv").write_text("ts,trade,price\n2026-01-05 09:30:00,x,1.5\n")
    words = [
        "--left",
        left.parent,
        "--right",
        right,
        *TIMED,
        "--engine",
        "spark",
        "--out",
        tmp_path / "out.csv",
    ]
    done = run(tmp_path, *words)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"error: cannot read {left.parent / 'b.csv'} as csv"), done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.csv").exists()
    nowhere = run(tmp_path, *words, JAVA_HOME=str(tmp_path))
    assert nowhere.returncode == 1
    assert "expected Java 17 or newer" in nowhere.stderr
    without = run(tmp_path, *words[:-1], tmp_path / "out.csv", "--rows", 5)
    assert without.returncode == 2


def test_types_that_spark_lacks() -> None:
    with pytest.raises(
        on_spark.SchemaError, match="left column 'x' is uint64; expected a type that Spark has"
    ):
        on_spark.schema_carried(pa.schema([("x", pa.uint64())]), "left")
