"""The typed algebra: what the binder builds, the evaluator runs and the access paths are found in.

Exact arithmetic is kept as linear forms (``Linear``): a sum of rational multiples of atoms plus a constant.
An atom is a column or an exact expression that is not linear. Float arithmetic is kept as written, because
rounding makes every rearrangement a different expression. ``sides`` is a bit set: 1 left, 2 right.
Two nodes with the same ``text`` are the same expression.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import gcd

import pyarrow as pa

from slidejoin.condition.types import BOOL, FLOAT, NULL, STRING, Type, exact_type

MAX_CONSTANT_BITS = 4096  # beyond the widest type by far; keeps hostile products of literals cheap


@dataclass(frozen=True, eq=False)
class Expr:
    """Base: a type, the sides it reads and its text. Nodes compare by identity; use ``text`` for sameness."""

    type: Type
    sides: int
    text: str


@dataclass(frozen=True, eq=False)
class Col(Expr):
    side: int
    name: str
    arrow: pa.DataType


@dataclass(frozen=True, eq=False)
class Linear(Expr):
    """sum(coefficient * atom) + constant, in value units; zero coefficients stay, as their NULLs count."""

    terms: tuple[tuple[Expr, Fraction], ...]
    constant: Fraction
    literal: bool  # a numeric literal, which adapts to a float neighbour
    multipliers: tuple[int, ...] = field(default=())  # per term, ticks of atom -> ticks of self
    offset: int = 0  # the constant in ticks of self


@dataclass(frozen=True, eq=False)
class Product(Expr):
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Remainder(Expr):
    """Truncating remainder of exact values, both scaled to self's unit; NULL for a zero divisor."""

    left: Expr
    right: Expr
    scales: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Absolute(Expr):
    operand: Expr


@dataclass(frozen=True, eq=False)
class FloatLit(Expr):
    value: float


@dataclass(frozen=True, eq=False)
class ToFloat(Expr):
    operand: Expr


@dataclass(frozen=True, eq=False)
class FloatOp(Expr):
    operator: str  # + - * / %
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class FloatNeg(Expr):
    operand: Expr


@dataclass(frozen=True, eq=False)
class BytesLit(Expr):
    value: bytes


@dataclass(frozen=True, eq=False)
class NullLit(Expr):
    pass


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A function evaluated by the SQL engine."""

    template: str
    arguments: tuple[Expr, ...]
    arrow: pa.DataType


@dataclass(frozen=True, eq=False)
class Case(Expr):
    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


@dataclass(frozen=True, eq=False)
class Extreme(Expr):
    greatest: bool
    parts: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """TRUE, FALSE or NULL as a truth value."""

    value: bool | None


@dataclass(frozen=True, eq=False)
class Compare(Expr):
    """``domain``: exact (ticks times ``scales``), float, mixed (exact with float) or bytes."""

    operator: str
    left: Expr
    right: Expr
    domain: str
    scales: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class And(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Or(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Not(Expr):
    operand: Expr


@dataclass(frozen=True, eq=False)
class IsNull(Expr):
    operand: Expr


@dataclass(frozen=True, eq=False)
class IsTrue(Expr):
    """Never NULL: TRUE where the operand is TRUE."""

    operand: Expr


FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
INVERTED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def children(node: Expr) -> tuple[Expr, ...]:
    """Direct operands."""
    match node:
        case Linear(terms=terms):
            return tuple(atom for atom, _ in terms)
        case (
            Product(left=a, right=b)
            | Remainder(left=a, right=b)
            | FloatOp(left=a, right=b)
            | Compare(left=a, right=b)
        ):
            return (a, b)
        case (
            Absolute(operand=x)
            | ToFloat(operand=x)
            | FloatNeg(operand=x)
            | Not(operand=x)
            | IsNull(operand=x)
            | IsTrue(operand=x)
        ):
            return (x,)
        case Call(arguments=parts) | Extreme(parts=parts) | And(parts=parts) | Or(parts=parts):
            return parts
        case Case(whens=whens, otherwise=otherwise):
            return (*(part for when in whens for part in when), otherwise)
    return ()


def columns(node: Expr) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the columns a tree reads, per side, in order of first appearance."""
    found: tuple[dict[str, None], dict[str, None]] = ({}, {})
    stack, seen = [node], set()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Col):
            found[current.side][current.name] = None
        stack.extend(reversed(children(current)))
    return tuple(found[0]), tuple(found[1])


