"""The grammar of conditions over the columns of two streams.

An *atom* is one predicate in one of the spellings that users write: equalities, inequalities, bands in every
form, ``<>``, ``IN``, ``IS NULL``, arithmetic residuals, one-sided filters, constants. A condition is a few atoms
under AND, OR and NOT.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from generate.expressions import (
    Abs,
    Arithmetic,
    Between,
    Coalesce,
    Column,
    Compare,
    Connective,
    Constant,
    Distinct,
    In,
    IsNull,
    Literal,
    Negative,
    Node,
    Not,
    interval,
    number,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPARISONS = ("=", "<", "<=", ">", ">=", "<>", "!=")
ORDERINGS = ("<", "<=", ">", ">=")
NUMERIC = ("int", "dec", "float")

WIDTHS: tuple[int | Fraction, ...] = (0, 1, 2, 5, 10, 1000, *(Fraction(n, 100) for n in (5, 10, 50, 250)))
FACTORS = (1, 2, 3, -1, -2, 10, 0)
OFFSETS: tuple[int | Fraction, ...] = (
    *(0, 1, -1, 3, 50, -4, 127, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**20),
    *(Fraction(n, 100) for n in (10, -5, 30, 1005)),
)
SPANS = (("second", 1), ("second", 5), ("second", 2), ("second", 0), ("minute", 1), ("hour", 24), ("day", 3))

widths = st.sampled_from(WIDTHS).map(number)
offsets = st.sampled_from(OFFSETS).map(number)
spans = st.sampled_from(SPANS).map(lambda s: interval(s[1], s[0]))


@st.composite
def atoms(draw: st.DrawFn, left: Sequence[Column], right: Sequence[Column]) -> Node:
    """One predicate, mostly about one column of each side."""
    kind = draw(
        st.sampled_from(("pair",) * 8 + ("one",) * 2 + ("constant",) * (draw(st.integers(0, 7)) == 0))
    )
    if kind == "constant":
        return draw(
            st.sampled_from((Constant("TRUE", True), Constant("FALSE", False), Constant("1 = 1", True)))
        )
    if kind == "one":
        return draw(filters(draw(st.sampled_from((left, right)))))
    pairs = [(a, b) for a in left for b in right if _comparable(a, b)]
    if not pairs:
        return draw(filters(left))
    a, b = draw(st.sampled_from(pairs))
    if draw(st.booleans()):
        a, b = b, a
    if draw(st.integers(0, 11)) == 11:
        return Distinct(a, b, draw(st.booleans()))
    if a.kind in NUMERIC:
        return draw(numeric_pairs(a, b, left, right))
    if a.kind in ("naive", "zoned", "date"):
        return draw(temporal_pairs(a, b))
    if a.kind == "span":
        return draw(span_pairs(a, b))
    return Compare(draw(st.sampled_from(COMPARISONS)), a, b)


def _comparable(a: Column, b: Column) -> bool:
    return a.kind == b.kind or (a.kind in NUMERIC and b.kind in NUMERIC)


def band(x: Node, y: Node, low: Node, high: Node, spelling: int) -> Node:
    """x in [y - low, y + high], in one of the ways to write it."""
    if spelling == 0:
        return Between(x, Arithmetic("-", y, low), Arithmetic("+", y, high))
    if spelling == 1:
        return Connective(
            "AND",
            (Compare("<=", x, Arithmetic("+", y, high)), Compare(">=", x, Arithmetic("-", y, low))),
        )
    if spelling == 2:
        return Connective(
            "AND",
            (Compare(">", Arithmetic("+", x, low), y), Compare("<", Arithmetic("-", x, high), y)),
        )
    negative = (
        Literal(f"-{low.sql}", low.kind, -low.exact)
        if isinstance(low, Literal) and low.kind in ("int", "frac")
        else Negative(low)
    )
    return Between(Arithmetic("-", x, y), negative, high)


@st.composite
def numeric_pairs(
    draw: st.DrawFn, a: Column, b: Column, left: Sequence[Column], right: Sequence[Column]
) -> Node:
    form = draw(st.integers(0, 13))
    width, offset = draw(widths), draw(offsets)
    op = draw(st.sampled_from(COMPARISONS))
    less = draw(st.sampled_from(ORDERINGS))
    if form in (0, 1):
        return Compare(op, a, b)
    if form in (2, 3):
        return Compare(
            draw(st.sampled_from(("<=", "<", "<=", ">", ">=", "="))), Abs(Arithmetic("-", a, b)), width
        )
    if form in (4, 5):
        return band(a, b, width, draw(widths), draw(st.integers(0, 3)))
    if form == 6:  # 2 * l.x + 1 <= r.y - 4
        factor = number(draw(st.sampled_from(FACTORS)))
        scaled = Arithmetic("+", Arithmetic("*", factor, a), offset)
        return Compare(op, scaled, Arithmetic("-", b, width))
    if form == 7:  # l.x + r.x < 50
        return Compare(less, Arithmetic("+", a, b), offset)
    if form == 8:
        return Not(Compare(op, a, b))
    if form == 9:  # a band whose width is a column
        wide = draw(st.sampled_from([c for c in (*left, *right) if c.kind in NUMERIC]))
        if draw(st.booleans()):
            return Compare("<=", Abs(Arithmetic("-", a, b)), wide)
        return band(a, b, wide, wide, draw(st.integers(0, 3)))
    if form == 10:  # residuals
        operator = draw(st.sampled_from(("*", "/", "*")))
        return Compare(less, Arithmetic(operator, a, b), offset)
    if form == 11:  # NULLs that become numbers
        return Compare(op, Coalesce(a, number(3)) if a.kind == "int" else a, b)
    if form == 12:  # terms that cancel, but for NULL
        other = draw(st.sampled_from([c for c in (*left, *right) if c.kind in NUMERIC]))
        return Compare(less, Arithmetic("+", a, Arithmetic("-", other, other)), b)
    return In(a, (b, Arithmetic("+", b, number(1)), number(3)), negated=draw(st.booleans()))


@st.composite
def temporal_pairs(draw: st.DrawFn, a: Column, b: Column) -> Node:
    if draw(st.booleans()):
        return Compare(draw(st.sampled_from(COMPARISONS)), a, b)
    span = interval(draw(st.sampled_from((0, 1, 3))), "day") if a.kind == "date" else draw(spans)
    form = draw(st.integers(0, 2 if a.kind == "date" else 4))
    if form == 2:
        return Compare(draw(st.sampled_from(ORDERINGS)), Arithmetic("+", a, span), b)
    if form == 3:
        return Compare(draw(st.sampled_from(ORDERINGS)), Arithmetic("-", a, b), span)
    if form == 4:
        return Compare("<=", Abs(Arithmetic("-", a, b)), span)
    return band(a, b, span, span, form)


@st.composite
def span_pairs(draw: st.DrawFn, a: Column, b: Column) -> Node:
    op = draw(st.sampled_from(COMPARISONS))
    if draw(st.booleans()):
        return Compare(op, a, b)
    return Compare(op, Arithmetic("+", a, draw(spans)), b)


@st.composite
def filters(draw: st.DrawFn, columns: Sequence[Column]) -> Node:
    """A predicate about one side alone."""
    a = draw(st.sampled_from(list(columns)))
    negated = draw(st.booleans())
    form = draw(st.integers(0, 3))
    if form == 0 or a.kind in ("bytes", "date", "naive", "zoned"):
        return IsNull(a, negated)
    if a.kind == "bool":
        return Not(a) if negated else a
    if a.kind == "text":
        literals = st.sampled_from(("", "a", "b", "é", "it's", "zz")).map(text)
    elif a.kind == "span":
        literals = spans
    else:
        literals = offsets
    if form == 1:
        return In(a, tuple(draw(st.lists(literals, min_size=1, max_size=3))), negated)
    if form == 2:
        return Between(a, draw(literals), draw(literals), negated)
    return Compare(draw(st.sampled_from(COMPARISONS)), a, draw(literals))


@st.composite
def conditions(draw: st.DrawFn, left: Sequence[Column], right: Sequence[Column], depth: int = 2) -> Node:
    """A few atoms under AND, OR and NOT."""
    shape = draw(st.sampled_from(("atom", "and", "or", "atom", "and", "or", "not"))) if depth else "atom"
    if shape == "atom":
        return draw(atoms(left, right))
    if shape == "not":
        return Not(draw(conditions(left, right, depth - 1)))
    terms = draw(st.lists(conditions(left, right, depth - 1), min_size=2, max_size=3 if depth == 1 else 2))
    return Connective(shape.upper(), tuple(terms))
