"""From Arrow arrays to NumPy: views where possible, one conversion where not.

A column becomes (data, valid): int64 ticks for everything exact (object arrays of Python ints only when a value
does not fit int64), float64, bool, or a large_string / large_binary Arrow array. ``valid`` is None without NULLs.
Data under NULLs is arbitrary but harmless.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from slidejoin.condition.types import I64_MAX

_PLAIN = {
    kind.id: dtype
    for kind, dtype in (
        (pa.int8(), np.int8), (pa.int16(), np.int16), (pa.int32(), np.int32), (pa.int64(), np.int64),
        (pa.uint8(), np.uint8), (pa.uint16(), np.uint16), (pa.uint32(), np.uint32), (pa.uint64(), np.uint64),
        (pa.float16(), np.float16), (pa.float32(), np.float32), (pa.float64(), np.float64),
        (pa.date32(), np.int32), (pa.date64(), np.int64), (pa.time32("s"), np.int32), (pa.time64("us"), np.int64),
        (pa.timestamp("s"), np.int64), (pa.duration("s"), np.int64),
    )
}  # fmt: skip


class Value(NamedTuple):
    """A column of values; ``data`` may also be a Python scalar that stands for every row."""

    data: Any
    valid: np.ndarray | None


def validity(array: pa.Array) -> np.ndarray | None:
    """True where not NULL, or None when nothing is NULL."""
    if array.null_count == 0:
        return None
    buffer = array.buffers()[0]
    if buffer is None:  # null type, run-end encoding and unions keep no bitmap
        return np.asarray(array.is_valid())
    start, count = array.offset, len(array)
    first = start >> 3
    bits = np.unpackbits(
        np.frombuffer(buffer, np.uint8, ((start + count + 7) >> 3) - first, first), bitorder="little"
    )
    skip = start & 7
    return bits[skip : skip + count].view(np.bool_)


def raw(array: pa.Array, dtype: Any) -> np.ndarray:
    """The values of a fixed-width array, as a view."""
    buffer = array.buffers()[1]
    count = len(array)
    if buffer is None or count == 0:
        return np.zeros(count, dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count, array.offset * size)


def integers(array: pa.Array) -> np.ndarray | None:
    """Whole numbers as they are stored, in their own width; None if it is no such array, or int64 does not hold them all."""
    dtype = integer_dtype(array.type)
    return None if dtype is None else raw(array, dtype)


def integer_dtype(kind: pa.DataType) -> Any:
    """How whole numbers of a type are stored; None if it is no such type, or int64 does not hold them all."""
    return _PLAIN[kind.id] if pat.is_integer(kind) and not pat.is_uint64(kind) else None


def read(array: pa.Array) -> Value:
    """Values of any array whose type a condition can use."""
    kind = array.type
    dtype = _PLAIN.get(kind.id)
    if dtype is not None:
        data = raw(array, dtype)
        if dtype is np.uint64:
            data = data.astype(object) if len(data) and data.max() > I64_MAX else data.view(np.int64)
        elif dtype is not np.int64 and dtype is not np.float64:
            data = data.astype(np.float64 if data.dtype.kind == "f" else np.int64)
        return Value(data, validity(array))
    if pat.is_boolean(kind):
        return Value(_booleans(array), validity(array))
    if pat.is_decimal(kind):
        return Value(_decimals(array), validity(array))
    plain = _plain(array)
    if plain is not None:
        return read(plain)
    if not (pat.is_large_string(kind) or pat.is_large_binary(kind)):
        return Value(np.zeros(len(array), np.int64), validity(array))  # nested: only IS NULL looks at it
    return Value(array, validity(array))


def _plain(array: pa.Array) -> pa.Array | None:
    """Without dictionary, runs, extension or a rarer layout of strings; None if it is plain already."""
    kind = array.type
    if pat.is_dictionary(kind):
        return array.dictionary_decode()
    if pat.is_run_end_encoded(kind):
        return pc.run_end_decode(array)
    if isinstance(array, pa.ExtensionArray):
        return array.storage
    if pat.is_string(kind) or pat.is_string_view(kind):
        return array.cast(pa.large_string())
    if pat.is_binary(kind) or pat.is_binary_view(kind) or pat.is_fixed_size_binary(kind):
        return array.cast(pa.large_binary())
    return None


def _booleans(array: pa.Array) -> np.ndarray:
    buffer, start, count = array.buffers()[1], array.offset, len(array)
    if buffer is None or count == 0:
        return np.zeros(count, np.bool_)
    first = start >> 3
    bits = np.unpackbits(
        np.frombuffer(buffer, np.uint8, ((start + count + 7) >> 3) - first, first), bitorder="little"
    )
    skip = start & 7
    return bits[skip : skip + count].view(np.bool_)


def _decimals(array: pa.Array) -> np.ndarray:
    """Unscaled values: int64 if all fit, else Python ints."""
    width = array.type.bit_width // 8
    if width <= 8:
        return raw(array, np.int32 if width == 4 else np.int64).astype(np.int64)
    buffer, count = array.buffers()[1], len(array)
    if buffer is None or count == 0:
        return np.zeros(count, np.int64)
    limbs = np.frombuffer(buffer, np.int64, count * (width // 8), array.offset * width).reshape(
        count, width // 8
    )
    low = limbs[:, 0]
    sign = low >> 63
    if array.type.precision <= 18 or all((limbs[:, i] == sign).all() for i in range(1, width // 8)):
        return np.ascontiguousarray(low)
    total = limbs[:, -1].astype(object)
    for i in range(width // 8 - 2, -1, -1):
        total = total * 2**64 + np.ascontiguousarray(limbs[:, i]).view(np.uint64).astype(object)
    return np.asarray(total, object)


def shrink(data: np.ndarray) -> np.ndarray:
    """Python ints back to int64 where all of them fit."""
    if len(data) == 0:
        return np.zeros(0, np.int64)
    if data.min() >= -(2**63) and data.max() <= I64_MAX:
        return data.astype(np.int64)
    return data
