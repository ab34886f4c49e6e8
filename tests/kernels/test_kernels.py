"""Kernels against NumPy's plain equivalents; run compiled here and interpreted by ``test_interpreted``."""

from __future__ import annotations

import numpy as np
import pytest

from slidejoin import kernels

kernels.ready()

from slidejoin.kernels.buckets import fill_directory, look_up, mix  # noqa: E402
from slidejoin.kernels.expand import expand, expand_numbers, expand_visible  # noqa: E402
from slidejoin.kernels.gather import gather  # noqa: E402
from slidejoin.kernels.marks import mark_ids, mark_ranges  # noqa: E402
from slidejoin.kernels.merge import count_from, drop_below, merge_runs, rows_of_first  # noqa: E402
from slidejoin.kernels.order import ascends, finish_sort, gather_ascending, sort_order  # noqa: E402
from slidejoin.kernels.search import SPARE, find_blocks, find_in_runs, find_ranges  # noqa: E402

LOW, HIGH = -(2**63), 2**63 - 1


def i32(count: int) -> np.ndarray:
    return np.empty(count, dtype=np.int32)


@pytest.mark.parametrize("held", [0, 1, 15, 16, 17, 31, 40, 64, 333, 5000])
@pytest.mark.parametrize("asked", [0, 1, 3, 100, 900])
@pytest.mark.parametrize(
    ("spread", "width"),
    [(3, np.int64), (3, np.int32), (100, np.int64), (10**9, np.int32), (10**12, np.int64)],
)
def test_find_ranges(held: int, asked: int, spread: int, width: type) -> None:
    rng = np.random.default_rng(held * 1000 + asked)
    keys = np.sort(rng.integers(-spread, spread, held)).astype(width)
    lows = np.sort(rng.integers(-spread - 2, spread + 2, asked))
    highs = (lows + rng.integers(-1, 1 + spread // 2, asked)).astype(width)
    lows = lows.astype(width)
    rows = np.arange(asked, dtype=np.int32)[::-1].copy()
    blocks, out, starts, ends = (i32(asked) for _ in range(4))
    kept, pairs = find_ranges(keys, keys[15::16].copy(), lows, highs, rows, blocks, out, starts, ends)
    first = np.searchsorted(keys, lows)
    last = np.maximum(np.searchsorted(keys, highs, side="right"), first)
    some = last > first
    assert (kept, pairs) == (some.sum(), (last - first).sum())
    assert np.array_equal(out[:kept], rows[some])
    assert np.array_equal(starts[:kept], first[some])
    assert np.array_equal(ends[:kept], last[some])


def test_find_ranges_at_the_ends_of_int64() -> None:
    keys = np.array([LOW, LOW, -1, 0, HIGH, HIGH])
    lows, highs = np.array([LOW, LOW, HIGH]), np.array([LOW, HIGH, HIGH])
    blocks, out, starts, ends = (i32(3) for _ in range(4))
    kept, pairs = find_ranges(
        keys, keys[15::16].copy(), lows, highs, np.arange(3, dtype=np.int32), blocks, out, starts, ends
    )
    assert (kept, pairs) == (3, 2 + 6 + 2)


@pytest.mark.parametrize("samples", [0, 1, 15, 16, 17, 100, 900, 7000])
@pytest.mark.parametrize("width", [np.int64, np.int32])
def test_find_blocks(samples: int, width: type) -> None:
    """Crowded, in steps of sixteen, and sparse."""
    rng = np.random.default_rng(samples)
    held = np.sort(rng.integers(-1000, 1000, samples)).astype(width)
    wanted = np.sort(np.append(rng.integers(-1100, 1100, 98), [np.iinfo(width).min, np.iinfo(width).max]))
    wanted = wanted.astype(width)
    found = i32(100)
    find_blocks(held, wanted, found)
    assert np.array_equal(found, np.searchsorted(held, wanted))


@pytest.mark.parametrize("width", [np.int64, np.int32])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (5, 5), (100, 1), (64, 64)])
def test_merge_runs(sizes: tuple[int, int], width: type) -> None:
    rng = np.random.default_rng(sum(sizes))
    a, b = (np.sort(rng.integers(0, 20, size)).astype(width) for size in sizes)
    ids_a, ids_b = np.arange(len(a), dtype=np.int32), np.arange(len(a), len(a) + len(b), dtype=np.int32)
    keys, ids = np.empty(sum(sizes), dtype=width), i32(sum(sizes))
    merge_runs(a, ids_a, b, ids_b, keys, ids)
    both = np.concatenate([a, b])
    assert np.array_equal(ids, np.argsort(both, kind="stable"))
    assert np.array_equal(keys, np.sort(both))


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (5, 5), (100, 1), (64, 640)])
def test_a_merge_cut_in_two(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    a, b = (np.sort(rng.integers(0, 20, size)) for size in sizes)
    both = np.concatenate([a, b])
    order = np.argsort(both, kind="stable")
    for count in range(sum(sizes) + 1):
        assert rows_of_first(a, b, count) == int((order[:count] < len(a)).sum())


@pytest.mark.parametrize("asked", [0, 1, 50, 700])
def test_find_in_runs(asked: int) -> None:
    """Bounds beyond 32 bits mean the same to runs of either width; ids that are not asked for are left out."""
    rng = np.random.default_rng(asked)
    runs = [np.sort(rng.integers(0, 60, held)) for held in (333, 1, 40, 16)]
    ids = [rng.permutation(len(keys)).astype(np.int32) for keys in runs]
    least = [0, 0, 35, 1]
    runs[::2] = [keys.astype(np.int32) for keys in runs[::2]]  # either width, in one call
    samples = [keys[15::16].copy() for keys in runs]
    places = [
        word
        for keys, some, own, first in zip(runs, samples, ids, least, strict=True)
        for word in (
            keys.ctypes.data,
            len(keys),
            some.ctypes.data,
            len(some),
            keys.itemsize,
            own.ctypes.data,
            first,
        )
    ]
    far = np.array([-(2**40), -5, 2**40])
    lows = np.sort(rng.integers(-5, 65, asked) + rng.choice([0, 0, 0, *far], asked))
    highs, rows = lows + rng.choice([-1, 0, 3, 9, 2**41], asked), np.arange(asked, dtype=np.int32)
    scratch = i32(3 * asked)
    out, starts, ends = (i32((4 + SPARE) * asked) for _ in range(3))
    counts = np.empty(12, dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    total = find_in_runs(
        np.array(places), none, 0, 0, none, none, lows, highs, rows, scratch, out, starts, ends, counts
    )
    at = 0
    for number, keys in enumerate(runs):
        first = np.searchsorted(keys, lows)
        last = np.maximum(np.searchsorted(keys, highs, side="right"), first)
        pairs, whole = int((last - first).sum()), least[number] == 0
        expected = [(row, a, b) for row, a, b in zip(rows, first, last, strict=True) if b > a]
        if not whole and pairs < (4 + SPARE) * asked - at - asked * (3 - number):
            each = [(row, i, i + 1) for row, a, b in expected for i in range(a, b)]
            expected = [one for one in each if ids[number][one[1]] >= least[number]]
            pairs, whole = len(expected), True
        kept = len(expected)
        assert counts[3 * number : 3 * number + 3].tolist() == [kept, pairs, whole]
        found = zip(out[at : at + kept], starts[at : at + kept], ends[at : at + kept], strict=True)
        assert list(found) == expected
        at += kept
    assert total == at


def test_gather_ascending() -> None:
    lows, highs, order = np.array([5, 1, 3]), np.array([6, 2, 4]), np.array([1, 2, 0], dtype=np.int32)
    out_lows, out_highs = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
    assert gather_ascending(lows, highs, order, out_lows, out_highs)
    assert (out_lows.tolist(), out_highs.tolist()) == ([1, 3, 5], [2, 4, 6])
    assert not gather_ascending(lows, highs, np.arange(3, dtype=np.int32), out_lows, out_highs)


def test_drop_below() -> None:
    keys, ids = np.arange(10), np.array([5, 1, 9, 0, 3, 8, 2, 7, 4, 6], dtype=np.int32)
    count = count_from(ids, 5)
    out_keys, out_ids = np.full(count + 1, -1), np.full(count + 1, -1, dtype=np.int32)
    drop_below(keys, ids, 5, 1, out_keys[:count], out_ids[:count])
    assert out_ids.tolist() == [4, 8, 7, 6, 5, -1], "nothing is written behind the output"
    assert out_keys.tolist() == [0, 2, 5, 7, 9, -1]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [4],
        [2, 2, 2],
        [3, 1, 2],
        [LOW, HIGH, 0, LOW, HIGH, -1],
        [HIGH - 1, HIGH, HIGH - 2] * 40,
        [2**62 + i % 7 for i in range(100)] + [LOW],
        [i * i % 1009 for i in range(700)],
        [LOW, HIGH] * 200,
        [HIGH - i % 3 * 2**21 for i in range(300)],
    ],
)
def test_sort_order(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    ordered, order = sort_order(array)
    assert np.array_equal(ordered, np.sort(array))
    assert np.array_equal(array[order], ordered)
    assert sorted(order.tolist()) == list(range(len(values)))


def test_sort_order_of_random_words() -> None:
    rng = np.random.default_rng(5)
    crowded = np.concatenate([rng.integers(0, 1 << 20, 2999), [HIGH]])  # the first bits say next to nothing
    one_digit = rng.integers(0, 2, 3000) << 40  # and here the second pass has nothing to sort by
    for array in (
        rng.integers(LOW, HIGH, 3000), rng.integers(-300, 300, 3000), rng.normal(size=3000).view(np.int64),
        rng.lognormal(0, 9, 3000).view(np.int64), crowded, one_digit + (1 << 62), one_digit + rng.integers(0, 9, 3000),
    ):  # fmt: skip
        ordered, order = sort_order(array)
        assert np.array_equal(ordered, np.sort(array))
        assert np.array_equal(array[order], ordered)
        narrowed, same = sort_order(array, narrow=True)
        assert narrowed.dtype == (np.int32 if abs(array).max() < 2**31 - 1 else np.int64)
        assert np.array_equal(narrowed, ordered)
        assert np.array_equal(same, order)
        narrow = array.astype(np.int32)
        ordered, order = sort_order(narrow)
        assert ordered.dtype == np.int32
        assert np.array_equal(ordered, np.sort(narrow))
        assert np.array_equal(narrow[order], ordered)


def test_finish_sort_gives_up() -> None:
    keys, order = np.arange(100)[::-1].copy(), np.arange(100, dtype=np.int32)
    assert not finish_sort(keys, order, 50)


def test_ascends() -> None:
    assert ascends(np.array([], dtype=np.int64))
    assert ascends(np.array([1, 1, 2]))
    assert not ascends(np.array([1, 0]))


def test_directory_finds_every_key() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(LOW, HIGH, 500)
    assert len(np.unique(mix(values))) == len(np.unique(values)), "the mix is a bijection"
    keys = np.sort(np.repeat(mix(values), 2))
    directory = i32(129)
    fill_directory(keys, 64 - 7, directory)
    rows, out, starts, ends = (np.arange(500, dtype=np.int32), i32(500), i32(500), i32(500))
    kept, pairs = look_up(keys, directory, 64 - 7, mix(values), rows, out, starts, ends)
    assert (kept, pairs) == (500, 1000)
    assert np.array_equal(keys[starts], mix(values))


RANGES = tuple(np.array(column, dtype=np.int32) for column in ([4, 2, 9], [0, 3, 1], [2, 4, 5]))
IDS = np.array([10, 11, 12, 13, 14], dtype=np.int32)
PAIRS = [(4, 10), (4, 11), (2, 13), (9, 11), (9, 12), (9, 13), (9, 14)]


@pytest.mark.parametrize("begin", range(7))
@pytest.mark.parametrize("room", [1, 2, 7])
def test_expand_resumes_anywhere(begin: int, room: int) -> None:
    lengths = np.cumsum(RANGES[2] - RANGES[1])
    at = int(np.searchsorted(lengths, begin, side="right"))
    offset = begin - (int(lengths[at - 1]) if at else 0)
    room = min(room, len(PAIRS) - begin)
    rows, ids = i32(room), i32(room)
    assert expand(*RANGES, IDS, at, offset, rows, ids) == room
    assert list(zip(rows.tolist(), ids.tolist(), strict=True)) == PAIRS[begin : begin + room]


def test_expand_visible_keeps_what_is_inside() -> None:
    lows, highs = np.zeros(10, dtype=np.int64), np.full(10, 100)
    lows[9], highs[4] = 112, 110
    rows, ids = i32(7), i32(7)
    none = np.empty(0, dtype=np.int64)
    highs[[2, 9]] = 113
    kept = expand_visible(*RANGES, IDS, none, 100, lows, highs, 0, 0, 7, rows, ids)
    assert list(zip(rows[:kept].tolist(), ids[:kept].tolist(), strict=True)) == [
        (4, 10),
        (2, 13),
        (9, 12),
        (9, 13),
    ]
    found = rows[:kept].tolist(), ids[:kept].tolist()
    positions = np.arange(100, 115)
    again = expand_visible(*RANGES, IDS, positions, 0, lows, highs, 0, 0, 7, rows, ids)
    assert (rows[:again].tolist(), ids[:again].tolist()) == found


def test_expand_numbers() -> None:
    none = np.empty(0, dtype=np.int64)
    left, right = np.empty(7, dtype=np.int64), np.empty(7, dtype=np.int64)
    expand_numbers(*RANGES, IDS, none, 1000, np.arange(15) * 2, 0, left, right)
    assert list(zip((left - 1000).tolist(), (right // 2).tolist(), strict=True)) == PAIRS


@pytest.mark.parametrize("longest", [1, 3, 4, 5, 40])
def test_ranges_of_any_length_are_expanded_to_the_last_place(longest: int) -> None:
    """Four pairs are written at a time; none may be missing, and nothing behind the last one touched."""
    rng = np.random.default_rng(longest)
    none, first, base = np.empty(0, dtype=np.int64), np.int64(10**12), np.int64(-(10**10))
    for _ in range(200):
        ids = rng.permutation(60).astype(np.int32)
        starts = np.sort(rng.integers(0, 60, rng.integers(0, 20))).astype(np.int32)
        ends = np.minimum(starts + rng.integers(1, longest + 1, len(starts)), 60).astype(np.int32)
        rows = rng.permutation(len(starts)).astype(np.int32)
        pairs = [
            (row, one) for row, a, b in zip(rows, starts, ends, strict=True) for one in ids[a:b].tolist()
        ]
        memory = np.full((2, len(pairs) + 4), 7, dtype=np.int64)
        left, right = memory[:, : len(pairs)]
        expand_numbers(rows, starts, ends, ids, none, first, none, base, left, right)
        assert list(zip((left - first).tolist(), (right - base).tolist(), strict=True)) == pairs
        assert (memory[:, len(pairs) :] == 7).all()
        low, high = np.sort(rng.integers(-5, 65, 2)) + base
        narrow = np.full((2, len(pairs) + 4), 7, dtype=np.int32)
        out_rows, out_ids = narrow[:, : len(pairs)]
        kept = expand_visible(
            rows, starts, ends, ids, none, base, np.array([low]), np.array([high]), 0, 0, len(pairs), out_rows, out_ids
        )  # fmt: skip
        inside = [pair for pair in pairs if low <= pair[1] + base <= high]
        assert list(zip(out_rows[:kept].tolist(), out_ids[:kept].tolist(), strict=True)) == inside
        assert (narrow[:, len(pairs) :] == 7).all()
        positions = rng.integers(-50, 50, 60)
        for bounds in (1, max(2, len(rows))):  # the same for all rows, or each its own
            lows, highs = np.sort(rng.integers(-60, 60, (2, bounds)), axis=0)
            kept = expand_visible(
                rows, starts, ends, ids, positions, 0, lows, highs, 0, 0, len(pairs), out_rows, out_ids
            )  # fmt: skip
            inside = [
                (row, one)
                for row, one in pairs
                if lows[row % bounds] <= positions[one] <= highs[row % bounds]
            ]
            assert list(zip(out_rows[:kept].tolist(), out_ids[:kept].tolist(), strict=True)) == inside
            assert (narrow[:, len(pairs) :] == 7).all()


def test_marks() -> None:
    marks, newly = np.zeros(15, dtype=np.uint8), i32(5)
    marks[11] = 1
    count = mark_ranges(*RANGES[1:], IDS, np.zeros(6, dtype=np.int32), marks, newly)
    assert newly[:count].tolist() == [10, 12, 13, 14]
    assert marks.sum() == 5
    again = i32(3)
    assert mark_ids(np.array([9, 10, 9], dtype=np.int32), marks, again) == 1
    assert again[0] == 9


@pytest.mark.parametrize("lengths", [[1], [50], [1, 1], [3, 1, 40], [7, 7, 7, 7, 1], list(range(1, 20))])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_gather_from_pieces(lengths: list[int], width: type) -> None:
    rng = np.random.default_rng(len(lengths))
    pieces = [rng.integers(-99, 99, length).astype(width) for length in lengths]
    places, ends = np.array([piece.ctypes.data for piece in pieces]), np.cumsum(lengths)
    for rows in (np.arange(ends[-1]), rng.integers(0, ends[-1], 100), np.empty(0)):
        out = np.empty(len(rows), dtype=width)
        gather(places, ends, rows.astype(np.int32), out)
        assert np.array_equal(out, np.concatenate(pieces)[rows.astype(np.int32)])
