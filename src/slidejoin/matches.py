"""Matches: what a call on the join gave; rows are built when they are asked for, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import SchemaError
from slidejoin.pairs import Chunk, Gather, Sharing
from slidejoin.pools import ALONE, Crew
from slidejoin.window.dictionaries import narrowed, wide
from slidejoin.window.gather import Picked, plain_column
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
        self._counted = all(wide(kind) == kind for kind in self.schema.types)
        if len(set(self.schema.names)) < len(self.schema.names):
            twice = sorted({name for name in self.schema.names if self.schema.names.count(name) > 1})
            raise SchemaError(
                f"the result would have several columns named {twice}; expected distinct names; pass other "
                f"suffixes than {suffixes}"
            )

    def batches(self, chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
        """All of these rows, which are few enough for one batch unless a dictionary cannot count their values."""
        if len(self.schema) == 0:
            yield no_columns(sum(chunk.rows for chunk in chunks))
            return
        rows = [chunk.rows for chunk in chunks]
        columns = [
            *gathered([chunk.left for chunk in chunks], rows, self.sides[0]),
            *gathered([chunk.right for chunk in chunks], rows, self.sides[1]),
        ]
        if self._counted:
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
        else:
            yield from narrowed(pa.RecordBatch.from_arrays(columns, names=self.schema.names), self.schema)


def gathered(gathers: Sequence[Gather | None], rows: Sequence[int], schema: pa.Schema) -> list[pa.Array]:
    """The columns of one side; it is NULL for so many rows where there is nothing to gather."""
    columns: dict[str, pa.Array] = {}
    simple = [one for one in gathers if one is not None and one.which is None]
    if len(simple) == len(gathers):
        picked = [Picked(one.sources[0].batches(), one.ids) for one in simple]
        for number, field in enumerate(schema):
            column = plain_column(picked, number, field.type)
            if column is not None:
                columns[field.name] = column
    others = pa.schema(
        [pa.field(field.name, wide(field.type)) for field in schema if field.name not in columns]
    )
    if len(others):
        parts = [taken(one, count, others) for one, count in zip(gathers, rows, strict=True)]
        together = parts[0] if len(parts) == 1 else concatenated(parts, others)
        columns |= zip(others.names, together.columns, strict=True)
    return [columns[name] for name in schema.names]


def taken(gather: Gather | None, rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """The same of a single one, by Arrow."""
    if gather is None:
        return pa.RecordBatch.from_arrays([pa.nulls(rows, kind) for kind in schema.types], schema=schema)
    columns = [
        column if column.type == kind else column.cast(kind)
        for column, kind in zip(gather.columns(schema.names).columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
        return self.batches(BATCH_ROWS)

    def batches(self, most: int) -> Iterator[pa.RecordBatch]:
        """All rows, in batches of at most so many."""
        waiting: list[Chunk] = []
        rows = 0
        for part in self._parts:
            for chunk in part.chunks(most):
                if rows + chunk.rows > most:
                    yield from self._output.batches(waiting)
                    waiting, rows = [], 0
                waiting.append(chunk)
                rows += chunk.rows
        if waiting:
            yield from self._output.batches(waiting)

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
