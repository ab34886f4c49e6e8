"""Use and misuse: errors before anything runs, what explain says, counters, two queries in one session."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException

import naive
import slidejoin as sj
from slidejoin.spark import ProgressLine, counters, explain, join, settings
from slidejoin.spark.keys import murmur3, worker_keys
from slidejoin.spark.progress import COUNTERS, TIMES, WORKED, line
from slidejoin.spark.session import PROVIDER, REASONS
from spark.streams import (
    CONDITIONS,
    DDL,
    SECOND,
    Feed,
    drain,
    oracle,
    results,
    sides_of,
    ticks,
    time_window,
    totals,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

TIME = sj.Time("5 seconds", on="ts")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("feed")
    Feed(1, batches=3).write(path)
    return path


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"on": "l.nope < r.x"}, sj.ConditionError, "nope"),
        ({"on": "l.note < r.x"}, sj.ConditionError, "compare"),
        ({"window": sj.Time("5 seconds", on="when")}, sj.SchemaError, "has no column 'when'"),
        ({"window": sj.Time(5, on="ts")}, sj.WindowError, "duration"),
        ({"window": sj.Rows(10)}, sj.WindowError, "has no by"),
        ({"window": sj.Rows(10, by="when")}, sj.SchemaError, "has no column 'when' to order by"),
        ({"window": None}, sj.WindowError, "expected sj.Rows"),
        ({"routing": "tree"}, sj.WindowError, "expected one of auto, split, hash, grid"),
        ({"routing": "hash"}, sj.ConditionError, "needs an equality"),
        ({"routing": "grid", "on": "l.x < r.x"}, sj.ConditionError, "needs a band of constant width"),
        (
            {"routing": "grid", "on": "l.k = r.k"},
            sj.ConditionError,
            "equality is no band; use routing='hash'",
        ),
        ({"index": "hash"}, sj.ConditionError, "index 'hash' needs an equality of the two streams"),
        (
            {"routing": "grid", "window": sj.Rows(10, by="ts")},
            sj.WindowError,
            "only workers that see every row",
        ),
        ({"partitions": 0}, sj.StateError, "from 1 to 3"),
        ({"partitions": 4}, sj.StateError, "spark.sql.shuffle.partitions"),
        ({"partitions": True}, sj.StateError, "whole number"),
        ({"name": 5}, sj.StateError, "name=5; expected a text"),
        ({"name": " "}, sj.StateError, "name=' '; expected a text"),
        ({"spread": 0}, sj.StateError, "spread=0; expected a whole number from 1 to 3, the workers"),
        ({"spread": 3, "partitions": 2}, sj.StateError, "from 1 to 2, the workers of the join"),
        ({"spread": True}, sj.StateError, "whole number"),
        ({"spread": 2.0}, sj.StateError, "whole number"),
        ({"spread": 2, "routing": "split"}, sj.WindowError, "routing 'split', the one without an equality"),
        ({"spread": 2, "on": "l.x < r.x"}, sj.WindowError, "no key or cell to divide; leave spread out"),
        ({"spread": 2, "window": sj.Rows(10, by="ts")}, sj.WindowError, "count windows have every row at"),
        ({"cache_bytes": -1}, sj.StateError, "0 for no cache"),
        ({"how": "outer"}, sj.WindowError, "expected one of inner"),
        ({"lateness": "-1 second"}, sj.WindowError, "negative"),
        ({"suffixes": ("", "")}, sj.SchemaError, "pair of different texts"),
    ],
)
def test_bad_use(
    spark: SparkSession, folder: Path, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    given = {"on": CONDITIONS["band"][0], "window": TIME} | arguments
    for call in (join, explain):
        with pytest.raises(error, match=said):
            call(*sides_of(spark, folder), **given)


def test_whole_numbers_of_numpy(spark: SparkSession, folder: Path) -> None:
    sizes = {"partitions": np.int64(2), "spread": np.int32(2), "cache_bytes": np.int64(1 << 20)}
    text = explain(*sides_of(spark, folder), on="l.k = r.k", window=TIME, **sizes)
    assert "workers       2, of 3 shuffle partitions" in text


def test_streaming_with_batch(spark: SparkSession, folder: Path) -> None:
    left, _ = sides_of(spark, folder)
    right = spark.read.schema(DDL).parquet(str(folder / "right"))
    with pytest.raises(sj.SchemaError, match="a streaming DataFrame and the right a batch one"):
        join(left, right, on="l.x < r.x", window=TIME)


def test_a_type_that_is_not_shared(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS t, INTERVAL '1' MONTH AS v")
    with pytest.raises(sj.SchemaError, match="left column 'v' is interval month"):
        join(frame, frame, on="l.t = r.t", window=sj.Time(1, on="t"))


def test_names_twice(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS t, 2 AS t")
    with pytest.raises(sj.SchemaError, match="several columns named"):
        join(frame, frame, on="l.t = r.t", window=sj.Time(1, on="t"))


def test_the_state_store_is_named(spark: SparkSession, folder: Path) -> None:
    before = spark.conf.get(PROVIDER)
    spark.conf.unset(PROVIDER)
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(sj.StateError, match=r"expected org.apache.spark.*RocksDBStateStoreProvider"):
            join(*sides_of(spark, folder), on="l.x < r.x", window=TIME)
    finally:
        spark.conf.set(PROVIDER, before)


def test_an_output_mode_that_cannot_work(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    frame = join(*sides_of(spark, folder), on="abs(l.x - r.x) <= 2", window=TIME)
    with pytest.raises(AnalysisException, match=r"(?i)complete"):
        frame.writeStream.format("memory").queryName("never").outputMode("complete").start()


def test_no_setting_is_changed(spark: SparkSession, folder: Path) -> None:
    before = dict(spark.conf.getAll)
    join(*sides_of(spark, folder), on="abs(l.x - r.x) <= 2", window=TIME)
    assert dict(spark.conf.getAll) == before


def test_every_setting_has_its_reason() -> None:
    assert settings().keys() == REASONS.keys()
    assert settings(partitions=7)["spark.sql.shuffle.partitions"] == "7"


@pytest.mark.parametrize(
    ("hidden", "said"), [("pyspark", "pyspark cannot be imported"), ("google", "protobuf cannot be imported")]
)
def test_missing_packages(tmp_path: Path, hidden: str, said: str) -> None:
    """``import slidejoin`` works without them; ``slidejoin.spark`` says what to install."""
    program = (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {hidden!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "import slidejoin as sj\n"
        "try:\n"
        "    import slidejoin.spark\n"
        "except sj.SlidejoinError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert said in done.stdout, done.stderr
    assert "pip install 'slidejoin[spark]'" in done.stdout


def test_missing_java(tmp_path: Path) -> None:
    program = (
        "import slidejoin as sj, slidejoin.spark\n"
        "try: slidejoin.spark.settings()\n"
        "except sj.SlidejoinError as error: print(error)\n"
        "print(len(slidejoin.spark.settings(remote=True)))\n"
    )
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert "no java was found on the PATH; expected Java 17" in done.stdout, done.stderr


# -- what is told --------------------------------------------------------------------------------------


def test_schema_without_running(spark: SparkSession, folder: Path) -> None:
    left, right = sides_of(spark, folder)
    right = right.withColumnRenamed("y", "depth")
    frame = join(left, right, on="l.x < r.x", window=TIME, how="left", late="keep", suffixes=("", "_2"))
    assert frame.schema.simpleString() == (
        "struct<ts:timestamp,k:int,x:double,y:bigint,note:string,"
        "ts_2:timestamp,k_2:int,x_2:double,depth:bigint,note_2:string,late:boolean>"
    )
    assert join(left, right, on="l.x < r.x", window=TIME, how="anti").schema.names == left.schema.names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "grid (auto): cells 16 wide for the band l.x - 2"),
        ({"on": "l.k = r.k AND abs(l.x - r.x) <= 2"}, "hash (auto): equal keys meet: r.k = l.k"),
        ({"on": "l.k = r.k AND abs(l.x - r.x) <= 2", "routing": "grid"}, "for each key of"),
        ({"on": "l.x < r.x"}, "split (auto): any condition works"),
        ({"window": sj.Rows(10, by="ts")}, "split (auto): a count window needs every worker"),
        ({"on": "l.x < r.x", "how": "anti"}, "left rows at one worker each, right rows at each of 3"),
        ({"on": "l.x < r.x", "how": "full"}, "every row at each of 3 workers"),
        ({"on": "l.k = r.k", "spread": 2}, "equal keys meet: r.k = l.k, each key shared by 2 workers"),
        (
            {"on": "l.k = r.k", "spread": 2},
            "left rows at 2 and right rows at 1 of the 2 workers of their key",
        ),
        ({"spread": 2, "how": "left"}, "each cell shared by 2 workers"),
        ({"spread": 2}, "the others at the 2 workers of every cell that their band touches"),
    ],
)
def test_explain(spark: SparkSession, folder: Path, arguments: dict[str, Any], said: str) -> None:
    given = {"on": CONDITIONS["band"][0], "window": TIME} | arguments
    assert said in explain(*sides_of(spark, folder), **given)


def test_operators_have_names(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    join(*sides_of(spark, folder), on="abs(l.x - r.x) <= 2", window=TIME).explain()
    plan = capsys.readouterr().out
    for name in (
        "slidejoin_pack_left",
        "slidejoin_pack_right",
        "CollectMetrics slidejoin",
        "Generate inline(rows",
    ):
        assert name in plan


def test_counters(spark: SparkSession, tmp_path: Path) -> None:
    """The progress of every micro-batch accounts for every row, also those that a filter drops early."""
    feed = Feed(21, batches=5)
    feed.write(tmp_path)
    condition = "unequal with band"
    ours, theirs = time_window(4, 4)
    out = io.StringIO()
    listener = ProgressLine(out=out)
    spark.streams.addListener(listener)
    try:
        frame = join(*sides_of(spark, tmp_path), on=CONDITIONS[condition][0], window=ours, routing="grid")
        query = drain(frame, tmp_path)
    finally:
        spark.streams.removeListener(listener)
    assert results(spark, tmp_path, frame) == Counter(oracle(feed, condition, theirs, "inner"))
    total = totals(query)
    join_ = replay(feed, condition, theirs)
    for side, name in enumerate(("left", "right")):
        assert total[f"rows_in_{name}"] == join_.sides[side].rows_in
        assert total[f"late_{name}"] == join_.sides[side].late
        assert total[f"null_time_{name}"] == join_.sides[side].null_time
    assert total["matches"] == total["emitted"] == join_.matches
    last = next(counters(p) for p in query.recentProgress[::-1] if p.numInputRows)
    assert last["held_by"] == join_.held_by
    assert last["state_bytes"] > 0


def test_no_counters(spark: SparkSession, tmp_path: Path) -> None:
    """Without a name nothing is counted; names that are syntax to Spark come out as they are."""
    frame = spark.range(5).selectExpr("id", "id * 2 AS `a.b`", "CAST(id AS STRING) AS `c``d`")
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    joined = join(
        stream, stream, on='l."a.b" = r.id', window=sj.Time(9, on="id"), suffixes=(".l", ""), name=None
    )
    query = drain(joined.toDF("id", "a", "c", "other", "b", "d"), tmp_path)
    assert joined.columns == ["id.l", "a.b.l", "c`d.l", "id", "a.b", "c`d"]
    assert not query.lastProgress.observedMetrics
    assert counters(query.lastProgress) == {}
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row["id"], row["other"], row["d"]) for row in found) == [
        (0, 0, "0"),
        (1, 2, "2"),
        (2, 4, "4"),
    ]
    assert "no counters" in explain(
        stream, stream, on='l."a.b" = r.id', window=sj.Time(9, on="id"), name=None
    )


def test_a_hot_key_is_shared(spark: SparkSession, tmp_path: Path) -> None:
    """All rows have one key; the busiest of three workers has no more of them than the others."""
    feed = Feed(22, batches=3, rows=60)
    for batch in feed.made:
        for row in (*batch[0], *batch[1]):
            row["k"] = 3
    feed.write(tmp_path)
    ours, theirs = time_window(30, 30)
    frame = join(
        *sides_of(spark, tmp_path), on="l.k = r.k", window=ours, how="left", lateness="9 seconds", spread=3
    )
    query = drain(frame, tmp_path)
    assert results(spark, tmp_path, frame) == Counter(oracle(feed, "equality", theirs, "left", 9 * SECOND))
    seen = [found for found in map(counters, query.recentProgress) if found.get("rows_all_workers")]
    assert seen
    for found in seen:
        even = found["rows_all_workers"] / found["workers"]
        assert found["rows_busiest_worker"] <= even + 2  # a turn of each side may end before the last worker


def test_the_live_line() -> None:
    """The counters of a micro-batch as one line, added up from either shape that Spark hands them out in."""
    busy = dict.fromkeys((*COUNTERS, *TIMES), 0) | {"watermark": "2026-03-01 12:00:00", "held_by": "right"}
    idle = {**busy, "rows_in_right": 500, "matches": 1000, "state_rows": 200, "state_ms": 1.5, WORKED: 500}
    busy |= {"rows_in_left": 1000, "late_left": 3, "matches": 6000, "state_rows": 700, "state_bytes": 2**21}
    busy |= {"join_ms": 30.4, "state_ms": 3.5, "cache_hits": 1, WORKED: 1000}

    def as_connect(values: dict[str, Any]) -> dict[str, Any]:
        return {"values": list(values.values()), "schema": {"fields": [{"name": name} for name in values]}}

    shapes = (
        {"slidejoin": {"workers": [busy, idle]}, "slidejoin_pack": {"pack_ms": 1.2}},
        {
            "slidejoin": as_connect({"workers": [as_connect(busy), as_connect(idle)]}),
            "slidejoin_pack": as_connect({"pack_ms": 1.2}),
        },
    )
    together = dict.fromkeys((*COUNTERS, *TIMES), 0) | {
        "rows_in_left": 1000,
        "rows_in_right": 500,
        "late_left": 3,
    }
    together |= {"matches": 7000, "state_rows": 900, "state_bytes": 2**21, "cache_hits": 1}
    together |= {"workers": 2, "rows_busiest_worker": 1000, "rows_all_workers": 1500}
    together |= {"pack_ms": 1.2, "join_ms": 30.4, "state_ms": 5.0}
    together |= {"watermark": "2026-03-01 12:00:00", "held_by": "right"}
    for shape in shapes:
        found = counters({"observedMetrics": shape})
        assert found == together
        assert line(4, 1500, found) == (
            "batch 4 · 1,500 rows in 1.50 s · 7,000 matches · state 900 rows, 2.0 MiB · late 3 · "
            "watermark 2026-03-01 12:00:00, held by right · busiest worker x1.33 · "
            "pack 1, join 30, state 5 ms · cache 1/2"
        )
    nothing = {"observedMetrics": {"slidejoin": {"workers": []}, "slidejoin_pack": {"pack_ms": None}}}
    assert counters(nothing) == counters({"observedMetrics": {}}) == counters({}) == counters(None) == {}


def replay(feed: Feed, condition: str, windows: Any) -> Any:
    join_ = naive.Naive(CONDITIONS[condition][1], windows)
    for batch in feed.made:
        if any(batch):
            join_.push(*([naive.Row(row, ticks(row["ts"])) for row in rows] for rows in batch))
    return join_


def test_two_queries_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    """The same join over two feeds, at the same time, in the same workers."""
    feeds, frames, queries = [], [], []
    for number in range(2):
        feed, folder = Feed(30 + number, batches=3), tmp_path / str(number)
        feed.write(folder)
        frame = join(
            *sides_of(spark, folder), on=CONDITIONS["band"][0], window=time_window(5, 5)[0], partitions=2
        )
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        queries.append(writer.trigger(availableNow=True).start(str(folder / "out")))
        feeds.append(feed)
        frames.append(frame)
    for number, query in enumerate(queries):
        query.awaitTermination()
        wanted = oracle(feeds[number], "band", time_window(5, 5)[1], "inner")
        assert results(spark, tmp_path / str(number), frames[number]) == Counter(wanted)


def test_a_stream_with_itself_and_a_join_of_joins(spark: SparkSession, tmp_path: Path) -> None:
    """One query with two joins, each with counters of its own."""
    feed = Feed(40, batches=3)
    feed.made = [(batch[0], batch[0]) for batch in feed.made]
    feed.write(tmp_path)
    left, _ = sides_of(spark, tmp_path)
    ours, theirs = time_window(2, 2)
    once = join(left, left, on=CONDITIONS["equality"][0], window=ours, lateness="30 seconds")
    frame = join(
        left, once, on="l.note = r.note_l", window=sj.Time("1 minute", on=("ts", "ts_l")), lateness="1 minute",
        name="outer join",
    ).select("note", "note_l", "note_r")  # fmt: skip
    query = drain(frame, tmp_path)
    rows = spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).collect()
    wanted = [
        (left, left, right) for left, right, _ in oracle(feed, "equality", theirs, "inner", 30 * SECOND)
    ]
    assert Counter((row["note"], row["note_l"], row["note_r"]) for row in rows) == Counter(wanted)
    assert {"slidejoin", "outer join"} <= query.lastProgress.observedMetrics.keys()


def test_late_rows_can_stop_the_query(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(1, batches=4)
    feed.write(tmp_path)
    frame = join(*sides_of(spark, tmp_path), on="l.x < r.x", window=TIME, late="raise")
    with pytest.raises(Exception, match=r"(rows are|row is) late; expected times from the watermark"):
        drain(frame, tmp_path)


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64])
def test_workers_land_on_partitions_of_their_own(spark: SparkSession, partitions: int) -> None:
    keys = worker_keys(partitions, partitions)
    assert [murmur3(key) % partitions for key in keys] == list(range(partitions))
    frame = spark.createDataFrame([(key,) for key in keys], "key INT").selectExpr("key", "hash(key) AS h")
    assert all(murmur3(row["key"]) == row["h"] for row in frame.collect())
