"""Ordinals: one int64 encoding of every key, in key order.

Integers, decimals and times are their ticks; uint64 is shifted by 2^63; doubles are their bits folded so that
they ascend, with one zero and one NaN right above +infinity. Those are exact. Strings and binary have no exact
int64: the first eight bytes keep the order (approximately), a hash keeps equality (approximately).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slidejoin.condition.types import I64_MAX, I64_MIN

FLOAT_INF = 0x7FF0000000000000  # ordinal of +inf; that of -inf is its negative
FLOAT_NAN = FLOAT_INF + 1
FLOAT_MAX = FLOAT_INF - 1  # the largest finite double
MAGNITUDE = np.int64(I64_MAX)  # all bits of a double but its sign

_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # keep the first n bytes of a word
HASHED_HEAD = 128  # bytes of a long string that enter its hash, from the start ...
HASHED_TAIL = 64  # ... and from the end; candidates are verified, so equal hashes cost time only


def from_floats(values: np.ndarray) -> np.ndarray:
    """Doubles to ordinals: -inf is -FLOAT_INF, zero is 0, NaN is FLOAT_NAN. A view if all are at least zero."""
    bits = values.view(np.int64)
    if len(bits) == 0 or (bits.min() >= 0 and bits.max() <= FLOAT_INF):
        return bits
    # A negative double has the sign bit set and grows away from zero: keep the magnitude, negate it.
    sign = bits >> 63
    result = bits & MAGNITUDE
    nan = result > FLOAT_INF if result.max() > FLOAT_INF else None
    result ^= sign
    result -= sign
    if nan is not None:
        result[nan] = FLOAT_NAN
    return result


def to_floats(ordinals: np.ndarray) -> np.ndarray:
    """Ordinals of numbers (not NaN) back to doubles."""
    sign = ordinals >> 63
    bits = ordinals ^ sign
    bits -= sign
    bits |= sign & np.int64(I64_MIN)
    result: np.ndarray = bits.view(np.float64)
    return result


def from_unsigned(values: np.ndarray) -> np.ndarray:
    """uint64 to ordinals: value - 2^63."""
    return values.view(np.int64) ^ np.int64(I64_MIN)


def saturate(values: Any) -> np.ndarray:
    """Integers of any size to the nearest int64."""
    if values.dtype != object:
        return np.asarray(values, np.int64)
    return np.asarray(np.clip(values, I64_MIN, I64_MAX), object).astype(np.int64)


def _layout(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, lengths and, at every byte offset, the eight bytes from there as one little-endian integer."""
    buffers = array.buffers()
    if len(array) == 0 or buffers[1] is None:
        nothing = np.zeros(len(array), np.int64)
        return nothing, nothing, np.zeros(1, "<u8")
    offsets = np.frombuffer(buffers[1], np.int64, len(array) + 1, array.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if last > first:
        padded[:-8] = np.frombuffer(buffers[2], np.uint8, last - first, first)
    windows = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    return offsets[:-1] - first, np.diff(offsets), windows


def _words(starts: np.ndarray, lengths: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Up to eight bytes from each start, zero beyond the length; the first byte lowest."""
    words: np.ndarray = windows[starts].astype(np.uint64, copy=False) & _MASKS[np.minimum(lengths, 8)]
    return words


def prefixes(array: pa.Array) -> np.ndarray:
    """The first eight bytes, order kept."""
    return from_unsigned(_words(*_layout(array)).byteswap())


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
    starts, lengths, windows = _layout(array)
    result = mix(lengths.astype(np.int64))
    if len(result) == 0:
        return result.view(np.int64)
    spans = [(starts, np.minimum(lengths, HASHED_HEAD))]
    if lengths.max() > HASHED_HEAD:
        tail = np.where(lengths > HASHED_HEAD, HASHED_TAIL, 0)
        spans.append((starts + lengths - tail, tail))
    for start, length in spans:
        for word in range(int(length.max() + 7) // 8):
            if word == 0 and length.min() > 0:
                result = combine(result, _words(start, length, windows))
                continue
            rows = np.flatnonzero(length > 8 * word)
            words = _words(start[rows] + 8 * word, length[rows] - 8 * word, windows)
            result[rows] = combine(result[rows], words)
    return result.view(np.int64)
