"""One open input of one format, read piece by piece.

A reader knows its schema before its first batch, and how far it is. Text has no types of its own: they are
inferred from the first ``SAMPLE`` bytes of a stream and hold for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from slidejoin.cli.endings import UsageError
from slidejoin.cli.formats import FormatName, compression_of
from slidejoin.cli.streams import Meter, Readable, blocks_of_lines

SAMPLE = 4 << 20  # bytes; large enough for batches worth pushing, small enough to hold twice

Types = dict[str, pa.DataType]


class Reader(Protocol):
    """An open input: a schema, batches, and the share of it that has been read."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every batch, once, in the input's order."""

    def fraction(self) -> float:
        """How much has been read, from 0 to 1."""

    def close(self) -> None:
        """Let go of the file."""


class ParquetReader:
    """A Parquet file, one row group in memory at a time."""

    def __init__(self, path: Path, batch_rows: int) -> None:
        self._file = pq.ParquetFile(path)
        self._batch_rows = batch_rows
        self._done = 0
        self.schema = self._file.schema_arrow

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of at most the asked number of rows."""
        for batch in self._file.iter_batches(self._batch_rows):
            self._done += batch.num_rows
            yield batch

    def fraction(self) -> float:
        """Rows read of rows in the file."""
        total: int = self._file.metadata.num_rows
        return self._done / total if total else 1.0

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class ArrowFileReader:
    """An Arrow IPC file with a footer (the stream format has none)."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self._source = pa_ipc.open_file(self._file)
        self._done = 0
        self.schema = self._source.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The file's record batches."""
        for number in range(self._source.num_record_batches):
            self._done = number + 1
            yield self._source.get_batch(number)

    def fraction(self) -> float:
        """Batches read of batches in the file."""
        total: int = self._source.num_record_batches
        return self._done / total if total else 1.0

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class StreamReader:
    """Bytes that are read once, from a pipe or from a file of ``size`` bytes."""

    def __init__(self, raw: BinaryIO, compression: str | None = None, size: int = 0) -> None:
        self._raw = raw
        self._size = size
        self._meter = Meter(raw)
        self.stream: Readable = self._meter
        if compression is not None:
            inflating = pa.CompressedInputStream(pa.PythonFile(self._meter, mode="r"), compression)
            self.stream = Meter(inflating)

    def fraction(self) -> float:
        """Bytes read of bytes in the file."""
        return min(1.0, self._meter.bytes_read / self._size) if self._size else 0.0

    def close(self) -> None:
        """Let go of the file; a pipe stays open."""
        if self._size:
            self._raw.close()


class ArrowStreamReader(StreamReader):
    """An Arrow IPC stream, message by message."""

    def __init__(self, raw: BinaryIO, size: int = 0) -> None:
        super().__init__(raw, None, size)
        self._source = pa_ipc.open_stream(pa.PythonFile(self.stream, mode="r"))
        self.schema = self._source.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """A batch for each message."""
        yield from self._source


class TextReader(StreamReader):
    """CSV or NDJSON, a block of lines at a time."""

    def __init__(
        self, parser: Parser, raw: BinaryIO, types: Types, compression: str | None = None, size: int = 0
    ) -> None:
        super().__init__(raw, compression, size)
        self._parser = parser
        self._blocks = blocks_of_lines(self.stream, SAMPLE)
        sample = next(self._blocks, b"")
        inferred = parser.infer(_native(sample))
        self.schema = pa.schema(_settle(inferred, types))
        self._first = parser.parse(_native(sample), self.schema, first=True)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """One batch or more for each block."""
        yield from self._first.to_batches()
        for block in self._blocks:
            yield from self._parser.parse(_native(block), self.schema, first=False).to_batches()


class Parser(Protocol):
    """A text format: types from a sample, tables from blocks of lines."""

    def infer(self, sample: pa.BufferReader) -> Types:
        """The types of the columns in the first block."""

    def parse(self, block: pa.BufferReader, schema: pa.Schema, *, first: bool) -> pa.Table:
        """The rows of a block; the first one may begin with a header."""


