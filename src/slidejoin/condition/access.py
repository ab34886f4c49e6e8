"""Access paths: which part of a condition an index on one side can answer, and with which intervals.

A comparison of the two sides is solved for the stored side's *key*: the condition then reads ``key in one or two
intervals of ordinals`` that depend on the probing row alone. Four ways to solve:

exact      linear forms over integers: everything moves to one side, the bound is floor or ceiling of a rational.
direct     float key against float value, or exact against float: the value itself, placed among the ordinals.
monotone   float key inside a mixed expression: the point where the truth flips (``floats``).
bytes      strings and binary: hash for equality, prefix for order; both approximate, candidates are verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, gcd, isfinite
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.condition import floats, ordinals, typed
from slidejoin.condition.columns import raw, validity
from slidejoin.condition.evaluate import (
    Frame,
    both,
    compare_floats,
    compare_mixed,
    evaluate,
    limits,
    ticks,
    to_float,
)
from slidejoin.condition.ordinals import FLOAT_INF, FLOAT_MAX, FLOAT_NAN
from slidejoin.condition.typed import FLIPPED, Expr
from slidejoin.condition.types import I64_MAX, I64_MIN

Slots = list[tuple[Any, Any]]  # (lo, hi) per slot, each an int64 array or a scalar
_TWO63 = 9223372036854775808.0
_EMPTY = (I64_MAX, I64_MIN)


class Keys(NamedTuple):
    """Ordinals of the stored side's key; rows that are not valid (NULL key) never match."""

    values: np.ndarray
    valid: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Key:
    """A stored-side expression and its encoding. Keys with the same identity share an index."""

    expression: Expr
    codec: str  # int, uint, float (exact); saturate, prefix, hash (approximate)

    @property
    def identity(self) -> str:
        return f"{self.codec}:{self.expression.text}"

    @property
    def exact(self) -> bool:
        return self.codec in ("int", "uint", "float")

    def encode(self, batch: pa.RecordBatch) -> Keys:
        """Ordinals of every row of a stored-side batch."""
        node = self.expression
        if self.codec == "uint" and isinstance(node, typed.Col):
            array = batch.column(node.name)
            if array.type == pa.uint64():
                return Keys(ordinals.from_unsigned(raw(array, np.uint64)), validity(array))
        frame = Frame(batch, batch)
        if isinstance(node, typed.Col):
            value = evaluate(node, frame)
        else:
            with np.errstate(all="ignore"):
                value = evaluate(node, frame)
        data = value.data
        if self.codec == "hash":
            return Keys(ordinals.hashes(data), value.valid)
        if self.codec == "prefix":
            return Keys(ordinals.prefixes(data), value.valid)
        if not isinstance(data, np.ndarray):
            data = np.full(frame.count, data)
        if self.codec == "float":
            return Keys(ordinals.from_floats(np.ascontiguousarray(data)), value.valid)
        data = ticks(value) if isinstance(value.data, np.ndarray) else data
        if self.codec == "uint":
            wide = np.asarray(data, object) - 2**63
            return Keys(ordinals.saturate(wide), value.valid)
        return Keys(ordinals.saturate(data) if data.dtype == object else data, value.valid)


class Probe:
    """One call of ``intervals``: the frame of the probing batch and what its constraints share."""

    __slots__ = ("frame", "memo")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.frame = Frame(batch, batch)
        self.memo: dict[Any, Any] = {}


class Constraint:
    """A comparison solved for one side's key."""

    key: Key
    compare: Expr
    operator: str  # as seen from the key
    exact: bool  # the intervals are the truth, not a superset
    point: bool  # an equality with at most one ordinal
    width: int  # slots it needs

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        """Intervals for every probing row, and which rows are not NULL."""
        raise NotImplementedError

    def bound_text(self) -> str:
        """What the key is compared with."""
        raise NotImplementedError


