"""Who joins on several keys: slidejoin with the index that is named, Polars and DuckDB with the window kept for them."""

from __future__ import annotations

import gc
import random
from abc import abstractmethod
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import slidejoin as sj
from bench.contender import Contender, Pairs, fingerprint
from bench.queries import REACH, Query
from bench.workloads import BLOCK, Push
from slidejoin.worker import Worker


class Ours(Contender):
    """slidejoin with the index that is named; ``paper:spo_join`` merges once a slide, as the paper does."""

    def __init__(self, workload: dict[str, Any], index: str = "auto", threads: int = 1) -> None:
        self.workload: Any = Query(**workload)
        self.at = 0
        work = self.workload
        paper, _, name = index.rpartition(":")
        once_a_slide = sj.Tuning(subwindow_rows=work.slide, merge_rows=work.slide)
        self.join = sj.Join(
            work.condition,
            window=sj.Rows(work.window, slide=work.slide),
            index=name,
            threads=threads,
            tuning=once_a_slide if paper else sj.Tuning(),
        )

    def fill(self) -> float:
        start = perf_counter()
        # Without probing: the pairs of the rows that fill the windows are nobody's concern, and would take minutes.
        with mock.patch.object(Worker, "probing", return_value=[]):
            for push in self.workload.pushes(
                0, self.workload.filling, batch=min(BLOCK, self.workload.window)
            ):
                self._push(push)
        self.at = self.workload.filling
        # What was imported is not looked through again: one push in a hundred would pay milliseconds for Polars and DuckDB.
        gc.collect()
        gc.freeze()
        return perf_counter() - start

    def step(self, push: Push) -> Callable[[], Pairs]:
        pairs = self._push(push).indices()
        return lambda: pairs

    def counted(self, batches: int, *, build: bool = False) -> dict[str, Any]:
        """The next batches of each side, of which only the number of matches is asked; ``build`` also row numbers."""
        work = self.workload
        pushes = list(work.pushes(self.at, batches * work.batch))
        seconds, cpu, building, pairs = [], [], 0.0, 0
        for push in pushes:
            start, start_cpu = perf_counter(), process_time()
            found = self._push(push)
            pairs += found.num_rows
            seconds.append(perf_counter() - start)
            cpu.append(process_time() - start_cpu)
            if build:
                start = perf_counter()
                found.indices()
                building += perf_counter() - start
        self.at += batches * work.batch
        rows = sum(push.batch.num_rows for push in pushes)
        return {
            "rows": rows,
            "seconds": sum(seconds),
            "rows_per_second": rows / sum(seconds),
            "pairs": pairs,
            "building_seconds": building,
            "pushes": seconds,
            "pushes_cpu": cpu,
        }

    def _push(self, push: Push) -> sj.Matches:
        return self.join.push(left=push.batch) if push.side == 0 else self.join.push(right=push.batch)

    def setup(self) -> dict[str, Any]:
        """What was chosen, and what is held."""
        stats = self.join.stats()
        rows = stats.left.state_rows + stats.right.state_rows
        plan = self.join.explain().splitlines()[-1]
        return {"plan": plan, "state_bytes_per_row": stats.state_bytes / max(1, rows)}


class Together:
    """Several of ours in one process that take turns at every push, on rows that are the same for all."""

    def __init__(self, workloads: dict[str, dict[str, Any]]) -> None:
        self.joins = {name: Ours(workload) for name, workload in workloads.items()}

    def fill(self) -> None:
        for ours in self.joins.values():
            ours.fill()

    def turn(self, batches: int) -> dict[str, Any]:
        """Seconds of each push by contender, row numbers built; and the pairs, by push."""
        seconds: dict[str, list[float]] = {name: [] for name in self.joins}
        prints: dict[str, list[int]] = {name: [] for name in self.joins}
        pairs = dict.fromkeys(self.joins, 0)
        names = list(self.joins)
        first = self.joins[names[0]]
        shuffle = random.Random(first.at)
        for push in first.workload.pushes(first.at, batches * first.workload.batch):
            shuffle.shuffle(names)  # nobody is always the one after the largest output
            for name in names:
                start = perf_counter()
                left, right = self.joins[name].step(push)()
                seconds[name].append(perf_counter() - start)
                pairs[name] += len(left)
                prints[name].append(fingerprint(left, right))
        for ours in self.joins.values():
            ours.at += batches * ours.workload.batch
        return {"seconds": seconds, "pairs": pairs, "prints": prints}

    def setup(self) -> dict[str, Any]:
        return {name: ours.setup() for name, ours in self.joins.items()}


