"""``slidejoin run --engine spark``: the same files, the same join, the same output, the work done by Spark.

    files -> tasks that read them -> slidejoin.spark.join -> tasks that write pieces -> the output

Tasks read with the readers of the local engine, a file each, so text means the same on both engines; types that
Spark lacks are carried as wider ones and turned back at the end. The inputs are finite, so both are joined as
one batch: nothing is late, and a worker holds its part of both files rather than of a window. Results go
to pieces beside the output, which the driver puts together: no result has to fit a process.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import slidejoin as sj
from slidejoin.cli.endings import InputError, UsageError
from slidejoin.cli.formats import FormatName
from slidejoin.cli.query import Query
from slidejoin.cli.readers import open_file
from slidejoin.cli.sinks import Writer
from slidejoin.cli.sources import PIPE, Source
from slidejoin.errors import SchemaError, SlidejoinError
from slidejoin.pools import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEFT, RIGHT = "left", "right"
LOCAL = "local"
PIECE = "file string, rows bigint"

Batches = Iterator[pa.RecordBatch]

# Types that Spark lacks, and those that carry them. Whole numbers and text lose nothing; times finer than a
# microsecond are refused when a row has one.
CARRIERS = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
}


class SparkError(SlidejoinError):
    """Spark could not finish the join."""


@dataclass(frozen=True)
class Counts:
    """What went in and came out; ``sides`` has the account of each side."""

    sides: dict[str, dict[str, int]]
    rows_out: int

    @property
    def rows_in(self) -> int:
        return sum(side["rows_in"] for side in self.sides.values())


def check(query: Query, places: tuple[str, str], out: str, master: str | None) -> None:
    """Refuse what the local engine can do and Spark cannot."""
    refused = {
        "--order": (query.order, "none", "results leave many workers at once, in no order"),
        "--flow": (query.flow, "auto", "rows are routed by Spark's shuffle"),
    }
    for option, (given, expected, why) in refused.items():
        if given != expected:
            raise UsageError(
                f"{option} {given} was given with --engine spark, where {why}; expected {option} {expected}; "
                f"leave {option} out, or use --engine local"
            )
    if query.rows is not None and query.by is None:
        raise UsageError(
            "--rows was given without --by, and Spark keeps no order of rows; expected a column that orders both inputs; "
            "add --by COLUMN, or use --engine local"
        )
    if PIPE in places:
        raise UsageError(
            "'-' was given with --engine spark, whose tasks read files; expected a file or a folder; save the pipe "
            "to a file first, or use --engine local"
        )
    if out == PIPE and master is not None and not master.startswith(LOCAL):
        raise UsageError(
            f"--out - was given with --master {master}, whose workers write pieces beside the output; expected a path "
            "that they can write to; name a file on a shared disk"
        )


def join_files(
    query: Query,
    sources: tuple[Source, Source],
    sink: Callable[[], Any],
    schema: pa.Schema,
    out: str,
    master: str | None,
) -> Counts:
    """Join two inputs on Spark and write the result to the sink, which is opened once there is something."""
    spark_module = import_module("slidejoin.spark")  # says what to install where something is missing
    carried = [
        schema_carried(source.schema, side) for source, side in zip(sources, (LEFT, RIGHT), strict=True)
    ]
    workers = query.threads or cores()
    options = spark_module.settings(partitions=workers)
    with (
        _session(options, master or f"local[{workers}]") as session,
        _pieces_beside(out) as folder,
    ):
        from pyspark.sql import Observation  # noqa: PLC0415 - known to be there only now
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        frames, seen = [], []
        for source, types, time, name in zip(
            sources, carried, query.times or (None, None), (LEFT, RIGHT), strict=True
        ):
            frame = _frame(session, source, types)
            timeless = F.lit(0) if time is None else F.count_if(F.col(_quoted(time)).isNull())
            seen.append(Observation(name))
            frames.append(
                frame.observe(seen[-1], F.count(F.lit(1)).alias("rows_in"), timeless.alias("null_time"))
            )
        joined = spark_module.join(
            *frames, on=query.on, window=query.windows(), how=query.how, lateness=query.lateness_given,
            late=query.late, index=query.index,
        )  # fmt: skip
        with sink() as writer:
            pieces = joined.mapInArrow(_piece_writer(str(folder)), PIECE).collect()
            rows = _put_together([Path(piece["file"]) for piece in pieces], writer, schema)
        sides = {
            name: {"rows_in": found.get["rows_in"], "null_time": found.get["null_time"] or 0, "late": 0}
            for name, found in zip((LEFT, RIGHT), seen, strict=True)
        }
    return Counts(sides, rows)


# -- the session ---------------------------------------------------------------------------------------


@contextmanager
def _session(options: dict[str, Any], master: str) -> Iterator[SparkSession]:
    """A session for one join; what Spark says goes to a file that is kept only if the join fails."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - known to be there only now
    from pyspark.errors import PySparkException, PySparkRuntimeError  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    handle, log = tempfile.mkstemp(prefix="slidejoin-spark-", suffix=".log")
    try:
        with _stderr_to(handle):
            session = (
                SparkSession.builder.master(master)
                .appName("slidejoin run")
                .config(map={**options})
                .config("spark.log.level", "ERROR")
                .config("spark.ui.enabled", "false")
                .getOrCreate()
            )
    except (PySparkRuntimeError, Py4JError) as error:
        raise SparkError(
            f"Spark could not be started on {master}: {_said(error)}; expected a session; its log is {log}"
        ) from error
    kept = False
    try:
        yield session
    except (PySparkException, Py4JError) as error:
        ours = _ours(error)
        kept = ours is None
        raise ours or SparkError(
            f"Spark gave up: {_said(error)}; expected the join to finish; its log is {log}"
        ) from error
    finally:
        session.stop()
        if not kept:
            Path(log).unlink()


