"""Relations between joins that need no oracle: mirrored, shifted, cut otherwise, of another kind or index."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import naive
import slidejoin as sj
from duel import InapplicableError, assert_same_rows, build, forced_index, pairs_of
from generate.cases import Advance, Call, Push, Setup, cases
from generate.profiles import examples

Case = tuple[Setup, list[Call]]
Result = Counter[naive.Pair]


def make(join: sj.Join, setup: Setup, call: Call, index: str = "auto") -> sj.Matches:
    with forced_index(index):
        if isinstance(call, Push):
            rows = {"left": call.left, "right": call.right}
            sides = {"left": 0, "right": 1}
            return join.push(**{n: setup.table(sides[n], r) for n, r in rows.items() if r is not None})
        beats = {"left": call.left, "right": call.right}
        return join.advance(
            **{n: setup.instant(("left", "right").index(n), t) for n, t in beats.items() if t is not None}
        )


def run(setup: Setup, calls: list[Call], **override: Any) -> list[Result]:
    """The multiset of each call, the end included."""
    join = build(setup, **override)
    index = override.get("index", "auto")
    results = [Counter(pairs_of(make(join, setup, call, index))) for call in calls]
    results.append(Counter(pairs_of(join.finish())))
    return results


def total(results: list[Result]) -> Result:
    return sum(results, Counter())


def one_side_at_a_time(setup: Setup, calls: list[Call]) -> list[Call]:
    """With Rows the left arrives first within a push of both, so only pushes of one side mirror."""
    if setup.timed:
        return calls
    apart: list[Call] = []
    for call in calls:
        assert isinstance(call, Push)
        apart += [Push(call.left, None), Push(None, call.right)]
    return [call for call in apart if call.left is not None or call.right is not None]


tolerant = st.sampled_from(("count", "keep"))


@examples(1)
@given(cases(late="count"))
def test_swapping_the_sides_mirrors_the_result(case: Case) -> None:
    setup, calls = case
    calls = one_side_at_a_time(setup, calls)
    mirror = dataclasses.replace(
        setup,
        columns=setup.columns[::-1],
        windows=setup.windows[::-1],
        position=setup.position and setup.position[::-1],
        lengths=setup.lengths[::-1],
        slides=setup.slides[::-1],
        aliases=setup.aliases[::-1],
    )
    swapped: list[Call] = [dataclasses.replace(call, left=call.right, right=call.left) for call in calls]
    for how, other in (("inner", "inner"), ("left", "right"), ("right", "left"), ("full", "full")):
        straight = run(setup, calls, how=how)
        mirrored = run(mirror, swapped, how=other)
        assert straight == [Counter({(a, b): n for (b, a), n in result.items()}) for result in mirrored]


@examples(1)
@given(cases(window="time", late="count", blind=True), st.sampled_from((1, -1, 7, 1000)))
def test_shifting_all_times_changes_nothing(case: Case, far: int) -> None:
    setup, calls = case
    window = setup.windows[0]
    assert isinstance(window, naive.Time)
    shift = far * (window.slide or setup.step)
    if setup.column(0, setup.position[0]).family == "number":
        shift = abs(shift)
        if setup.origin > 2**62:
            shift = -shift  # away from the end of int64
        if any(not t.arrow.equals(pa.int64()) for t in (setup.column(i, setup.position[i]) for i in (0, 1))):
            shift = 0 if far == 1000 else shift  # small integers have no room

    def moved(side: int, rows: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        if rows is None:
            return None
        name = setup.position[side]
        raw = shift // setup.column(side, name).nanos
        return [row | {name: None if row[name] is None else row[name] + raw} for row in rows]

    later: list[Call] = []
    for call in calls:
        if isinstance(call, Push):
            later.append(Push(moved(0, call.left), moved(1, call.right)))
        else:
            later.append(Advance(*(None if t is None else t + shift for t in (call.left, call.right))))
    assert run(setup, calls) == run(setup, later)


@examples(1)
@given(cases(), st.integers(1, 4), st.booleans())
def test_other_batchings_change_nothing(case: Case, size: int, flip: bool) -> None:
    """Rows: the same arrivals, cut smaller. Time: any order of the pieces, as nothing is ever late."""
    setup, calls = case
    override: dict[str, Any] = {}
    if setup.timed:
        patience = 10**6 * setup.step
        integer = setup.column(0, setup.position[0]).family == "number"
        override = {"lateness": patience if integer else f"{patience // 10**9} seconds", "late": "count"}
        calls = [call for call in calls if isinstance(call, Push)]
    calls = one_side_at_a_time(setup, calls)
    pieces: list[Call] = []
    for call in calls:
        cut: list[list[Call]] = [[], []]
        for side, rows in enumerate((call.left, call.right)):
            for start in range(0, len(rows or []), size):
                piece = (rows or [])[start : start + size]
                cut[side].append(Push(piece, None) if side == 0 else Push(None, piece))
        pieces += [*cut[1], *cut[0]] if setup.timed and flip else [*cut[0], *cut[1]]
    assert total(run(setup, calls, **override)) == total(run(setup, pieces, **override))


@examples(1)
@given(cases(late="count"))
def test_kinds_contain_each_other(case: Case) -> None:
    inner, left, right, full = (run(*case, how=how) for how in ("inner", "left", "right", "full"))
    for i, l, r, f in zip(inner, left, right, full, strict=True):  # noqa: E741
        assert i <= l <= f
        assert i <= r <= f
        assert all(naive.ABSENT in pair for pair in f - i)
        assert f - l == r - i
        assert f - r == l - i


@examples(1)
@given(cases(late="count"))
def test_semi_and_anti_share_out_the_left_rows(case: Case) -> None:
    setup, calls = case
    semi, anti = (total(run(setup, calls, how=how)) for how in ("semi", "anti"))
    inner = total(run(setup, calls, how="inner"))
    joined = semi + anti
    join = build(setup, how="inner")
    for call in calls:
        make(join, setup, call)
    assert all(count == 1 and right == naive.ABSENT for (_, right), count in joined.items())
    assert len(joined) == join.stats()["left"]["accepted"]
    assert {left for left, _ in semi} == {left for left, _ in inner}


@examples(1)
@given(cases(late="count"))
def test_every_index_equals_every_other(case: Case) -> None:
    setup, calls = case
    reference = run(setup, calls, index="scan")
    for index in sj.indexes():
        try:
            assert run(setup, calls, index=index) == reference, index
        except InapplicableError:
            continue


@examples(1)
@given(cases(late="count"))
def test_threads_flows_and_orders_change_nothing(case: Case) -> None:
    reference = run(*case, threads=1, order="none")
    assert run(*case, threads=2, order="none") == reference
    assert run(*case, threads=None, order="strict") == reference
    for flow in sj.flows():
        assert run(*case, flow=flow) == reference, flow


@examples(1)
@given(cases(late="count"))
def test_tuning_changes_nothing(case: Case) -> None:
    setup, calls = case
    fine = dataclasses.replace(setup, subwindow_rows=1, chunk_rows=1)
    coarse = dataclasses.replace(setup, subwindow_rows=None, chunk_rows=None)
    assert run(fine, calls) == run(coarse, calls)


@examples(1)
@given(cases(late="count"))
def test_results_read_later_are_the_results(case: Case) -> None:
    """A result stays what it was when rows have since arrived, left and been merged."""
    setup, calls = case
    join = build(setup)
    held, read = [], []
    for call in calls:
        matches = make(join, setup, call)
        held.append(matches)
    held.append(join.finish())
    again = build(setup)
    for call in calls:
        matches = make(again, setup, call)
        read.append((pairs_of(matches), matches.to_table()))
    last = again.finish()
    read.append((pairs_of(last), last.to_table()))
    for matches, (pairs, table) in zip(held, read, strict=True):
        assert matches.num_rows == len(pairs)
        assert Counter(pairs_of(matches)) == Counter(pairs)
        if pairs_of(matches) == pairs:
            assert_same_rows(matches.to_table(), table)


@examples(0.5)
@given(cases(late="count"), st.booleans())
def test_a_stream_with_itself(case: Case, together: bool) -> None:
    """The same table pushed to both sides: the engine may not confuse its two copies."""
    setup, calls = case
    columns = tuple(dict.fromkeys(name for name, _ in setup.columns[0]))
    join = sj.Join(
        " AND ".join(
            f'l."{name.replace(chr(34), chr(34) * 2)}" = r."{name.replace(chr(34), chr(34) * 2)}"'
            for name in columns
        ),
        window=sj.Rows(10_000),
    )
    found: Result = Counter()
    rows: list[tuple[Any, ...]] = []
    for call in calls:
        if not isinstance(call, Push) or call.left is None:
            continue
        table = setup.table(0, call.left)
        pushes = (
            [join.push(left=table, right=table)]
            if together
            else [join.push(left=table), join.push(right=table)]
        )
        found += sum((Counter(pairs_of(matches)) for matches in pushes), Counter())
        rows += [tuple(row.values[name] for name in columns) for row in setup.naive_rows(0, call.left)]
    expected = Counter(
        (i, j)
        for i, a in enumerate(rows)
        for j, b in enumerate(rows)
        if all(naive.holds("=", x, y) for x, y in zip(a, b, strict=True))
    )
    assert found == expected
