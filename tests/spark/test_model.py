"""Packing, routing, log and caches against the oracle, without Spark: random joins of every kind."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import naive
import slidejoin as sj
from generate.cases import HOWS, Advance, Call, Setup, call_lists, cases, setups
from generate.conditions import NUMERIC, WIDTHS, band, filters
from generate.expressions import Column, Compare, Connective, number
from generate.profiles import examples
from slidejoin.spark import cache, shard
from spark.model import IDS, LATE, Model, expected_rows, numbered, query_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = st.integers(0, 2**32)


@pytest.fixture(autouse=True, scope="module")
def _small_entries() -> Iterator[None]:
    """Entries of a few rows: cutting and joining them is met often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "ENTRY_BYTES", 300)
        patch.setattr(cache, "_kept", OrderedDict())
        yield


def run(
    setup: Setup,
    calls: list[Call],
    routing: str,
    workers: int,
    seed: int,
    budget: int = 1 << 30,
    spread: int = 1,
) -> None:
    assume(setup.position is not None)
    try:
        query = query_of(setup, routing, workers, budget, spread)
    except sj.ConditionError:  # grid on a band that is too wide for cells, such as 1000 around an int8
        assume(routing != "grid")
        raise
    model, oracle = Model(query, random.Random(seed)), setup.naive()
    first = [0, 0]
    for call in calls:
        if isinstance(call, Advance):
            continue
        sides = [call.left or [], call.right or []]
        if not any(sides):
            continue
        tables = [numbered(setup, side, rows, first[side]) for side, rows in enumerate(sides)]
        truth = [setup.naive_rows(side, rows) for side, rows in enumerate(sides)]
        try:
            pairs = oracle.push(*truth)
        except naive.LateError:
            with pytest.raises(sj.LateRowError):
                model.micro_batch((tables[0], tables[1]))
            return
        found = model.micro_batch((tables[0], tables[1]))
        wanted = expected_rows(setup, oracle, pairs)
        got = Counter((row[IDS[0]], row[IDS[1]], row[LATE]) for row in found)
        assert got == Counter(wanted), (query.routing, workers, spread)
        check_counts(model, setup, oracle, sides)
        for side in (0, 1):
            first[side] += len(sides[side])


def check_counts(model: Model, setup: Setup, oracle: naive.Naive, sides: list[list[dict[str, Any]]]) -> None:
    """The counters of all workers add up to what the oracle counted."""
    total = {name: sum(report[name] for report in model.reports) for name in ("late", "rows_in", "null_time")}
    assert total["rows_in"] == sum(map(len, sides))
    before = getattr(model, "before", {"late": 0, "null_time": 0})
    now = {
        "late": sum(side.late for side in oracle.sides),
        "null_time": sum(side.null_time for side in oracle.sides),
    }
    for name in ("late", "null_time"):
        assert total[name] == now[name] - before[name], name
    model.before = now  # type: ignore[attr-defined]


@st.composite
def routable(draw: st.DrawFn, routing: str, **fixed: Any) -> tuple[Setup, list[Call]]:
    """A join whose condition the routing can use: an equality or a band, often with something beside it."""
    setup = draw(setups(window="time", **fixed))
    operands = [
        [Column(side, name, kind.kind, setup.aliases[side]) for name, kind in setup.columns[side]]
        for side in (0, 1)
    ]
    numeric = [[column for column in side if column.kind in NUMERIC] for side in operands]
    assume(all(numeric))
    a, b = (draw(st.sampled_from(side)) for side in numeric)
    near = band(a, b, number(draw(st.sampled_from(WIDTHS[1:]))), number(draw(st.sampled_from(WIDTHS[1:]))), 0)
    same = Compare("=", draw(st.sampled_from(numeric[0])), draw(st.sampled_from(numeric[1])))
    terms = [same if routing == "hash" else near]
    beside = draw(st.integers(0, 3))
    if beside == 1:
        terms.append(near if routing == "hash" else same)
    elif beside == 2:
        terms.append(draw(filters(operands[draw(st.integers(0, 1))])))
    elif beside == 3:
        terms.append(Compare("<>", a, b))
    condition = Connective("AND", tuple(terms)) if len(terms) > 1 else terms[0]
    setup = replace(setup, condition=condition)
    return setup, draw(call_lists(setup))


@pytest.mark.parametrize("how", HOWS)
@examples(2)
@given(data=st.data())
def test_any_condition(how: str, data: st.DataObject) -> None:
    """Split takes them all; what auto chooses gives the same."""
    setup, calls = data.draw(cases(how=how))
    run(
        setup,
        calls,
        data.draw(st.sampled_from(("split", "auto"))),
        data.draw(st.integers(1, 3)),
        data.draw(SEEDS),
    )


@pytest.mark.parametrize("routing", ["hash", "grid"])
@pytest.mark.parametrize("how", HOWS)
@examples(3)
@given(data=st.data())
def test_equalities_and_bands(how: str, routing: str, data: st.DataObject) -> None:
    """A key or a cell at one worker, or shared by some of them, or by all."""
    setup, calls = data.draw(routable(routing, how=how))
    workers = data.draw(st.integers(1, 4))
    run(setup, calls, routing, workers, data.draw(SEEDS), spread=data.draw(st.integers(1, workers)))


@examples(1)
@given(cases(), st.integers(1, 3), SEEDS)
def test_without_caches(case: tuple[Setup, list[Call]], workers: int, seed: int) -> None:
    run(*case, "auto", workers, seed, budget=0)
