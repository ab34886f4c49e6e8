"""The core of the suite through Spark Connect, run by ``test_connect.py`` in a process of its own.

A process has classic sessions or Connect sessions, not both. ``local`` starts a server in a process beside it.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import explain, join, settings
from slidejoin.spark.session import UNIX_SOCKETS
from spark.streams import (
    CONDITIONS,
    SECOND,
    Feed,
    drain,
    oracle,
    results,
    rows_window,
    sides_of,
    time_window,
    totals,
)

CASES = (
    ("inner", "auto", "band", time_window(5, 3)),
    ("full", "grid", "equality and band", time_window(4, 6)),
    ("anti", "split", "two inequalities", time_window(3, 3)),
    ("left", "split", "or of bands", rows_window(8, 10)),
)


def main(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = settings(partitions=2)
        del ours[UNIX_SOCKETS]  # Connect warns of a setting that Spark reads when it starts
        spark = SparkSession.builder.remote("local[2]").config(map=ours).getOrCreate()
        before = dict(spark.conf.getAll)
        for number, (how, routing, condition, (ours, theirs)) in enumerate(CASES):
            here = folder / str(number)
            feed = Feed(50 + number, batches=3)
            timed = isinstance(ours[0], sj.Time)
            if not timed:
                feed.by_moment()
            feed.write(here)
            late = "keep" if timed else "count"
            frame = join(
                *sides_of(spark, here), on=CONDITIONS[condition][0], window=ours, how=how, routing=routing,
                late=late, lateness="1 second" if timed else None,
            )  # fmt: skip
            query = drain(frame, here)
            wanted = oracle(feed, condition, theirs, how, SECOND if timed else 0, late)
            assert results(spark, here, frame) == Counter(wanted), (how, routing, condition)
            assert totals(query)["emitted"] == len(wanted)
        static = spark.range(60).selectExpr("id", "id % 7 AS x", "id AS t")
        pairs = join(static, static, on="abs(l.x - r.x) <= 1", window=sj.Time(3, on="t"))
        truth = [(a, b) for a in range(60) for b in range(60) if abs(a % 7 - b % 7) <= 1 and abs(a - b) <= 3]
        assert Counter((row["id_l"], row["id_r"]) for row in pairs.collect()) == Counter(truth)
        assert "grid (auto)" in explain(static, static, on="abs(l.x - r.x) <= 1", window=sj.Time(3, on="t"))
        try:
            join(static, static, on="l.x < r.x", window=sj.Time(3, on="t"), partitions=9)
        except sj.StateError as error:
            assert "spark.sql.shuffle.partitions" in str(error)  # noqa: PT017 - no pytest here
        else:
            raise AssertionError("nine workers for two partitions were accepted")
        assert dict(spark.conf.getAll) == before
        spark.stop()
    print("as the oracle says")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
