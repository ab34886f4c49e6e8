"""Messages: rows on their way from a packer to a worker, as one Arrow IPC stream with a small header.

The header rides in the schema's metadata as JSON. It says which side and task the rows are from, where each
stretch of them is at home, how far the side's clock has come, and, in one of a task's copies, what was
counted on the way. Rows of a shuffle arrive in any order; (side, task, number) puts them back into one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import StateError
from slidejoin.spark.narrow import narrowed, widened

HEADER = b"slidejoin"
SHUFFLED = pa.schema([("worker", pa.int32()), ("message", pa.binary())])


@dataclass(frozen=True)
class Header:
    side: int
    task: int
    number: int
    homes: list[tuple[int, int]] = field(default_factory=list)  # (worker, rows), one for each stretch
    clock: int | None = None  # the greatest event time of the side in this task so far, in ticks
    rows_in: int = 0
    null_time: int = 0
    filtered: bool = False  # no rows, only the times of those that no pair could have


@dataclass(frozen=True)
class Message:
    header: Header
    rows: pa.RecordBatch

    def home_of_each(self) -> NDArray[np.int64]:
        """The home of every row."""
        homes = np.array(self.header.homes, dtype=np.int64).reshape(-1, 2)
        return np.repeat(homes[:, 0], homes[:, 1])


def encode(header: Header, rows: pa.RecordBatch) -> bytes:
    """A message as bytes. One copy of the rows."""
    schema = rows.schema.with_metadata({HEADER: json.dumps(asdict(header))})
    return ipc_bytes(rows.replace_schema_metadata(schema.metadata))


def decode(message: bytes) -> Message:
    """A message from its bytes; rows point into them where they are as they were."""
    rows = rows_in(message)
    metadata = rows.schema.metadata or {}
    if HEADER not in metadata:
        raise StateError(
            "a shuffled message has no header; expected one of slidejoin's; check that driver and executors run "
            "the same slidejoin"
        )
    stored: dict[str, Any] = json.loads(metadata[HEADER])
    stored["homes"] = [(worker, count) for worker, count in stored["homes"]]
    return Message(Header(**stored), rows.replace_schema_metadata(None))


def ipc_bytes(rows: pa.RecordBatch) -> bytes:
    """One batch as an Arrow IPC stream."""
    sink, narrow = pa.BufferOutputStream(), narrowed(rows)
    with pa.ipc.new_stream(sink, narrow.schema) as writer:
        writer.write_batch(narrow)
    return bytes(sink.getvalue().to_pybytes())


def rows_in(body: bytes) -> pa.RecordBatch:
    """The one batch of a stream that was written by ``ipc_bytes``."""
    with pa.ipc.open_stream(body) as reader:
        return widened(reader.read_next_batch())
