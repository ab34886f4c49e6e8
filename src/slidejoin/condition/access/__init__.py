"""Access paths: which part of a condition an index on one side can answer, and with which intervals.

A comparison of the two sides is solved for the stored side's *key*: the condition then reads ``key in one or two
intervals of ordinals`` that depend on the probing row alone. Four ways to solve:

exact      linear forms over integers: everything moves to one side, the bound is floor or ceiling of a rational.
direct     float key against float value, or exact against float: the value itself, placed among the ordinals.
monotone   float key inside a mixed expression: the point where the truth flips (``floats``).
bytes      strings and binary: hash for equality, prefix for order; both approximate, candidates are verified.
"""

from __future__ import annotations

from functools import lru_cache

from slidejoin.condition import typed
from slidejoin.condition.access.direct import solve_mixed
from slidejoin.condition.access.exact import solve_exact
from slidejoin.condition.access.key import Constraint, Key, Keys, Probe, Slots
from slidejoin.condition.access.monotone import solve_float
from slidejoin.condition.access.text import solve_bytes
from slidejoin.condition.typed import Expr

__all__ = ["Constraint", "Key", "Keys", "Probe", "Slots", "solve"]

_SOLVERS = {"exact": solve_exact, "float": solve_float, "mixed": solve_mixed, "bytes": solve_bytes}


@lru_cache(maxsize=4096)  # normalising asks for the same comparisons many times; nodes compare by identity
def solve(node: Expr, stored: int) -> Constraint | None:
    """A two-sided comparison solved for the stored side's key; None if it cannot be."""
    if not isinstance(node, typed.Compare) or node.sides != 3:
        return None
    return _SOLVERS[node.domain](node, stored)