class Peer(Contender):
    """The batch against the other side's window, given as Arrow tables; the ends of bands are worked out for it."""

    def __init__(self, workload: dict[str, Any], threads: int = 2) -> None:
        self.workload: Any = Query(**workload)
        self.at = 0
        self.threads = threads
        self.seen = [0, 0]

    def fill(self) -> float:
        self.at = self.workload.filling
        self.seen = [self.at, self.at]
        return 0.0

    def step(self, push: Push) -> Callable[[], Pairs]:
        found = self.match(push.side, self.batch(push), self.window(1 - push.side))
        self.seen[push.side] = push.first + push.batch.num_rows

        def pairs() -> Pairs:
            probing, stored = self.numbers(found)
            return (probing, stored) if push.side == 0 else (stored, probing)

        return pairs

    def turn(self, batches: int) -> dict[str, Any]:
        """The windows are made before the clock starts: handing them over copies nothing."""
        self._windows = {}
        work, first = self.workload, self.at
        seen = [first, first]
        for push in work.pushes(first, batches * work.batch):
            self._windows[push.side, push.first] = self._made(1 - push.side, seen[1 - push.side])
            seen[push.side] += push.batch.num_rows
        return super().turn(batches)

    def window(self, side: int) -> pa.Table:
        return self._windows[1 - side, self.seen[1 - side]]

    def _made(self, side: int, seen: int) -> pa.Table:
        first = self.workload.visible(seen)
        columns = self.workload.rows(side, first, seen - first)
        return pa.table({**columns, "stored": np.arange(first, seen)})

    def batch(self, push: Push) -> pa.Table:
        columns = {name: push.batch.column(name).to_numpy() for name in self.workload.names}
        numbers = np.arange(push.first, push.first + push.batch.num_rows)
        if self.workload.kind != "band":
            return pa.table({**{f"p{name}": values for name, values in columns.items()}, "probing": numbers})
        ends: dict[str, Any] = {}
        for name, values in columns.items():
            ends |= {f"{name}_low": values - REACH, f"{name}_high": values + REACH}
        return pa.table({**ends, "probing": numbers})

    def comparisons(self, side: int) -> list[tuple[str, str, str]]:
        """``(stored column, operator, probing column)``."""
        if self.workload.kind == "band":
            return [("a", ">=", "a_low"), ("a", "<=", "a_high"), ("b", ">=", "b_low"), ("b", "<=", "b_high")]
        less = self.workload.kind == "q1"
        if side == 1:
            less = not less
        return [("a", ">" if less else "<", "pa"), ("b", "<" if less else ">", "pb")]

    @abstractmethod
    def match(self, side: int, batch: pa.Table, window: pa.Table) -> Any:
        """The pairs of row numbers, computed, in the engine's own form."""

    @abstractmethod
    def numbers(self, found: Any) -> Pairs:
        """``(probing, stored)`` from that form."""

    def setup(self) -> dict[str, Any]:
        return {"threads": self.threads}


class Polars(Peer):
    """``join_where``."""

    def match(self, side: int, batch: pa.Table, window: pa.Table) -> pl.DataFrame:
        compare = {">": pl.Expr.gt, "<": pl.Expr.lt, ">=": pl.Expr.ge, "<=": pl.Expr.le}
        tests = [
            compare[op](pl.col(stored), pl.col(probing)) for stored, op, probing in self.comparisons(side)
        ]
        arriving, held = pl.DataFrame(batch).lazy(), pl.DataFrame(window).lazy()
        return arriving.join_where(held, *tests).select("probing", "stored").collect()

    def numbers(self, found: pl.DataFrame) -> Pairs:
        return found["probing"].to_numpy(), found["stored"].to_numpy()


class DuckDB(Peer):
    """SQL over the registered tables."""

    def __init__(self, workload: dict[str, Any], threads: int = 2) -> None:
        super().__init__(workload, threads)
        self._engine = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False})
        self._engine.execute("SET enable_progress_bar = false")

    def match(self, side: int, batch: pa.Table, window: pa.Table) -> pa.Table:
        self._engine.register("batch", batch)
        self._engine.register("win", window)
        on = " AND ".join(f"w.{stored} {op} b.{probing}" for stored, op, probing in self.comparisons(side))
        return self._engine.sql(
            f"SELECT b.probing, w.stored FROM batch b JOIN win w ON {on}"
        ).to_arrow_table()

    def numbers(self, found: pa.Table) -> Pairs:
        columns = (found[name].combine_chunks() for name in ("probing", "stored"))
        probing, stored = (column.to_numpy() if len(column) else np.empty(0, np.int64) for column in columns)
        return probing, stored
