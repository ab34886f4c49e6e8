"""Direct: a float key against a float value, or exact against float: the value placed among the ordinals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from slidejoin.condition import ordinals, typed
from slidejoin.condition.access.exact import exact_key
from slidejoin.condition.access.key import Constraint, Key, Probe, Slots, clamp, sided
from slidejoin.condition.evaluate import (
    compare_mixed,
    evaluate,
    ticks,
    to_float,
)
from slidejoin.condition.quotients import neighbours, neighbours_of
from slidejoin.condition.typed import FLIPPED, Expr
from slidejoin.condition.types import I64_MAX, I64_MIN, ONE

_TWO63 = 9223372036854775808.0


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


class Shift(NamedTuple):
    """How an exact expression follows from its key: value = factor * key ticks + constant."""

    factor: Fraction
    constant: Fraction


class ExactKeyFloatBound(Constraint):
    """Exact key against a float value: floor and ceiling, infinities and NaN at the ends."""

    def __init__(self, key: Key, compare: Expr, operator: str, probing: Expr, shift: Shift) -> None:
        self.key, self.compare, self.probing, self.shift = key, compare, probing, shift
        self.operator = operator if shift.factor > 0 else FLIPPED[operator]
        self.exact, self.point = key.exact, operator == "="
        self.width = 2 if operator == "<>" else 1

    def bound_text(self) -> str:
        constant, scale = self.shift.constant, self.shift.factor / self.key.expression.type.unit
        if scale < 0:
            text = f"{typed.number_text(constant) if constant else ''} - {typed.wrap(self.probing)}".strip()
        elif constant:
            text = f"{self.probing.text} {'-' if constant > 0 else '+'} {typed.number_text(abs(constant))}"
        else:
            text = self.probing.text
        if abs(scale) == 1:
            return text
        whole = scale > 0 and not constant and typed.wrap(self.probing) == text
        return f"{text if whole else f'({text})'} / {typed.number_text(abs(scale))}"

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        value = evaluate(self.probing, probe.frame)
        data = np.broadcast_to(np.asarray(value.data, np.float64), (probe.frame.count,))
        if self.key.codec == "int" and self.shift == Shift(ONE, Fraction(0)):
            return self._integers(data), value.valid
        return self._rationals(data), value.valid

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

    def _rationals(self, data: np.ndarray) -> Slots:
        """Any unit: between which ticks the value lies; infinities and what is far away apart, with Python ints."""
        factor, constant = self.shift
        unit = typed.fraction_gcd(
            [factor, constant]
        )  # of it the key's tick and the constant are whole multiples
        found = neighbours(data, unit)
        slots = self._between(found.down, found.up, unit)
        if len(found.rest) == 0:
            return slots
        ends = np.array([neighbours_of(x, unit) for x in data[found.rest].tolist()], object)
        others = self._between(ends[:, 0], ends[:, 1], unit)
        result: Slots = []
        for near, far in zip(slots, others, strict=True):
            lo, hi = (np.array(np.broadcast_to(end, data.shape), np.int64) for end in near)
            lo[found.rest], hi[found.rest] = far
            result.append((lo, hi))
        return result

    def _between(self, down: np.ndarray, up: np.ndarray, unit: Fraction) -> Slots:
        """Slots from the floor and ceiling of the value in units."""
        factor, constant = int(self.shift.factor / unit), int(self.shift.constant / unit)
        if abs(constant) >= 2**61 or abs(factor) > I64_MAX:
            down, up = down.astype(object), up.astype(object)
        if factor < 0:  # the greater the key, the smaller the value
            down, up, factor, constant = -up, -down, -factor, -constant
        down, up = down - constant, up - constant
        if factor != 1:
            down, up = down // factor, -(-up // factor)
        bounds: dict[str, list[tuple[Any, Any]]] = {
            "<=": [(None, down)], "<": [(None, up - 1)], ">=": [(up, None)], ">": [(down + 1, None)],
            "=": [(up, down)], "<>": [(None, up - 1), (down + 1, None)],
        }  # fmt: skip
        return [clamp(self.key.codec, lo, hi) for lo, hi in bounds[self.operator]]


def solve_mixed(compare: typed.Compare, stored: int) -> Constraint | None:
    bit = 1 << stored
    first, second, operator = compare.left, compare.right, compare.operator
    if first.sides != bit:
        first, second, operator = second, first, FLIPPED[operator]
    if first.sides != bit or second.sides & bit or second.sides == 0:
        return None
    if first.type.kind == "float":
        return FloatKeyExactBound(Key(first, "float"), compare, operator, second)
    key, shift = _key_of(first)
    if operator == "<>" and not key.exact:
        return None
    return ExactKeyFloatBound(key, compare, operator, second, shift)


def _key_of(value: Expr) -> tuple[Key, Shift]:
    """The key inside an exact value: without its constant and factor, so that r.x - 5 and r.x + 5 share one."""
    terms, constant = typed.as_terms(value)
    if terms and all(c and atom.sides for atom, c in terms):
        ours = [(atom, c * atom.type.unit) for atom, c in terms]
        unit = typed.fraction_gcd([c for _, c in ours])
        sign = 1 if ours[0][1] > 0 else -1
        key = exact_key(ours, [int(c / unit) * sign for _, c in ours])
        return key, Shift(unit * sign, constant)
    return exact_key([(value, value.type.unit)], [1]), Shift(value.type.unit, Fraction(0))