class CsvParser:
    """CSV with a header."""

    def infer(self, sample: pa.BufferReader) -> Types:
        """Arrow's own inference."""
        schema = pa_csv.read_csv(sample).schema
        twice = [name for name in schema.names if schema.names.count(name) > 1]
        if twice:
            raise UsageError(
                f"a CSV header has several columns named {twice[0]!r}; expected distinct names; rename them"
            )
        return {field.name: field.type for field in schema}

    def parse(self, block: pa.BufferReader, schema: pa.Schema, *, first: bool) -> pa.Table:
        """The rows of a block."""
        types = pa_csv.ConvertOptions(column_types=schema)
        if first:
            return pa_csv.read_csv(block, convert_options=types)
        names = pa_csv.ReadOptions(column_names=schema.names)
        return pa_csv.read_csv(block, read_options=names, convert_options=types)


class NdjsonParser:
    """One JSON object a line."""

    def infer(self, sample: pa.BufferReader) -> Types:
        """Arrow recognises times of whole seconds only; we take the others too."""
        table = pa_json.read_json(sample, _whole(sample))
        return {field.name: _time_in_text(table[field.name]) for field in table.schema}

    def parse(self, block: pa.BufferReader, schema: pa.Schema, *, first: bool) -> pa.Table:  # noqa: ARG002
        """The rows of a block; fields that the sample did not have are left out."""
        parsing = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        return pa_json.read_json(block, _whole(block), parsing)


def open_file(path: Path, kind: FormatName, types: Types, batch_rows: int) -> Reader:
    """A reader of one file."""
    if kind == "parquet":
        return ParquetReader(path, batch_rows)
    raw = path.open("rb", buffering=0)
    try:
        size = max(path.stat().st_size, 1)
        if kind != "arrow":
            return TextReader(PARSERS[kind], raw, types, compression_of(path), size)
        if raw.seekable():
            magic = raw.read(6)
            raw.seek(0)
            if magic == b"ARROW1":
                raw.close()
                return ArrowFileReader(path)
        return ArrowStreamReader(raw, size)
    except BaseException:
        raw.close()
        raise


def open_pipe(raw: BinaryIO, kind: FormatName, types: Types) -> Reader:
    """A reader of standard input."""
    if kind == "parquet":
        raise UsageError(
            "Parquet cannot be read from a pipe (its index is at the end); expected csv, ndjson or arrow; "
            "give the file's path instead of '-'"
        )
    return ArrowStreamReader(raw) if kind == "arrow" else TextReader(PARSERS[kind], raw, types)


PARSERS: dict[FormatName, Parser] = {"csv": CsvParser(), "ndjson": NdjsonParser()}


def _native(block: bytes) -> pa.BufferReader:
    """A copy in Arrow's memory: Arrow's threads must not have to let go of a Python object."""
    copy = pa.BufferOutputStream()
    copy.write(block)
    return pa.BufferReader(copy.getvalue())


def _whole(block: pa.BufferReader) -> pa_json.ReadOptions:
    """Parse a block in one piece, so that no object is too long."""
    return pa_json.ReadOptions(block_size=max(block.size(), 1))


def _settle(inferred: Types, asked: Types) -> Types:
    """Types that hold beyond the sample: seconds may get fractions later, and nothing but NULLs may end.

    Where the sample has no rows at all, every column is of type null, which any type compares with.
    """
    empty = all(pa.types.is_null(kind) for kind in inferred.values())
    settled = {}
    for name, kind in inferred.items():
        if pa.types.is_null(kind) and not empty:
            settled[name] = pa.string()
        elif pa.types.is_timestamp(kind) and kind.unit == "s":
            settled[name] = pa.timestamp("us", kind.tz)
        else:
            settled[name] = kind
    return settled | {name: kind for name, kind in asked.items() if name in settled}


def _time_in_text(column: pa.ChunkedArray) -> pa.DataType:
    """The type of a JSON column, with fractions of seconds recognised."""
    if pa.types.is_string(column.type) and column.null_count < len(column):
        for unit in ("us", "ns"):
            for zone in (None, "UTC"):
                with suppress(pa.ArrowInvalid):
                    return column.cast(pa.timestamp(unit, zone)).type
    return column.type
