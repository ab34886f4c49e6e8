"""Exact bounds under double arithmetic.

The condition ``f(key) <= c`` is to hold for the expression as written, roundings included. If the key occurs
once in f, under +, -, unary minus and multiplication or division by a literal, then f is monotone in the key,
because IEEE rounding is. So for each probing row there is one double where the truth flips. We guess it by
inverting f, test the guess and its neighbour with the expression itself, and search the few rows where the
guess is not yet exact by doubling and halving steps over the ordinals of the doubles.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slidejoin.condition import ordinals
from slidejoin.condition.evaluate import compare_floats
from slidejoin.condition.ordinals import FLOAT_MAX, to_floats


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


_HUGE = _bits(1e300)  # sums beyond may overflow on the way
_STEPS = (2, 16, 256, 2**14, 2**22)  # a guess is nearly always off by few units in the last place


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on the way from the key up to the comparison; ``operand`` indexes the probing values."""

    operator: str  # + (x + o), - (x - o), r (o - x), n (-x), * (x * o), / (x / o)
    operand: int


def apply(steps: tuple[Step, ...], key: Any, operands: list[Any]) -> Any:
    """f(key)."""
    value = key
    for step in steps:
        match step.operator:
            case "+":
                value = value + operands[step.operand]
            case "-":
                value = value - operands[step.operand]
            case "r":
                value = operands[step.operand] - value
            case "n":
                value = -value
            case "*":
                value = value * operands[step.operand]
            case _:
                value = value / operands[step.operand]
    return value


def invert(steps: tuple[Step, ...], target: Any, operands: list[Any]) -> Any:
    """A key with f(key) about equal to the target."""
    value = target
    for step in reversed(steps):
        match step.operator:
            case "+":
                value = value - operands[step.operand]
            case "-":
                value = value + operands[step.operand]
            case "r":
                value = operands[step.operand] - value
            case "n":
                value = -value
            case "*":
                value = value / operands[step.operand]
            case _:
                value = value * operands[step.operand]
    return value


@dataclass(frozen=True, slots=True)
class Edge:
    """The bound of ``key - r <= c`` or ``key - r >= c`` for a literal c, in closed form.

    ``fl(key - r) <= c`` holds iff the exact difference is at most c + h, where h is half the gap above c, or less
    than that if the tie rounds away from c. TwoSum gives r + c as a double s and an exact error e; so the bound is
    s, or its neighbour if e + h is negative. That holds while s is well above c in size: at least ``reach``, as bits.
    """

    c: float
    lower: bool
    half: float
    inclusive: bool
    reach: int

    @staticmethod
    def of(c: float, lower: bool) -> Edge:
        gap = c - math.nextafter(c, -math.inf) if lower else math.nextafter(c, math.inf) - c
        half = gap / 2
        even = _bits(c) & 1 == 0
        return Edge(c, lower, half, even or half == 0.0, _bits(2 * abs(c)))

    def bound(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Ordinals of the last (or, lower, first) key that qualifies, and the rows where that is not certain."""
        s = r + self.c
        part = s - r
        error = s - part
        np.subtract(r, error, out=error)
        np.subtract(self.c, part, out=part)
        error += part
        result = s.view(np.int64)
        unsure: np.ndarray | None = None
        if len(result) == 0:
            return result, None
        sign: np.ndarray | None = None
        if result.min() < 0:
            sign = result >> 63
            result = result & ordinals.MAGNITUDE
        if result.max() >= _HUGE or result.min() < self.reach:
            unsure = (result >= _HUGE) | (result < self.reach)
        if sign is not None:
            result ^= sign
            result -= sign
        if self.lower:
            result += (error > self.half) if self.inclusive else (error >= self.half)
        else:
            result -= (error < -self.half) if self.inclusive else (error <= -self.half)
        return result, None if unsure is None else np.flatnonzero(unsure)


def pick(values: list[Any], rows: np.ndarray) -> list[Any]:
    """Row subsets of operands; scalars stay."""
    return [value[rows] if isinstance(value, np.ndarray) and value.ndim else value for value in values]


def threshold(steps: tuple[Step, ...], operator: str, operands: list[Any], target: Any, guess: np.ndarray,
              finite: bool, increasing: bool) -> np.ndarray:  # fmt: skip
    """The largest finite ordinal in the lower part of the truth, or -FLOAT_MAX - 1 if there is none.

    The lower part is where ``f(key) operator target`` holds if that is true for small keys, else where it does
    not. ``finite`` promises that no operand is infinite or NaN.
    """
    low_is_true = (operator in ("<", "<=")) == increasing
    simple = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[operator]

    def lower(key: np.ndarray, inputs: list[Any], goal: Any) -> np.ndarray:
        value = apply(steps, key, inputs)
        truth: np.ndarray = simple(value, goal) if finite else compare_floats(operator, value, goal)
        return truth if low_is_true else ~truth

    if finite:
        start = ordinals.from_floats(guess)
        at_guess = lower(guess, operands, target)
    else:
        guess = np.nan_to_num(guess, nan=0.0)
        start = np.clip(ordinals.from_floats(guess), -FLOAT_MAX, FLOAT_MAX)
        at_guess = lower(to_floats(start), operands, target)
    # True at the guess: the neighbour above must be false; false: the neighbour below must be true.
    neighbour = start + (at_guess.view(np.int8) * np.int8(2) - np.int8(1))
    if not finite:
        np.clip(neighbour, -FLOAT_MAX, FLOAT_MAX, out=neighbour)
    at_neighbour = lower(to_floats(neighbour), operands, target)
    result: np.ndarray = start - ~at_guess
    wrong = at_guess == at_neighbour
    if wrong.any():
        rows = np.flatnonzero(wrong)
        inputs, goals = pick(operands, rows), pick([target], rows)[0]
        result[rows] = _search(lambda key: lower(key, inputs, goals), start[rows], at_guess[rows])
    return result


def _search(lower: Callable[[np.ndarray], np.ndarray], start: np.ndarray, at_start: np.ndarray) -> np.ndarray:
    """Bracket the flip by growing steps away from the start, then halve; all rows at once."""
    yes = np.where(at_start, start, -FLOAT_MAX - 1)  # known true, or one below everything
    no = np.where(at_start, FLOAT_MAX + 1, start)  # known false, or one above everything
    for step in _STEPS:
        probe = np.clip(np.where(at_start, start + step, start - step), -FLOAT_MAX, FLOAT_MAX)
        truth = lower(to_floats(probe))
        yes = np.where(truth, np.maximum(yes, probe), yes)
        no = np.where(truth, no, np.minimum(no, probe))
        if (truth != at_start).all():
            break
    while True:
        middle = (yes >> 1) + (no >> 1) + (yes & no & 1)
        active = (middle > yes) & (middle < no)
        if not active.any():
            return yes
        truth = lower(to_floats(np.where(active, middle, 0)))
        yes = np.where(active & truth, middle, yes)
        no = np.where(active & ~truth, middle, no)
