"""Restarts, lost and damaged caches, and checkpoints that are refused."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors.exceptions.base import StreamingQueryException

import slidejoin as sj
from slidejoin.spark import join
from spark.streams import CONDITIONS, SECOND, Feed, drain, oracle, results, sides_of, time_window, totals

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

WINDOW = time_window(6, 4)


def full_join(spark: SparkSession, folder: Path, **changed: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "on": CONDITIONS["band"][0], "window": WINDOW[0], "how": "full", "lateness": "2 seconds", "partitions": 2,
    }  # fmt: skip
    return join(*sides_of(spark, folder), **(arguments | changed))


def wanted(feed: Feed) -> Counter[tuple[Any, ...]]:
    return Counter(oracle(feed, "band", WINDOW[1], "full", 2 * SECOND))


def test_restart_at_every_micro_batch_boundary(
    spark: SparkSession, tmp_path: Path, cache_folder: Path
) -> None:
    """Each micro-batch is a run of its own, with counters or without; what the caches hold is kept, damaged or deleted."""
    feed = Feed(7, batches=6, rows=12)
    for number in range(len(feed.made)):
        feed.write(tmp_path, number, number + 1)
        files = [file for file in cache_folder.rglob("*") if file.is_file()]
        if number % 3 == 1:
            for file in files:
                file.write_bytes(file.read_bytes()[:-1] + b"garbage")
        elif number % 3 == 2:
            for file in files:
                file.unlink()
        # Another budget is another entry in the workers' caches: the shard has to be built from the log.
        frame = full_join(
            spark, tmp_path, cache_bytes=2**30 + number // 2, name="slidejoin" if number % 2 else None
        )
        drain(frame, tmp_path)
    assert results(spark, tmp_path, frame) == wanted(feed)


@pytest.mark.parametrize(("how", "condition"), [("left", "equality"), ("full", "equality"), ("anti", "band")])
def test_restart_with_shared_keys_and_cells(
    spark: SparkSession, tmp_path: Path, how: str, condition: str
) -> None:
    """Match marks and hidden homes of rows that several workers hold come back from the log."""
    feed = Feed(12, batches=5)
    for number in range(0, len(feed.made), 2):
        feed.write(tmp_path, number, number + 2)
        frame = full_join(
            spark, tmp_path, on=CONDITIONS[condition][0], how=how, partitions=3, spread=2,
            cache_bytes=2**30 + number,
        )  # fmt: skip
        drain(frame, tmp_path)
    truth = oracle(feed, condition, WINDOW[1], how, 2 * SECOND)
    assert results(spark, tmp_path, frame) == Counter(truth)


def test_no_cache_at_all(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(8, batches=4)
    feed.write(tmp_path)
    frame = full_join(spark, tmp_path, cache_bytes=0, how="left", partitions=3)
    query = drain(frame, tmp_path)
    assert results(spark, tmp_path, frame) == Counter(oracle(feed, "band", WINDOW[1], "left", 2 * SECOND))
    assert totals(query)["cache_hits"] == 0
    assert totals(query)["catch_up_from_state"] == totals(query)["catch_up_reads"] > 0


def test_a_stale_cache_is_not_used(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint put back to an earlier state: what the workers remember is ahead of it."""
    feed = Feed(9, batches=4)
    feed.write(tmp_path, 0, 2)
    drain(full_join(spark, tmp_path), tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "kept")
    shutil.copytree(tmp_path / "out", tmp_path / "kept_out")
    feed.write(tmp_path, 2, 3)
    drain(full_join(spark, tmp_path), tmp_path)
    for name, kept in (("checkpoint", "kept"), ("out", "kept_out")):
        shutil.rmtree(tmp_path / name)
        (tmp_path / kept).rename(tmp_path / name)
    feed.write(tmp_path, 3, 4)
    frame = full_join(spark, tmp_path)
    drain(frame, tmp_path)
    assert results(spark, tmp_path, frame) == wanted(feed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"on": "abs(l.x - r.x) <= 3"}, "condition was 'abs(l.x - r.x) <= 2', is 'abs(l.x - r.x) <= 3'"),
        ({"partitions": 3}, "partitions was 2, is 3"),
        ({"spread": 2}, "spread was 1, is 2"),
        ({"how": "left"}, "how was 'full', is 'left'"),
        ({"window": sj.Time("9 seconds", on="ts")}, "windows was"),
        ({"columns": True}, "right columns was"),
    ],
)
def test_another_join_is_refused(
    spark: SparkSession, tmp_path: Path, first_run: Path, changed: dict[str, Any], said: str
) -> None:
    shutil.copytree(first_run / "kept", tmp_path / "checkpoint")
    if "columns" in changed:
        left, right = sides_of(spark, first_run)
        frame = join(
            left, right.withColumn("k", right["k"].cast("long")), on=CONDITIONS["band"][0], window=WINDOW[0],
            how="full", lateness="2 seconds", partitions=2,
        )  # fmt: skip
    else:
        frame = full_join(spark, first_run, **changed)
    with pytest.raises(StreamingQueryException) as failure:
        drain(frame, tmp_path)
    assert "StateError" in str(failure.value)
    assert said in str(failure.value)
    assert "start this one with a new checkpointLocation" in str(failure.value)


def test_state_that_was_altered_on_disk_is_noticed(
    spark: SparkSession, tmp_path: Path, first_run: Path
) -> None:
    """Nobody joins with damaged state: the query stops, whether Spark's checksums or ours notice first."""
    shutil.copytree(first_run / "kept", tmp_path / "checkpoint")
    files = [
        file
        for file in (tmp_path / "checkpoint" / "state").rglob("*")
        if file.suffix in (".changelog", ".zip")
    ]
    assert files
    for file in files:
        body = bytearray(file.read_bytes())
        body[len(body) // 2] ^= 0xFF
        file.write_bytes(bytes(body))
    with pytest.raises(StreamingQueryException):
        drain(full_join(spark, first_run), tmp_path)


@pytest.fixture(scope="module")
def first_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of two micro-batches, with a third one waiting."""
    folder = tmp_path_factory.mktemp("first")
    Feed(11, batches=3).write(folder, 0, 2)
    drain(full_join(spark, folder), folder)
    shutil.copytree(folder / "checkpoint", folder / "kept")
    Feed(11, batches=3).write(folder, 2, 3)
    return folder


def test_the_first_run_goes_on(spark: SparkSession, first_run: Path) -> None:
    """The counter-proof of the refusals: the same join is taken up again, also with other session settings."""
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        frame = full_join(spark, first_run)
        drain(frame, first_run)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "3")
    assert results(spark, first_run, frame) == wanted(Feed(11, batches=3))
