"""Keys and constraints: what every way of solving a comparison has in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.condition import ordinals, typed
from slidejoin.condition.columns import integer_dtype, integers, raw, validity
from slidejoin.condition.evaluate import (
    Frame,
    evaluate,
    ticks,
)
from slidejoin.condition.typed import Expr
from slidejoin.condition.types import I64_MAX, I64_MIN

Slots = list[tuple[Any, Any]]  # (lo, hi) per slot, each an int64 array or a scalar


class Keys(NamedTuple):
    """Ordinals of the stored side's key; rows that are not valid (NULL key) never match."""

    values: np.ndarray
    valid: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Key:
    """A stored-side expression and its encoding. Keys with the same identity share an index."""

    expression: Expr
    codec: str  # int, uint, float (exact); saturate, prefix, hash (approximate)

    @property
    def identity(self) -> str:
        return f"{self.codec}:{self.expression.text}"

    @property
    def exact(self) -> bool:
        return self.codec in ("int", "uint", "float")

    @cached_property
    def _narrow(self) -> Any:
        """How the column is stored, if it is one of whole numbers that 32 bits hold."""
        node = self.expression
        if not isinstance(node, typed.Col) or self.codec != "int":
            return None
        dtype = integer_dtype(node.arrow)
        return dtype if dtype is not None and np.can_cast(dtype, np.int32) else None

    @property
    def plain(self) -> bool:
        """Whether it is a column as it is: then nothing can be wrong with any row."""
        return isinstance(self.expression, typed.Col)

    def encode(self, batch: pa.RecordBatch, *, narrow: bool = False) -> Keys:
        """Ordinals of every row of a stored-side batch; ``narrow``: of 32 bits, if the column has no more."""
        node = self.expression
        if narrow and self._narrow is not None and isinstance(node, typed.Col):
            array = batch.column(node.name)
            return Keys(raw(array, self._narrow).astype(np.int32, copy=False), validity(array))
        if self.codec == "uint" and isinstance(node, typed.Col):
            array = batch.column(node.name)
            if array.type == pa.uint64():
                return Keys(ordinals.from_unsigned(raw(array, np.uint64)), validity(array))
        frame = Frame(batch, batch)
        if isinstance(node, typed.Col):
            value = evaluate(node, frame)
        else:
            with np.errstate(all="ignore"):
                value = evaluate(node, frame)
        data = value.data
        if self.codec == "hash":
            return Keys(ordinals.hashes(data), value.valid)
        if self.codec == "prefix":
            return Keys(ordinals.prefixes(data), value.valid)
        if not isinstance(data, np.ndarray):
            data = np.full(frame.count, data)
        if self.codec == "float":
            return Keys(ordinals.from_floats(np.ascontiguousarray(data)), value.valid)
        data = ticks(value) if isinstance(value.data, np.ndarray) else data
        if self.codec == "uint":
            wide = np.asarray(data, object) - 2**63
            return Keys(ordinals.saturate(wide), value.valid)
        return Keys(ordinals.saturate(data) if data.dtype == object else data, value.valid)

    def ends(self, batch: pa.RecordBatch) -> tuple[int, int] | None:
        """The least and the greatest ordinal of a batch that has rows; None if a key is NULL."""
        node = self.expression
        if isinstance(node, typed.Col) and self.codec == "int":
            array = batch.column(node.name)
            plain = integers(array)
            if plain is not None:  # then they need not be converted, which costs more than looking at them
                return None if array.null_count else (int(plain.min()), int(plain.max()))
        keys, valid = self.encode(batch)
        return None if valid is not None else (int(keys.min()), int(keys.max()))


class Probe:
    """One call of ``intervals``: the frame of the probing batch and what its constraints share."""

    __slots__ = ("frame", "memo")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.frame = Frame(batch, batch)
        self.memo: dict[Any, Any] = {}


class Constraint:
    """A comparison solved for one side's key."""

    key: Key
    compare: Expr
    operator: str  # as seen from the key
    exact: bool  # the intervals are the truth, not a superset
    point: bool  # an equality with at most one ordinal
    width: int  # slots it needs

    def slots(self, probe: Probe) -> tuple[Slots, np.ndarray | None]:
        """Intervals for every probing row, and which rows are not NULL."""
        raise NotImplementedError

    def around(self, own: Key) -> tuple[int | None, int | None] | None:  # noqa: ARG002 - of those that can
        """Where the interval ends, counted from the probing row's ``own`` key; None if not the same for every row."""
        return None

    def bound_text(self) -> str:
        """What the key is compared with."""
        raise NotImplementedError


def sided(
    operator: str, value: Any, below: Any, above: Any, bottom: int = I64_MIN, top: int = I64_MAX
) -> Slots:
    """Slots of ``key operator value`` where below and above are the neighbouring ordinals of value."""
    match operator:
        case "=":
            return [(value, value)]
        case "<=":
            return [(bottom, value)]
        case "<":
            return [(bottom, below)]
        case ">=":
            return [(value, top)]
        case ">":
            return [(above, top)]
    return [(bottom, below), (above, top)]


def clamp(codec: str, lo: Any, hi: Any) -> tuple[Any, Any]:
    """Bounds in ticks (None: open) as ordinals of a key; beyond its range they empty or open the interval."""
    if codec != "uint" and all(b is None or b.dtype != object for b in (lo, hi)):
        return (I64_MIN if lo is None else lo), (I64_MAX if hi is None else hi)
    bottom, top = (0, 2**64 - 1) if codec == "uint" else (I64_MIN, I64_MAX)
    shift = 2**63 if codec == "uint" else 0
    if codec == "uint" and all(b is None or b.dtype != object for b in (lo, hi)):
        low = I64_MIN if lo is None else np.where(lo < 0, I64_MIN, lo ^ np.int64(I64_MIN))
        if hi is None:
            return low, I64_MAX
        none = hi < 0
        return np.where(none, I64_MAX, low), np.where(none, I64_MIN, hi ^ np.int64(I64_MIN))
    size = len(lo if lo is not None else hi)
    empty = np.zeros(size, bool)
    low_: Any = np.full(size, I64_MIN)
    high_: Any = np.full(size, I64_MAX)
    if lo is not None:
        wide = np.asarray(lo, object)
        if codec != "saturate":
            empty |= (wide > top).astype(bool)
        low_ = np.asarray(np.clip(wide, bottom, top) - shift, object).astype(np.int64)
    if hi is not None:
        wide = np.asarray(hi, object)
        if codec != "saturate":
            empty |= (wide < bottom).astype(bool)
        high_ = np.asarray(np.clip(wide, bottom, top) - shift, object).astype(np.int64)
    if codec == "saturate" and lo is not None and hi is not None:
        empty |= np.asarray(np.asarray(lo, object) > np.asarray(hi, object), bool)
    return np.where(empty, I64_MAX, low_), np.where(empty, I64_MIN, high_)
