"""Routers by themselves: where pairs meet, how evenly hot keys and cells are shared, that nothing is left to chance."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.settings import Settings
from slidejoin.spark.log import Manifest
from slidejoin.spark.query import Query
from slidejoin.spark.route import Group, Target
from slidejoin.worker import PADDED
from spark.model import Model

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])
CONDITIONS = {"hash": "l.k = r.k", "grid": "abs(l.x - r.x) <= 2"}
BOTH = "l.k = r.k AND abs(l.x - r.x) <= 2"
SHAPES = [(workers, spread) for workers in (1, 2, 3, 4, 7, 12) for spread in range(1, workers + 1)]


def query_of(how: str, routing: str, workers: int, spread: int, condition: str | None = None) -> Query:
    window = sj.Time(10, on="t")
    settings = Settings.checked(
        condition or CONDITIONS[routing], window, how, None, "count", "none", "auto", "auto", 1, ("l", "r"),
        ("_l", "_r"), None,
    )  # fmt: skip
    return Query(settings, (SCHEMA, SCHEMA), workers, routing, 0, spread)


def batch_of(columns: dict[str, list[Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"t": [0] * len(columns["k"]), **columns}, schema=SCHEMA)


@dataclass
class Sent:
    """Where each row of a batch went: to all of these workers, and to which of them as its home."""

    at: list[set[int]]
    homes: list[int]

    @staticmethod
    def of(targets: list[Target], rows: int) -> Sent:
        at: list[set[int]] = [set() for _ in range(rows)]
        homes: list[list[int]] = [[] for _ in range(rows)]
        for target in targets:
            assert isinstance(target.rows, np.ndarray)
            named = [home for home, count in target.homes for _ in range(count)]
            for row, home in zip(target.rows.tolist(), named, strict=True):
                assert target.worker not in at[row], "sent twice to one worker"
                at[row].add(target.worker)
                if home == target.worker:
                    homes[row].append(home)
        assert all(len(one) == 1 for one in homes)
        return Sent(at, [one[0] for one in homes])


@pytest.mark.parametrize("condition", ["hash", "grid", "both"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_where_pairs_meet(how: str, condition: str) -> None:
    """A pair at one worker, and all partners of a row that may stay unmatched at its home."""
    rng = random.Random(how + condition)
    routing, text = ("grid", BOTH) if condition == "both" else (condition, None)
    for workers, spread in SHAPES:
        router = query_of(how, routing, workers, spread, text).router
        sides, sent = [], []
        for side in (0, 1):
            rows = 60
            keys = [rng.choice((None, 1, 1, 1, rng.randint(0, 9))) for _ in range(rows)]
            values = [rng.choice((None, 1, rng.randint(-40, 40))) for _ in range(rows)]
            batch = batch_of({"k": keys, "x": values})
            sides.append(batch.to_pylist())
            sent.append(Sent.of(router.targets(side, batch, rng.randint(0, 9)), rows))
        for side, rows_of in enumerate(sides):
            for number, row in enumerate(rows_of):
                if not matching(row, row, condition):  # it lacks what it would be compared by: no copies
                    assert len(sent[side].at[number]) == 1
        for left, a in enumerate(sides[0]):
            for right, b in enumerate(sides[1]):
                if not matching(a, b, condition):
                    continue
                together = sent[0].at[left] & sent[1].at[right]
                if how == "full":
                    assert {sent[0].homes[left], sent[1].homes[right]} <= together
                    continue
                assert len(together) == 1, (workers, spread)
                for side in PADDED[how]:
                    row = (left, right)[side]
                    assert sent[side].at[row] == {sent[side].homes[row]} == together


def matching(a: dict[str, Any], b: dict[str, Any], condition: str) -> bool:
    same = a["k"] is not None and a["k"] == b["k"]
    near = a["x"] is not None and b["x"] is not None and abs(a["x"] - b["x"]) <= 2
    return {"hash": same, "grid": near, "both": same and near}[condition]


@pytest.mark.parametrize(
    ("routing", "how", "spread", "shares"),
    [
        ("hash", "inner", 1, (1, 1)),
        ("hash", "inner", 3, (1, 3)),
        ("hash", "inner", 4, (2, 2)),
        ("hash", "inner", 6, (2, 3)),
        ("hash", "left", 4, (4, 1)),
        ("hash", "anti", 3, (3, 1)),
        ("hash", "right", 4, (1, 4)),
        ("hash", "full", 2, (1, 1)),
        ("grid", "inner", 4, (1, 4)),
        ("grid", "left", 4, (4, 1)),
    ],
)
def test_hot_keys_and_cells_are_shared_evenly(
    routing: str, how: str, spread: int, shares: tuple[int, int]
) -> None:
    """Of a key or cell that every second row has, each of ``spread`` workers gets one in so many rows of a side."""
    rows, workers = 1200, 7
    router = query_of(how, routing, workers, spread).router
    hot = [5 if n % 2 == 0 else -100 * n for n in range(2 * rows)]
    batch = batch_of({"k": hot, "x": hot})
    for side in (0, 1):
        got: Counter[int] = Counter()
        for target in router.targets(side, batch, 3):
            got[target.worker] += int(np.count_nonzero(np.asarray(target.rows) % 2 == 0))
        busy = sorted((count for count in got.values() if count), reverse=True)
        share = rows / shares[side]
        assert len(busy) == spread
        # Rows of other keys take turns among them: a key is dealt as evenly as chance is.
        assert all(abs(count - share) <= 0.15 * share for count in busy), busy


@pytest.mark.parametrize(
    ("how", "spread", "stored"),
    [
        ("left", 1, (300, 300)),
        ("left", 3, (100, 300)),
        ("right", 3, (300, 100)),
        ("inner", 4, (150, 150)),
        ("full", 2, (300, 300)),
    ],
)
def test_a_hot_key_is_stored_evenly(how: str, spread: int, stored: tuple[int, int]) -> None:
    """What the logs of the workers hold of each side, after three micro-batches of one key."""
    query = Query.read(query_of(how, "hash", 5, spread).text())
    model = Model(query, random.Random(4))
    table = pa.Table.from_batches([batch_of({"k": [7] * 100, "x": [0] * 100})])
    for _ in range(3):
        model.micro_batch((table, table))
    held = []
    for store in model.stores:
        entries = Manifest.read(store.committed[0]).entries
        held.append(tuple(sum(entry.rows for entry in entries if entry.side == side) for side in (0, 1)))
    assert held.count((0, 0)) == 5 - spread
    for one in held:
        for count, share in zip(one, stored, strict=True):
            assert count == 0 or abs(count - share) <= 20, held  # tasks end in the middle of a turn


@pytest.mark.parametrize("routing", ["hash", "grid"])
def test_a_task_that_is_run_again_sends_the_same(routing: str) -> None:
    rng = random.Random(1)
    batch = batch_of(
        {name: [rng.choice((None, rng.randint(0, 9))) for _ in range(100)] for name in ("k", "x")}
    )
    for how in PADDED:
        query = query_of(how, routing, 5, 3)
        again = Query.read(query.text())  # as another process has it
        for side in (0, 1):
            first, second = (one.router.targets(side, batch, 4) for one in (query, again))
            assert [(t.worker, t.homes, list(t.rows)) for t in first] == [
                (t.worker, t.homes, list(t.rows)) for t in second
            ]


def test_groups_have_as_few_copies_as_can_be() -> None:
    copies = {
        spread: [Group.of(spread, ()).copies(side) for side in (0, 1)] for spread in (1, 2, 3, 4, 6, 9, 16)
    }
    assert copies == {1: [1, 1], 2: [2, 1], 3: [3, 1], 4: [2, 2], 6: [3, 2], 9: [3, 3], 16: [4, 4]}


def test_a_fingerprint_says_spread_only_where_there_is_one() -> None:
    """Checkpoints from before the option go on with 1, and with nothing else."""
    one, two = (query_of("left", "hash", 2, spread) for spread in (1, 2))
    assert "spread" not in one.fingerprint
    before, after = (Manifest(1, query.fingerprint, 1, (None, None), (0, 0), ()) for query in (one, two))
    before.matches(one)
    after.matches(two)
    with pytest.raises(sj.StateError, match=r"another join \(spread was 1, is 2\)"):
        before.matches(two)
    with pytest.raises(sj.StateError, match=r"another join \(spread was 2, is 1\)"):
        after.matches(one)
