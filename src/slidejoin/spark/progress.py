"""Counters of every micro-batch, in the query's own progress, and a line that shows them live.

Each worker's task sends one row of counters beside its results. ``DataFrame.observe`` collects them on the way, so they
appear as ``progress.observedMetrics["slidejoin"]["workers"]``, a row for each worker, in classic sessions and through
Connect, and cost no extra job. ``counters()`` adds them up: if Spark did, it would write and read the code of twenty sums
in every task of every micro-batch, and plan them each time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from slidejoin.spark.columns import PLAIN

if TYPE_CHECKING:
    from slidejoin.spark.cache import Replica
    from slidejoin.spark.log import Log
    from slidejoin.spark.shard import Outcome

COUNTERS = (
    "rows_in_left",
    "rows_in_right",
    "late_left",
    "late_right",
    "null_time_left",
    "null_time_right",
    "matches",
    "emitted",
    "state_rows",
    "state_bytes",
    "log_entries",
    "cache_hits",
    "catch_up_reads",  # entries read to catch up, from wherever
    "catch_up_from_state",  # of these, from the state store: nothing nearer had them
)
TIMES = ("join_ms", "state_ms")  # summed over workers
PACKING = "_pack"  # behind the name of the counters: what was counted before the shuffle
WORKED = "rows_worked"  # rows that a worker took in: their greatest share tells how skewed the routing is
WORKERS = "workers"  # their rows of counters in the progress, and their number when these are added up
COLUMN = "counters"  # one struct, so that plans stay readable
KIND = StructType(
    [
        *(StructField(name, LongType()) for name in (*COUNTERS, WORKED)),
        *(StructField(name, DoubleType()) for name in TIMES),
        StructField("watermark", StringType()),
        StructField("held_by", StringType()),
    ]
)

ARROW = pa.struct([(field.name, PLAIN[type(field.dataType)]) for field in KIND.fields])


def report(
    replica: Replica, outcome: Outcome, log: Log, *, hit: bool, emitted: int, join_ns: int, state_ns: int
) -> dict[str, Any]:
    """One worker's counters of one micro-batch."""
    counted, shard = outcome.counted, replica.shard
    rings = [ring for ring in shard.engine.worker.rings if ring is not None]
    stats = shard.engine.counters()
    watermark = stats["watermark"]
    return {
        "rows_in_left": counted.rows_in[0],
        "rows_in_right": counted.rows_in[1],
        "late_left": counted.late[0],
        "late_right": counted.late[1],
        "null_time_left": counted.null_time[0],
        "null_time_right": counted.null_time[1],
        "matches": shard.pairs,
        "emitted": emitted,
        "state_rows": sum(ring.rows for ring in rings),
        "state_bytes": sum(entry.nbytes for entry in replica.manifest.entries),
        "log_entries": len(replica.manifest.entries),
        "cache_hits": int(hit),
        "catch_up_reads": log.read_entries,
        "catch_up_from_state": log.read_from_state,
        WORKED: counted.rows_here,
        "join_ms": join_ns / 1e6,
        "state_ms": state_ns / 1e6,
        "watermark": None if watermark is None else str(watermark),
        "held_by": stats["held_by"],
    }


def observed(frame: DataFrame, name: str) -> DataFrame:
    """The frame with its counters, worker by worker, in the query's progress under ``name``."""
    return frame.observe(name, F.collect_list(COLUMN).alias(WORKERS))


def packing_observed(frame: DataFrame, name: str) -> DataFrame:
    """What the packers send, with their time added up; what they send must not tell it (see pack.py)."""
    return frame.observe(name + PACKING, (F.sum("pack_ns") / 1e6).alias("pack_ms"))


def counters(progress: Any, name: str = "slidejoin") -> dict[str, Any]:
    """The counters of one micro-batch, from a query's ``lastProgress`` or a listener's; empty if it has none.

    Those of all workers together. A micro-batch without rows has nothing to count, and is empty too.
    """
    if progress is None:  # no micro-batch has ended yet
        return {}
    metrics = progress.get("observedMetrics", {}) if isinstance(progress, dict) else progress.observedMetrics
    workers = [_named(worker) for worker in _named(metrics.get(name)).get(WORKERS) or ()]
    return _added_up(workers) | _named(metrics.get(name + PACKING)) if workers else {}


def _added_up(workers: list[dict[str, Any]]) -> dict[str, Any]:
    """What several workers have counted."""
    worked = [worker[WORKED] for worker in workers]
    return {
        **{name: sum(worker[name] for worker in workers) for name in (*COUNTERS, *TIMES)},
        WORKERS: len(workers),
        "rows_busiest_worker": max(worked),
        "rows_all_workers": sum(worked),
        # Every worker hears of every clock, so these are the same for all.
        **{name: workers[0][name] for name in ("watermark", "held_by")},
    }


def _named(found: Any) -> dict[str, Any]:
    """Counters by name, from either shape that Spark hands them out in."""
    if found is None:
        return {}
    values = found if isinstance(found, dict) else found.asDict()
    if set(values) == {"values", "schema"}:  # as Connect hands it out
        return {
            field["name"]: value
            for field, value in zip(values["schema"]["fields"], values["values"], strict=True)
        }
    return dict(values)


class ProgressLine(StreamingQueryListener):
    """Prints the counters of each micro-batch as one live line.

    ``spark.streams.addListener(ProgressLine())``; ``removeListener`` ends it.
    """

    def __init__(self, name: str = "slidejoin", out: TextIO | None = None) -> None:
        self._name = name
        self._out = out

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is counted yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        found = counters(event.progress, self._name)
        if found:
            self._say(line(event.progress.batchId, event.progress.batchDuration, found))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """The last line stays."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802 - Spark's name
        out = self._out or sys.stderr
        if out.isatty():
            out.write("\n")

    def _say(self, text: str) -> None:
        out = self._out or sys.stderr
        out.write(f"\r\x1b[K{text}" if out.isatty() else f"{text}\n")
        out.flush()


def line(batch: int, duration_ms: int, metrics: dict[str, Any]) -> str:
    """The counters of a micro-batch in one line."""

    def count(name: str) -> int:
        return int(metrics.get(name) or 0)

    rows = count("rows_in_left") + count("rows_in_right")
    late = count("late_left") + count("late_right")
    workers = max(1, count("workers"))
    everywhere = count("rows_all_workers")
    skew = count("rows_busiest_worker") * workers / everywhere if everywhere else 1.0
    parts = [
        f"batch {batch}",
        f"{rows:,} rows in {duration_ms / 1000:.2f} s",
        f"{count('matches'):,} matches",
        f"state {count('state_rows'):,} rows, {count('state_bytes') / 2**20:,.1f} MiB",
        f"late {late:,}" if late else "",
        f"watermark {metrics['watermark']}, held by {metrics['held_by']}" if metrics.get("watermark") else "",
        f"busiest worker x{skew:.2f}" if skew > 1.25 else "",
        "pack {:.0f}, join {:.0f}, state {:.0f} ms".format(
            *(float(metrics.get(time) or 0) for time in ("pack_ms", *TIMES))
        ),
        f"cache {count('cache_hits')}/{workers}",
    ]
    return " · ".join(part for part in parts if part)