def sided(
    operator: str, value: Any, below: Any, above: Any, bottom: int = I64_MIN, top: int = I64_MAX
) -> Slots:
    """Slots of ``key operator value`` where below and above are the neighbouring ordinals of value."""
    match operator:
        case "=":
            return [(value, value)]
        case "<=":
            return [(bottom, value)]
        case "<":
            return [(bottom, below)]
        case ">=":
            return [(value, top)]
        case ">":
            return [(above, top)]
    return [(bottom, below), (above, top)]


# ---- exact ---------------------------------------------------------------------------------------------------


class ExactBound(Constraint):
    """``key operator (m * P + q) / g`` with integers m, q, g and an integer expression P of the probing side."""

    point = False

    def __init__(self, key: Key, compare: Expr, operator: str, probing: Expr, m: int, q: int, g: int) -> None:
        self.key, self.compare, self.operator = key, compare, operator
        self.probing, self.m, self.q, self.g = probing, m, q, g
        self.exact = key.exact
        self.point = operator == "="
        self.width = 2 if operator == "<>" else 1
        # every bound is floor((m * P + q + shift) / g)
        self.shifts = {"<=": (None, 0), "<": (None, -1), ">=": (g - 1, None), ">": (g, None), "=": (g - 1, 0),
                       "<>": (g, -1)}[operator]  # fmt: skip

    def bound_text(self) -> str:
        p = self.probing
        terms, constant = typed.as_terms(p)
        unit = self.key.expression.type.unit
        scale = unit / self.g  # value units per unit of the bound
        if isinstance(p, typed.Linear):
            shown = [(a, c * self.m * scale / p.type.unit) for a, c in terms]
        else:
            shown = [(p, Fraction(self.m) * scale / p.type.unit)]
        return typed.terms_text(
            shown, constant * self.m * scale + self.q * scale, self.key.expression.type.kind
        )

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        value = evaluate(self.probing, probe.frame)
        memo_key = ("limits", id(self.probing))
        reach = probe.memo.get(memo_key)
        data = ticks(value)
        if not isinstance(data, np.ndarray):
            data = np.full(probe.frame.count, data)
        if reach is None:
            low, high = limits(data, self.probing.type)
            reach = probe.memo[memo_key] = max(abs(low), abs(high), 1)
        lower, upper = self.shifts
        lo: Any = I64_MIN
        hi: Any = I64_MAX
        if lower is not None:
            lo = self._bound(data, lower, reach)
        if upper is not None:
            # an exact equality with g == 1 has one ordinal, not two computations
            hi = lo if lower == upper and lower is not None else self._bound(data, upper, reach)
        if self.operator == "<>":
            return self._place([(None, hi), (lo, None)]), value.valid
        return self._place(
            [(lo if lower is not None else None, hi if upper is not None else None)]
        ), value.valid

    def _bound(self, data: np.ndarray, shift: int, reach: int) -> Any:
        q = self.q + shift
        m, g = self.m, self.g
        if abs(m) * reach + abs(q) < I64_MAX and g <= I64_MAX and data.dtype != object:
            result = data if m == 1 else -data if m == -1 else data * m
            if q:
                result = result + q
            return result if g == 1 else result // g
        if data.dtype != object and abs(q) < 2**61 and abs(m) < 2**61 and g <= I64_MAX:
            safe = (2**62 - abs(q)) // abs(m)
            far = np.flatnonzero((data > safe) | (data < -safe))
            if len(far) * 4 < len(data):  # few extremes: Python ints for those rows only
                near = data.copy()
                near[far] = 0
                result = ((near * m + q) // g).astype(object)
                result[far] = (data[far].astype(object) * m + q) // g
                return result
        return (data.astype(object) * m + q) // g

    def _place(self, bounds: list[tuple[Any, Any]]) -> Slots:
        """Clamp bounds into the key's ordinals; a bound beyond them empties or opens the interval."""
        return [self._clamp(lo, hi) for lo, hi in bounds]

    def _clamp(self, lo: Any, hi: Any) -> tuple[Any, Any]:
        codec = self.key.codec
        if codec != "uint" and all(b is None or b.dtype != object for b in (lo, hi)):
            return (I64_MIN if lo is None else lo), (I64_MAX if hi is None else hi)
        bottom, top = (0, 2**64 - 1) if codec == "uint" else (I64_MIN, I64_MAX)
        shift = 2**63 if codec == "uint" else 0
        if codec == "uint" and all(b is None or b.dtype != object for b in (lo, hi)):
            low = I64_MIN if lo is None else np.where(lo < 0, I64_MIN, lo ^ np.int64(I64_MIN))
            if hi is None:
                return low, I64_MAX
            none = hi < 0
            return np.where(none, I64_MAX, low), np.where(none, I64_MIN, hi ^ np.int64(I64_MIN))
        size = len(lo if lo is not None else hi)
        empty = np.zeros(size, bool)
        low_: Any = np.full(size, I64_MIN)
        high_: Any = np.full(size, I64_MAX)
        if lo is not None:
            wide = np.asarray(lo, object)
            if codec != "saturate":
                empty |= (wide > top).astype(bool)
            low_ = np.asarray(np.clip(wide, bottom, top) - shift, object).astype(np.int64)
        if hi is not None:
            wide = np.asarray(hi, object)
            if codec != "saturate":
                empty |= (wide < bottom).astype(bool)
            high_ = np.asarray(np.clip(wide, bottom, top) - shift, object).astype(np.int64)
        if codec == "saturate" and lo is not None and hi is not None:
            empty |= np.asarray(np.asarray(lo, object) > np.asarray(hi, object), bool)
        return np.where(empty, I64_MAX, low_), np.where(empty, I64_MIN, high_)


def _exact(compare: typed.Compare, stored: int) -> Constraint | None:
    (terms, constant), (others, offset) = typed.as_terms(compare.left), typed.as_terms(compare.right)
    merged: dict[str, tuple[Expr, Fraction]] = {}
    for atom, coefficient in terms + [(a, -c) for a, c in others]:
        before = merged[atom.text][1] if atom.text in merged else Fraction(0)
        merged[atom.text] = (atom, before + coefficient)
    constant -= offset
    ours: list[tuple[Expr, Fraction]] = []
    theirs: list[tuple[Expr, Fraction]] = []
    for _, (atom, coefficient) in sorted(merged.items()):
        scaled = coefficient * atom.type.unit
        if scaled == 0 or atom.sides == 3:
            return None  # a vanished column still decides about NULL; a two-sided atom cannot be solved for
        if atom.sides:
            (ours if atom.sides == 1 << stored else theirs).append((atom, scaled))
        elif isinstance(atom, typed.Const) and atom.value is not None:
            constant += coefficient * atom.value
        else:
            return None
    if not ours or not theirs:
        return None
    unit = typed.fraction_gcd([c for _, c in ours + theirs] + [constant])
    a = [int(c / unit) for _, c in ours]
    b = [int(c / unit) for _, c in theirs]
    c = int(constant / unit)
    g, h = gcd(*a), gcd(*b)
    sign = 1 if a[0] > 0 else -1
    h = h if b[0] > 0 else -h
    key = _exact_key(ours, [x // (g * sign) for x in a])
    probing = _integer_form(theirs, [x // h for x in b])
    operator = compare.operator if sign > 0 else FLIPPED[compare.operator]
    if operator == "<>" and not key.exact:
        return None  # two intervals of approximate ordinals could overlap, and exclude next to nothing
    return ExactBound(key, compare, operator, probing, -sign * h, -sign * c, g)


def _integer_form(atoms: list[tuple[Expr, Fraction]], factors: list[int]) -> Expr:
    """sum(factor * ticks of atom): the atom itself, or a linear form whose ticks are that sum."""
    if len(atoms) == 1 and factors[0] == 1:
        return atoms[0][0]
    kind = atoms[0][0].type.kind if len({atom.type.kind for atom, _ in atoms}) == 1 else "int"
    kind = "duration" if kind in ("timestamp", "date", "time") else "int" if kind == "bool" else kind
    base = atoms[0][0].type.unit / abs(factors[0])  # any unit gives the same ticks; this one reads best
    terms = [(atom, Fraction(f) * base / atom.type.unit) for (atom, _), f in zip(atoms, factors, strict=True)]
    return typed.linear(terms, Fraction(0), kind)


def _exact_key(atoms: list[tuple[Expr, Fraction]], factors: list[int]) -> Key:
    node = _integer_form(atoms, factors)
    if node.type.fits:
        return Key(node, "int")
    if isinstance(node, typed.Col) and (node.type.low, node.type.high) == (0, 2**64 - 1):
        return Key(node, "uint")
    return Key(node, "saturate")


# ---- direct --------------------------------------------------------------------------------------------------


class FloatBound(Constraint):
    """Float key against a float value of the probing side."""

    def __init__(self, key: Key, compare: Expr, operator: str, probing: Expr) -> None:
        self.key, self.compare, self.operator, self.probing = key, compare, operator, probing
        self.exact, self.point = True, operator == "="
        self.width = 2 if operator == "<>" else 1

    def bound_text(self) -> str:
        return self.probing.text

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        value = evaluate(self.probing, probe.frame)
        memo_key = ("ordinals", id(self.probing))
        placed = probe.memo.get(memo_key)
        if placed is None:
            data = (
                value.data if isinstance(value.data, np.ndarray) else np.full(probe.frame.count, value.data)
            )
            placed = probe.memo[memo_key] = ordinals.from_floats(np.ascontiguousarray(data))
        needs = self.operator in ("<", "<>"), self.operator in (">", "<>")
        return sided(
            self.operator, placed, placed - 1 if needs[0] else None, placed + 1 if needs[1] else None
        ), value.valid


class FloatKeyExactBound(Constraint):
    """Float key against an exact value: the neighbouring doubles of a number that may not be a double."""

    def __init__(self, key: Key, compare: Expr, operator: str, probing: Expr) -> None:
        self.key, self.compare, self.operator, self.probing = key, compare, operator, probing
        self.exact, self.point = True, operator == "="
        self.width = 2 if operator == "<>" else 1

    def bound_text(self) -> str:
        return self.probing.text

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        value = evaluate(self.probing, probe.frame)
        unit = self.probing.type.unit
        data = ticks(value)
        data = data if isinstance(data, np.ndarray) else np.full(probe.frame.count, data, object)
        nearest = np.asarray(to_float(data, unit), np.float64)
        over = compare_mixed("<", data, unit, nearest)  # value < nearest double
        same = compare_mixed("=", data, unit, nearest)
        under = ordinals.from_floats(nearest) - over  # the largest double not above the value
        if self.operator == "=":
            return [(np.where(same, under, I64_MAX), np.where(same, under, I64_MIN))], value.valid
        return sided(
            {"<=": "<=", "<": "<", ">=": ">=", ">": ">", "<>": "<>"}[self.operator],
            under if self.operator == "<=" else under + ~same, under - same, under + 1,
        ), value.valid  # fmt: skip


class ExactKeyFloatBound(Constraint):
    """Exact key against a float value: floor and ceiling, infinities and NaN at the ends."""

    def __init__(self, key: Key, compare: Expr, operator: str, probing: Expr) -> None:
        self.key, self.compare, self.operator, self.probing = key, compare, operator, probing
        self.exact, self.point = key.exact, operator == "="
        self.width = 2 if operator == "<>" else 1

    def bound_text(self) -> str:
        return self.probing.text

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        value = evaluate(self.probing, probe.frame)
        data = np.broadcast_to(np.asarray(value.data, np.float64), (probe.frame.count,))
        unit = self.key.expression.type.unit
        if self.key.codec == "int" and unit == 1:
            return self._integers(data), value.valid
        return self._rationals(data, unit), value.valid

    def _integers(self, data: np.ndarray) -> Slots:
        high = ~(data < _TWO63)  # NaN too: it is above every number
        low = data < -_TWO63
        inside = np.where(high | low, 0.0, data)
        down, up = np.floor(inside).astype(np.int64), np.ceil(inside).astype(np.int64)
        last = np.where(high, I64_MAX, np.where(low, I64_MIN, down))  # key <= value
        first = np.where(low, I64_MIN, np.where(high, I64_MAX, up))  # key >= value
        before = np.where(high, I64_MAX, np.where(low, I64_MIN, up - (up > I64_MIN)))  # key < value
        after = np.where(low, I64_MIN, np.where(high, I64_MAX, down + (down < I64_MAX)))  # key > value
        no_upper, no_lower = low, high
        no_before = low | (~high & (up == I64_MIN))
        empty = {"<=": no_upper, "<": no_before, ">=": no_lower, ">": no_lower}
        match self.operator:
            case "=":
                none = high | low | (down != up)
                return [(np.where(none, I64_MAX, down), np.where(none, I64_MIN, down))]
            case "<=":
                return [(np.where(empty["<="], I64_MAX, I64_MIN), last)]
            case "<":
                return [(np.where(empty["<"], I64_MAX, I64_MIN), before)]
            case ">=":
                return [(first, np.where(empty[">="], I64_MIN, I64_MAX))]
            case ">":
                return [(after, np.where(empty[">"], I64_MIN, I64_MAX))]
        return [
            (np.where(no_before, I64_MAX, I64_MIN), before),
            (after, np.where(no_lower, I64_MIN, I64_MAX)),
        ]

    def _rationals(self, data: np.ndarray, unit: Fraction) -> Slots:
        """Row by row: a decimal key against a float is rare and must still be exact."""
        bottom, top = (0, 2**64 - 1) if self.key.codec == "uint" else (I64_MIN, I64_MAX)
        shift = 2**63 if self.key.codec == "uint" else 0
        sat = self.key.codec == "saturate"
        lows: list[list[int]] = [[] for _ in range(self.width)]
        highs: list[list[int]] = [[] for _ in range(self.width)]
        for x in data.tolist():
            infinite = not isfinite(x)
            if infinite:
                huge = 2**200 if x != float("-inf") else -(2**200)
                down, up = huge, huge
                equal_possible = False
            else:
                exact = Fraction(x) / unit
                down, up = floor(exact), ceil(exact)
                equal_possible = down == up
            choices: dict[str, list[tuple[int | None, int | None]]] = {
                "<=": [(None, down)], "<": [(None, up - 1)], ">=": [(up, None)], ">": [(down + 1, None)],
                "=": [(down, down) if equal_possible else (1, 0)], "<>": [(None, up - 1), (down + 1, None)],
            }  # fmt: skip
            for i, (lo, hi) in enumerate(choices[self.operator]):
                none = lo is not None and hi is not None and lo > hi
                if not sat:
                    none = none or (lo is not None and lo > top) or (hi is not None and hi < bottom)
                lo_ = bottom if lo is None else min(max(lo, bottom), top)
                hi_ = top if hi is None else min(max(hi, bottom), top)
                lows[i].append(I64_MAX if none else lo_ - shift)
                highs[i].append(I64_MIN if none else hi_ - shift)
        return [(np.array(lo, np.int64), np.array(hi, np.int64)) for lo, hi in zip(lows, highs, strict=True)]


# ---- monotone ------------------------------------------------------------------------------------------------


class MonotoneBound(Constraint):
    """``f(key) operator target``: f applies steps with operands of the probing side, in double arithmetic.

    ``safe``: only the first step adds a column, so that no finite key can make f an inf - inf. Otherwise rows with
    infinite or NaN operands get the full range, and the comparison is repeated on candidates.
    """

    point = False

    def __init__(self, key: Key, compare: Expr, operator: str, steps: tuple[floats.Step, ...],
                 operands: tuple[Expr, ...], target: Expr) -> None:  # fmt: skip
        self.key, self.compare, self.test = key, compare, operator
        self.steps, self.operands, self.target = steps, operands, target
        self.increasing = True
        for step in steps:
            negative = step.operator in "nr" or (
                step.operator in "*/" and operands[step.operand].value < 0  # type: ignore[attr-defined]
            )
            if negative:
                self.increasing = not self.increasing
        self.safe = _never_loses_infinity(steps, operands)
        self.exact = self.safe
        self.operator = operator if self.increasing else FLIPPED[operator]
        # f(NaN) is NaN, above every target: with a decreasing f that is an extra point
        self.nan_apart = not self.increasing and operator in (">", ">=")
        self.edges = self._edges()
        self.width = 2 if operator == "<>" or self.nan_apart else 1

    def _edges(self) -> tuple[floats.Edge | None, floats.Edge | None] | None:
        """Lower and upper edge of ``key - r``, if the comparison is no more than that with a finite literal.

        Negations are exact, so they only mirror: key + R is key - (-R), R - key is -(key - R).
        """
        sums = [step for step in self.steps if step.operator != "n"]
        if (
            len(sums) != 1
            or not isinstance(self.target, typed.FloatLit)
            or not abs(self.target.value) < 1e300
        ):
            return None
        c = self.target.value if self.increasing else -self.target.value
        below, above = float(np.nextafter(c, -np.inf)), float(np.nextafter(c, np.inf))
        return {
            "<=": (None, floats.Edge.of(c, False)), "<": (None, floats.Edge.of(below, False)),
            ">=": (floats.Edge.of(c, True), None), ">": (floats.Edge.of(above, True), None),
            "=": (floats.Edge.of(c, True), floats.Edge.of(c, False)),
        }.get(self.operator)  # fmt: skip

    def bound_text(self) -> str:
        text, simple = self.target.text, not isinstance(self.target, typed.FloatOp)
        for step in reversed(self.steps):
            other = typed.wrap(self.operands[step.operand]) if step.operator != "n" else ""
            inner = text if simple else f"({text})"
            match step.operator:
                case "+":
                    text = f"{text} - {other}"
                case "-":
                    text = f"{other} + {inner}" if self.operands[step.operand].sides else f"{text} + {other}"
                case "r":
                    text = f"{other} - {inner}"
                case "n":
                    text = f"-{inner}" if simple else f"-({text})"
                    if text.startswith("--"):
                        text = text[2:]
                    continue
                case "*":
                    text = f"{inner} / {other}"
                case _:
                    text = f"{inner} * {other}"
            simple = False
        return text.replace("+ -", "- ").replace("- -", "+ ")

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        values = [evaluate(node, probe.frame) for node in self.operands]
        goal = evaluate(self.target, probe.frame)
        valid = goal.valid
        for value in values:
            valid = both(valid, value.valid)
        operands = [value.data for value in values]
        target = goal.data
        if self.edges is not None:
            slots = self._closed(operands, probe)
            if slots is not None:
                return slots, valid
        guess = floats.invert(self.steps, target, operands)
        finite = np.isfinite(guess)
        if finite.all():
            return self._finite(operands, target, guess, True), valid
        return self._special(operands, target, guess, finite), valid

    def _closed(self, operands: list[Any], probe: Probe) -> Slots | None:
        """The closed form, its uncertain rows searched; None if a row has an infinite or NaN operand."""
        assert self.edges is not None
        step = next(step for step in self.steps if step.operator != "n")
        r = operands[step.operand]
        if step.operator == "+":
            r = -r
        lo: Any = I64_MIN
        hi: Any = I64_MAX if self.test in (">", ">=") else FLOAT_INF
        for edge in self.edges:
            if edge is None:
                continue
            memo_key = (edge, id(self.operands[step.operand]), step.operator)
            shared = probe.memo.get(memo_key)
            if shared is None:
                bound, rows = edge.bound(r)
                if rows is not None:
                    guess = (r[rows] + edge.c) + (-edge.half if edge.lower else edge.half)
                    if not np.isfinite(guess).all():
                        return None
                    inputs = floats.pick(operands, rows)
                    exact = edge.c if self.increasing else -edge.c
                    operator = ">=" if edge.lower == self.increasing else "<="
                    found = floats.threshold(
                        self.steps, operator, inputs, exact, guess, True, self.increasing
                    )
                    bound[rows] = found + 1 if edge.lower else found
                shared = probe.memo[memo_key] = bound
            if edge.lower:
                lo = shared
            else:
                hi = shared
        return [(lo, hi), (FLOAT_NAN, FLOAT_NAN)] if self.nan_apart else [(lo, hi)]

    def _finite(self, operands: list[Any], target: Any, guess: np.ndarray, finite: bool) -> Slots:
        def flip(operator: str) -> np.ndarray:
            return floats.threshold(self.steps, operator, operands, target, guess, finite, self.increasing)

        test, up = self.test, self.increasing
        if test == "=":
            # lower end from one flip, upper end from the other; an infinite key never gives a finite target
            return [(flip(">=" if up else "<=") + 1, flip("<=" if up else ">="))]
        if test == "<>":
            first, second = (flip("<"), flip(">")) if up else (flip(">"), flip("<"))
            return [(I64_MIN, first), (second + 1, I64_MAX)]
        if test in ("<", "<="):
            return [(I64_MIN, flip(test))] if up else [(flip(test) + 1, FLOAT_INF)]
        if up:
            return [(flip(test) + 1, I64_MAX)]
        return [(I64_MIN, flip(test)), (FLOAT_NAN, FLOAT_NAN)]

    def _special(self, operands: list[Any], target: Any, guess: np.ndarray, finite: np.ndarray) -> Slots:
        """Some row has an infinite or NaN operand (or a bound beyond the doubles): those rows one by one kind."""
        result = [
            [np.array(np.broadcast_to(x, guess.shape), np.int64) for x in pair]
            for pair in self._finite(operands, target, np.where(finite, guess, 0.0), False)
        ]
        rows = np.flatnonzero(~finite)
        inputs, goals = floats.pick(operands, rows), floats.pick([target], rows)[0]
        if not self.safe:
            for i, (lo, hi) in enumerate(result):
                lo[rows], hi[rows] = (I64_MIN, I64_MAX) if i == 0 else _EMPTY
            return [(lo, hi) for lo, hi in result]
        for lo, hi in result:  # finite keys only; the three others follow as points
            lo[rows] = np.maximum(lo[rows], -FLOAT_MAX)
            hi[rows] = np.minimum(hi[rows], FLOAT_MAX)
        for ordinal, constant in ((-FLOAT_INF, -np.inf), (FLOAT_INF, np.inf), (FLOAT_NAN, np.nan)):
            value = floats.apply(self.steps, np.full(len(rows), constant), inputs)
            truth = np.broadcast_to(compare_floats(self.test, value, goals), rows.shape)
            if truth.any():
                lo, hi = np.full(guess.shape, I64_MAX), np.full(guess.shape, I64_MIN)
                hit = rows[truth]
                lo[hit] = hi[hit] = ordinal
                result.append([lo, hi])
        return [(lo, hi) for lo, hi in result]


def _never_loses_infinity(steps: tuple[floats.Step, ...], operands: tuple[Expr, ...]) -> bool:
    """Whether no finite key can reach a column's infinity as an infinity itself: inf - inf would not be monotone."""
    infinite = False  # the value so far may be infinite although the key is finite
    for step in steps:
        if step.operator == "n":
            continue
        operand = operands[step.operand]
        if isinstance(operand, typed.FloatLit):
            # a sum overflows only if the literal is half a unit in the last place of the largest double
            infinite = infinite or step.operator in "*/" or abs(operand.value) > 1e290
        elif infinite:
            return False
        else:
            infinite = True
    return True


def _float(compare: typed.Compare, stored: int) -> Constraint | None:
    bit = 1 << stored
    first, second, operator = compare.left, compare.right, compare.operator
    if second.sides & bit:
        first, second, operator = second, first, FLIPPED[operator]
    if not first.sides & bit or second.sides & bit:
        return None  # the stored side on both sides of the comparison: two keys, no single one
    if first.sides == bit and operator in ("=", "<>"):
        return FloatBound(Key(first, "float"), compare, operator, second)
    steps: list[floats.Step] = []
    operands: list[Expr] = []
    node = first
    while True:
        # Also below the one-sided part: r.x - 5 and r.x + 5 make a band only if both have the key r.x.
        found = _step(node, bit)
        if found is None:
            break
        name, other, node = found
        steps.append(floats.Step(name, len(operands)))
        if other is not None:
            operands.append(other)
    if node.sides != bit:
        return None
    key = Key(node, "float")
    if not steps:
        return FloatBound(key, compare, operator, second)
    return MonotoneBound(key, compare, operator, tuple(reversed(steps)), tuple(operands), second)


def _step(node: Expr, bit: int) -> tuple[str, Expr | None, Expr] | None:
    """One operation around the stored side's part: its name, the other operand, the part; None at the end."""
    if isinstance(node, typed.FloatNeg):
        return "n", None, node.operand
    if not isinstance(node, typed.FloatOp) or (node.left.sides & bit and node.right.sides & bit):
        return None
    on_left = bool(node.left.sides & bit)
    inner, other = (node.left, node.right) if on_left else (node.right, node.left)
    if node.operator in "+-":
        if isinstance(other, typed.FloatLit) and not np.isfinite(other.value):
            return None
        return "+" if node.operator == "+" else "-" if on_left else "r", other, inner
    factor = isinstance(other, typed.FloatLit) and other.value != 0 and bool(np.isfinite(other.value))
    if factor and (node.operator == "*" or (node.operator == "/" and on_left)):
        return node.operator, other, inner
    return None


def _mixed(compare: typed.Compare, stored: int) -> Constraint | None:
    bit = 1 << stored
    first, second, operator = compare.left, compare.right, compare.operator
    if first.sides != bit:
        first, second, operator = second, first, FLIPPED[operator]
    if first.sides != bit or second.sides & bit or second.sides == 0:
        return None
    if first.type.kind == "float":
        return FloatKeyExactBound(Key(first, "float"), compare, operator, second)
    if first.type.fits:
        key = Key(first, "int")
    elif isinstance(first, typed.Col) and (first.type.low, first.type.high) == (0, 2**64 - 1):
        key = Key(first, "uint")
    else:
        key = Key(first, "saturate")
        if operator == "<>":
            return None
    return ExactKeyFloatBound(key, compare, operator, second)


# ---- bytes ---------------------------------------------------------------------------------------------------


class BytesBound(Constraint):
    """Strings and binary: equality by hash, order by prefix; a superset either way."""

    exact = False

    def __init__(self, key: Key, compare: Expr, operator: str, probing: Expr) -> None:
        self.key, self.compare, self.operator, self.probing = key, compare, operator, probing
        self.point = operator == "="
        self.width = 1

    def bound_text(self) -> str:
        return self.probing.text

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        value = evaluate(self.probing, probe.frame)
        placed = ordinals.hashes(value.data) if self.key.codec == "hash" else ordinals.prefixes(value.data)
        operator = {"<": "<=", ">": ">="}.get(self.operator, self.operator)
        return sided(operator, placed, None, None), value.valid


def _bytes(compare: typed.Compare, stored: int) -> Constraint | None:
    bit = 1 << stored
    first, second, operator = compare.left, compare.right, compare.operator
    if first.sides != bit:
        first, second, operator = second, first, FLIPPED[operator]
    if first.sides != bit or second.sides != 3 - bit or operator == "<>":
        return None
    return BytesBound(Key(first, "hash" if operator == "=" else "prefix"), compare, operator, second)


_SOLVERS = {"exact": _exact, "float": _float, "mixed": _mixed, "bytes": _bytes}


@lru_cache(maxsize=4096)  # normalising asks for the same comparisons many times; nodes compare by identity
def solve(node: Expr, stored: int) -> Constraint | None:
    """A two-sided comparison solved for the stored side's key; None if it cannot be."""
    if not isinstance(node, typed.Compare) or node.sides != 3:
        return None
    return _SOLVERS[node.domain](node, stored)
