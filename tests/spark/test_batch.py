"""Static DataFrames: the same rows as one push of everything and the end; types of every kind pass through."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.spark import join
from spark.streams import CONDITIONS, DDL, Feed, as_oracle, drain, oracle, rows_window, time_window

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_as_one_push_and_the_end(spark: SparkSession, tmp_path: Path, how: str) -> None:
    rng = random.Random(how)
    for routing, names in (
        ("split", list(CONDITIONS)),
        ("hash", ["equality"]),
        ("grid", ["band", "equality and band"]),
        ("rows", ["band"]),
    ):
        condition = rng.choice(names)
        feed = Feed(rng.randint(0, 10**6), batches=3, rows=20)
        ours, theirs = time_window(3, 5) if routing != "rows" else rows_window(12, 20)
        if routing == "rows":
            feed.by_moment()
            for side in (0, 1):  # all micro-batches become one: moments must differ between them too
                rows = [row for batch in feed.made for row in batch[side] if row["ts"] is not None]
                for number, row in enumerate(rows):
                    row["ts"] = row["ts"].replace(microsecond=number)
        folder = tmp_path / routing
        feed.write(folder)
        left, right = (spark.read.schema(DDL).parquet(str(folder / name)) for name in ("left", "right"))
        partitions = rng.randint(1, 3)
        frame = join(
            left.coalesce(1), right.coalesce(1), on=CONDITIONS[condition][0], window=ours, how=how,
            routing="split" if routing == "rows" else routing, partitions=partitions,
            spread=rng.randint(1, partitions) if routing in ("hash", "grid") else 1,
        )  # fmt: skip
        wanted = oracle(feed, condition, theirs, how, finish=True, together=True)
        assert Counter(map(as_oracle, frame.collect())) == Counter(wanted), (routing, condition)


@pytest.mark.parametrize("routing", ["split", "grid"])
def test_a_span_of_many_windows(spark: SparkSession, routing: str) -> None:
    """All of it is one push to each worker, which is cut by time."""
    rows, length = 6000, 12
    frames = [
        spark.range(0, rows, 1, 3).selectExpr("id", f"id * {step} % {rows} AS t", f"id * {step} % 97 AS x")
        for step in (1009, 2003)
    ]
    joined = join(
        *frames, on="abs(l.x - r.x) <= 20 AND l.id <> r.id", window=sj.Time(length, on="t"), routing=routing,
        how="full", partitions=2,
    )  # fmt: skip
    found = joined.select("id_l", "id_r").toPandas()
    (t, x), (u, y) = (
        (ids * step % rows, ids * step % 97) for ids in [np.arange(rows)] for step in (1009, 2003)
    )
    near = (abs(t[:, None] - u) <= length) & (abs(x[:, None] - y) <= 20)
    np.fill_diagonal(near, False)
    wanted = Counter(zip(*(numbers.tolist() for numbers in np.nonzero(near)), strict=True))
    wanted.update((number, -1) for number in np.flatnonzero(~near.any(axis=1)).tolist())
    wanted.update((-1, number) for number in np.flatnonzero(~near.any(axis=0)).tolist())
    numbers = found.fillna(-1).astype("int64").to_numpy().tolist()
    assert Counter(map(tuple, numbers)) == wanted


def test_equal_times_in_many_tasks(spark: SparkSession) -> None:
    """No pair is lost where many rows share a time, however many tasks they come from."""
    left = spark.range(0, 400, 1, 7).selectExpr("id AS a", "id % 20 AS x", "id % 3 AS t")
    right = spark.range(0, 300, 1, 5).selectExpr("id AS b", "id % 20 AS x", "id % 3 AS t")
    pairs = sum(1 for a in range(400) for b in range(300) if abs(a % 20 - b % 20) <= 1 and a % 3 == b % 3)
    for routing in ("split", "grid"):
        frame = join(left, right, on="abs(l.x - r.x) <= 1", window=sj.Time(0, on="t"), routing=routing)
        assert frame.select("a", "b").distinct().count() == frame.count() == pairs


def test_names_that_spark_takes_for_syntax(spark: SparkSession) -> None:
    frame = spark.range(5).selectExpr("id", "id * 2 AS `a.b`", "id AS `c``d`")
    found = join(frame, frame, on='l."a.b" = r."c`d"', window=sj.Time(9, on="id"), suffixes=(".l", ""))
    assert found.columns == ["id.l", "a.b.l", "c`d.l", "id", "a.b", "c`d"]
    assert sorted(row["id.l"] * 10 + row["id"] for row in found.collect()) == [0, 12, 24]


def test_a_frame_with_itself(spark: SparkSession) -> None:
    frame = spark.range(50).selectExpr("id", "id * 7 % 50 AS x", "timestamp_seconds(id) AS ts")
    joined = join(frame, frame, on="l.x < r.x AND l.id <> r.id", window=sj.Time("3 seconds", on="ts"))
    wanted = {
        (a, b) for a in range(50) for b in range(50) if a * 7 % 50 < b * 7 % 50 and a != b and abs(a - b) <= 3
    }
    assert {(row["id_l"], row["id_r"]) for row in joined.collect()} == wanted


KINDS = {
    "boolean": "true", "tinyint": "-7", "smallint": "300", "int": "-70000", "bigint": "9007199254740993",
    "float": "0.1", "double": "-0.0", "decimal(38,10)": "12345678901234567890.0123456789", "string": "'é \u2028'",
    "binary": "X'00FF'", "date": "'1899-12-31'", "timestamp": "'1969-12-31 23:59:59.999999'",
    "timestamp_ntz": "'2026-03-01 01:02:03.000004'", "interval day to second": "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "array<int>": "array(1, NULL, 3)", "map<string,double>": "map('a', 1.5, 'b', NULL)",
    "struct<a:int,b:array<struct<c:timestamp>>>": "named_struct('a', 1, 'b', array(named_struct('c', timestamp'2026-03-01 00:00:00')))",
}  # fmt: skip


def every_type(spark: SparkSession) -> DataFrame:
    """A row with a value and a NULL of all types that Arrow and Spark share, nested ones among them."""
    values = ", ".join(
        f"CAST({text} AS {kind}) AS v{n}, CAST(NULL AS {kind}) AS n{n}"
        for n, (kind, text) in enumerate(KINDS.items())
    )
    return spark.sql(f"SELECT 1 AS id, 5 AS t, {values}")


def passed_through(given: DataFrame, joined: DataFrame) -> None:
    columns = len(given.schema.fields)
    assert [f.dataType for f in joined.schema.fields[:columns]] == [f.dataType for f in given.schema.fields]
    row, truth = joined.collect()[0].asDict(), given.collect()[0].asDict()
    names: list[Any] = [name for name in truth if name not in ("id", "t")]
    assert repr({name: row[name] for name in names}) == repr({name: truth[name] for name in names})


def test_every_type_passes_through(spark: SparkSession) -> None:
    frame = every_type(spark)
    right = spark.sql("SELECT 1 AS id, 5 AS t")
    passed_through(frame, join(frame, right, on="l.id = r.id", window=sj.Time(1, on="t"), how="left"))


@pytest.mark.parametrize("name", ["slidejoin", None])
def test_every_type_passes_through_a_stream(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, name: str | None
) -> None:
    """The stateful operator gives Arrow to Spark by way of pandas, which has no such types."""
    before = spark.conf.get("spark.sql.session.timeZone")
    request.addfinalizer(lambda: spark.conf.set("spark.sql.session.timeZone", before))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    frame = every_type(spark)
    frame.write.parquet(str(tmp_path / "left"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "left"))
    joined = join(stream, stream.select("id", "t"), on="l.id = r.id", window=sj.Time(1, on="t"), name=name)
    drain(joined, tmp_path)
    passed_through(frame, spark.read.schema(joined.schema).parquet(str(tmp_path / "out")))


def test_many_matches_leave_in_pieces(spark: SparkSession) -> None:
    """Nine million pairs from six thousand rows: counted without ever being together."""
    frame = spark.range(0, 3000, 1, 2).selectExpr("id AS x", "0 AS t")
    joined = join(frame, frame, on="l.x >= 0 AND r.x >= 0 AND l.x <> -r.x - 1", window=sj.Time(0, on="t"))
    assert joined.count() == 3000 * 3000
