"""Uses that go wrong easily: each ends well, or with an error that says what to do."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj


def test_two_threads_may_push_to_one_join() -> None:
    join = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(1000))
    found: list[int] = []

    def feed(side: str) -> None:
        found.extend(join.push(**{side: {"x": list(range(50))}}).num_rows for _ in range(60))

    threads = [threading.Thread(target=feed, args=(side,)) for side in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    join.check()
    stats = join.stats()
    assert stats.left.rows_in == stats.right.rows_in == 3000
    assert stats.matches == sum(found)


def test_null_in_a_column_declared_not_null() -> None:
    join = sj.Join("TRUE", window=sj.Rows(5))
    strict = pa.table({"x": [1, 2]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    join.push(left=strict, right=strict)
    with pytest.raises(sj.SchemaError, match="not null"):
        join.push(left=pa.table({"x": pa.array([None, 3], pa.int64())}))
    assert join.push(left=pa.table({"x": pa.array([3], pa.int64())})).num_rows == 2


def test_a_type_that_cannot_be_gathered_is_refused() -> None:
    join = sj.Join("TRUE", window=sj.Rows(5))
    encoded = pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])
    with pytest.raises(sj.SchemaError, match="gather"):
        join.push(left=pa.table({"x": encoded}))
    assert join.push(left={"x": [1]}, right={"x": [1]}).num_rows == 1


def test_saving_onto_a_folder(tmp_path: Path) -> None:
    join = sj.Join("TRUE", window=sj.Rows(5))
    folder = tmp_path / "here"
    folder.mkdir()
    with pytest.raises(sj.StateError, match="cannot be written"):
        join.save(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_by_orders_a_push_of_both_sides_even_if_one_is_empty() -> None:
    join = sj.Join("TRUE", window=sj.Rows(1, by="t"))
    join.push(left={"t": [3, 1]}, right=pa.table({"t": pa.array([], pa.int64())}))
    assert join.push(right={"t": [9]}).to_table().to_pydict() == {"t_l": [3], "t_r": [9]}


def test_by_leaves_a_push_of_one_side_in_its_order() -> None:
    join = sj.Join("TRUE", window=sj.Rows(1, by="t"))
    join.push(left={"t": [3, 1]})
    assert join.push(right={"t": [9]}).to_table().to_pydict() == {"t_l": [1], "t_r": [9]}


def test_heartbeats_without_a_zone_before_zoned_times() -> None:
    join = sj.Join("TRUE", window=sj.Time("5 s", on="t"))
    join.advance(left=datetime(2030, 1, 1), right=datetime(2030, 1, 1))
    zoned = pa.table({"t": pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    with pytest.raises(sj.SchemaError, match="time zone"):
        join.push(left=zoned)


@pytest.mark.parametrize("call", ["push", "advance", "finish", "save"])
def test_calls_after_the_end_name_themselves(call: str, tmp_path: Path) -> None:
    join = sj.Join("TRUE", window=sj.Time(5, on="t"))
    join.finish()
    with pytest.raises(sj.StateError, match=rf"{call}\(\) was called after finish\(\)"):
        getattr(join, call)(*([tmp_path / "s"] if call == "save" else []))


@pytest.mark.parametrize(
    ("condition", "index", "said"),
    [
        (
            "abs(l.x - r.x)<=1",
            "hash",
            r"needs an equality of the two streams; 'abs\(l.x - r.x\)<=1' has none that",
        ),
        ("l.x = r.x OR l.y < r.y", "hash", "has none in its part 'l.y < r.y'; use index='auto'"),
        ("l.x * r.x > 3", "bi_sort", "needs an equality, a band, an inequality or a <> of the two streams"),
    ],
)
def test_an_index_that_the_condition_has_no_use_for(condition: str, index: str, said: str) -> None:
    join = sj.Join(condition, window=sj.Rows(10), index=index)
    with pytest.raises(sj.ConditionError, match=said):
        join.push(left={"x": [1], "y": [1]}, right={"x": [1], "y": [1]})


def test_hash_with_null_keys() -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(10), index="hash")
    join.push(left={"x": [1]}, right={"x": [1]})
    assert join.push(left={"x": [None, 1]}).indices()[0].tolist() == [2]


@pytest.mark.parametrize("value", [5, 5.0, "soon", timedelta(1), float("nan"), [1]])
def test_a_heartbeat_before_any_schema_that_is_no_time(value: object) -> None:
    join = sj.Join("l.x = r.x", window=sj.Time("10 seconds", on="ts"))
    with pytest.raises(sj.WindowError, match="expected a datetime, a date") as caught:
        join.advance(left=value)
    assert "time zone" not in str(caught.value)  # no column is known that could have one
    assert join.stats().held_by == "both"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_heartbeat_beyond_every_time(value: int) -> None:
    join = sj.Join("l.x = r.x", window=sj.Time(5, on="ts"))
    join.push(left={"x": [1], "ts": [1]}, right={"x": [2], "ts": [1]})
    with pytest.raises(sj.WindowError, match="beyond every time"):
        join.advance(left=value, right=value)
    assert join.push(right={"x": [1], "ts": [1]}).num_rows == 1


def test_a_heartbeat_may_be_an_arrow_scalar() -> None:
    join = sj.Join("l.x = r.x", window=sj.Time(10, on="t"))
    join.advance(left=pa.scalar(7), right=pa.scalar(9, pa.int32()))
    assert join.stats().watermark == 7


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(np.timedelta64(5, "s"), 5), (np.timedelta64(2, "D"), 172_800), (np.timedelta64(3, "m"), 180),
     (np.timedelta64(4, ("s", 15)), 60), (np.timedelta64(10**12, "s"), 10**12)],
)  # fmt: skip
def test_lengths_from_numpy_are_exact(given: np.timedelta64, seconds: int) -> None:
    assert sj.Time(given, on="t").duration.ticks == seconds * 10**9


@pytest.mark.parametrize(
    "given", [np.timedelta64(5, "M"), np.timedelta64(1, "Y"), np.timedelta64("NaT"), np.timedelta64(5)]
)
def test_lengths_from_numpy_that_are_not_fixed(given: np.timedelta64) -> None:
    with pytest.raises(sj.WindowError, match="expected text such as"):
        sj.Time(given, on="t")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_join_is_not_duplicated(duplicate: Callable[[object], object]) -> None:
    join = sj.Join("l.x < r.x", window=sj.Rows(5))
    with pytest.raises(sj.StateError, match="save"):
        duplicate(join)


def test_a_condition_with_a_control_character() -> None:
    with pytest.raises(sj.ConditionError, match=r"control character '\\x00' at position 9"):
        sj.Join("l.x < r.x\0", window=sj.Rows(5))
    sj.Join("l.x = 'a\tb'\n\tAND\tr.x < 'ä\u00a0'", window=sj.Rows(5))


def test_the_first_push_must_have_the_columns_of_the_condition() -> None:
    join = sj.Join("l.x < r.x", window=sj.Rows(5))
    with pytest.raises(sj.ConditionError, match=r"l\.x at position 0, which the left stream lacks"):
        join.push(left={"y": [1]})
    join.push(left={"x": [1]})
    assert join.push(right={"x": [2]}).num_rows == 1


def test_a_date_against_a_number_is_not_told_to_cast() -> None:
    join = sj.Join("l.d = r.x", window=sj.Rows(5))
    join.push(left={"d": pa.array([0], pa.date32())})
    with pytest.raises(sj.ConditionError, match="DATE '2026-01-31'"):
        join.push(right={"x": [1]})


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    """As windows take them; what is beyond 32 bits would not come back from a snapshot."""
    tuning = sj.Tuning(subwindow_rows=np.int64(3))  # type: ignore[arg-type]
    assert type(tuning.subwindow_rows) is int
    sj.Join("l.x < r.x", window=sj.Rows(9), threads=np.int64(1), tuning=tuning)  # type: ignore[arg-type]
    with pytest.raises(sj.WindowError, match="leave it out"):
        sj.Tuning(subwindow_rows=2**63)


def test_threads_that_are_none_do_not_discredit_a_snapshot(tmp_path: Path) -> None:
    sj.Join("l.x < r.x", window=sj.Rows(9)).save(tmp_path / "join")
    with pytest.raises(sj.WindowError, match="threads=0"):
        sj.Join.load(tmp_path / "join", threads=0)
