"""Nested loops over a few keys that are in no order: an insertion buffer."""

from __future__ import annotations

from slidejoin.kernels import I32, I64, OUT_I32, kernel, types


@kernel(types.int64(I64, I64, I64, OUT_I32))
def count_within(keys, lows, highs, counts):  # type: ignore[no-untyped-def]
    """``counts[i]`` = how many keys are within ``[lows[i], highs[i]]``; returns how many pairs that makes."""
    pairs = 0
    for i in range(len(lows)):
        low, high = lows[i], highs[i]
        count = 0
        for j in range(len(keys)):
            count += (keys[j] >= low) & (keys[j] <= high)
        counts[i] = count
        pairs += count
    return pairs


@kernel(types.int64(I64, I32, I64, I64, I32, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32))
def copy_within(keys, ids, lows, highs, rows, counts, out_rows, out_starts, out_ends, out_ids):  # type: ignore[no-untyped-def]
    """Copy the ids of those keys, probe by probe; returns how many probes have any. ``out_ids`` has one to spare."""
    kept = 0
    used = 0
    for i in range(len(lows)):
        if counts[i] == 0:
            continue
        low, high = lows[i], highs[i]
        out_rows[kept] = rows[i]
        out_starts[kept] = used
        for j in range(len(keys)):
            out_ids[used] = ids[j]
            used += (keys[j] >= low) & (keys[j] <= high)
        out_ends[kept] = used
        kept += 1
    return kept
