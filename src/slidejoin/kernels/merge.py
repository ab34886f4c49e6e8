"""Merging two sorted runs, and dropping rows from one without disturbing its order."""

from __future__ import annotations

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, kernel, types


@kernel(types.void(I64, I32, I64, I32, OUT_I64, OUT_I32))
def merge_runs(keys_a, ids_a, keys_b, ids_b, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Merge two ascending runs into one; equal keys of ``a`` come first. O(len(a) + len(b))."""
    a = 0
    b = 0
    n = len(keys_a)
    m = len(keys_b)
    at = 0
    while a < n and b < m:
        key_a = keys_a[a]
        key_b = keys_b[b]
        take_b = key_b < key_a
        out_keys[at] = key_b if take_b else key_a
        out_ids[at] = ids_b[b] if take_b else ids_a[a]
        b += take_b
        a += not take_b
        at += 1
    while a < n:
        out_keys[at] = keys_a[a]
        out_ids[at] = ids_a[a]
        a += 1
        at += 1
    while b < m:
        out_keys[at] = keys_b[b]
        out_ids[at] = ids_b[b]
        b += 1
        at += 1


@kernel(types.int64(I64, I32, types.int32, OUT_I64, OUT_I32))
def drop_below(keys, ids, first, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """Copy the entries whose id is at least ``first``; returns how many there are."""
    at = 0
    for i in range(len(keys)):
        out_keys[at] = keys[i]
        out_ids[at] = ids[i]
        at += ids[i] >= first
    return at
