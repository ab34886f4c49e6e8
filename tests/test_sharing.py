"""Chores: the same answers whoever does them, and nothing lost when threads are many, busy or gone."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import kernels, pools
from slidejoin.index import BiSort, Entries, Hash
from slidejoin.index.by_key import sort_shared
from slidejoin.kernels.chores import MOST_ASIDE, Chores, write_merge
from slidejoin.kernels.order import sort_order
from slidejoin.pools import ALONE, Crew

kernels.ready()

EDGES = np.iinfo(np.int64)
CREWS = [2, 3]


@pytest.fixture(autouse=True, params=["awake", "asleep"])
def watching(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test with helpers that watch, and with helpers that may be asleep, whatever cores there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "cores", lambda: 3)
        pools._helpers.cache_clear()
        if request.param == "awake":
            patch.setattr(pools, "PATIENCE", 10**9)
            patch.setattr(pools, "ALONE_FOR", (0.0, 0.0))
        else:
            patch.setattr(pools, "PATIENCE", 1)
        yield
    pools._helpers.cache_clear()


def entries(keys: np.ndarray, first: int = 0) -> Entries:
    return BiSort.arrange_entries(keys, None).shifted(first)


def batches(seed: int, wide: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    most = 2**60 if wide else 2**20
    sizes = [40_000, 1, 20_000, 300, 70_000, 17, 16_384, 16_383]
    return [rng.integers(-most, most, size) for size in sizes]


@pytest.mark.parametrize("threads", CREWS)
@pytest.mark.parametrize("kind", [BiSort, Hash])
@pytest.mark.parametrize("wide", [False, True])
def test_an_index_filled_and_probed_by_a_crew_is_the_one_filled_alone(
    threads: int, kind: type, wide: bool
) -> None:
    crew, alone, shared, first = Crew(threads), kind(), kind(), 0
    rng = np.random.default_rng(threads)
    for keys in batches(threads, wide):
        crew.wake()
        for index, by in ((alone, ALONE), (shared, crew)):
            index.insert(index.arrange_entries(keys, None, by).shifted(first), by)
        first += len(keys)
        lows = rng.choice(keys, 33_000)
        highs = lows if kind is Hash else lows + rng.integers(0, 2**40 if wide else 50, len(lows))
        probes = kind.arrange_probes(None, lows, highs, None)
        answers = [kind.probe_all([index], probes, by)[0] for index, by in ((alone, ALONE), (shared, crew))]
        assert len(answers[0]) == len(answers[1])
        for expected, got in zip(*answers, strict=True):
            assert expected.pairs == got.pairs
            for a, b in zip(expected[:4], got.settled()[:4], strict=True):
                assert np.array_equal(a, b)
    for index, by in ((alone, ALONE), (shared, crew)):
        index.drop_below(30_000, 30_000, by)
        index.check()
        index.merge(by)
        index.check()
    assert alone.entries == shared.entries == first - 30_000


@pytest.mark.parametrize("threads", CREWS)
@pytest.mark.parametrize(
    "keys",
    [
        np.random.default_rng(1).integers(EDGES.min, EDGES.max, 50_000),
        np.random.default_rng(2).integers(0, 3, 40_000),
        np.full(20_000, EDGES.min),
        np.full(20_000, EDGES.max),
        np.where(np.random.default_rng(3).random(30_000) < 0.5, EDGES.min, EDGES.max),
        np.random.default_rng(4).normal(size=30_000).view(np.int64),
        np.arange(40_000)[::-1].copy(),
        np.arange(40_000),
        np.random.default_rng(5).integers(0, 9, 16_383),
    ],
    ids=["any", "few", "least", "greatest", "ends", "floats", "falling", "rising", "short"],
)
def test_a_shared_sort_is_a_sort(threads: int, keys: np.ndarray) -> None:
    crew = Crew(threads)
    crew.wake()
    for given in (keys, keys.astype(np.int32)):
        for narrow in (False, True):
            found, order = sort_shared(given, crew, narrow=narrow)
            assert np.array_equal(found, np.sort(given))
            assert np.array_equal(order, np.argsort(given, kind="stable"))
            assert np.array_equal(sort_order(given)[1], order)


def test_chores_aside_are_done_once_and_in_order() -> None:
    crew = Crew(2)
    for turn in range(60):
        crew.wake()
        rng = np.random.default_rng(turn)
        parts = [np.sort(rng.integers(0, 99, rng.integers(1, 30_000))) for _ in range(4)]
        chores, merged = Chores(), entries(parts[0])
        for part in parts[1:]:
            merged = merged.merging(entries(part), chores)
        aside = crew.aside(chores)
        if aside is not None:
            if turn % 2:
                crew.share(Chores())
            aside.settle()
            assert aside.done
        assert np.array_equal(merged.keys, np.sort(np.concatenate(parts)))


def test_too_many_chores_to_be_put_aside_are_done_at_once() -> None:
    crew, chores = Crew(2), Chores()
    crew.wake()
    merged = entries(np.arange(3))
    for _ in range(MOST_ASIDE + 1):
        merged = merged.merging(entries(np.arange(3)), chores)
    assert crew.aside(chores) is None
    assert len(merged.keys) == 3 * (MOST_ASIDE + 2)
    assert np.array_equal(merged.keys, np.sort(merged.keys))


def test_what_is_put_aside_outlives_the_join_it_is_of() -> None:
    """Nobody else holds the arrays that another thread is writing."""
    crew = Crew(2)
    for turn in range(40):
        crew.wake()
        index = BiSort()
        for keys in batches(turn, wide=False)[:3]:
            index.insert(BiSort.arrange_entries(keys, None), crew)
        del index
        gc.collect()
    assert crew.each([int, int]) == [0, 0]


def test_several_callers_share_a_board() -> None:
    crew = Crew(2)
    failures: list[BaseException] = []

    def call(seed: int) -> None:
        try:
            index, first, held = BiSort(), 0, []
            for keys in batches(seed, wide=False) * 4:
                crew.wake()
                index.insert(BiSort.arrange_entries(keys, None, crew).shifted(first), crew)
                first += len(keys)
                held.append(keys)
            index.check()
            assert np.array_equal(
                np.sort(np.concatenate([run.keys for run in index.runs])), np.sort(np.concatenate(held))
            )
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_finishes_what_was_put_aside() -> None:
    crew = Crew(2)
    for turn in range(8):
        crew.wake()
        index, first = BiSort(), 0
        for keys in batches(turn, wide=False)[:3]:
            index.insert(BiSort.arrange_entries(keys, None).shifted(first), crew)
            first += len(keys)
        child = os.fork()
        if child == 0:
            try:
                index.check()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        index.check()


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("threads", CREWS)
def test_a_join_of_several_threads_is_the_join_of_one(how: str, threads: int) -> None:
    rng = np.random.default_rng(threads)
    joins = [
        sj.Join("abs(l.x - r.x) <= 9 AND l.v", window=sj.Rows(70_000), how=how, threads=number, order="none")
        for number in (1, threads)
    ]
    for turn in range(16):
        rows = int(rng.choice([33_000, 5_000, 40_000]))
        x = pa.array(rng.integers(0, 500_000, rows), mask=rng.random(rows) < 0.05)
        batch = pa.record_batch({"x": x, "v": pa.array(rng.random(rows) < 0.9)})
        answers = []
        for join in joins:
            matches = join.push(left=batch) if turn % 2 else join.push(right=batch)
            left, right = matches.indices()
            order = np.lexsort((left, right))
            answers.append((matches.num_rows, left[order], right[order]))
            join.check()
        assert answers[0][0] == answers[1][0]
        assert np.array_equal(answers[0][1], answers[1][1])
        assert np.array_equal(answers[0][2], answers[1][2])


def test_a_merge_in_stretches_is_the_merge() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = (entries(rng.integers(0, 40, rng.integers(1, 200))) for _ in range(2))
        out = Entries(
            np.empty(len(a.keys) + len(b.keys), np.int64), np.empty(len(a.keys) + len(b.keys), np.int32)
        )
        chores = Chores()
        write_merge(chores.room(int(rng.integers(1, 9))), *a, *b, *out)
        chores.perform()
        order = np.argsort(np.concatenate([a.keys, b.keys]), kind="stable")
        assert np.array_equal(out.keys, np.concatenate([a.keys, b.keys])[order])
        assert np.array_equal(out.ids, np.concatenate([a.ids, b.ids])[order])
