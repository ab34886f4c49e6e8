"""The join of two static DataFrames: the same rows as streaming the same data, end of both streams included.

All of it is one micro-batch: nothing is late, and when it is joined both streams have ended, so rows that are
wanted unmatched come out. The same packers send the same messages to the same shards; only the log is not
needed. A worker holds its part of both sides in memory; results leave in bounded pieces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import pyarrow as pa

from slidejoin.spark.keys import worker_keys
from slidejoin.spark.message import Message, decode
from slidejoin.spark.query import Query
from slidejoin.spark.shard import Shard

Batches = Iterator[pa.RecordBatch]


def joiner(text: str, partitions: int) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that joins the messages of one partition."""

    def slidejoin_join(batches: Batches) -> Batches:
        query = Query.read(text)
        keys = worker_keys(query.workers, partitions)
        received: dict[int, list[Message]] = defaultdict(list)
        for batch in batches:
            for key, message in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                received[keys.index(key)].append(decode(message.as_buffer().to_pybytes()))
        for worker in sorted(received):
            shard = Shard(query, worker)
            outcome = shard.take_in(received.pop(worker))
            for matches in (*outcome.matches, shard.finish()):
                yield from shard.rows_of(matches)

    return slidejoin_join
