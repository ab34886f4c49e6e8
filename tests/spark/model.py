"""Spark's part of the join, played by a few lines: tasks, a shuffle in any order, workers with a dict as state.

Everything of ``slidejoin.spark`` but Spark itself takes part: packers, messages, shards, log, caches. So
thousands of random joins can be compared with the oracle in the time that one real query takes. Caches belong
to pretended processes; which one serves a worker is drawn anew for every micro-batch, as Spark does it.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import naive
import slidejoin as sj
from slidejoin.settings import Settings
from slidejoin.spark import cache
from slidejoin.spark.log import Log
from slidejoin.spark.message import Message, decode
from slidejoin.spark.pack import Packing
from slidejoin.spark.query import LATE, Query
from slidejoin.spark.route import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generate.cases import Setup

IDS = ("left_id", "right_id")


class DictStore:
    """State of one worker: what the last committed micro-batch left, and what the running one changes."""

    def __init__(self) -> None:
        self.committed: dict[int, bytes] = {}
        self.now: dict[int, bytes] = {}

    def get(self, key: int) -> bytes | None:
        return self.now.get(key)

    def put(self, key: int, value: bytes) -> None:
        self.now[key] = value

    def remove(self, key: int) -> None:
        self.now.pop(key, None)

    def commit(self) -> None:
        self.committed = dict(self.now)

    def roll_back(self) -> None:
        self.now = dict(self.committed)


class DictFolder:
    """A folder of entries that now and then loses or damages one."""

    def __init__(self, rng: random.Random) -> None:
        self.files: dict[str, bytes] = {}
        self.rng = rng

    def read(self, name: str) -> bytes | None:
        return self.files.get(name) if self.rng.random() < 0.8 else None

    def write(self, name: str, body: bytes) -> None:
        self.files[name] = body

    def remove(self, name: str) -> None:
        self.files.pop(name, None)


def query_of(setup: Setup, routing: str, workers: int, budget: int = 1 << 30, spread: int = 1) -> Query:
    """The query that a setup describes, with a column of row numbers on each side."""
    windows: list[Any] = []
    assert setup.position is not None
    for side in (0, 1):
        if setup.timed:
            windows.append(sj.Time(setup.lengths[side], on=setup.position, slide=setup.slides[side]))
        else:
            windows.append(sj.Rows(setup.lengths[side], by=setup.position, slide=setup.slides[side]))
    tuning = sj.Tuning(subwindow_rows=setup.subwindow_rows, chunk_rows=setup.chunk_rows)
    lateness, late = (setup.lateness_given, setup.late) if setup.timed else (None, "count")
    settings = Settings.checked(
        setup.condition.bare, tuple(windows), setup.how, lateness, late, "none", setup.index, "auto", 1,
        setup.aliases, setup.suffixes, tuning,
    )  # fmt: skip
    left, right = (setup.schema(side).append(pa.field(IDS[side], pa.int64())) for side in (0, 1))
    draft = Query(settings, (left, right), workers, "split", budget)
    draft.check()
    name = resolve(routing, draft.bound, settings, draft.schemas, workers, spread)
    return Query.read(Query(settings, (left, right), workers, name, budget, spread).text())


@dataclass
class Model:
    """A streaming query: tasks that pack, a shuffle, workers, and processes that cache."""

    query: Query
    rng: random.Random
    processes: int = 2
    batch: int = 0
    stores: list[DictStore] = field(default_factory=list)
    caches: list[OrderedDict[cache.Key, cache.Replica]] = field(default_factory=list)
    reports: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stores = [DictStore() for _ in range(self.query.workers)]
        self.caches = [OrderedDict() for _ in range(self.processes)]
        self.folder = DictFolder(self.rng)

    def micro_batch(self, tables: tuple[pa.Table, pa.Table]) -> list[dict[str, Any]]:
        """Result rows of one micro-batch; now and then an attempt is made and not committed."""
        received = self.shuffled(tables)
        if not any(received):
            return []
        failing = self.rng.random() < 0.15
        rows: list[dict[str, Any]] = []
        if failing:
            self.attempt(received)
            for store in self.stores:
                store.roll_back()
        rows = self.attempt(received)
        for store in self.stores:
            store.commit()
        self.batch += 1
        return rows

    def shuffled(self, tables: tuple[pa.Table, pa.Table]) -> list[list[Message]]:
        """What the tasks send to each worker, in any order."""
        received: list[list[Message]] = [[] for _ in range(self.query.workers)]
        for side, table in enumerate(tables):
            tasks = self.rng.randint(1, 3)
            ends = sorted(self.rng.randint(0, table.num_rows) for _ in range(tasks - 1))
            for task, (begin, end) in enumerate(zip([0, *ends], [*ends, table.num_rows], strict=True)):
                batches = table.slice(begin, end - begin).to_batches(max_chunksize=self.rng.choice((2, 100)))
                packing = Packing(self.query, side, task, self.batch)
                for worker, message in packing.run(iter(batches)):
                    received[worker].append(decode(message))
        for messages in received:
            self.rng.shuffle(messages)
        return received

    def attempt(self, received: Sequence[Sequence[Message]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        self.reports = []
        for worker, messages in enumerate(received):
            if not messages:
                continue
            here = self.rng.choice(self.caches)
            if self.rng.random() < 0.1:
                here.clear()
            cache._kept = here
            key = cache.Key("query", "join", worker)
            log = Log(self.query, self.stores[worker], self.folder)  # type: ignore[arg-type]
            replica, hit = cache.resume(key, self.query, log)
            outcome = replica.shard.take_in(messages)
            replica.record(outcome, log)
            served = replica.shard
            for source in (*map(served.rows_of, outcome.matches), served.late_rows(outcome.late)):
                for batch in source:
                    assert batch.schema.equals(self.query.result)
                    found += ids_of(batch)
            served.engine.check()
            self.reports.append({"late": sum(outcome.counted.late), "rows_in": sum(outcome.counted.rows_in),
                                 "null_time": sum(outcome.counted.null_time), "matches": served.pairs,
                                 "hit": hit})  # fmt: skip
            cache.keep(key, replica, self.query.budget)
        return found


def ids_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The row numbers of result rows, -1 for an absent side, and whether they are late."""
    names = [name for name in (*IDS, LATE) if name in batch.schema.names]
    rows = pa.Table.from_batches([batch]).select(names).to_pylist()
    return [
        {IDS[0]: -1, IDS[1]: -1, LATE: False} | {k: v for k, v in row.items() if v is not None}
        for row in rows
    ]


def numbered(setup: Setup, side: int, rows: list[dict[str, Any]], first: int) -> pa.Table:
    """A side's rows with their numbers in the stream."""
    table = setup.table(side, rows)
    return table.append_column(
        pa.field(IDS[side], pa.int64()), pa.array(range(first, first + len(rows)), pa.int64())
    )


def expected_rows(
    setup: Setup, oracle: naive.Naive, pairs: Sequence[naive.Pair]
) -> list[tuple[int, int, bool]]:
    """What a micro-batch should give: the oracle's pairs, and late rows where they are kept."""
    found = [(left, right, False) for left, right in pairs]
    if setup.timed and setup.late == "keep":
        left, right = oracle.late_rows()
        found += [(number, -1, True) for number in left]
        if setup.how not in ("semi", "anti"):
            found += [(-1, number, True) for number in right]
    return found
