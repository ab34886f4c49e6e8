"""Normal forms: negations down to the leaves, abs() split, OR over AND of leaves.

All rewrites keep the TRUE set exactly (FALSE and NULL are alike to a join): De Morgan and inverted comparisons
hold in three-valued logic because our values are totally ordered, NaN included. ``abs(E) <= C`` is
``E <= C AND -E <= C`` also in double arithmetic, as negation does not round.
"""

from __future__ import annotations

from functools import lru_cache

from slidejoin.condition import access, typed
from slidejoin.condition.typed import FLIPPED, INVERTED, Expr
from slidejoin.condition.types import BOOL, FLOAT

MAX_BRANCHES = 16  # each is a probe of its own; beyond that an OR is better checked on candidates
MAX_SLOTS = 32  # intervals per probing row in one path


def simplify(node: Expr, positive: bool = True) -> Expr:
    """Negation normal form with abs() split; for use where only TRUE matters."""
    match node:
        case typed.Const(value=value):
            true = value is not None and value == positive
            return typed.Const(BOOL, 0, "TRUE" if true else "FALSE", true)
        case typed.Not(operand=operand):
            return simplify(operand, not positive)
        case typed.And(parts=parts) | typed.Or(parts=parts):
            inner = [simplify(part, positive) for part in parts]
            return _all(inner) if isinstance(node, typed.And) == positive else _any(inner)
        case typed.Compare():
            if not positive:
                node = typed.compare(INVERTED[node.operator], node.left, node.right, node.domain)
            split = _split_absolute(node)
            return split if split is not None else node
    return node if positive else typed.negation(node)


def _all(parts: list[Expr]) -> Expr:
    kept = [part for part in parts if not (isinstance(part, typed.Const) and part.value)]
    if any(isinstance(part, typed.Const) for part in kept):
        return typed.Const(BOOL, 0, "FALSE", False)
    return typed.conjunction(kept)


def _any(parts: list[Expr]) -> Expr:
    if any(isinstance(part, typed.Const) and part.value for part in parts):
        return typed.Const(BOOL, 0, "TRUE", True)
    return typed.disjunction([part for part in parts if not isinstance(part, typed.Const)])


def _split_absolute(node: typed.Compare) -> Expr | None:
    """A comparison with abs() of both sides, as comparisons without; None if that makes nothing indexable."""
    if node.sides != 3 or node.domain not in ("exact", "float"):
        return None
    solved = _isolate_exact(node) if node.domain == "exact" else _isolate_float(node)
    if solved is None:
        return None
    operator, inner, negative, limit = solved

    probe = typed.compare("<=", inner, limit, node.domain)
    if access.solve(probe, 0) is None and access.solve(probe, 1) is None:
        return None

    def pair(op: str) -> list[Expr]:
        return [typed.compare(op, side, limit, node.domain) for side in (inner, negative)]

    if operator in ("<", "<="):
        return typed.conjunction(pair(operator))
    if operator in (">", ">="):
        return typed.disjunction(pair(operator))
    if operator == "=":
        return typed.conjunction([*pair("<="), typed.disjunction(pair(">="))])
    return typed.disjunction([typed.conjunction(pair("<")), *pair(">")])


def _isolate_float(node: typed.Compare) -> tuple[str, Expr, Expr, Expr] | None:
    for first, second, operator in (
        (node.left, node.right, node.operator), (node.right, node.left, FLIPPED[node.operator]),
    ):  # fmt: skip
        if isinstance(first, typed.Absolute) and first.sides == 3:
            inner = first.operand
            negative = typed.FloatNeg(FLOAT, inner.sides, f"-{typed.wrap(inner)}", inner)
            return operator, inner, negative, second
    return None


