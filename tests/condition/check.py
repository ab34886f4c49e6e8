"""Compare every part of a bound condition with the truth about every pair."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from slidejoin.condition import BoundCondition, Branch, Predicate

Pairs = set[tuple[int, int]]


def apply(predicate: Predicate | None, left: pa.RecordBatch, right: pa.RecordBatch, pairs: Pairs) -> Pairs:
    if predicate is None or not pairs:
        return pairs
    ordered = sorted(pairs)
    names = predicate.columns
    a = left.take(pa.array([i for i, _ in ordered])).select(list(names[0])) if names[0] else None
    b = right.take(pa.array([j for _, j in ordered])).select(list(names[1])) if names[1] else None
    if a is None and b is None:
        a = left.take(pa.array([i for i, _ in ordered]))
    keep = predicate.mask(a, b)
    assert keep.dtype == np.bool_
    assert keep.shape == (len(ordered),)
    return {pair for pair, kept in zip(ordered, keep, strict=True) if kept}


def filtered(branch: Branch, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[set[int], set[int]]:
    masks = []
    for side, batch in enumerate((left, right)):
        predicate = branch.filters[side]
        kept = np.ones(batch.num_rows, bool)
        if predicate is not None:
            kept = predicate.mask(batch if side == 0 else None, batch if side == 1 else None)
        masks.append(set(np.flatnonzero(kept).tolist()))
    return masks[0], masks[1]


def candidates(path, stored: int, left: pa.RecordBatch, right: pa.RecordBatch) -> Pairs:
    sides = (left, right)
    keys, items = path.keys(sides[stored]), path.intervals(sides[1 - stored])
    count = sides[1 - stored].num_rows
    assert keys.values.dtype == np.int64
    assert keys.values.shape == (sides[stored].num_rows,)
    assert items.lo.dtype == items.hi.dtype == np.int64
    assert items.lo.shape == items.hi.shape
    if items.rows is None:
        assert items.lo.shape == (count,)
        probing = np.arange(count)
    else:
        assert items.rows.dtype == np.int32
        assert items.rows.shape == items.lo.shape
        probing = items.rows
    found: Counter[tuple[int, int]] = Counter()
    for row, lo, hi in zip(probing.tolist(), items.lo.tolist(), items.hi.tolist(), strict=True):
        for s, key in enumerate(keys.values.tolist()):
            if lo <= key <= hi and (keys.valid is None or keys.valid[s]):
                found[(s, row) if stored == 0 else (row, s)] += 1
    assert all(times == 1 for times in found.values()), f"items of one row overlap: {path}"
    return set(found)


def check(bound: BoundCondition, left: pa.RecordBatch, right: pa.RecordBatch, expected: Pairs) -> None:
    """Whole predicate, every branch without index, every path of every branch: all give the expected pairs."""
    everything = {(i, j) for i in range(left.num_rows) for j in range(right.num_rows)}
    assert apply(bound.predicate, left, right, everything) == expected, "predicate"
    seen: Counter[tuple[int, int]] = Counter()
    for branch in bound.branches:
        ours, theirs = filtered(branch, left, right)
        allowed = {(i, j) for i, j in everything if i in ours and j in theirs}
        scanned = apply(branch.verify, left, right, allowed)
        seen.update(scanned)
        for stored in (0, 1):
            for path in branch.paths(stored):
                found = apply(path.verify, left, right, candidates(path, stored, left, right) & allowed)
                assert found == scanned, (
                    f"stored {stored}, {path}: extra {found - scanned}, lost {scanned - found}"
                )
    assert seen == Counter(expected), "branches"
