"""Paths: the comparisons of a branch that share a key, turned into keys and intervals for an index.

All comparisons of a branch on one key are intersected: two of them make a band. An OR of comparisons on one key
gives several disjoint intervals per probing row. Equalities on several keys can be taken together as one hash, and
any paths as a joint one, for an index that holds several keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.condition import access, ordinals, typed
from slidejoin.condition.access import Constraint, Key, Keys, Probe, Slots
from slidejoin.condition.predicate import Predicate
from slidejoin.condition.typed import FLIPPED, Expr
from slidejoin.condition.types import I64_MAX, I64_MIN

Kind = Literal["equality", "band", "inequality", "unequal"]


class Intervals(NamedTuple):
    """Inclusive ordinal ranges; ``rows`` names the probing row of each item (None: item i is row i)."""

    rows: np.ndarray | None
    lo: np.ndarray
    hi: np.ndarray


def crossed(several: Sequence[Intervals], count: int) -> Intervals:
    """Intervals of several keys as boxes: every combination of a row's intervals. Ends have a column for each key.

    A row's intervals of one key are disjoint, so its boxes are too: no pair is found twice.
    """
    if all(one.rows is None for one in several):
        lows, highs = (
            np.stack(side, axis=1) for side in zip(*((one.lo, one.hi) for one in several), strict=True)
        )
        return Intervals(None, lows, highs)
    rows = np.arange(count, dtype=np.int32)
    ends: list[list[np.ndarray]] = [[], []]
    for one in several:
        # The items of each row stand side by side, in the order of rows.
        if one.rows is None:
            at = rows.astype(np.int64)
            again = np.ones(len(rows), dtype=np.int64)
        else:
            begins = np.searchsorted(one.rows, np.arange(count + 1))
            again = np.diff(begins)[rows]
            firsts = np.repeat(begins[:-1][rows], again)
            at = firsts + np.arange(len(firsts)) - np.repeat(np.cumsum(again) - again, again)
        rows = np.repeat(rows, again)
        ends = [
            [*(np.repeat(column, again) for column in side), end[at]]
            for side, end in zip(ends, (one.lo, one.hi), strict=True)
        ]
    return Intervals(rows, *(np.stack(side, axis=1) for side in ends))


class Tree:
    """Comparisons on one key under AND and OR."""

    __slots__ = ("constraint", "expression", "key", "operators", "parts", "union")

    def __init__(self, expression: Expr, stored: int) -> None:
        self.expression = expression
        self.union = isinstance(expression, typed.Or)
        self.parts: tuple[Tree, ...] = ()
        self.constraint: Constraint | None = None
        self.key: Key
        if isinstance(expression, typed.And | typed.Or):
            self.parts = tuple(Tree(part, stored) for part in expression.parts)
            self.key = self.parts[0].key
            self.operators: frozenset[str] = frozenset().union(*(part.operators for part in self.parts))
        else:
            constraint = access.solve(expression, stored)
            if constraint is None:
                raise ValueError(f"{expression.text} has no key on side {stored}")
            self.constraint = constraint
            self.key = constraint.key
            self.operators = frozenset({constraint.operator})

    @property
    def exact(self) -> bool:
        return (
            self.constraint.exact if self.constraint is not None else all(part.exact for part in self.parts)
        )

    @property
    def overlaps(self) -> bool:
        return self.union or any(part.overlaps for part in self.parts)

    def slots(self, probe: Probe) -> Slots:
        """Intervals of all rows; rows with NULL operands are already empty inside an OR."""
        if self.constraint is not None:
            slots, valid = self.constraint.slots(probe)
            if valid is not None:
                slots = [(np.where(valid, lo, I64_MAX), np.where(valid, hi, I64_MIN)) for lo, hi in slots]
            return slots
        if self.union:
            return [slot for part in self.parts for slot in part.slots(probe)]
        result = self.parts[0].slots(probe)
        for part in self.parts[1:]:
            result = intersect(result, part.slots(probe))
        return result

    def leaves(self) -> list[Constraint]:
        if self.constraint is not None:
            return [self.constraint]
        return [leaf for part in self.parts for leaf in part.leaves()]


def intersect(first: Slots, second: Slots) -> Slots:
    """All pairwise intersections; an unbounded end costs nothing."""
    return [(_largest(a, c), _smallest(b, d)) for a, b in first for c, d in second]


def _largest(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return b if a == I64_MIN else max(a, b) if isinstance(b, int) else np.maximum(b, a)
    if isinstance(b, int) and b == I64_MIN:
        return a
    return np.maximum(a, b)


def _smallest(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return b if a == I64_MAX else min(a, b) if isinstance(b, int) else np.minimum(b, a)
    if isinstance(b, int) and b == I64_MAX:
        return a
    return np.minimum(a, b)


def _full(value: Any, count: int) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else np.full(count, value, np.int64)


def _columns(values: Sequence[Any], count: int) -> np.ndarray:
    """Side by side, each of them in one piece; a value is an array, or the same for all rows."""
    out = np.empty((len(values), count), dtype=np.int64)
    for column, given in zip(out, values, strict=True):
        column[:] = given
    return out.T


class AccessPath:
    """One way to index the stored side of a branch.

    ``keys`` and ``intervals`` are vectorised, O(rows), and read only their batch: safe from several threads.
    """

    __slots__ = ("bounds_text", "exact", "key_text", "kind", "trees", "verify")

    def __init__(self, trees: list[Tree], verify: Predicate | None) -> None:
        self.trees = tuple(trees)
        self.verify = verify
        self.exact = all(tree.exact for tree in trees)
        self.kind: Kind = self._kind()
        self.key_text = trees[0].key.expression.text
        self.bounds_text = _bounds_text(self.trees)

    def _kind(self) -> Kind:
        plain = [tree.constraint for tree in self.trees if tree.constraint is not None]
        if any(constraint.point for constraint in plain):
            return "equality"
        operators: set[str] = set()
        for tree in self.trees:
            operators |= tree.operators
        lower, upper = bool(operators & {">", ">=", "="}), bool(operators & {"<", "<=", "="})
        if any(tree.union and not _bounded(tree) for tree in self.trees) and not any(
            not tree.union and tree.operators & {"=", "<", "<=", ">", ">="} for tree in self.trees
        ):
            return "unequal"
        if lower and upper:
            return "band"
        return "inequality" if lower or upper else "unequal"

    def keys(self, batch: pa.RecordBatch, *, narrow: bool = False) -> Keys:
        """Ordinals of the key of every row of a stored-side batch; ``narrow``: of 32 bits, if the column has no more."""
        return self.trees[0].key.encode(batch, narrow=narrow)

    def plain_keys(self, batch: pa.RecordBatch, *, narrow: bool = False) -> np.ndarray | None:
        """What ``keys`` gives if they are a column as it is and none is NULL, or None."""
        if not all(tree.key.plain for tree in self.trees):
            return None
        values, valid = self.keys(batch, narrow=narrow)
        return values if valid is None else None

    def slots(self, probe: Probe) -> Slots:
        """Where the partners of every probing row lie: in any of these; ends may be the same for all rows."""
        slots = self.trees[0].slots(probe)
        for tree in self.trees[1:]:
            slots = intersect(slots, tree.slots(probe))
        return slots

    def intervals(self, batch: pa.RecordBatch) -> Intervals:
        """Where the partners of every row of a probing-side batch lie."""
        with np.errstate(all="ignore"):
            slots = self.slots(Probe(batch))
        return self._items(slots, batch.num_rows)

    def _items(self, slots: Slots, count: int) -> Intervals:
        if len(slots) == 1:
            return Intervals(None, _full(slots[0][0], count), _full(slots[0][1], count))
        lo, hi = np.empty((count, len(slots)), np.int64), np.empty((count, len(slots)), np.int64)
        for i, (low, high) in enumerate(slots):
            lo[:, i] = low
            hi[:, i] = high
        if any(tree.overlaps for tree in self.trees):
            return merged(lo, hi)
        return _compact(lo, hi)

    def around(self, own: AccessPath) -> tuple[int | None, int | None] | None:
        """How far below and above the probing row's own key (``own`` is the path it is found by) its interval ends.

        None if that is not the same for every row; an end is None if it is open.
        """
        if type(self) is not AccessPath or type(own) is not AccessPath:
            return None
        lowest: list[int] = []
        highest: list[int] = []
        for tree in self.trees:
            ends = None if tree.constraint is None else tree.constraint.around(own.trees[0].key)
            if ends is None:
                return None
            lowest += [ends[0]] if ends[0] is not None else []
            highest += [ends[1]] if ends[1] is not None else []
        return max(lowest, default=None), min(highest, default=None)

    def __repr__(self) -> str:
        return f"AccessPath({self.kind}, {self.bounds_text})"


def _compact(lo: np.ndarray, hi: np.ndarray) -> Intervals:
    """Disjoint intervals (rows x slots) as items, empty ones dropped."""
    kept = lo <= hi
    if kept.all():
        return Intervals(np.repeat(np.arange(len(lo), dtype=np.int32), lo.shape[1]), lo.ravel(), hi.ravel())
    return Intervals(np.nonzero(kept)[0].astype(np.int32), lo[kept], hi[kept])


def merged(lo: np.ndarray, hi: np.ndarray) -> Intervals:
    """Union of each row's intervals: sorted, overlapping and touching ones joined, empty ones dropped."""
    if len(lo):
        # Bands around several centres have the same order in every row: if that of the first row fits, no sorting.
        order = np.argsort(lo[0], kind="stable")
        if (hi[:, order[:-1]] < lo[:, order[1:]]).all() and (lo <= hi).all():
            return _compact(np.ascontiguousarray(lo[:, order]), np.ascontiguousarray(hi[:, order]))
    empty = lo > hi
    lo, hi = np.where(empty, I64_MAX, lo), np.where(empty, I64_MIN, hi)
    order = np.lexsort((lo, empty), axis=1)  # empty ones last, also behind [max, max]
    lo, hi = np.take_along_axis(lo, order, 1), np.take_along_axis(hi, order, 1)
    some = lo <= hi
    reach = np.maximum.accumulate(hi, axis=1)
    start = some.copy()
    before = reach[:, :-1]
    start[:, 1:] &= (lo[:, 1:] > before) & ~((before < I64_MAX) & (lo[:, 1:] == before + (before < I64_MAX)))
    end = some.copy()
    end[:, :-1] &= start[:, 1:] | ~some[:, 1:]
    return Intervals(np.nonzero(start)[0].astype(np.int32), lo[start], reach[end])


