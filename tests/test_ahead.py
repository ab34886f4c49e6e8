"""Work that another thread does ahead: the same results, whatever becomes of the rows that it was begun for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import kernels, pools
from slidejoin.index import BiSort
from slidejoin.pools import SHARE, Crew

kernels.ready()

ROWS = 2 * SHARE + 100  # enough to be worth another thread


@pytest.fixture(autouse=True)
def watching() -> Iterator[None]:
    """A helper that watches all the time, whatever cores there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "cores", lambda: 2)
        patch.setattr(pools, "PATIENCE", 10**9)
        patch.setattr(pools, "ALONE_FOR", (0.0, 0.0))
        pools._helpers.cache_clear()
        Crew(2).wake()
        yield
    pools._helpers.cache_clear()


def batch(rng: np.random.Generator, at: int, *, nulls: bool = False) -> pa.RecordBatch:
    x = rng.integers(0, 1 << 22, ROWS, dtype=np.int32)
    absent = rng.random(ROWS) < 0.01 if nulls else None
    return pa.record_batch(
        {
            "x": pa.array(x, mask=absent),
            "y": pa.array(rng.integers(0, 100, ROWS)),
            "p": pa.array(rng.random(ROWS)),
            "t": pa.array(at * ROWS + np.arange(ROWS) - rng.integers(0, 50, ROWS)),
        }
    )


