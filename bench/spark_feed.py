"""What is joined on Spark: micro-batches as Parquet files, made from a seed.

One row of each stream a millisecond, so a time window of n ms holds n rows a side; a file of each side is a
micro-batch (``maxFilesPerTrigger``), read in the order of the files' times, which are set. Keys are uniform over
the non-negative int32, as in ``workloads``; the width of a band follows from the match rate.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.workloads import DOMAIN, SEED

DDL = "ts TIMESTAMP, id BIGINT, k INT, y INT, g INT"
START = np.datetime64("2026-01-05T00:00:00", "us").astype(np.int64)
GROUPS = 10  # values of g


@dataclass(frozen=True)
class Kind:
    """A condition at a match rate, and the columns that it needs."""

    name: str
    columns: tuple[str, ...]

    def condition(self, window: int, rate: float) -> str:
        share = rate / window  # of all pairs in the window
        reach = round(share * DOMAIN / 2)
        if self.name == "band":
            return f"abs(l.k - r.k) <= {reach}"
        if self.name == "equality":
            return "l.k = r.k"
        if self.name == "or of bands":
            return f"abs(l.k - r.k) <= {reach // 2} OR abs(l.y - r.y) <= {reach // 2}"
        if self.name == "unequal with band":
            return f"l.g <> r.g AND abs(l.k - r.k) <= {round(reach * GROUPS / (GROUPS - 1))}"
        # Of uniform x and z, x + c < z with the chance (1 - c)^2 / 2; two of them shall meet the share.
        gap = round((1 - sqrt(2 * sqrt(share))) * DOMAIN)
        return f"l.k + {gap} < r.k AND l.y > r.y + {gap}"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("band", ("ts", "id", "k")),
        Kind("equality", ("ts", "id", "k")),
        Kind("two inequalities", ("ts", "id", "k", "y")),
        Kind("or of bands", ("ts", "id", "k", "y")),
        Kind("unequal with band", ("ts", "id", "k", "g")),
    )
}


def write(folder: Path, kind: Kind, sizes: Sequence[int], keys: int = DOMAIN) -> int:
    """Files of both sides, one for each size; the rows of one side."""
    first = 0
    for number, size in enumerate(sizes):
        for side, name in enumerate(("left", "right")):
            path = folder / name / f"{number:04}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            # Small enough for one task of Spark's: it would cut a file of more than 4 MB in two, of which one has no row.
            pq.write_table(
                rows(side, first, size, keys).select(kind.columns),
                path,
                use_dictionary=False,
                compression="zstd",
            )
            os.utime(path, (1_700_000_000 + 10 * number,) * 2)
        first += size
    return first


def rows(side: int, first: int, count: int, keys: int) -> pa.Table:
    """A stretch of one stream."""
    draw = np.random.default_rng((SEED, side, first))
    ids = np.arange(first, first + count, dtype=np.int64)
    return pa.table(
        {
            "ts": pa.array(START + ids * 1000, pa.timestamp("us", "UTC")),
            "id": ids,
            "k": draw.integers(0, keys, count, dtype=np.int32),
            "y": draw.integers(0, DOMAIN, count, dtype=np.int32),
            "g": draw.integers(0, GROUPS, count, dtype=np.int32),
        }
    )


def keys_for(kind: Kind, window: int, rate: float) -> int:
    """Different values of k: as many as give an equality its match rate."""
    return max(1, round(window / rate)) if kind.name == "equality" else DOMAIN


def columns_of(kind: Kind) -> str:
    return ", ".join(column for column in DDL.split(", ") if column.split()[0] in kind.columns)
