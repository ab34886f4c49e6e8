"""Real queries against the oracle: kinds, conditions, windows, routings, partitions, disorder, idle sides."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from slidejoin.spark import join
from spark.streams import (
    CONDITIONS,
    SECOND,
    Feed,
    drain,
    oracle,
    results,
    rows_window,
    sides_of,
    time_window,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

HOWS = ("inner", "left", "right", "full", "semi", "anti")


def cases() -> list[Any]:
    """Every kind with every routing, over partitions, windows and conditions that the seed deals out.

    And with keys or cells that two or three workers share: hash and grid take turns over the kinds.
    """
    rng = random.Random(20260301)
    found = []
    for number, (how, asked) in enumerate(
        (how, asked) for how in HOWS for asked in ("split", "hash", "grid", "rows", "shared")
    ):
        shared = asked == "shared"
        routing = ("hash", "grid")[number % 2] if shared else asked
        names = {"hash": ["equality", "equality and band"], "grid": ["band", "equality and band"]}
        condition = rng.choice(names.get(routing, list(CONDITIONS)))
        windows = (
            rows_window(*(2 * rng.randint(3, 12) for _ in "lr"), slide=rng.choice((1, 2)))
            if routing == "rows"
            else time_window(rng.randint(1, 9), rng.randint(1, 9), rng.choice((None, None, 1)))
        )
        late = "count" if routing == "rows" else rng.choice(("count", "keep"))
        partitions = 3 if shared else 1 + number % 3
        spread = rng.randint(2, 3) if shared else 1
        name = f"{how}-{routing}-{partitions}-{f'shared by {spread}-' if shared else ''}{condition}"
        chosen = "split" if routing == "rows" else routing
        found.append(pytest.param(number, how, chosen, partitions, spread, condition, windows, late, id=name))
    return found


@pytest.mark.parametrize(
    ("seed", "how", "routing", "partitions", "spread", "condition", "windows", "late"), cases()
)
def test_as_the_oracle_says(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, seed: int, how: str, routing: str, partitions: int, spread: int,
    condition: str, windows: Any, late: str,
) -> None:  # fmt: skip
    ours, theirs = windows
    timed = hasattr(ours[0], "on")
    feed = Feed(seed, batches=4)
    if not timed:
        feed.by_moment()
    feed.write(tmp_path)
    lateness = seed % 4 if timed else 0
    # As many partitions as workers: a task that has nothing to do costs as much as one that has.
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    request.addfinalizer(lambda: spark.conf.set("spark.sql.shuffle.partitions", "3"))
    frame = join(
        *sides_of(spark, tmp_path), on=CONDITIONS[condition][0], window=ours, how=how, routing=routing,
        partitions=partitions, spread=spread, late=late, lateness=f"{lateness} seconds" if timed else None,
    )  # fmt: skip
    drain(frame, tmp_path)
    wanted = oracle(feed, condition, theirs, how, lateness * SECOND, late)
    assert results(spark, tmp_path, frame) == Counter(wanted)
