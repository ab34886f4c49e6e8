"""Quotients: where a double lies among the multiples of a rational unit, exactly.

An exact value is an integer count of ticks times a unit n/d. So ``ticks * unit <= x`` says ``ticks <= floor(x * d / n)``
and ``ticks * unit < x`` says ``ticks < ceil(x * d / n)``: comparing decimals with doubles needs that floor and ceiling,
unrounded. Dekker's product gives x * d as a double and its exact error; where the double is a whole number the error
decides, elsewhere it cannot reach the next one. Dividing whole numbers by n then rounds once, in the right direction.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, inf, isfinite
from typing import NamedTuple

import numpy as np

HUGE = 2**400  # beyond every exact value: the place of an infinity
_NEAR = 2.0**62  # a product below fits int64, its error included
_SPLITTER = 134217729.0  # 2^27 + 1: cuts a double into halves whose products are exact


class Neighbours(NamedTuple):
    """Floor and ceiling of values over a unit. Rows in ``rest`` are infinite, NaN or far away: ask ``neighbours_of``."""

    down: np.ndarray
    up: np.ndarray
    rest: np.ndarray


def neighbours(values: np.ndarray, unit: Fraction) -> Neighbours:
    """Where every value lies. O(rows), without a loop unless the unit has more digits than a double."""
    n, d = unit.numerator, unit.denominator
    if n >= _NEAR or d > 10**300 or int(float(d)) != d:
        nothing = np.zeros(len(values), np.int64)
        return Neighbours(nothing, nothing, np.arange(len(values)))
    with np.errstate(all="ignore"):
        near = np.abs(values * float(d)) < _NEAR
    product, error = _product(values if near.all() else np.where(near, values, 0.0), float(d))
    below, above = np.floor(product), np.ceil(product)
    whole = below == above
    down = below.astype(np.int64) + np.where(whole, np.floor(error), 0.0).astype(np.int64)
    up = above.astype(np.int64) + np.where(whole, np.ceil(error), 0.0).astype(np.int64)
    if n != 1:
        down, up = down // n, -(-up // n)
    return Neighbours(down, up, np.flatnonzero(~near))


def neighbours_of(value: float, unit: Fraction) -> tuple[int, int]:
    """Floor and ceiling of one value over the unit; NaN is above every number, as infinity is."""
    if not isfinite(value):
        return (-HUGE, -HUGE) if value == -inf else (HUGE, HUGE)
    quotient = Fraction(value) / unit
    return floor(quotient), ceil(quotient)


def _product(a: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    """The product as a double, and its error; wrong only where it underflows, and no tick but zero is near."""
    product = a * b
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    b_high = _SPLITTER * b - (_SPLITTER * b - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