def fraction_gcd(values: list[Fraction]) -> Fraction:
    """The largest rational of which all values are integer multiples (1 if there are none but zeros)."""
    numerator, denominator = 0, 1
    for value in values:
        denominator = denominator * value.denominator // gcd(denominator, value.denominator)
    for value in values:
        numerator = gcd(numerator, int(value * denominator))
    return Fraction(numerator, denominator) if numerator else Fraction(1)


def number_text(value: Fraction) -> str:
    """A rational as SQL would write it, decimal where finite."""
    if value.denominator == 1:
        return str(value.numerator)
    rest, digits = value.denominator, 0
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"({value.numerator}/{value.denominator})"
    while (value * 10**digits).denominator != 1:
        digits += 1
    scaled = abs(int(value * 10**digits))
    text = f"{scaled:0{digits + 1}d}"
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}"


def span_text(nanoseconds: Fraction) -> str:
    """A duration constant as an INTERVAL."""
    for name, size in (("days", 86400 * 10**9), ("hours", 3600 * 10**9), ("minutes", 60 * 10**9), ("seconds", 10**9),
                       ("milliseconds", 10**6), ("microseconds", 10**3)):  # fmt: skip
        if (nanoseconds / size).denominator == 1:
            return f"INTERVAL '{number_text(nanoseconds / size)} {name}'"
    return f"INTERVAL '{number_text(nanoseconds)} nanoseconds'"


def constant_text(kind: str, value: Fraction) -> str:
    """An exact constant of a kind, for people."""
    if kind == "bool":
        return "TRUE" if value else "FALSE"
    if kind in ("date", "timestamp"):
        seconds, rest = divmod(value, 10**9)
        try:
            base = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))).replace(tzinfo=None)
        except OverflowError:
            return f"{kind} {number_text(value)}"
        text = str(base.date()) if kind == "date" else str(base)
        return f"'{text}{'.' + f'{int(rest):09d}' if rest else ''}'"
    return span_text(value) if kind in ("duration", "time") else number_text(value)


def terms_text(terms: list[tuple[Expr, Fraction]], constant: Fraction, kind: str) -> str:
    """A linear form for people: ``2 * l.x - r.y + 3``."""
    parts: list[str] = []
    for atom, coefficient in terms:
        size = abs(coefficient)
        text = wrap(atom) if isinstance(atom, Linear) else atom.text
        body = text if size == 1 else f"{number_text(size)} * {text}"
        sign = "-" if coefficient < 0 else "+"
        parts.append(f" {sign} {body}" if parts else (f"-{body}" if sign == "-" else body))
    if constant or not parts:
        if not parts:
            return constant_text(kind, constant)
        temporal = kind in ("date", "timestamp", "duration", "time")
        shown = span_text(abs(constant)) if temporal else number_text(abs(constant))
        parts.append(f" {'-' if constant < 0 else '+'} {shown}")
    return "".join(parts)


def wrap(node: Expr) -> str:
    """The text of an operand, in parentheses unless it binds tightly."""
    if isinstance(node, FloatOp | Remainder | Product | And | Or | Compare | Not) or (
        isinstance(node, Linear) and len(node.terms) + bool(node.constant) > 1
    ):
        return f"({node.text})"
    return node.text


class TooLargeError(ValueError):
    """Constants multiplied beyond any use."""


