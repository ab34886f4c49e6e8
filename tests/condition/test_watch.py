"""Watches: where the ends say that every pair passes, every pair does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.condition import Ends, Watch, parse
from slidejoin.condition.predicate import predicate_of

CONDITIONS = [
    "abs(l.x - r.x) <= 40",
    "l.x < r.x + 30",
    "l.x + 5 >= r.x AND l.x <= r.x + 60",
    "2 * l.x + 1 <= r.x + 200",
    "l.x + r.x < 150",
    "l.x BETWEEN r.x - r.y AND r.x + 70",
    "l.x - r.y <= 30 AND l.y < r.x + 50",
]
TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64()]


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    found = []
    for _ in range(2):
        kind = draw(st.sampled_from(TYPES))
        lowest = 0 if pa.types.is_unsigned_integer(kind) else -60
        values: st.SearchStrategy[Any] = st.integers(lowest, 60)
        if pa.types.is_floating(kind):
            values |= st.sampled_from([float("nan"), float("inf"), 0.5])
        rows = draw(st.integers(1, 6))
        columns = {
            name: pa.array(
                draw(
                    st.lists(
                        values | st.none() if draw(st.booleans()) else values, min_size=rows, max_size=rows
                    )
                ),
                kind,
            )
            for name in ("x", "y")
        }
        found.append(pa.RecordBatch.from_pydict(columns))
    return found[0], found[1]


@given(batches(), st.sampled_from(CONDITIONS), st.sampled_from([0, 1]))
def test_what_is_certain_is_true_for_every_pair(
    both: tuple[pa.RecordBatch, pa.RecordBatch], condition: str, stored: int
) -> None:
    bound = parse(condition).bind(both[0].schema, both[1].schema)
    for branch in bound.branches:
        watches = [branch.watch([], branch.paths(side)) for side in (0, 1)]
        watch, own = watches[stored], watches[1 - stored]
        if watch is None:
            continue
        held, mine = watch.held(both[stored]), None if own is None else own.held(both[1 - stored])
        rows = [batch.num_rows for batch in both]
        at = np.indices(rows).reshape(2, -1)
        pairs = [batch.take(pa.array(which)) for batch, which in zip(both, at, strict=True)]
        predicate = predicate_of([branch.whole])
        assert predicate is not None
        everything = bool(predicate.mask(*pairs).all())
        for known in (own, None):  # from the rows' own ends, and from their bounds
            asked = watch.asked(both[1 - stored], known, mine)
            if held is not None and asked is not None and held.within(asked):
                assert everything


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_ends_are_enough_for_plain_numbers(kind: pa.DataType) -> None:
    left = pa.RecordBatch.from_pydict({"x": pa.array([1, 9, 4], kind)})
    right = pa.RecordBatch.from_pydict({"x": pa.array([3, 7], kind)})
    branch = parse("abs(l.x - r.x) <= 6").bind(left.schema, right.schema).branches[0]
    watch, own = (branch.watch([], branch.paths(stored)) for stored in (1, 0))
    assert watch is not None
    assert own is not None
    asked = watch.asked(left, own, own.held(left))
    held = watch.held(right)
    assert asked is not None
    assert held is not None
    assert held.within(asked)
    farther = watch.held(pa.RecordBatch.from_pydict({"x": pa.array([8], kind)}))
    assert farther is not None
    assert not farther.within(asked)
    assert not held.with_those(farther).within(asked)


def test_a_null_is_never_certain() -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1, None], pa.int32())})
    branch = parse("l.x < r.x + 100").bind(batch.schema, batch.schema).branches[0]
    watch = branch.watch([], branch.paths(1))
    assert watch is not None
    assert watch.held(batch) is None
    asked = watch.asked(batch, None, None)
    assert asked is None or not Ends((0,), (0,)).within(asked)


def test_only_what_is_left_is_watched_and_all_of_it() -> None:
    schema = pa.schema({name: pa.int64() for name in "xyz"})
    branch = parse("l.x = r.x AND l.y < r.y AND l.z < r.z").bind(schema, schema).branches[0]
    paths = {path.key_text: path for path in branch.paths(1)}
    x, y, z = (paths[f"r.{name}"] for name in "xyz")
    watch = branch.watch([x, y], [y, z])
    assert isinstance(watch, Watch)
    assert watch.paths == (z,)
    assert branch.watch([x], [z]) is None, "y would have to be checked"
    assert branch.watch([x, y, z], [z]) is None, "nothing is left"
    whole = parse("l.x = r.x AND l.y < r.y AND l.z * r.z > 5").bind(schema, schema).branches[0]
    assert whole.watch(whole.paths(1)[:1], whole.paths(1)) is None, "a residual has no ends"