@contextmanager
def _stderr_to(handle: int) -> Iterator[None]:
    """Processes started meanwhile write their stderr to the file; this one's own comes back."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)


def _said(error: BaseException) -> str:
    text = str(error).strip()
    return text.split("\n", 1)[0].rstrip(".") or type(error).__name__


def _ours(error: BaseException) -> SlidejoinError | None:
    """An error of this package that a task raised: its text, without Spark's traceback around it."""
    for line in str(error).splitlines()[::-1]:
        name, colon, message = line.strip().partition(": ")
        if colon and name.startswith("slidejoin.") and name.endswith("Error"):
            kind = InputError if name.rsplit(".", 1)[1] == "InputError" else SlidejoinError
            return kind(message)
    return None


# -- reading -------------------------------------------------------------------------------------------


def _frame(session: SparkSession, source: Source, schema: pa.Schema) -> DataFrame:
    """An input as a DataFrame: one task a file, in the files' order."""
    count = len(source.paths)
    read = _file_reader([str(path.resolve()) for path in source.paths], source.kind, source.schema, schema)
    return session.range(0, count, 1, count).mapInArrow(read, spark_schema(schema))


def _file_reader(
    paths: list[str], kind: FormatName, found: pa.Schema, carried: pa.Schema
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that reads the files whose numbers it is given."""
    rows = 65_536

    def slidejoin_read(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for read in _batches(Path(paths[number]), kind, found, rows):
                    yield _carried(read, carried, paths[number])

    return slidejoin_read


def _batches(path: Path, kind: FormatName, schema: pa.Schema, rows: int) -> Batches:
    types = {field.name: field.type for field in schema}
    try:
        with closing(open_file(path, kind, types, rows)) as reader:
            if not reader.schema.equals(schema):
                raise InputError(
                    f"{path} has columns {', '.join(map(str, reader.schema))}; expected {', '.join(map(str, schema))}; "
                    "join files of one schema"
                )
            for batch in reader.batches():
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(
            f"cannot read {path} as {kind}: {_said(error)}; expected {kind} with the same types to its end; check how "
            "it was written"
        ) from error


def _carried(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    try:
        return batch.cast(schema)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{path} has a value that Spark cannot hold: {_said(error)}; expected times of whole microseconds; round "
            "them, or use --engine local"
        ) from error


# -- writing -------------------------------------------------------------------------------------------


@contextmanager
def _pieces_beside(out: str) -> Iterator[Path]:
    """A folder for pieces of the result, on the disk that the result goes to."""
    where = None if out == PIPE else Path(out).resolve().parent
    folder = tempfile.mkdtemp(prefix=".slidejoin-", dir=where)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


def _piece_writer(folder: str) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that writes a partition's rows to a file and gives its name.

    An attempt that fails leaves a file that nobody names.
    """

    def slidejoin_write(batches: Batches) -> Batches:
        path, rows, writer = f"{folder}/{uuid.uuid4().hex}.arrows", 0, None
        try:
            for batch in batches:
                if batch.num_rows:
                    writer = writer or pa.ipc.new_stream(path, batch.schema)
                    writer.write_batch(batch)
                    rows += batch.num_rows
        finally:
            if writer is not None:
                writer.close()
        if rows:
            yield pa.RecordBatch.from_pydict({"file": [path], "rows": [rows]})

    return slidejoin_write


def _put_together(pieces: list[Path], writer: Writer, schema: pa.Schema) -> int:
    """Every piece to the writer, in the types that the local engine gives."""
    rows = 0
    for piece in pieces:
        with pa.memory_map(str(piece)) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                writer.write(batch.cast(schema))
                rows += batch.num_rows
        piece.unlink()
    return rows


# -- types ---------------------------------------------------------------------------------------------


def schema_carried(schema: pa.Schema, side: str) -> pa.Schema:
    """The columns of an input in types that Spark has."""
    return pa.schema([pa.field(field.name, carrier(field.type, field.name, side)) for field in schema])


def carrier(kind: pa.DataType, column: str, side: str) -> pa.DataType:
    """The type that a column has on its way through Spark."""
    types = pa.types
    if kind in CARRIERS:
        return CARRIERS[kind]
    if types.is_dictionary(kind):
        return carrier(kind.value_type, column, side)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz is not None else None)
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(carrier(kind.value_type, column, side))
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, carrier(part.type, column, side)) for part in kind])
    if types.is_map(kind):
        return pa.map_(carrier(kind.key_type, column, side), carrier(kind.item_type, column, side))
    if _plain(kind) is None:
        raise SchemaError(
            f"the {side} column {column!r} is {kind}; expected a type that Spark has; cast it, or use --engine local"
        )
    return kind


def spark_schema(schema: pa.Schema) -> Any:
    """A carried schema in Spark's words."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - known to be there only now

    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> Any:
    from pyspark.sql import types as spark  # noqa: PLC0415 - known to be there only now

    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return spark.StructType([spark.StructField(part.name, _spark_type(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    found = _plain(kind)
    assert found is not None  # carrier() has refused the others
    return found()


def _plain(kind: pa.DataType) -> Any:
    plain = import_module("slidejoin.spark.columns").PLAIN
    return next((theirs for theirs, ours in plain.items() if ours.equals(kind)), None)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def schema_of(join: sj.Join, sources: tuple[Source, Source]) -> pa.Schema:
    """The result's columns; finds a wrong column or type before anything runs."""
    left, right = (source.schema.empty_table() for source in sources)
    return join.push(left=left, right=right).schema
