"""Seeded streams for real Spark: micro-batches as Parquet files, the oracle's rows, and queries over them.

The file source takes one file of each side per micro-batch, in the order of their modification times, which
are set. So a test decides what each micro-batch holds, and a restart reads the same again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import naive
import slidejoin as sj
from naive import holds, sql_and, sql_or
from slidejoin.spark import counters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = 1_000_000  # microseconds, the ticks of the oracle here

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.int64()),
        ("note", pa.string()),
    ]
)
DDL = "ts TIMESTAMP, k INT, x DOUBLE, y BIGINT, note STRING"


def near(a: float | None, b: float | None, width: float) -> bool | None:
    return None if a is None or b is None else abs(a - b) <= width


CONDITIONS: dict[str, tuple[str, Callable[[Any, Any], bool | None]]] = {
    "band": ("abs(l.x - r.x) <= 2", lambda a, b: near(a["x"], b["x"], 2)),
    "equality": ("l.k = r.k", lambda a, b: holds("=", a["k"], b["k"])),
    "equality and band": (
        "l.k = r.k AND abs(l.y - r.y) <= 6",
        lambda a, b: sql_and(holds("=", a["k"], b["k"]), near(a["y"], b["y"], 6)),
    ),
    "two inequalities": (
        "l.x < r.x AND l.y > r.y + 8",
        lambda a, b: sql_and(
            holds("<", a["x"], b["x"]), None if b["y"] is None else holds(">", a["y"], b["y"] + 8)
        ),
    ),
    "or of bands": (
        "abs(l.x - r.x) <= 1 OR abs(l.y - r.y) <= 1",
        lambda a, b: sql_or(near(a["x"], b["x"], 1), near(a["y"], b["y"], 1)),
    ),
    "unequal with band": (
        "l.k <> r.k AND abs(l.y - r.y) <= 2 AND r.x > 5",
        lambda a, b: sql_and(holds("<>", a["k"], b["k"]), near(a["y"], b["y"], 2), holds(">", b["x"], 5)),
    ),
}


@dataclass
class Feed:
    """Two streams in micro-batches: disorder, stragglers, NULLs, empty micro-batches, a side that pauses."""

    seed: int
    batches: int = 5
    rows: int = 14
    domain: int = 30
    made: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        clocks = [0, rng.randint(0, 4)]
        idle = rng.choice((None, 0, 1))  # this side has nothing in the middle, and comes back
        for batch in range(self.batches):
            sides: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
            for side in (0, 1):
                if idle == side and 0 < batch < self.batches - 1 and rng.random() < 0.7:
                    continue
                for _ in range(rng.choice((0, 1, self.rows, self.rows, 2 * self.rows))):
                    clocks[side] += rng.choice((0, 0, 0, 1, 1, 2))
                    back = rng.choice((0, 0, 0, 0, 1, 2, 7, 20))
                    sides[side].append(self._row(rng, clocks[side] - back, (side, len(sides[side]))))
            self.made.append(sides)

    def _row(self, rng: random.Random, seconds: int, name: Any) -> dict[str, Any]:
        def maybe(value: Any) -> Any:
            return None if rng.random() < 0.04 else value

        return {
            "ts": maybe(START + timedelta(seconds=seconds)),
            "k": maybe(rng.randint(0, 5)),
            "x": maybe(float(rng.randint(0, self.domain)) + rng.choice((0.0, 0.25))),
            "y": maybe(rng.randint(-self.domain, self.domain)),
            "note": f"{name[0]}:{rng.random():.6f}",
        }

    def write(self, folder: Path, first: int = 0, last: int | None = None) -> None:
        """The files of some micro-batches, times set so that they are read in this order."""
        for number, sides in list(enumerate(self.made))[first:last]:
            for name, rows in zip(("left", "right"), sides, strict=True):
                path = folder / name / f"{number:04}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                beside = folder / f".{name}.{number}"
                pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), beside)
                os.utime(beside, (1_700_000_000 + 10 * number,) * 2)
                beside.rename(path)

    def by_moment(self) -> Feed:
        """The same rows with times that no two rows of a stream share, for count windows."""
        for side in (0, 1):
            for batch in self.made:
                for number, row in enumerate(batch[side]):
                    if row["ts"] is not None:
                        row["ts"] += timedelta(microseconds=number)
        return self


def ticks(moment: datetime | None) -> int | None:
    return (
        None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    )


def oracle(
    feed: Feed, condition: str, windows: tuple[naive.Window, naive.Window], how: str, lateness: int = 0,
    late: str = "count", *, finish: bool = False, together: bool = False,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """The rows that should come out: the notes of both sides, and whether the row is late."""
    join = naive.Naive(CONDITIONS[condition][1], windows, how, lateness, late)
    sides: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    found: list[tuple[Any, ...]] = []

    def note(side: int, number: int) -> str | None:
        return None if number < 0 else sides[side][number]["note"]

    made = feed.made
    if together:
        made = [([row for batch in made for row in batch[0]], [row for batch in made for row in batch[1]])]
    for batch in made:
        if not any(batch):
            continue
        for side in (0, 1):
            sides[side].extend(batch[side])
        pairs = join.push(*([naive.Row(row, ticks(row["ts"])) for row in rows] for rows in batch))
        found += [(note(0, left), note(1, right), False) for left, right in pairs]
        if late == "keep":
            lefts, rights = join.late_rows()
            found += [(note(0, number), None, True) for number in lefts]
            if how not in ("semi", "anti"):
                found += [(None, note(1, number), True) for number in rights]
    if finish:
        found += [(note(0, left), note(1, right), False) for left, right in join.finish()]
    return found


def sides_of(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    """Both streams as streaming DataFrames."""
    left, right = (
        spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name in ("left", "right")
    )
    return left, right


def drain(frame: DataFrame, folder: Path, **options: str) -> Any:
    """Run a query over all files that are there, into Parquet files; returns the query."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.options(**options).trigger(availableNow=True).start(str(folder / "out"))
    query.awaitTermination()
    return query


def results(spark: SparkSession, folder: Path, frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """What the file sink holds, as the oracle writes it."""
    rows = spark.read.schema(frame.schema).parquet(str(folder / "out")).collect()
    return Counter(map(as_oracle, rows))


def totals(query: Any) -> Counter[str]:
    """The counters of a query, added up over its micro-batches."""
    total: Counter[str] = Counter()
    for progress in query.recentProgress:
        found = counters(progress)
        total.update({name: value for name, value in found.items() if isinstance(value, int)})
    return total


def as_oracle(row: Any) -> tuple[Any, ...]:
    values = row.asDict()
    left = values.get("note_l", values.get("note"))
    return (left, values.get("note_r"), values.get("late", False))


def time_window(
    left: int, right: int, slide: int | None = None
) -> tuple[Any, tuple[naive.Window, naive.Window]]:
    """A pair of time windows in seconds, for the library and for the oracle."""
    step = None if slide is None else f"{slide} seconds"
    ours = tuple(sj.Time(f"{size} seconds", on="ts", slide=step) for size in (left, right))
    theirs = tuple(
        naive.Time(size * SECOND, None if slide is None else slide * SECOND) for size in (left, right)
    )
    return ours, (theirs[0], theirs[1])


def rows_window(left: int, right: int, slide: int = 1) -> tuple[Any, tuple[naive.Window, naive.Window]]:
    ours = tuple(sj.Rows(size, by="ts", slide=slide) for size in (left, right))
    theirs = tuple(naive.Rows(size, slide) for size in (left, right))
    return ours, (theirs[0], theirs[1])
