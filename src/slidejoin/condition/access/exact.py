"""Exact: linear forms over integers; the bound is the floor or ceiling of a rational."""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np

from slidejoin.condition import typed
from slidejoin.condition.access.key import Constraint, Key, Probe, Slots, clamp
from slidejoin.condition.evaluate import (
    evaluate,
    limits,
    ticks,
)
from slidejoin.condition.typed import FLIPPED, Expr
from slidejoin.condition.types import I64_MAX, I64_MIN


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

    def around(self, own: Key) -> tuple[int | None, int | None] | None:
        p, same = self.probing, own.expression
        alike = (p.text, p.type, "int", "int") == (same.text, same.type, self.key.codec, own.codec)
        if not alike or (self.m, self.g) != (1, 1) or self.width > 1:
            return None
        lower, upper = self.shifts
        return None if lower is None else self.q + lower, None if upper is None else self.q + upper

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
            return [clamp(self.key.codec, None, hi), clamp(self.key.codec, lo, None)], value.valid
        return [
            clamp(self.key.codec, lo if lower is not None else None, hi if upper is not None else None)
        ], value.valid

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


def solve_exact(compare: typed.Compare, stored: int) -> Constraint | None:
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
    key = exact_key(ours, [x // (g * sign) for x in a])
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


def exact_key(atoms: list[tuple[Expr, Fraction]], factors: list[int]) -> Key:
    """The key whose ordinals are sum(factor * ticks of atom)."""
    node = _integer_form(atoms, factors)
    if node.type.fits:
        return Key(node, "int")
    if isinstance(node, typed.Col) and (node.type.low, node.type.high) == (0, 2**64 - 1):
        return Key(node, "uint")
    return Key(node, "saturate")
