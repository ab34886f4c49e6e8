"""Strings and binary: hash for equality, prefix for order; both approximate, candidates are verified."""

from __future__ import annotations

import numpy as np

from slidejoin.condition import ordinals, typed
from slidejoin.condition.access.key import Constraint, Key, Probe, Slots, sided
from slidejoin.condition.evaluate import (
    evaluate,
)
from slidejoin.condition.typed import FLIPPED, Expr


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


def solve_bytes(compare: typed.Compare, stored: int) -> Constraint | None:
    bit = 1 << stored
    first, second, operator = compare.left, compare.right, compare.operator
    if first.sides != bit:
        first, second, operator = second, first, FLIPPED[operator]
    if first.sides != bit or second.sides != 3 - bit or operator == "<>":
        return None
    return BytesBound(Key(first, "hash" if operator == "=" else "prefix"), compare, operator, second)