class EqualityPath(AccessPath):
    """Several equalities as one: the ordinals of all keys hashed together. Always verified."""

    __slots__ = ()

    def __init__(self, trees: list[Tree], verify: Predicate | None) -> None:
        super().__init__(trees, verify)
        self.kind = "equality"
        self.exact = False
        self.key_text = "(" + ", ".join(tree.key.expression.text for tree in trees) + ")"
        self.bounds_text = " AND ".join(tree.expression.text for tree in trees)

    def keys(self, batch: pa.RecordBatch, *, narrow: bool = False) -> Keys:
        del narrow  # hashes have 64 bits
        first = self.trees[0].key.encode(batch)
        values, valid = ordinals.mix(first.values), first.valid
        for tree in self.trees[1:]:
            other = tree.key.encode(batch)
            values = ordinals.combine(values, other.values)
            valid = other.valid if valid is None else valid if other.valid is None else valid & other.valid
        return Keys(values.view(np.int64), valid)

    def slots(self, probe: Probe) -> Slots:
        count = probe.frame.count
        values: np.ndarray | None = None
        empty: np.ndarray | None = None
        for tree in self.trees:
            lo, hi = (_full(end, count) for end in tree.slots(probe)[0])
            none = lo > hi
            empty = none if empty is None else empty | none
            point = np.ascontiguousarray(lo)
            values = ordinals.mix(point) if values is None else ordinals.combine(values, point)
        assert values is not None
        assert empty is not None
        points = values.view(np.int64)
        if not empty.any():
            return [(points, points)]
        return [(np.where(empty, I64_MAX, points), np.where(empty, I64_MIN, points))]


