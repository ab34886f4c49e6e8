"""The floor of a micro-batch on Spark: all that surrounds a join, and no join.

The same source, packers, shuffle, stateful operator and sink, and as many result rows as the join would give, but
the operator searches nothing and keeps no state: it gives the same rows over and over. What takes longer with the
join is the join's; what takes as long here is Spark's, its Python workers', the packers' and the result's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import slidejoin as sj
from slidejoin.spark import task
from slidejoin.spark.columns import result_schema
from slidejoin.spark.join import PACKED, planned
from slidejoin.spark.message import decode
from slidejoin.spark.operator import ROWS, MapStore, output, with_counters
from slidejoin.spark.pack import packer
from slidejoin.spark.query import Query
from slidejoin.spark.route import ELSEWHERE
from slidejoin.spark.session import shuffle_partitions

PIECE = 65_536  # rows, as the join's results come


class Floor(StatefulProcessor):
    """An operator that gives ``rate`` rows for each that arrives."""

    def __init__(self, text: str, rate: float) -> None:
        self._text = text
        self._rate = rate

    def init(self, handle: StatefulProcessorHandle) -> None:
        MapStore(handle)  # Spark's operator must have some state, if only an empty one

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - Spark's name
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's names
    ) -> Iterator[pd.DataFrame]:
        headers = [decode(message).header for frame in rows for message in frame["message"]]
        arrived = sum(count for header in headers for home, count in header.homes if home != ELSEWHERE)
        result = Query.read(self._text).result
        numbers = pa.array(np.arange(PIECE, dtype=np.int32))
        piece = pa.RecordBatch.from_arrays(
            [numbers.cast(pa.int64()).cast(field.type) for field in result], schema=result
        )
        for at in range(0, round(arrived * self._rate), PIECE):
            part = piece.slice(0, round(arrived * self._rate) - at)
            yield with_counters(part, None)
        task.settle()

    def close(self) -> None:
        """Nothing is held open."""


def floor(left: DataFrame, right: DataFrame, condition: str, window: int, rate: float) -> DataFrame:
    """What ``slidejoin.spark.join`` puts together, around an operator without a join."""
    spec = sj.Time(f"{window} milliseconds", on="ts")
    query = planned(
        left, right, condition, spec, "inner", None, "count", None, "auto", "auto", ("l", "r"), ("_l", "_r"), 1,
        None,
    )  # fmt: skip
    text, tasks = query.text(), shuffle_partitions(left.sparkSession)
    packed = left.mapInArrow(packer(text, 0, tasks), PACKED).unionByName(
        right.mapInArrow(packer(text, 1, tasks), PACKED)
    )
    schema = result_schema((left.schema, right.schema), query.result, [])
    given = (
        packed.select("worker", "message")
        .groupBy("worker")
        .transformWithStateInPandas(
            Floor(text, rate), outputStructType=output(schema), outputMode="Append", timeMode="None"
        )
    )
    return given.select(F.inline(ROWS))