CONDITIONS = [
    "abs(l.x - r.x) <= 20",
    "abs(l.p - r.p) <= 0.00001",
    "l.x = r.x",
    "l.x BETWEEN r.x - 3 AND r.x AND l.y > 50",
    "abs(l.x - r.x) <= 20 AND l.y < r.y",
    "abs(l.x - r.x) <= 10 OR l.p = r.p",
    "abs(l.x + 1 - r.x) <= 20",
    "l.x < r.x - 4180000",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    "window", [sj.Rows(3 * ROWS // 2), sj.Time(3 * ROWS // 2, on="t")], ids=["rows", "time"]
)
@pytest.mark.parametrize("nulls", [False, True])
def test_two_threads_find_what_one_finds(condition: str, window: Any, nulls: bool) -> None:
    options: dict[str, Any] = {"lateness": 20} if isinstance(window, sj.Time) else {}
    joins = [sj.Join(condition, window=window, threads=threads, **options) for threads in (1, 2)]
    rng = np.random.default_rng(len(condition))
    kept: list[tuple[sj.Matches, sj.Matches]] = []
    for at in range(8):
        side = ("left", "right")[at % 2]
        rows = batch(rng, at // 2, nulls=nulls)
        one, two = (join.push(**{side: rows}) for join in joins)
        assert one.num_rows == two.num_rows
        kept.append((one, two))
        if at % 3:  # some are read later
            assert numbers(one) == numbers(two)
    assert any(one.num_rows for one, _ in kept)
    for one, two in kept:
        assert numbers(one) == numbers(two)
        assert two.to_table().num_rows == two.num_rows
    for join in joins:
        join.check()


def numbers(matches: sj.Matches) -> list[bytes]:
    """The row numbers, in one order."""
    left, right = matches.indices()
    order = np.lexsort((right, left))
    return [left[order].tobytes(), right[order].tobytes()]


@pytest.mark.parametrize("how", ["left", "full", "semi", "anti"])
@pytest.mark.parametrize("order", ["none", "strict"])
def test_rows_without_a_match(how: str, order: str) -> None:
    joins = [
        sj.Join("abs(l.x - r.x) <= 20", window=sj.Rows(ROWS), how=how, order=order, threads=threads)
        for threads in (1, 2)
    ]
    rng = np.random.default_rng(3)
    for at in range(6):
        rows = batch(rng, at)
        one, two = (join.push(**{("left", "right")[at % 2]: rows}) for join in joins)
        assert numbers(one) == numbers(two)


def test_a_push_that_fails_after_its_rows_were_begun() -> None:
    """The rows are begun as soon as they have come, and the push is refused then; nothing of it stays."""
    rng = np.random.default_rng(8)
    joins = [
        sj.Join(
            "abs(l.x - r.x) <= 20", window=sj.Time(ROWS, on="t"), lateness=60, late="raise", threads=threads
        )
        for threads in (1, 2)
    ]
    batches = [batch(rng, at // 2) for at in range(6)]
    stale = batch(rng, -9)
    for at, rows in enumerate(batches):
        for join in joins:
            with pytest.raises(sj.LateRowError) if at > 1 else pytest.raises(sj.SchemaError):
                join.push(left=stale if at > 1 else {"x": [1]})
        sorted_rows = rows.sort_by("t")
        one, two = (join.push(**{("left", "right")[at % 2]: sorted_rows}) for join in joins)
        assert numbers(one) == numbers(two)
    joins[1].check()


def test_the_same_rows_pushed_again_and_on_both_sides() -> None:
    rng = np.random.default_rng(9)
    rows = batch(rng, 0)
    joins = [sj.Join("abs(l.x - r.x) <= 20", window=sj.Rows(5 * ROWS), threads=threads) for threads in (1, 2)]
    for at in range(6):
        sides = {"left": rows, "right": rows} if at % 3 == 2 else {("left", "right")[at % 2]: rows}
        one, two = (join.push(**sides) for join in joins)
        assert numbers(one) == numbers(two)
        joins[1].tune(threads=2 + at % 2)


def test_results_are_read_by_other_threads_while_rows_arrive() -> None:
    rng = np.random.default_rng(10)
    batches = [batch(rng, at) for at in range(10)]
    plain, join = (
        sj.Join("abs(l.x - r.x) <= 20", window=sj.Rows(3 * ROWS), threads=threads) for threads in (1, 2)
    )
    expected = [numbers(plain.push(**{("left", "right")[at % 2]: rows})) for at, rows in enumerate(batches)]
    got: dict[int, list[bytes]] = {}
    readers = []
    for at, rows in enumerate(batches):
        matches = join.push(**{("left", "right")[at % 2]: rows})

        def read(at: int = at, matches: sj.Matches = matches) -> None:
            tables = matches.to_table()
            assert tables.num_rows == matches.num_rows
            got[at] = numbers(matches)

        readers.append(threading.Thread(target=read))
        readers[-1].start()
    for reader in readers:
        reader.join()
    assert [got[at] for at in range(len(batches))] == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads is what is tested
def test_a_child_has_what_its_parent_had_begun() -> None:
    """What is unfinished it does itself; what was finished long ago, from memory that is used for other things now, stays."""
    rng = np.random.default_rng(11)
    plain, join = (
        sj.Join("abs(l.x - r.x) <= 20", window=sj.Rows(3 * ROWS), threads=threads) for threads in (1, 2)
    )
    kept: list[sj.Matches] = []
    expected: list[list[bytes]] = []
    for at in range(7):
        rows = {("left", "right")[at % 2]: batch(rng, at)}
        expected.append(numbers(plain.push(**rows)))
        kept.append(join.push(**rows))
        child = os.fork()
        if child == 0:
            os._exit(0 if [numbers(matches) for matches in kept] == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [numbers(matches) for matches in kept] == expected


def test_one_thread_at_a_time_has_something_done_ahead() -> None:
    crew = Crew(2)
    rng = np.random.default_rng(12)
    keys = [rng.integers(0, 1 << 40, ROWS) for _ in range(40)]
    begun = [BiSort.arrange_ahead(each, crew) for each in keys]
    assert any(one is not None for one in begun)
    for each, one in zip(keys, begun, strict=True):
        if one is not None:
            one.unfinished.settle()
            assert np.array_equal(one.entries.keys, np.sort(each))
            assert np.array_equal(each[one.entries.ids], one.entries.keys)
            assert (one.least, one.most) == (each.min(), each.max())


@pytest.mark.parametrize("ends", ["least", "greatest", "both"])
@pytest.mark.parametrize("ascending", [False, True])
def test_keys_that_32_bits_just_hold(ends: str, ascending: bool) -> None:
    """The extremes of 32 bits are held as 64; whether there are some is known before the keys are sorted."""
    joins = [sj.Join("abs(l.x - r.x) <= 40", window=sj.Rows(3 * ROWS), threads=threads) for threads in (1, 2)]
    rng = np.random.default_rng(13)
    for at in range(8):
        x = rng.integers(-(1 << 31) + 1, (1 << 31) - 1, ROWS, dtype=np.int32)
        if at % 3:
            x[rng.integers(0, ROWS, 5)] = -(1 << 31) if ends != "greatest" else (1 << 31) - 1
            x[-1] = (1 << 31) - 1 if ends != "least" else -(1 << 31)
        rows = pa.record_batch({"x": np.sort(x) if ascending else x})
        one, two = (join.push(**{("left", "right")[at % 2]: rows}) for join in joins)
        assert numbers(one) == numbers(two)
    assert one.num_rows
    joins[1].check()


def test_rows_are_put_in_while_they_are_sorted() -> None:
    """What is written down before keys are there is done after them, whoever comes first and whoever waits."""
    crew = Crew(2)
    rng = np.random.default_rng(14)
    for waits in ("the sorter", "the index", "neither"):
        index, plain, first = BiSort(), BiSort(), 0
        for _ in range(12):
            keys = rng.integers(0, 1 << 20, ROWS, dtype=np.int32)
            ahead = BiSort.arrange_ahead(keys, crew)
            plain.insert(BiSort.arrange_entries(keys, np.arange(first, first + ROWS, dtype=np.int32)))
            if ahead is None:
                index.insert(BiSort.arrange_entries(keys, np.arange(first, first + ROWS, dtype=np.int32)))
            else:
                index.insert_ahead(ahead, first, crew)
                if waits == "the sorter":
                    ahead.unfinished.settle()
                elif waits == "the index":
                    assert index.entries == first + ROWS
            first += ROWS
        index.check()
        for ours, theirs in zip(index.runs, plain.runs, strict=True):
            assert np.array_equal(ours.keys, theirs.keys)
            assert np.array_equal(np.sort(ours.ids), np.sort(theirs.ids))


def test_what_follows_is_done_where_nobody_could_begin_it() -> None:
    """The place aside is taken when its turn would come: then whoever needs it does it."""
    crew = Crew(2)
    rng = np.random.default_rng(15)
    keys = rng.integers(0, 1 << 20, ROWS, dtype=np.int32)
    while (ahead := BiSort.arrange_ahead(keys, crew)) is None:
        crew.wake()  # the helper may have slept, on a machine that has others to serve
    index = BiSort()
    index.insert_ahead(ahead, 7, crew)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools._Helpers, "may_begin", lambda *_: False)
        ahead.unfinished.settle()
    [run] = index.runs
    assert np.array_equal(run.keys, np.sort(keys))
    assert np.array_equal(keys[run.ids - 7], run.keys)
    index.check()
