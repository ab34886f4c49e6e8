"""Vector instructions: which of sixteen neighbours lie between two values, and moving the chosen ones together."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from slidejoin.kernels.vector import COMPRESSES, mover, within_of_16

LOW, HIGH = -(2**63), 2**63 - 1


@numba.njit
def inside(keys, at, low, high):  # type: ignore[no-untyped-def]
    return within_of_16(keys, np.uint64(at), low, high)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_within(kind: type) -> None:
    rng = np.random.default_rng(1)
    least, most = (0, 255) if kind is np.uint8 else (LOW, HIGH)
    values = np.array([least, least + 1, 5, 127, 128, 200, most - 1, most], dtype=kind)
    keys = rng.choice(values, 40)
    for _ in range(300):
        at, (low, high) = int(rng.integers(0, 25)), (int(end) for end in rng.choice(values, 2))
        some = keys[at : at + 16].astype(object)
        expected = sum(1 << place for place, key in enumerate(some) if low <= key <= high)
        assert inside(keys, at, low, high) == expected


@pytest.mark.parametrize("compresses", sorted({False, COMPRESSES}))
def test_moved_together(compresses: bool) -> None:
    """With and without the instruction for it, which not every compiler knows."""
    move = mover(16, compresses=compresses)

    @numba.njit
    def moved(values, at, bits, out, to):  # type: ignore[no-untyped-def]
        return move(values, np.uint64(at), np.uint64(bits), out, np.uint64(to))

    rng = np.random.default_rng(2)
    values = rng.integers(-(2**31), 2**31, 40).astype(np.int32)
    for bits in [0, 1, 1 << 15, 0xFFFF, *rng.integers(0, 1 << 16, 200).tolist()]:
        at, to, out = int(rng.integers(0, 25)), int(rng.integers(0, 9)), np.full(24, 7, dtype=np.int32)
        chosen = [values[at + place] for place in range(16) if bits >> place & 1]
        assert moved(values, at, bits, out, to) == len(chosen)
        assert out[to : to + len(chosen)].tolist() == chosen
        assert (out[:to] == 7).all(), "nothing before is touched"
