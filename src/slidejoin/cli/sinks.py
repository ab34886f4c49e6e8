"""Where the result goes: written as it comes, under its own name only when it is whole."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc
import pyarrow.parquet as pq

from slidejoin.cli.endings import UsageError
from slidejoin.cli.formats import FormatName, compression_of, format_of
from slidejoin.cli.sources import PIPE

ROW_GROUP = 1 << 17  # rows; small results of many pushes are gathered into one Parquet row group


class Writer(Protocol):
    """An open output of one format."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what is held back, and the end of the format."""


class ParquetWriter:
    """Parquet, in row groups worth reading."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(stream, schema)
        self._schema = schema
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Hold the rows until they make a row group."""
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP:
            self._flush()

    def close(self) -> None:
        """The last row group and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held, self._rows = [], 0


class CsvWriter:
    """CSV with a header."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        if nested:
            raise UsageError(
                f"column {nested[0]!r} is nested ({schema.field(nested[0]).type}), which CSV cannot hold; "
                "expected flat columns; write Parquet, Arrow or NDJSON instead"
            )
        self._writer = pa_csv.CSVWriter(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Nothing follows the last row."""
        self._writer.close()


class ArrowWriter:
    """An Arrow IPC stream."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pa_ipc.new_stream(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a message."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """The end-of-stream mark."""
        self._writer.close()


class NdjsonWriter:
    """One JSON object a line. Times are ISO text, decimals text (exact), NaN and infinities null."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._schema = pa.schema([field.with_type(_writable(field.type)) for field in schema])

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        columns = [_finite(column) for column in batch.cast(self._schema).columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema).to_pylist()
        lines = [json.dumps(row, default=_text, ensure_ascii=False, separators=(",", ":")) for row in rows]
        self._stream.write(("\n".join(lines) + "\n").encode() if lines else b"")

    def close(self) -> None:
        """Nothing follows the last row."""


WRITERS: dict[FormatName, Callable[[BinaryIO, pa.Schema], Writer]] = {
    "parquet": ParquetWriter,
    "csv": CsvWriter,
    "arrow": ArrowWriter,
    "ndjson": NdjsonWriter,
}


@contextmanager
def open_sink(where: str, asked: FormatName | None, schema: pa.Schema) -> Iterator[Writer]:
    """A writer; a file gets its name when the block ends well, and is gone when it does not."""
    kind = format_to(where, asked)
    if where == PIPE:
        with _written(WRITERS[kind](sys.stdout.buffer, schema)) as writer:
            yield writer
        sys.stdout.buffer.flush()
        return
    path = Path(where).resolve()  # a link stays a link: its target is replaced
    if path.exists() and not path.is_file():  # a device or a named pipe: nothing to rename
        with path.open("wb") as stream, _written(WRITERS[kind](stream, schema)) as writer:
            yield writer
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:  # from before it exists: an interruption may come as soon as it does
        with _created(partial, where) as created, _written(WRITERS[kind](created, schema)) as writer:
            yield writer
        partial.replace(path)
    except BaseException:
        if partial.is_file():
            partial.unlink(missing_ok=True)
        raise


def _created(partial: Path, where: str) -> BinaryIO:
    try:
        return partial.open("wb")
    except OSError as error:
        raise UsageError(
            f"--out {where!r} cannot be written: {error.strerror}; expected a folder that you may write to"
        ) from error


@contextmanager
def _written(writer: Writer) -> Iterator[Writer]:
    """Close a writer; after a failure too, or Arrow would try it later, when the stream is gone, and complain."""
    try:
        yield writer
    except BaseException:
        with suppress(pa.ArrowException, OSError):
            writer.close()
        raise
    writer.close()


def format_to(where: str, asked: FormatName | None) -> FormatName:
    """The output's format; refuses what could not be written, before anything is read."""
    if where == PIPE:
        kind = asked or "arrow"
        if kind not in ("csv", "ndjson") and sys.stdout.isatty():
            raise UsageError(
                f"standard output is a terminal, and {kind} is not text; expected a pipe or a text format; "
                "add --out-format csv"
            )
        return kind
    path = Path(where)
    if path.is_dir() or not path.parent.is_dir():
        fault = "is a folder" if path.is_dir() else f"lies in {str(path.parent)!r}, which does not exist"
        raise UsageError(f"--out {where!r} {fault}; expected the path of a file to write, or '-'")
    if compression_of(path):
        raise UsageError(
            f"--out {where!r} asks for compressed text, which is not written; expected a plain ending; "
            f"write {path.with_suffix('').name!r}, or pipe '--out - --out-format csv' into a compressor"
        )
    return format_of(path, asked, "--out-format")


def _writable(kind: pa.DataType) -> pa.DataType:
    """The type whose Python values are what JSON should say."""
    if pa.types.is_timestamp(kind) or pa.types.is_decimal(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return _writable(kind.value_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_list(kind):
        return pa.list_(_writable(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_writable(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_writable(field.type)) for field in kind])
    return kind


def _finite(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))


def _text(value: Any) -> str:
    """What JSON has no word for."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (timedelta, Decimal)):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
