"""Monotone: a float key inside a mixed expression; the bound is where the truth flips (``floats``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from slidejoin.condition import floats, typed
from slidejoin.condition.access.direct import FloatBound
from slidejoin.condition.access.key import Constraint, Key, Probe, Slots
from slidejoin.condition.evaluate import (
    both,
    compare_floats,
    evaluate,
)
from slidejoin.condition.ordinals import FLOAT_INF, FLOAT_MAX, FLOAT_NAN
from slidejoin.condition.typed import FLIPPED, Expr
from slidejoin.condition.types import I64_MAX, I64_MIN

_EMPTY = (I64_MAX, I64_MIN)


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

        Negations are exact, so they only mirror: key + R is key - (-R), R - key and -key + R are -(key - R).
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
        mirrored = False  # the key was negated before it met the operand: R - key, not key + R
        for step in self.steps:
            if step.operator != "n":
                break
            mirrored = not mirrored
        r = operands[step.operand]
        opposite = (step.operator == "+") != mirrored
        if opposite:
            r = -r
        lo: Any = I64_MIN
        hi: Any = I64_MAX if self.test in (">", ">=") else FLOAT_INF
        for edge in self.edges:
            if edge is None:
                continue
            memo_key = (edge, id(self.operands[step.operand]), opposite)
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


def solve_float(compare: typed.Compare, stored: int) -> Constraint | None:
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
