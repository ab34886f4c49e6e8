"""Ordinals: one int64 encoding of every key, in key order.

Integers, decimals and times are their ticks; uint64 is shifted by 2^63; doubles are their bits folded so that
they ascend, with one zero and one NaN right above +infinity. Those are exact. Strings and binary have no exact
int64: the first eight bytes keep the order (approximately), a hash keeps equality (approximately).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slidejoin.condition.columns import raw
from slidejoin.condition.types import I64_MAX, I64_MIN

FLOAT_INF = 0x7FF0000000000000  # ordinal of +inf; that of -inf is its negative
FLOAT_NAN = FLOAT_INF + 1
FLOAT_MAX = FLOAT_INF - 1  # the largest finite double
_FOLD = np.int64(I64_MAX)
_NAN = np.int64(FLOAT_NAN)

HASHED_HEAD = 128  # bytes of a long string that enter its hash, from the start ...
HASHED_TAIL = 64  # ... and from the end; candidates are verified, so equal hashes cost time only


def from_floats(values: np.ndarray) -> np.ndarray:
    """Doubles to ordinals: -inf is -FLOAT_INF, zero is 0, NaN is FLOAT_NAN."""
    bits = values.view(np.int64)
    # A negative double has the sign bit set and grows away from zero: keep the magnitude, negate it.
    sign = bits >> 63
    result = bits & _FOLD
    result ^= sign
    result -= sign
    if len(result) and (result.max() > FLOAT_INF or result.min() < -FLOAT_INF):
        result[np.isnan(values)] = _NAN
    return result


def to_floats(ordinals: np.ndarray) -> np.ndarray:
    """Ordinals of numbers (not NaN) back to doubles."""
    sign = ordinals >> 63
    bits = ordinals ^ sign
    bits -= sign
    bits |= sign & np.int64(I64_MIN)
    return bits.view(np.float64)


def from_unsigned(values: np.ndarray) -> np.ndarray:
    """uint64 to ordinals: value - 2^63."""
    return values.view(np.int64) ^ np.int64(I64_MIN)


def saturate(values: Any) -> np.ndarray:
    """Integers of any size to the nearest int64."""
    if values.dtype != object:
        return np.asarray(values, np.int64)
    return np.asarray(np.clip(values, I64_MIN, I64_MAX), object).astype(np.int64)


def _layout(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, lengths and bytes of a large_string or large_binary array."""
    buffers = array.buffers()
    if len(array) == 0 or buffers[1] is None:
        nothing = np.zeros(len(array), np.int64)
        return nothing, nothing, np.zeros(8, np.uint8)
    offsets = np.frombuffer(buffers[1], np.int64, len(array) + 1, array.offset * 8)
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None and buffers[2].size else np.zeros(8, np.uint8)
    return offsets[:-1], np.diff(offsets), data


def _words(starts: np.ndarray, lengths: np.ndarray, data: np.ndarray, order: str) -> np.ndarray:
    """Eight bytes from each start as one integer, zero beyond the length."""
    steps = np.arange(8)
    index = starts[:, None] + steps
    inside = steps < lengths[:, None]
    np.minimum(index, len(data) - 1, out=index)
    picked = np.where(inside, data[index], np.uint8(0))
    return np.ascontiguousarray(picked).view(order + "u8").ravel().astype(np.uint64)


def prefixes(array: pa.Array) -> np.ndarray:
    """The first eight bytes, order kept."""
    starts, lengths, data = _layout(array)
    return from_unsigned(_words(starts, lengths, data, ">"))


def mix(values: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit integers that spreads every bit (splitmix64's finaliser)."""
    x = values.view(np.uint64).copy()
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def combine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Fold a second 64-bit value into a hash."""
    return mix(first.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + mix(second))


def hashes(array: pa.Array) -> np.ndarray:
    """A 64-bit hash of each string, the same in every process."""
    starts, lengths, data = _layout(array)
    result = mix(lengths.astype(np.int64))
    if len(result) == 0:
        return result.view(np.int64)
    spans = [(starts, np.minimum(lengths, HASHED_HEAD))]
    if lengths.max() > HASHED_HEAD:
        tail = np.where(lengths > HASHED_HEAD, HASHED_TAIL, 0)
        spans.append((starts + lengths - tail, tail))
    for start, length in spans:
        for word in range(int(length.max() + 7) // 8):
            rows = np.flatnonzero(length > 8 * word)
            words = _words(start[rows] + 8 * word, length[rows] - 8 * word, data, "<")
            result[rows] = combine(result[rows], words)
    return result.view(np.int64)
