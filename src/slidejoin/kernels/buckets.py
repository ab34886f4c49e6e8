"""Equality by hashing: a bijective mix of the key, and a directory over the sorted mixed keys.

The mix (the 64-bit finaliser of MurmurHash3) is a bijection, so two mixed keys are equal exactly when the
keys are: no verification is needed. Mixed keys are spread evenly whatever the data, so the directory finds
a key in one look-up and a step or two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, kernel, types
from slidejoin.kernels.prefetch import prefetch
from slidejoin.kernels.search import AHEAD, ONE, ZERO, U, bisect, gallop_past

LONG = U(16)  # rows of a bucket that are stepped through


def mix(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """A bijection of int64 that spreads any keys evenly."""
    word = values.view(np.uint64) ^ (values.view(np.uint64) >> np.uint64(33))
    word *= np.uint64(0xFF51AFD7ED558CCD)
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xC4CEB9FE1A85EC53)
    word ^= word >> np.uint64(33)
    return word.view(np.int64)


@kernel(types.void(I64, types.int64, OUT_I32))
def fill_directory(keys, shift, directory):  # type: ignore[no-untyped-def]
    """``directory[b]`` = first position of bucket ``b`` in the ascending ``keys``; one entry past the end."""
    at = 0
    half = 1 << (63 - shift)
    for bucket in range(len(directory) - 1):
        while at < len(keys) and (keys[at] >> shift) + half < bucket:
            at += 1
        directory[bucket] = at
    directory[len(directory) - 1] = len(keys)


@kernel(types.UniTuple(types.int64, 2)(I64, I32, types.int64, I64, I32, OUT_I32, OUT_I32, OUT_I32))
def look_up(keys, directory, shift, wanted, rows, out_rows, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """The range of each wanted key, those that are present only; returns (ranges, pairs)."""
    half = 1 << (63 - shift)
    asked = U(len(wanted))
    kept = ZERO
    pairs = ZERO
    for row in range(len(wanted)):
        i = U(row)
        if i + AHEAD < asked:
            prefetch(keys, U(directory[U((wanted[i + AHEAD] >> shift) + half)]))
        want = wanted[i]
        bucket = U((want >> shift) + half)
        start = U(directory[bucket])
        stop = U(directory[bucket + ONE])
        # Buckets are short unless one key is very frequent; then bisecting keeps the cost logarithmic.
        if stop - start > LONG:
            start += bisect(keys[start:stop], want)
            end = gallop_past(keys, start, want)
        else:
            while start < stop and keys[start] < want:
                start += ONE
            end = start
            while end < stop and keys[end] == want:
                end += ONE
        out_rows[kept] = rows[i]
        out_starts[kept] = start
        out_ends[kept] = end
        kept += U(end > start)
        pairs += end - start
    return kept, pairs
