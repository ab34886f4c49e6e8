"""Floor and ceiling of doubles over rational units, against fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from slidejoin.condition.evaluate import compare_mixed
from slidejoin.condition.quotients import HUGE, neighbours, neighbours_of

UNITS = [
    *(Fraction(1, 10**scale) for scale in (0, 1, 2, 4, 9, 18, 22, 23, 38)),
    *(Fraction(2), Fraction(3, 10), Fraction(1, 3), Fraction(7, 100), Fraction(10**6), Fraction(2**62), Fraction(10**25)),
]  # fmt: skip


def doubles(unit: Fraction, rnd: random.Random) -> list[float]:
    """Doubles on, just beside and far from the ticks, and the ends of the scale."""
    result = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 0.1, 1 / 3, 1e15 + 0.5, 2.0**53, 2.0**62, -(2.0**62), 2.0**63, -(2.0**63),
              2.0**64, 1e18, 1e38, -1e40, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]  # fmt: skip
    for _ in range(300):
        tick = rnd.randint(-(10 ** rnd.randint(1, 20)), 10 ** rnd.randint(1, 20))
        near = float(tick * unit)
        result += [
            near,
            math.nextafter(near, math.inf),
            math.nextafter(near, -math.inf),
            rnd.uniform(-1e3, 1e3),
        ]
    return result


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_neighbours(unit: Fraction) -> None:
    values = np.array(doubles(unit, random.Random(1)))
    found = neighbours(values, unit)
    rest = set(found.rest.tolist())
    for row, value in enumerate(values.tolist()):
        if not math.isfinite(value):
            assert row in rest
            assert neighbours_of(value, unit) == ((-HUGE,) * 2 if value == -math.inf else (HUGE,) * 2)
            continue
        quotient = Fraction(value) / unit
        wanted = math.floor(quotient), math.ceil(quotient)
        assert neighbours_of(value, unit) == wanted
        if row not in rest:
            assert (found.down[row], found.up[row]) == wanted, value


@pytest.mark.parametrize("scale", [0, 1, 2, 4, 9, 18, 22])
def test_prices_need_no_loop(scale: int) -> None:
    values = np.round(np.random.default_rng(3).uniform(-1e4, 1e4, 1_000) / 10.0**scale, min(scale, 15))
    assert len(neighbours(values, Fraction(1, 10**scale)).rest) == 0


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_comparisons(unit: Fraction, wide: bool) -> None:
    rnd = random.Random(2)
    values = np.array(doubles(unit, rnd))
    ticks = []
    for value in values.tolist():
        near = neighbours_of(value, unit)[0] if math.isfinite(value) else 0
        tick = near + rnd.choice((-1, 0, 0, 1, 2))
        ticks.append(tick if wide else min(max(tick, -(2**63)), 2**63 - 1))
    data = np.array(ticks, object if wide else np.int64)
    order = [1 if value == -math.inf else -1 if not math.isfinite(value) else
             (tick * unit > Fraction(value)) - (tick * unit < Fraction(value))
             for tick, value in zip(ticks, values.tolist(), strict=True)]  # fmt: skip
    for operator, test in (("<", lambda c: c < 0), ("<=", lambda c: c <= 0), ("=", lambda c: c == 0),
                           ("<>", lambda c: c != 0), (">=", lambda c: c >= 0), (">", lambda c: c > 0)):  # fmt: skip
        assert compare_mixed(operator, data, unit, values).tolist() == [test(c) for c in order], operator
