"""slidejoin on Spark Structured Streaming: the same join, the same semantics, DataFrames in and out.

    DataFrame -> pack -> shuffle -> operator (shard, log, cache) -> DataFrame

Files in reading order: join, session, columns, query, route; pack, message, narrow, keys; operator, cache, shard, share,
log, folder; arrowed, progress; backfill. It uses the public DataFrame API only, so it runs through Spark Connect
too. PySpark is needed from here on; ``import slidejoin`` alone does without it.
"""

from __future__ import annotations

from slidejoin.spark.missing import MissingError, require_packages

require_packages()

from slidejoin.spark.join import explain, join  # noqa: E402 - only once it is known that they can be imported
from slidejoin.spark.progress import ProgressLine, counters  # noqa: E402
from slidejoin.spark.session import settings  # noqa: E402

__all__ = ["MissingError", "ProgressLine", "counters", "explain", "join", "settings"]
