"""Settings of a Spark session that the join needs or likes; the user applies them, nobody else.

``settings()`` is a plain dict for ``SparkSession.builder.config(map=...)``. REASONS says what each is for.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

from slidejoin.errors import StateError
from slidejoin.pools import cores
from slidejoin.spark.missing import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "spark.sql.shuffle.partitions"
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
KEPT_MEMORY = {  # bytes of arrays that come from a process's own memory, bytes that it keeps when they go, and whose memory
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",  # Arrow's own gives freed memory back within milliseconds
}
# "default": they stand before the options that the user has set, and leave those as they are.
JAVA_OPTIONS = dict.fromkeys(
    ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"),
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false",
)

REASONS = {
    PROVIDER: "required: Spark's stateful operator for Python runs on RocksDB only, and it is not the default",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": (
        "a micro-batch uploads what it wrote, not a snapshot: a commit takes a third of the time"
    ),
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": (
        "snapshots in the background every 50 changelogs instead of every 10"
    ),
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": (
        "counting the log's few entries would read each key before it is written"
    ),
    "spark.sql.streaming.checkpointFileManagerClass": (
        "the default forks a process for each checkpoint file on local disks: a quarter of a small micro-batch"
    ),
    PARTITIONS: "one task for each core and no more: every partition of the state costs 50 to 100 ms a micro-batch",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "larger batches into the packers: fewer calls for the same rows",
    "spark.sql.execution.arrow.maxBytesPerBatch": (
        "the greatest value means no limit beside that of rows; with any other, Spark adds up the size of the whole "
        "batch at each row: a quarter of its time on the way into the packers"
    ),
    UNIX_SOCKETS: (
        "on loopback TCP the start of every Python task waits 40 ms for a delayed acknowledgement; left out where there "
        "are no such sockets, and for a session elsewhere, as it is set when Spark starts"
    ),
    **dict.fromkeys(
        KEPT_MEMORY,
        "Python workers keep memory that they have freed, up to 256 MiB, for the next micro-batch, instead of handing each "
        "array back to the system and being given cleared pages again; left out for a session elsewhere",
    ),
    **dict.fromkeys(
        JAVA_OPTIONS,
        "Spark makes rows of the result cell by cell, and Arrow's library for Java would look twice at each whether it is there; "
        "a fifth of what such a row costs Spark; left out for a session elsewhere, as they are read when Java starts",
    ),
}


def settings(*, partitions: int | None = None, remote: bool = False) -> dict[str, str]:
    """What to build the session with. ``partitions``: tasks of the join, by default one for each core here.

    Where PYSPARK_PYTHON is not set, it is set to this interpreter, which workers then run. ``remote=True`` is for
    a Spark Connect server elsewhere: no Java is looked for here, and workers run the server's Python.

    >>> from slidejoin.spark import settings
    >>> settings(partitions=8)["spark.sql.shuffle.partitions"]
    '8'
    """
    if not remote:
        require_java()
        # Workers shall run this interpreter, which has slidejoin, and not the first python3 on the PATH. Spark
        # reads that from the environment alone, when the session is made.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = {
        PROVIDER: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "50",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        PARTITIONS: str(partitions or cores()),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }
    if not remote:
        found |= KEPT_MEMORY | JAVA_OPTIONS
        if hasattr(socket, "AF_UNIX"):
            found[UNIX_SOCKETS] = "true"
    return found


def require_rocksdb(session: SparkSession) -> None:
    """Refuse a session whose state store cannot hold the join."""
    found = session.conf.get(PROVIDER, "")
    if "rocksdb" not in str(found).lower():
        raise StateError(
            f"the session's {PROVIDER} is {found or 'not set'}; expected {ROCKSDB}, as Spark's stateful operator for "
            "Python needs RocksDB; build the session with .config(map=slidejoin.spark.settings()), or set it with "
            f"spark.conf.set({PROVIDER!r}, {ROCKSDB!r})"
        )


def shuffle_partitions(session: SparkSession) -> int:
    """The tasks that the session's shuffles have."""
    return int(str(session.conf.get(PARTITIONS, "200")))