def linear(
    terms: list[tuple[Expr, Fraction]],
    constant: Fraction,
    kind: str,
    zoned: bool = False,
    literal: bool = False,
) -> Expr:
    """Build a linear form: like atoms merged, unit and range of its ticks worked out."""
    merged: dict[str, tuple[Expr, Fraction]] = {}
    for atom, coefficient in terms:
        before = merged[atom.text][1] if atom.text in merged else Fraction(0)
        merged[atom.text] = (atom, before + coefficient)
    items = tuple(merged.values())
    for value in (constant, *(c for _, c in items)):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_CONSTANT_BITS:
            raise TooLargeError("constant of more than a thousand digits")
    if len(items) == 1 and items[0][1] == 1 and constant == 0 and items[0][0].type.kind == kind:
        return items[0][0]
    unit = fraction_gcd([c * atom.type.unit for atom, c in items if c] + ([constant] if constant else []))
    multipliers = tuple(int(c * atom.type.unit / unit) for atom, c in items)
    offset = int(constant / unit)
    low: int | None = offset
    high: int | None = offset
    for (atom, _), k in zip(items, multipliers, strict=True):
        if k == 0:
            continue
        a, b = atom.type.low, atom.type.high
        if a is None or b is None or low is None or high is None:
            low = high = None
            break
        low, high = low + min(k * a, k * b), high + max(k * a, k * b)
    sides = 0
    for atom, _ in items:
        sides |= atom.sides
    shown = [(atom, c) for atom, c in items]
    text = terms_text(shown, constant, kind)
    return Linear(
        exact_type(kind, unit, low, high, zoned), sides, text, items, constant, literal, multipliers, offset
    )


def as_terms(node: Expr) -> tuple[list[tuple[Expr, Fraction]], Fraction]:
    """Any exact expression as terms and a constant."""
    if isinstance(node, Linear):
        return list(node.terms), node.constant
    return [(node, Fraction(1))], Fraction(0)


def compare(operator: str, left: Expr, right: Expr, domain: str) -> Compare:
    """A comparison whose operands already agree on the domain."""
    scales = (1, 1)
    if domain == "exact":
        unit = fraction_gcd([left.type.unit, right.type.unit])
        scales = (int(left.type.unit / unit), int(right.type.unit / unit))
    text = f"{wrap(left) if isinstance(left, Compare | And | Or | Not) else left.text} {operator} " + (
        wrap(right) if isinstance(right, Compare | And | Or | Not) else right.text
    )
    return Compare(BOOL, left.sides | right.sides, text, operator, left, right, domain, scales)


def conjunction(parts: list[Expr]) -> Expr:
    """AND of parts, flattened; TRUE when there are none."""
    flat: list[Expr] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And) else (part,))
    if not flat:
        return Const(BOOL, 0, "TRUE", True)
    if len(flat) == 1:
        return flat[0]
    sides = 0
    for part in flat:
        sides |= part.sides
    return And(BOOL, sides, " AND ".join(wrap(p) if isinstance(p, Or) else p.text for p in flat), tuple(flat))


def disjunction(parts: list[Expr]) -> Expr:
    """OR of parts, flattened; FALSE when there are none."""
    flat: list[Expr] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Or) else (part,))
    if not flat:
        return Const(BOOL, 0, "FALSE", False)
    if len(flat) == 1:
        return flat[0]
    sides = 0
    for part in flat:
        sides |= part.sides
    return Or(BOOL, sides, " OR ".join(wrap(p) if isinstance(p, And) else p.text for p in flat), tuple(flat))


def negation(node: Expr) -> Expr:
    """NOT, without pushing it down."""
    if isinstance(node, IsNull):
        return Not(BOOL, node.sides, f"{wrap(node.operand)} IS NOT NULL", node)
    if isinstance(node, IsTrue):
        return Not(BOOL, node.sides, f"({node.operand.text}) IS NOT TRUE", node)
    return Not(BOOL, node.sides, f"NOT {wrap(node)}", node)


def is_null(node: Expr) -> Expr:
    return IsNull(BOOL, node.sides, f"{wrap(node)} IS NULL", node)


def is_true(node: Expr) -> Expr:
    return IsTrue(BOOL, node.sides, f"({node.text}) IS TRUE", node)


def float_literal(value: float) -> Expr:
    return FloatLit(FLOAT, 0, repr(value).removesuffix(".0"), value)


def bytes_literal(value: bytes, kind: Type = STRING) -> Expr:
    shown = value.decode("utf-8", "replace").replace("'", "''")
    return BytesLit(kind, 0, f"'{shown}'", value)


def null_literal(kind: Type = NULL) -> Expr:
    return NullLit(kind, 0, "NULL")
