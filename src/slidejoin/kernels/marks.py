"""Marking rows that have matched, from ranges, without walking every pair."""

from __future__ import annotations

from slidejoin.kernels import I32, OUT_I32, OUT_U8, kernel, types


@kernel(types.int64(I32, I32, I32, OUT_I32, OUT_U8, OUT_I32))
def mark_ranges(starts, ends, ids, depth, marks, newly):  # type: ignore[no-untyped-def]
    """Mark every id inside any range; ``newly`` gets those not marked before, their number is returned.

    ``depth`` is scratch of ``len(ids) + 1`` zeros: the difference array of how many ranges cover a position,
    so the cost is O(ranges + ids) however many pairs the ranges stand for.
    """
    for i in range(len(starts)):
        depth[starts[i]] += 1
        depth[ends[i]] -= 1
    fresh = 0
    cover = 0
    for j in range(len(ids)):
        cover += depth[j]
        if cover > 0 and marks[ids[j]] == 0:
            marks[ids[j]] = 1
            newly[fresh] = ids[j]
            fresh += 1
    return fresh


@kernel(types.int64(I32, OUT_U8, OUT_I32))
def mark_ids(ids, marks, newly):  # type: ignore[no-untyped-def]
    """Mark the given ids; ``newly`` gets those not marked before, their number is returned."""
    fresh = 0
    for i in range(len(ids)):
        if marks[ids[i]] == 0:
            marks[ids[i]] = 1
            newly[fresh] = ids[i]
            fresh += 1
    return fresh
