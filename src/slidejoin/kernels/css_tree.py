"""Searching a CSS-tree: a directory of implicit nodes, one above the other, over a sorted array."""

from __future__ import annotations

import numpy as np

from slidejoin.kernels import I64, OUT_I32, kernel, types

U = np.uint64
ZERO, ONE = U(0), U(1)
NODE = U(16)  # keys a node: two cache lines


@kernel(types.void(I64, I64, I64, I64, OUT_I32))
def descend_all(directory, levels, keys, wanted, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = the first position whose key is not below ``wanted[i]``.

    ``levels`` are the ends of the directory's levels, the lowest first; each has the last key of every node of the
    level below. A child's place follows from its parent's: no pointers.
    """
    n = U(len(keys))
    for i in range(len(wanted)):
        want = wanted[i]
        at = ZERO
        for step in range(len(levels)):
            level = len(levels) - 1 - step
            first = U(levels[level - 1]) if level > 0 else ZERO
            end = min(U(levels[level]) - first, at + NODE)
            while at < end and directory[first + at] < want:
                at += ONE
            at *= NODE
        while at < n and keys[at] < want:
            at += ONE
        out[i] = at
