"""Matches: what a call on the join gave; rows are built when they are asked for, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SchemaError
from slidejoin.pairs import Chunk, Sharing
from slidejoin.pools import ALONE, Crew
from slidejoin.window.payload import concatenated, no_columns
from slidejoin.worker import PADDED, Part

BATCH_ROWS = 65_536  # the most rows of a record batch that is handed out


class Output:
    """The columns of the result: all of the left, then all of the right."""

    def __init__(
        self, left: pa.Schema | None, right: pa.Schema | None, how: str, suffixes: tuple[str, str]
    ) -> None:
        right = None if how in ("semi", "anti") else right
        self.sides = tuple(pa.schema([]) if schema is None else schema for schema in (left, right))
        names = [list(schema.names) for schema in self.sides]
        shared = set(names[0]) & set(names[1])
        fields = []
        for side, schema in enumerate(self.sides):
            # A side that can be absent from a row has NULLs there, whatever its input promised.
            absent = how not in ("semi", "anti") and 1 - side in PADDED[how]
            for name in schema.names:
                field = schema.field(name)
                renamed = field.with_name(name + suffixes[side] if name in shared else name)
                fields.append(renamed.with_nullable(True) if absent else renamed)
        self.schema = pa.schema(fields)
        if len(set(self.schema.names)) < len(self.schema.names):
            twice = sorted({name for name in self.schema.names if self.schema.names.count(name) > 1})
            raise SchemaError(
                f"the result would have several columns named {twice}; expected distinct names; pass other "
                f"suffixes than {suffixes}"
            )

    def batch(self, chunk: Chunk) -> pa.RecordBatch:
        if len(self.schema) == 0:
            return no_columns(chunk.rows)
        columns: list[pa.Array] = []
        for gather, schema in zip((chunk.left, chunk.right), self.sides, strict=True):
            if gather is None:
                columns += [pa.nulls(chunk.rows, field.type) for field in schema]
                continue
            taken = gather.columns(schema).columns
            columns += [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(taken, schema, strict=True)
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class Matches:
    """The result of a push, a heartbeat or the end.

    ``num_rows`` is known at once; iterating builds record batches of at most 65,536 rows; ``indices()``
    gives row numbers instead of rows. It stays valid whatever happens to the join afterwards.
    """

    def __init__(self, parts: Sequence[Part], output: Output, crew: Crew = ALONE) -> None:
        self._parts = tuple(parts)
        self._crew = crew
        self._output = output
        self.num_rows = sum(part.pairs for part in self._parts)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._output.schema

    def __len__(self) -> int:
        return self.num_rows

    def __bool__(self) -> bool:
        return self.num_rows > 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for chunk in self._chunks():
            if rows + chunk.rows > BATCH_ROWS:
                yield concatenated(waiting, self.schema)
                waiting, rows = [], 0
            waiting.append(self._output.batch(chunk))
            rows += chunk.rows
        if waiting:
            yield concatenated(waiting, self.schema)

    def _chunks(self) -> Iterator[Chunk]:
        for part in self._parts:
            yield from part.chunks(BATCH_ROWS)

    def to_table(self) -> pa.Table:
        """All rows as a table."""
        batches = list(self)
        if len(self.schema) == 0:
            return pa.Table.from_batches([no_columns(self.num_rows)])
        return pa.Table.from_batches(batches, self.schema)

    def indices(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``(left_seq, right_seq)``: 0-based row numbers of each stream, -1 for an absent side."""
        left, right = np.empty(self.num_rows, dtype=np.int64), np.empty(self.num_rows, dtype=np.int64)
        sharing = Sharing(self._crew) if self._crew.pieces(self.num_rows) > 1 else None
        end = 0
        for part in self._parts:
            begin, end = end, end + part.pairs
            part.write_numbers(left[begin:end], right[begin:end], sharing)
        if sharing is not None:
            self._crew.share(sharing.chores)
        return left, right

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Matches: {self.num_rows:,} rows of {', '.join(self.schema.names) or 'no columns'}>"
