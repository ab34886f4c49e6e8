"""The peers: the same join by Polars and by DuckDB, the arriving batch against the other side's window.

Neither has a sliding window or an index that outlives a query, so each batch is joined with the whole window: that
is what a user of theirs would write. The window is kept for them as cheaply as we know how, in arrays with room for
as many rows again, so that its upkeep is two copies of eight or twelve bytes a row and handing it over copies
nothing. The band's ends are worked out beforehand, so that the condition is the two plain comparisons that both
have an inequality join for. Other spellings (the window first, eager or lazy, BETWEEN or two comparisons, NumPy or
Arrow out) were tried at a window of 2^20: none differed from these by more than the noise, but for Polars' in-memory
engine, which was slower.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from bench.contender import Contender, Int64s, Pairs
from bench.workloads import BLOCK, Push, Workload


class Window:
    """The last rows of a stream, side by side in memory: appended at the end, moved to the front when it is full."""

    def __init__(self, rows: int, dtype: np.dtype[Any], largest_batch: int) -> None:
        self.rows = rows
        self._keys = np.empty(2 * rows + largest_batch, dtype=dtype)
        self._seqs = np.empty(2 * rows + largest_batch, dtype=np.int64)
        self._end = 0

    def append(self, keys: NDArray[Any], first: int) -> None:
        if self._end + len(keys) > len(self._keys):
            kept = min(self.rows, self._end)
            self._keys[:kept] = self._keys[self._end - kept : self._end]
            self._seqs[:kept] = self._seqs[self._end - kept : self._end]
            self._end = kept
        self._keys[self._end : self._end + len(keys)] = keys
        self._seqs[self._end : self._end + len(keys)] = np.arange(first, first + len(keys))
        self._end += len(keys)

    def table(self) -> pa.Table:
        """A view of the window; valid until the next append."""
        start = max(0, self._end - self.rows)
        return pa.table({"k": self._keys[start : self._end], "stored": self._seqs[start : self._end]})


class Peer(Contender):
    """A contender that joins the batch with the window, given both as Arrow tables."""

    def __init__(self, workload: dict[str, Any] | Workload, threads: int = 2) -> None:
        super().__init__(workload)
        self.threads = threads
        dtype = self.workload.rows(0, 0, 1).dtype
        size = max(self.workload.batch, BLOCK)
        self.windows = tuple(Window(self.workload.window, dtype, size) for _ in (0, 1))

    def fill(self) -> float:
        start = perf_counter()
        for push in self.workload.pushes(0, self.workload.filling, batch=BLOCK):
            self.windows[push.side].append(push.batch.column(0).to_numpy(), push.first)
        self.at = self.workload.filling
        return perf_counter() - start

    def step(self, push: Push) -> Callable[[], Pairs]:
        keys = push.batch.column(0).to_numpy()
        found = self.match(self._batch(keys, push.first), self.windows[1 - push.side].table())
        self.windows[push.side].append(keys, push.first)

        def pairs() -> Pairs:
            probing, stored = self.numbers(found)
            return (probing, stored) if push.side == 0 else (stored, probing)

        return pairs

    def _batch(self, keys: NDArray[Any], first: int) -> pa.Table:
        probing = np.arange(first, first + len(keys))
        if self.workload.kind == "equality":
            return pa.table({"k": keys, "probing": probing})
        low, high = keys - np.float64(self.workload.width), keys + np.float64(self.workload.width)
        if (
            self.workload.kind == "band"
        ):  # exact in float64; clipped, so that the ends stay int32 like the keys
            info = np.iinfo(keys.dtype)
            low, high = (
                low.clip(info.min, info.max).astype(keys.dtype),
                high.clip(info.min, info.max).astype(keys.dtype),
            )
        return pa.table({"low": low, "high": high, "probing": probing})

    @abstractmethod
    def match(self, batch: pa.Table, window: pa.Table) -> Any:
        """The pairs of row numbers, computed, in the engine's own form."""

    @abstractmethod
    def numbers(self, found: Any) -> Pairs:
        """``(probing, stored)`` from that form."""

    def setup(self) -> dict[str, Any]:
        """What the engine was told."""
        return {"threads": self.threads}


class Polars(Peer):
    """``join_where`` (an inequality join), or ``join`` for equality."""

    def __init__(self, workload: dict[str, Any] | Workload, threads: int = 2) -> None:
        super().__init__(workload, threads)
        if pl.thread_pool_size() != threads:
            raise RuntimeError(
                f"Polars has {pl.thread_pool_size()} threads; expected {threads}; set POLARS_MAX_THREADS before it is "
                f"imported (it is {os.environ.get('POLARS_MAX_THREADS')!r})"
            )

    def match(self, batch: pa.Table, window: pa.Table) -> pl.DataFrame:
        arriving, stored = pl.DataFrame(batch).lazy(), pl.DataFrame(window).lazy()
        if self.workload.kind == "equality":
            joined = arriving.join(stored, on="k")
        else:
            joined = arriving.join_where(stored, pl.col("k") >= pl.col("low"), pl.col("k") <= pl.col("high"))
        return joined.select("probing", "stored").collect()

    def numbers(self, found: pl.DataFrame) -> Pairs:
        return found["probing"].to_numpy(), found["stored"].to_numpy()


class DuckDB(Peer):
    """SQL over the registered tables."""

    def __init__(self, workload: dict[str, Any] | Workload, threads: int = 2) -> None:
        super().__init__(workload, threads)
        self._engine = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False})
        self._engine.execute("SET enable_progress_bar = false")  # a slow query would draw over ours
        on = "k = b.k" if self.workload.kind == "equality" else "k BETWEEN b.low AND b.high"
        self._query = f"SELECT b.probing, w.stored FROM batch b JOIN win w ON w.{on}"

    def match(self, batch: pa.Table, window: pa.Table) -> pa.Table:
        self._engine.register("batch", batch)
        self._engine.register("win", window)
        return self._engine.sql(self._query).to_arrow_table()

    def numbers(self, found: pa.Table) -> Pairs:
        probing, stored = (_numpy(found[name]) for name in ("probing", "stored"))
        return probing, stored


def _numpy(column: pa.ChunkedArray) -> Int64s:
    return column.combine_chunks().to_numpy() if column.num_chunks else np.empty(0, dtype=np.int64)