class JointPath(AccessPath):
    """Several keys at once, for an index that holds several: keys and ends of intervals have a column for each."""

    __slots__ = ("paths",)

    def __init__(self, paths: Sequence[AccessPath], verify: Predicate | None) -> None:
        super().__init__([tree for path in paths for tree in path.trees], verify)
        self.paths = tuple(paths)
        self.kind = paths[0].kind
        self.key_text = ", ".join(path.key_text for path in paths)
        self.key_text = f"({self.key_text})" if len(paths) > 1 else self.key_text
        self.bounds_text = " AND ".join(path.bounds_text for path in paths)

    def keys(self, batch: pa.RecordBatch, *, narrow: bool = False) -> Keys:
        del narrow  # several keys are of one width
        several = [path.keys(batch) for path in self.paths]
        valid: np.ndarray | None = None
        for one in several:
            valid = one.valid if valid is None else valid if one.valid is None else valid & one.valid
        return Keys(_columns([one.values for one in several], batch.num_rows), valid)

    def intervals(self, batch: pa.RecordBatch) -> Intervals:
        probe, count = Probe(batch), batch.num_rows
        with np.errstate(all="ignore"):
            slots = [path.slots(probe) for path in self.paths]
        if all(len(one) == 1 for one in slots):
            return Intervals(None, *(_columns([one[0][end] for one in slots], count) for end in (0, 1)))
        return crossed(
            [path._items(one, count) for path, one in zip(self.paths, slots, strict=True)],  # noqa: SLF001 - its own kind
            count,
        )


def _bounded(tree: Tree) -> bool:
    """Whether every alternative of a tree has both a lower and an upper bound."""
    if tree.constraint is not None:
        return tree.constraint.operator == "="
    if tree.union:
        return all(_bounded(part) for part in tree.parts)
    operators = tree.operators
    return any(_bounded(part) for part in tree.parts) or (
        bool(operators & {">", ">=", "="}) and bool(operators & {"<", "<=", "="})
    )


def _bounds_text(trees: tuple[Tree, ...]) -> str:
    """For people: ``a <= key <= b`` where that is all, else the comparisons."""
    key = trees[0].key.expression.text
    if all(tree.constraint is not None for tree in trees):
        leaves = [leaf for tree in trees for leaf in tree.leaves()]
        lower = [leaf for leaf in leaves if leaf.operator in (">", ">=")]
        upper = [leaf for leaf in leaves if leaf.operator in ("<", "<=")]
        if len(lower) == len(upper) == 1 and len(leaves) == 2:
            low, high = lower[0], upper[0]
            return f"{low.bound_text()} {FLIPPED[low.operator]} {key} {high.operator} {high.bound_text()}"
        return " AND ".join(f"{key} {leaf.operator} {leaf.bound_text()}" for leaf in leaves)
    return " AND ".join(f"({tree.expression.text})" if tree.union else tree.expression.text for tree in trees)
