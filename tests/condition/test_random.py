"""Random conditions on random rows: keys, intervals, verify and mask against plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condition import oracle
from condition.check import check
from slidejoin.condition import parse


def run(seed: int, draw: object, size: int = 7) -> None:
    rnd = random.Random(seed)
    wanted = draw(rnd)  # type: ignore[operator]
    left, right = oracle.rows(rnd, size), oracle.rows(rnd, size)
    expected = {(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if wanted.run(a, b) is True}
    bound = parse(wanted.sql).bind(oracle.SCHEMA, oracle.SCHEMA)
    try:
        check(bound, oracle.batch(left), oracle.batch(right), expected)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {wanted.sql}\n{bound.describe()}\n{error}") from error


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**40))
def test_one_comparison(seed: int) -> None:
    run(seed, oracle.leaf, 9)


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**40))
def test_whole_conditions(seed: int) -> None:
    run(seed, oracle.condition)


@pytest.mark.parametrize("seed", range(150))
def test_float_differences(seed: int) -> None:
    def draw(rnd: random.Random) -> oracle.E:
        operator = rnd.choice(list(oracle.TESTS))
        inner = oracle.difference(rnd, "f")
        return oracle.compare(operator, oracle.absolute(inner) if seed % 2 else inner, oracle.number(rnd))

    run(seed, draw, 22)


@pytest.mark.parametrize("seed", range(150))
def test_float_bands_around_an_expression(seed: int) -> None:
    def draw(rnd: random.Random) -> oracle.E:
        def edge() -> oracle.E:
            inner = oracle.column(1, "f")
            for _ in range(rnd.randint(1, 2)):
                inner = rnd.choice([
                    lambda x: oracle.arithmetic(rnd.choice("+-*"), x, oracle.number(rnd)),
                    lambda x: oracle.arithmetic(rnd.choice("+-"), oracle.number(rnd), x),
                    lambda x: oracle.arithmetic("/", x, oracle.number(rnd)),
                    oracle.negate,
                    lambda x: oracle.arithmetic("-", x, oracle.column(0, "f")),
                ])(inner)  # fmt: skip
            return inner

        target = oracle.column(0, "f")
        tests = [oracle.compare(rnd.choice(list(oracle.TESTS)), target, edge()) for _ in range(2)]
        return oracle.conjunction(tests, rnd.choice(["AND", "OR"]))

    run(seed, draw, 14)
