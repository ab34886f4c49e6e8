"""Signs: keys negated, subtracted from, multiplied by negative literals, on both sides, under every operator.

Solving a comparison for one side's key mirrors its bound for each minus on the way; one too many or too few gives
wrong rows, not an error. Every draw goes through each access path of both sides and is compared with plain Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from condition import oracle
from condition.check import apply, check
from condition.oracle import E
from slidejoin.condition import parse

NUMBERS = ("0", "1", "2", "0.5", "-1", "-2", "-0.5", "-3", "0.1", "10", "0.05")
FAMILIES = ("f", "f", "fh", "fd", "fx", "d", "dw", "x", "xi", "xu", "u", "xd", "fu", "fw")
SPANS = ((0, "second"), (1, "second"), (-1, "second"), (1, "minute"), (-2, "day"), (1, "microsecond"))
SECONDS = {"second": 10**9, "minute": 60 * 10**9, "day": 86_400 * 10**9, "microsecond": 1_000}


def literal(rnd: random.Random, allow_zero: bool = True) -> E:
    text = rnd.choice(NUMBERS if allow_zero else NUMBERS[1:])
    value = Fraction(text)
    return E(f"({text})" if text.startswith("-") else text, "exact", True, lambda left, right: value)


def wrapped(rnd: random.Random, inner: E, names: str, other: int) -> E:
    """One more operation around an expression, with a literal or a column of the other side."""
    operand = literal(rnd) if rnd.random() < 0.5 else oracle.column(other, rnd.choice(names))
    if rnd.random() < 0.3:
        operand = oracle.negate(operand)
    pick = rnd.randrange(6)
    if pick == 0:
        return oracle.negate(inner)
    if pick == 1:
        return oracle.arithmetic("*", *rnd.sample([inner, literal(rnd)], 2))
    if pick == 2:
        return oracle.arithmetic("/", inner, literal(rnd, allow_zero=False))
    return oracle.arithmetic(rnd.choice("+-"), *rnd.sample([inner, operand], 2))


def numbers(rnd: random.Random) -> E:
    names = rnd.choice(FAMILIES)
    stored = rnd.choice((0, 1))
    inner = oracle.column(stored, rnd.choice(names))
    for _ in range(rnd.randint(1, 4)):
        inner = wrapped(rnd, inner, names, 1 - stored)
    target = literal(rnd) if rnd.random() < 0.5 else oracle.column(1 - stored, rnd.choice(names))
    if rnd.random() < 0.3:
        target = wrapped(rnd, target, names, 1 - stored)
    return oracle.compare(rnd.choice(list(oracle.TESTS)), *rnd.sample([inner, target], 2))


def exactly(sql: str, kind: str, run: Callable[..., Fraction], *operands: E) -> E:
    def whole(left: oracle.Row, right: oracle.Row) -> Fraction | None:
        values = [operand.run(left, right) for operand in operands]
        return None if any(value is None for value in values) else run(*values)

    return E(sql, kind, False, whole)


def summed(sign: str, kind: str, a: E, b: E) -> E:
    return exactly(f"({a.sql} {sign} {b.sql})", kind, lambda x, y: x + y if sign == "+" else x - y, a, b)


def span(rnd: random.Random) -> E:
    count, unit = rnd.choice(SPANS)
    return exactly(f"INTERVAL '{count} {unit}'", "span", lambda: Fraction(count * SECONDS[unit]))


def duration(rnd: random.Random, stamps: str) -> E:
    """A length of time that reads both sides, under a few signs."""
    stored = rnd.choice((0, 1))
    if rnd.random() < 0.6:
        a, b = oracle.column(stored, rnd.choice(stamps)), oracle.column(1 - stored, rnd.choice(stamps))
        if rnd.random() < 0.4:
            a = summed(rnd.choice("+-"), a.kind, a, rnd.choice([span(rnd), oracle.column(stored, "p")]))
        result = summed("-", "span", a, b)
    else:
        result = summed("+", "span", oracle.column(stored, "p"), oracle.column(1 - stored, "p"))
    for _ in range(rnd.randint(0, 3)):
        inner, pick = result, rnd.randrange(4)
        if pick == 0:
            result = exactly(f"(-{inner.sql})", "span", lambda x: -x, inner)
        elif pick == 1:
            k = rnd.choice((-3, -1, 2))
            result = exactly(f"({inner.sql} * ({k}))", "span", lambda x, k=k: x * k, inner)
        else:
            other = rnd.choice([span(rnd), oracle.column(1 - stored, "p")])
            result = summed(rnd.choice("+-"), "span", *rnd.sample([inner, other], 2))
    return result


def times(rnd: random.Random) -> E:
    stamps = rnd.choice(["tmne", "zq"])
    limit = span(rnd) if rnd.random() < 0.6 else oracle.column(rnd.choice((0, 1)), "p")
    return oracle.compare(rnd.choice(list(oracle.TESTS)), *rnd.sample([duration(rnd, stamps), limit], 2))


def agree(seed: int, draw: Callable[[random.Random], E], size: int) -> None:
    rnd = random.Random(seed)
    wanted = draw(rnd)
    left, right = oracle.rows(rnd, size), oracle.rows(rnd, size)
    expected = {(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if wanted.run(a, b) is True}
    bound = parse(wanted.sql).bind(oracle.SCHEMA, oracle.SCHEMA)
    try:
        check(bound, oracle.batch(left), oracle.batch(right), expected)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {wanted.sql}\n{bound.describe()}\n{error}") from error


@pytest.mark.parametrize("block", range(6))
def test_numbers(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        agree(seed, numbers, 10)


def bands(rnd: random.Random) -> E:
    """A float between two exact expressions of the other side, which may or may not share a key."""
    stored = rnd.choice((0, 1))
    names = rnd.choice(("x", "d", "w", "u", "xd", "i"))
    middle = oracle.column(1 - stored, rnd.choice("fh"))
    parts = []
    for _ in range(2):
        edge = oracle.column(stored, rnd.choice(names))
        for _ in range(rnd.randint(0, 2)):
            if rnd.random() < 0.4:
                edge = oracle.arithmetic("*", *rnd.sample([edge, literal(rnd)], 2))
            else:
                edge = oracle.arithmetic(rnd.choice("+-"), *rnd.sample([edge, literal(rnd)], 2))
        parts.append(oracle.compare(rnd.choice(list(oracle.TESTS)), *rnd.sample([middle, edge], 2)))
    return oracle.conjunction(parts, rnd.choice(("AND", "AND", "OR")))


@pytest.mark.parametrize("block", range(3))
def test_bands(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        agree(seed, bands, 10)


@pytest.mark.parametrize("block", range(3))
def test_times(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        agree(seed, times, 10)


@pytest.mark.parametrize("operator", list(oracle.TESTS))
@pytest.mark.parametrize(
    "text",
    [
        "-r.f + l.f",
        "l.f + -r.f",
        "-r.f - l.f",
        "l.f - -r.f",
        "-(r.f + l.f)",
        "-(-r.f + l.f)",
        "-l.f - (-r.f)",
    ],
)
def test_one_negated_key_in_a_sum(text: str, operator: str) -> None:
    python = {"-r.f + l.f": lambda a, b: -b + a, "l.f + -r.f": lambda a, b: a + -b, "-r.f - l.f": lambda a, b: -b - a,
              "l.f - -r.f": lambda a, b: a - -b, "-(r.f + l.f)": lambda a, b: -(b + a),
              "-(-r.f + l.f)": lambda a, b: -(-b + a), "-l.f - (-r.f)": lambda a, b: -a - (-b)}[text]  # fmt: skip

    def draw(rnd: random.Random) -> E:
        def run(left: oracle.Row, right: oracle.Row) -> float | None:
            a, b = left["f"], right["f"]
            return None if a is None or b is None else python(a, b)

        return oracle.compare(operator, E(text, "float", False, run), literal(rnd))

    for seed in range(8):
        agree(seed, draw, 16)


@pytest.mark.parametrize(
    "text",
    ["10 + (-((0 * r.d) + (-l.f))) <= 1", "((r.d * 0) - 1) - (-l.f) > 0.1", "1 = -r.i + (0.05 - l.i * 0) / 10",
     "0 * l.x < r.f", "0 * l.x + 18446744073709551616 > r.f", "abs(0 * l.x - r.x) <= 1", "0 * l.d = r.f"],
)  # fmt: skip
def test_a_factor_of_zero_still_has_rows(text: str) -> None:
    rnd = random.Random(text)
    left, right = oracle.batch(oracle.rows(rnd, 12)), oracle.batch(oracle.rows(rnd, 12))
    bound = parse(text).bind(oracle.SCHEMA, oracle.SCHEMA)
    everything = {(i, j) for i in range(12) for j in range(12)}
    check(bound, left, right, apply(bound.predicate, left, right, everything))
