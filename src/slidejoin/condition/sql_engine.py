"""Scalar functions, evaluated by DuckDB over Arrow columns.

Only function calls go there. Arithmetic, comparisons and logic stay in ``evaluate``, so that exactness never
depends on another engine's promotion rules. The SQL is a whitelisted function's template with column names
or quoted literals in its holes. A value the function cannot handle (a bad cast, an overflow) is NULL.

One private in-memory connection per thread: no files, no network, no extensions, one thread, time zone UTC.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

_local = threading.local()
# Never closed: in a forked process DuckDB would wait for threads that are not there.
_of_parents: list[Any] = []


def _connection() -> duckdb.DuckDBPyConnection:
    owner, connection = getattr(_local, "connection", (0, None))
    if connection is None or owner != os.getpid():  # a forked process must not share its parent's engine
        import duckdb  # noqa: PLC0415 - lazily: most conditions never need it

        _of_parents.append(connection)
        connection = duckdb.connect(":memory:", config={"threads": 1})
        for setting in (
            "SET TimeZone = 'UTC'",  # results must not depend on the machine's zone
            "SET autoinstall_known_extensions = false",
            "SET autoload_known_extensions = false",
            "SET python_enable_replacements = false",  # a table name never reaches Python variables
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            connection.execute(setting)
        _local.connection = (os.getpid(), connection)
    return connection


def run(sql: str, batch: pa.RecordBatch) -> pa.Array:
    """Evaluate one scalar expression over the columns of a batch, row by row."""
    connection = _connection()
    connection.register("input", pa.Table.from_batches([batch]))
    try:
        # the expression comes from whitelisted templates with quoted literals, never from raw text
        table = connection.sql(f"SELECT TRY({sql}) AS value FROM input").to_arrow_table()  # noqa: S608
    finally:
        connection.unregister("input")
    column = table.column(0)
    result: Any = column.combine_chunks()
    if isinstance(result, pa.ChunkedArray):
        result = result.chunk(0) if result.num_chunks else pa.array([], result.type)
    return result


def result_type(sql: str, arguments: list[pa.DataType]) -> pa.DataType:
    """The Arrow type of an expression; raises ValueError with DuckDB's reason if it does not bind."""
    import duckdb  # noqa: PLC0415 - lazily, as above

    fields = [pa.field(f"c{i}", kind) for i, kind in enumerate(arguments)] or [pa.field("c", pa.int8())]
    empty = pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in fields], schema=pa.schema(fields)
    )
    try:
        return run(sql, empty).type
    except duckdb.Error as error:
        raise ValueError(str(error).splitlines()[0]) from error