def _isolate_exact(node: typed.Compare) -> tuple[str, Expr, Expr, Expr] | None:
    (terms, constant), (others, offset) = typed.as_terms(node.left), typed.as_terms(node.right)
    everything = terms + [(atom, -c) for atom, c in others]
    mixed = [(atom, c) for atom, c in everything if atom.sides == 3]
    if len(mixed) != 1 or not isinstance(mixed[0][0], typed.Absolute) or mixed[0][1] == 0:
        return None
    atom, k = mixed[0]
    if not isinstance(atom, typed.Absolute):
        return None
    inner = atom.operand
    parts, shift = typed.as_terms(inner)
    negative = typed.linear([(a, -c) for a, c in parts], -shift, inner.type.kind)
    rest = [(a, -c / k) for a, c in everything if a is not atom]
    limit = typed.linear(rest, -(constant - offset) / k, inner.type.kind)
    operator = node.operator if k > 0 else FLIPPED[node.operator]
    return operator, inner, negative, limit


@lru_cache(maxsize=4096)
def keys_of(node: Expr) -> tuple[str, str] | None:
    """The two keys (left stored, right stored) that every comparison of an AND-OR tree shares, if they do."""
    if isinstance(node, typed.And | typed.Or):
        found = {keys_of(part) for part in node.parts}
        return found.pop() if len(found) == 1 else None
    solved = access.solve(node, 0), access.solve(node, 1)
    if solved[0] is None or solved[1] is None:
        return None
    return solved[0].key.identity, solved[1].key.identity


def slots_of(node: Expr) -> int:
    """Intervals per row that a tree can need."""
    if isinstance(node, typed.And):
        product = 1
        for part in node.parts:
            product *= slots_of(part)
        return product
    if isinstance(node, typed.Or):
        return sum(slots_of(part) for part in node.parts)
    solved = access.solve(node, 0), access.solve(node, 1)
    return max((constraint.width for constraint in solved if constraint is not None), default=1)


def branches_of(node: Expr) -> list[list[Expr]]:
    """OR of ANDs: each branch a list of leaves; an OR of intervals on one key is a leaf, so is a one-sided OR."""
    branches = _branches(node)
    return branches if len(branches) <= MAX_BRANCHES else [[node]]


def _branches(node: Expr) -> list[list[Expr]]:
    if isinstance(node, typed.Const):
        return [[]] if node.value else []
    if node.sides != 3:
        return [list(node.parts) if isinstance(node, typed.And) else [node]]
    if isinstance(node, typed.Or):
        return [branch for part in _grouped(node) for branch in _branches_of_group(part)]
    if isinstance(node, typed.And):
        has_equality = any(_is_equality(part) for part in node.parts)
        result: list[list[Expr]] = [[]]
        options: list[list[Expr]]
        for part in node.parts:
            options = [[part]] if has_equality and isinstance(part, typed.Or) else _branches(part)
            if len(result) * len(options) > MAX_BRANCHES:
                options = [[part]]
            result = [left + right for left in result for right in options]
        return result
    return [[node]]


def _branches_of_group(part: Expr) -> list[list[Expr]]:
    if isinstance(part, typed.Or) and part.sides == 3 and keys_of(part) is not None:
        return [[part]]
    return _branches(part)


def _is_equality(node: Expr) -> bool:
    if not isinstance(node, typed.Compare) or node.operator != "=":
        return False
    return access.solve(node, 0) is not None and access.solve(node, 1) is not None


def _grouped(node: typed.Or) -> list[Expr]:
    """The operands of an OR, those on the same keys gathered into one."""
    groups: dict[object, list[Expr]] = {}
    for number, part in enumerate(node.parts):
        keys = keys_of(part) if part.sides == 3 else None
        one_sided = part.sides if part.sides in (1, 2) and not isinstance(part, typed.Or) else None
        groups.setdefault(keys or one_sided or ("alone", number), []).append(part)
    result: list[Expr] = []
    for group in groups.values():
        whole = typed.disjunction(group)
        result.extend([whole] if slots_of(whole) <= MAX_SLOTS else group)
    return result
