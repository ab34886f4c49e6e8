"""The NumPy evaluator: typed expressions over two row-aligned batches, with SQL's three-valued logic.

Integers   int64 while the values at hand prove that nothing overflows, else Python ints: never wraps, never errs.
Floats     doubles; NaN equals NaN and is above everything, -0.0 equals 0.0; x / 0 and x % 0 are NULL.
Mixed      exact values meet floats without being rounded.
Functions  go to the SQL engine, arguments as Arrow columns.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.condition import sql_engine, typed
from slidejoin.condition.columns import Value, read, shrink
from slidejoin.condition.quotients import neighbours, neighbours_of
from slidejoin.condition.typed import Expr
from slidejoin.condition.types import I64_MAX, I64_MIN, Type

_COMPARE = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_ARROW = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_TWO63 = 9223372036854775808.0


class Frame:
    """One evaluation: the batches, their common length, and results by node."""

    __slots__ = ("batches", "count", "memo")

    def __init__(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> None:
        self.batches = (left, right)
        given = left if left is not None else right
        self.count = given.num_rows if given is not None else 0
        self.memo: dict[int, Value] = {}


def mask(node: Expr, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> np.ndarray:
    """True where the condition is TRUE, False where it is FALSE or NULL."""
    frame = Frame(left, right)
    with np.errstate(all="ignore"):
        data, valid = evaluate(node, frame)
    if not isinstance(data, np.ndarray):
        data = np.full(frame.count, bool(data))
    return data if valid is None else data & valid


def evaluate(node: Expr, frame: Frame) -> Value:
    """The value of a node for every row; computed once per frame."""
    key = id(node)
    value = frame.memo.get(key)
    if value is None:
        value = frame.memo[key] = _RULES[type(node)](node, frame)
    return value


def both(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    """Valid only where both are."""
    if first is None:
        return second
    return first if second is None else first & second


def ticks(value: Value) -> Any:
    """Exact data as integers (booleans count 0 and 1)."""
    data = value.data
    if isinstance(data, np.ndarray) and data.dtype == np.bool_:
        return data.astype(np.int64)
    return int(data) if isinstance(data, bool) else data


def limits(data: Any, kind: Type | None = None) -> tuple[int, int]:
    """Smallest and largest tick: from the type where it is narrow, else from the data."""
    if not isinstance(data, np.ndarray):
        return int(data), int(data)
    if kind is not None and kind.low is not None and kind.high is not None and kind.high - kind.low < 2**40:
        return kind.low, kind.high
    if len(data) == 0:
        return 0, 0
    return int(data.min()), int(data.max())


def combine(parts: list[tuple[Any, int, Type | None]], offset: int) -> Any:
    """sum(k * ticks) + offset, exactly."""
    reach = abs(offset)
    for data, k, kind in parts:
        low, high = limits(data, kind)
        reach += abs(k) * max(abs(low), abs(high), 1)
    wide = reach > I64_MAX
    total: Any = offset
    first = True
    for data, k, _ in parts:
        if k == 0:
            continue
        widen = wide and isinstance(data, np.ndarray) and data.dtype != object
        term = data.astype(object) if widen else data
        term = term if k == 1 else term * k
        if first:
            total = term + offset if offset else term
            first = False
        else:
            total = total + term
    if wide and isinstance(total, np.ndarray):
        return shrink(total)
    return total


def to_float(data: Any, unit: Fraction) -> Any:
    """Exact ticks as the nearest doubles."""
    if not isinstance(data, np.ndarray):
        return _nearest(int(data), unit)
    if data.dtype != object:
        if unit == 1:
            return data.astype(np.float64)
        low, high = limits(data)
        n, d = unit.numerator, unit.denominator
        if max(abs(low), abs(high)) * n <= 2**53 and d <= 10**22 and n <= 2**53:
            return (data * n).astype(np.float64) / float(d)
    return np.array([_nearest(int(x), unit) for x in data], np.float64)


def _nearest(tick: int, unit: Fraction) -> float:
    try:
        return tick * unit.numerator / unit.denominator
    except OverflowError:
        return float("inf") if tick > 0 else float("-inf")


def compare_floats(operator: str, a: Any, b: Any) -> Any:
    """Comparison in the total order where NaN equals NaN and is the largest."""
    result = _COMPARE[operator](a, b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if not (nan_a.any() or nan_b.any()):
        return result
    if operator in ("=", "<=", ">="):
        result = result | (nan_a & nan_b)
    if operator in (">", ">="):
        result = result | (nan_a & ~nan_b)
    elif operator in ("<", "<="):
        result = result | (nan_b & ~nan_a)
    elif operator == "<>":
        result = result & ~(nan_a & nan_b)
    return result


def compare_mixed(operator: str, data: Any, unit: Fraction, floats: Any) -> Any:
    """Exact ticks against doubles, neither rounded."""
    floats = np.asarray(floats, np.float64)
    data = np.asarray(data) if isinstance(data, np.ndarray) else np.asarray(data, object)
    if unit == 1 and data.dtype != object:
        return _integers_with_floats(operator, data, floats)
    data, floats = np.broadcast_arrays(data, floats)
    found = neighbours(floats.ravel(), unit)
    down, up, shape = found.down.reshape(data.shape), found.up.reshape(data.shape), data.shape
    if operator in ("=", "<>"):
        same = (data == down) & (down == up)
        result = same if operator == "=" else ~same
    else:  # ticks <= x / unit asks the floor, ticks < x / unit the ceiling
        result = _COMPARE[operator](data, down if operator in ("<=", ">") else up)
    result = np.array(result, np.bool_).reshape(shape)
    for i in found.rest.tolist():
        low, high = neighbours_of(float(floats.flat[i]), unit)
        ticks_ = int(data.flat[i])
        sign = 0 if ticks_ == low == high else -1 if ticks_ <= low else 1
        result.flat[i] = _COMPARE[operator](sign, 0)
    return result


def _integers_with_floats(operator: str, data: np.ndarray, floats: np.ndarray) -> Any:
    if operator in ("=", "<>"):
        inside = (floats >= -_TWO63) & (floats < _TWO63) & (floats == np.floor(floats))
        same = inside & (data == np.where(inside, floats, 0.0).astype(np.int64))
        return same if operator == "=" else ~same
    # x < f <=> x < ceil(f) and x <= f <=> x <= floor(f); the other two are their complements.
    edge = np.ceil(floats) if operator in ("<", ">=") else np.floor(floats)
    above = ~(edge < _TWO63)  # NaN included: it is above every number
    below = edge < -_TWO63
    limit = np.where(above | below, 0.0, edge).astype(np.int64)
    under = (data < limit) if operator in ("<", ">=") else (data <= limit)
    under = (under | above) & ~below
    return under if operator in ("<", "<=") else ~under


# ---- rules, one per node -------------------------------------------------------------------------------------


def _column(node: typed.Col, frame: Frame) -> Value:
    batch = frame.batches[node.side]
    if batch is None:
        raise ValueError(f"batch of side {node.side} is missing; expected one with column {node.name!r}")
    return read(batch.column(node.name))


def _linear(node: typed.Linear, frame: Frame) -> Value:
    valid: np.ndarray | None = None
    parts: list[tuple[Any, int, Type | None]] = []
    for (atom, _), k in zip(node.terms, node.multipliers, strict=True):
        value = evaluate(atom, frame)
        valid = both(valid, value.valid)
        parts.append((ticks(value), k, atom.type))
    total = combine(parts, node.offset)
    if node.terms and not isinstance(total, np.ndarray):  # 0 * x: a constant, but one for every row
        total = np.full(frame.count, total, np.int64 if I64_MIN <= total <= I64_MAX else object)
    return Value(total, valid)


def _product(node: typed.Product, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    a, b = ticks(left), ticks(right)
    reach = 1
    for data, kind in ((a, node.left.type), (b, node.right.type)):
        low, high = limits(data, kind)
        reach *= max(abs(low), abs(high), 1)
    if reach <= I64_MAX:
        return Value(a * b, both(left.valid, right.valid))
    wide = np.asarray(a, object) * np.asarray(b, object)
    return Value(shrink(wide) if isinstance(wide, np.ndarray) else wide, both(left.valid, right.valid))


def _remainder(node: typed.Remainder, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    a = combine([(ticks(left), node.scales[0], node.left.type)], 0)
    b = combine([(ticks(right), node.scales[1], node.right.type)], 0)
    zero = np.broadcast_to(np.asarray(b == 0), (frame.count,))
    valid = both(both(left.valid, right.valid), ~zero if zero.any() else None)
    # Python ints only where int64 has no absolute value
    wide = any(
        (isinstance(x, np.ndarray) and x.dtype == object) or limits(x)[0] <= I64_MIN or limits(x)[1] > I64_MAX
        for x in (a, b)
    )
    if wide:
        x, y = np.broadcast_arrays(np.asarray(a, object), np.asarray(b, object), np.empty(frame.count))[:2]
        y = np.where(zero, 1, y)
        rest = np.abs(x) % np.abs(y)
        return Value(shrink(np.asarray(np.where(x < 0, -rest, rest), object)), valid)
    return Value(np.fmod(a, np.where(zero, 1, b)), valid)


def _absolute(node: typed.Absolute, frame: Frame) -> Value:
    value = evaluate(node.operand, frame)
    if not node.type.exact:
        return Value(np.abs(value.data), value.valid)
    data = ticks(value)
    if (
        isinstance(data, np.ndarray)
        and data.dtype != object
        and limits(data, node.operand.type)[0] <= I64_MIN
    ):
        data = data.astype(object)
    return Value(abs(data), value.valid)


def _float_literal(node: typed.FloatLit, _: Frame) -> Value:
    return Value(node.value, None)


def _to_float(node: typed.ToFloat, frame: Frame) -> Value:
    value = evaluate(node.operand, frame)
    return Value(to_float(ticks(value), node.operand.type.unit), value.valid)


def _float_operation(node: typed.FloatOp, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    valid = both(left.valid, right.valid)
    a, b = left.data, right.data
    if node.operator == "+":
        return Value(a + b, valid)
    if node.operator == "-":
        return Value(a - b, valid)
    if node.operator == "*":
        return Value(a * b, valid)
    zero = np.asarray(b == 0)
    if zero.any():
        valid = both(valid, ~np.broadcast_to(zero, (frame.count,)))
    operation = np.divide if node.operator == "/" else np.fmod
    return Value(operation(a, b), valid)


def _float_negation(node: typed.FloatNeg, frame: Frame) -> Value:
    value = evaluate(node.operand, frame)
    return Value(-value.data, value.valid)


def _bytes_literal(node: typed.BytesLit, _: Frame) -> Value:
    if node.type.kind == "string":
        return Value(pa.scalar(node.value.decode("utf-8"), pa.large_string()), None)
    return Value(pa.scalar(node.value, pa.large_binary()), None)


def _null(node: typed.NullLit, frame: Frame) -> Value:
    nothing = np.zeros(frame.count, np.bool_)
    if node.type.kind in ("string", "binary"):
        kind = pa.large_string() if node.type.kind == "string" else pa.large_binary()
        return Value(pa.nulls(frame.count, kind), nothing)
    return Value(0.0 if node.type.kind == "float" else 0, nothing)


def _constant(node: typed.Const, frame: Frame) -> Value:
    if node.value is None:
        return Value(np.zeros(frame.count, np.bool_), np.zeros(frame.count, np.bool_))
    return Value(np.full(frame.count, node.value), None)


def _call(node: typed.Call, frame: Frame) -> Value:
    names: list[str] = []
    arrays: list[pa.Array] = []
    for argument in node.arguments:
        literal = sql_literal(argument)
        if literal is not None:
            names.append(literal)
        else:
            names.append(f"c{len(arrays)}")
            arrays.append(to_arrow(argument, evaluate(argument, frame), frame.count))
    if not arrays:
        arrays = [pa.nulls(frame.count, pa.int8())]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
    return read(sql_engine.run(node.template.format(*names), batch))


def sql_literal(node: Expr) -> str | None:
    """A constant as SQL text, if the node is one."""
    if isinstance(node, typed.Linear) and not node.terms and node.type.kind in ("int", "decimal"):
        return f"({typed.number_text(node.constant)})"
    if isinstance(node, typed.BytesLit) and node.type.kind == "string" and b"\0" not in node.value:
        return "'" + node.value.decode("utf-8").replace("'", "''") + "'"
    if isinstance(node, typed.Const):
        return "NULL" if node.value is None else str(node.value).upper()
    if isinstance(node, typed.NullLit):
        return "NULL"
    return None


def sql_type(kind: Type) -> pa.DataType | None:
    """The Arrow type in which values of a kind travel to the SQL engine; None if they cannot."""
    if kind.kind == "int":
        if kind.fits:
            return pa.int64()
        return pa.uint64() if (kind.low, kind.high) == (0, 2**64 - 1) else pa.decimal128(38, 0)
    if kind.kind == "decimal":
        scale = next((s for s in range(39) if (kind.unit * 10**s).denominator == 1), None)
        return None if scale is None else pa.decimal128(38, scale)
    zone = "UTC" if kind.zoned else None
    return {
        "float": pa.float64(), "bool": pa.bool_(), "string": pa.large_string(), "binary": pa.large_binary(),
        "date": pa.date32(), "timestamp": pa.timestamp("us", zone), "time": pa.time64("us"),
    }.get(kind.kind)  # fmt: skip


def to_arrow(node: Expr, value: Value, count: int) -> pa.Array:
    """Values as an Arrow array of ``sql_type``; what does not fit becomes NULL."""
    target: Any = sql_type(node.type)
    data, valid = value
    if isinstance(data, pa.Scalar):
        return pa.array([data.as_py()] * count, data.type)
    if isinstance(data, pa.Array):
        return data
    data = np.broadcast_to(np.asarray(data), (count,))
    nulls = None if valid is None else ~np.broadcast_to(valid, (count,))
    if node.type.kind in ("float", "bool"):
        return pa.array(data, target, mask=nulls)
    if node.type.kind in ("timestamp", "time", "date"):
        per = {"date": 86_400_000_000_000}.get(node.type.kind, 1_000)
        scaled = combine([(data, node.type.unit.numerator, None)], 0)
        scaled = scaled // (per * node.type.unit.denominator)
        if scaled.dtype == object:
            outside = np.array([not I64_MIN <= x <= I64_MAX for x in scaled], bool)
            nulls = outside if nulls is None else nulls | outside
            scaled = np.where(outside, 0, scaled).astype(np.int64)
        if node.type.kind == "date":
            return pa.array(scaled.astype(np.int32), pa.int32(), mask=nulls).cast(target)
        return pa.array(scaled, pa.int64(), mask=nulls).cast(target)
    if target in (pa.int64(), pa.uint64()):
        return pa.array(data if data.dtype != object else list(data), target, mask=nulls)
    with localcontext() as context:
        context.prec = 60
        scale = target.scale
        factor = node.type.unit * 10**scale
        limit = 10**38
        items = [int(x) * factor.numerator for x in data]
        shown = [Decimal(x).scaleb(-scale) if abs(x) < limit else None for x in items]
    if nulls is not None:
        shown = [None if gone else x for x, gone in zip(shown, nulls, strict=True)]
    return pa.array(shown, target)


def _select(kind: Type, chosen: np.ndarray, yes: Value, no: Value, count: int) -> Value:
    valid: np.ndarray | None = None
    if yes.valid is not None or no.valid is not None:
        left = yes.valid if yes.valid is not None else np.ones(count, bool)
        right = no.valid if no.valid is not None else np.ones(count, bool)
        valid = np.where(chosen, left, right)
    if kind.kind in ("string", "binary"):
        target = pa.large_string() if kind.kind == "string" else pa.large_binary()
        result = pc.if_else(pa.array(chosen), yes.data, no.data)
        result = (
            result.cast(target)
            if isinstance(result, pa.Array)
            else pa.array([result.as_py()] * count, target)
        )
        return Value(result, None if result.null_count == 0 else np.asarray(result.is_valid()))
    a, b = yes.data, no.data
    if any(isinstance(x, np.ndarray) and x.dtype == object for x in (a, b)) or any(
        isinstance(x, int) and not I64_MIN <= x <= I64_MAX for x in (a, b)
    ):
        a, b = np.asarray(a, object), np.asarray(b, object)
        return Value(shrink(np.asarray(np.where(chosen, a, b), object)), valid)
    return Value(np.where(chosen, a, b), valid)


def _rescaled(node: Expr, kind: Type, frame: Frame) -> Value:
    value = evaluate(node, frame)
    if kind.exact and node.type.exact and node.type.unit != kind.unit:
        return Value(combine([(ticks(value), int(node.type.unit / kind.unit), node.type)], 0), value.valid)
    return value


def _case(node: typed.Case, frame: Frame) -> Value:
    result = _rescaled(node.otherwise, node.type, frame)
    for test, outcome in reversed(node.whens):
        data, valid = evaluate(test, frame)
        chosen = np.broadcast_to(data if valid is None else data & valid, (frame.count,))
        result = _select(node.type, chosen, _rescaled(outcome, node.type, frame), result, frame.count)
    return result


def _extreme(node: typed.Extreme, frame: Frame) -> Value:
    operator = ">=" if node.greatest else "<="
    best = _rescaled(node.parts[0], node.type, frame)
    for part in node.parts[1:]:
        other = _rescaled(part, node.type, frame)
        wins = _compare_values(operator, best, other, node.type, frame.count)
        if best.valid is not None:
            wins = wins & best.valid
        if other.valid is not None:
            wins = wins | ~other.valid
        best = _select(node.type, np.broadcast_to(wins, (frame.count,)), best, other, frame.count)
    return best


def _compare_values(operator: str, a: Value, b: Value, kind: Type, count: int) -> np.ndarray:
    if kind.kind in ("string", "binary"):
        return _compare_bytes(operator, a.data, b.data, count)
    if kind.kind == "float":
        result = compare_floats(operator, a.data, b.data)
    else:
        result = _COMPARE[operator](ticks(a), ticks(b))
    return np.broadcast_to(np.asarray(result, bool), (count,))


def _compare_bytes(operator: str, a: Any, b: Any, count: int) -> np.ndarray:
    result = _ARROW[operator](a, b)
    if isinstance(result, pa.Scalar):
        return np.full(count, bool(result.as_py()))
    return _fill(result)


def _fill(array: pa.Array) -> np.ndarray:
    return np.asarray(array.fill_null(False) if array.null_count else array).astype(bool, copy=False)


def _comparison(node: typed.Compare, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    valid = both(left.valid, right.valid)
    if node.domain == "exact":
        a, b = ticks(left), ticks(right)
        if node.scales != (1, 1):
            a = combine([(a, node.scales[0], node.left.type)], 0)
            b = combine([(b, node.scales[1], node.right.type)], 0)
        result = _compare_integers(node.operator, a, b)
    elif node.domain == "float":
        result = compare_floats(node.operator, left.data, right.data)
    elif node.domain == "mixed":
        if node.left.type.exact:
            result = compare_mixed(node.operator, ticks(left), node.left.type.unit, right.data)
        else:
            result = compare_mixed(
                typed.FLIPPED[node.operator], ticks(right), node.right.type.unit, left.data
            )
    else:
        return Value(_compare_bytes(node.operator, left.data, right.data, frame.count), valid)
    if np.ndim(result) == 0:
        result = np.full(frame.count, bool(result))
    return Value(np.asarray(result, np.bool_), valid)


def _compare_integers(operator: str, a: Any, b: Any) -> Any:
    for data, other in ((a, b), (b, a)):
        # a literal beyond int64 would make NumPy refuse the comparison
        if isinstance(other, int) and not I64_MIN <= other <= I64_MAX and isinstance(data, np.ndarray):
            a = np.asarray(a, object) if data is a or not isinstance(a, np.ndarray) else a
            b = np.asarray(b, object) if data is b or not isinstance(b, np.ndarray) else b
            break
    return _COMPARE[operator](a, b)


def _and(node: typed.And, frame: Frame) -> Value:
    data, valid = evaluate(node.parts[0], frame)
    for part in node.parts[1:]:
        other, other_valid = evaluate(part, frame)
        if valid is None and other_valid is None:
            data = data & other
            continue
        v = np.True_ if valid is None else valid
        w = np.True_ if other_valid is None else other_valid
        false = (v & ~data) | (w & ~other)
        data, valid = data & other, (v & w) | false
        data = data & ~false
    return Value(data, valid)


def _or(node: typed.Or, frame: Frame) -> Value:
    data, valid = evaluate(node.parts[0], frame)
    for part in node.parts[1:]:
        other, other_valid = evaluate(part, frame)
        if valid is None and other_valid is None:
            data = data | other
            continue
        v = np.True_ if valid is None else valid
        w = np.True_ if other_valid is None else other_valid
        true = (v & data) | (w & other)
        data, valid = true, (v & w) | true
    return Value(data, valid)


def _not(node: typed.Not, frame: Frame) -> Value:
    data, valid = evaluate(node.operand, frame)
    return Value(~np.asarray(data, np.bool_), valid)


def _is_null(node: typed.IsNull, frame: Frame) -> Value:
    valid = evaluate(node.operand, frame).valid
    return Value(np.zeros(frame.count, np.bool_) if valid is None else ~valid, None)


def _is_true(node: typed.IsTrue, frame: Frame) -> Value:
    data, valid = evaluate(node.operand, frame)
    return Value(data if valid is None else data & valid, None)


_RULES: dict[type[Expr], Any] = {
    typed.Col: _column, typed.Linear: _linear, typed.Product: _product, typed.Remainder: _remainder,
    typed.Absolute: _absolute, typed.FloatLit: _float_literal, typed.ToFloat: _to_float,
    typed.FloatOp: _float_operation, typed.FloatNeg: _float_negation, typed.BytesLit: _bytes_literal,
    typed.NullLit: _null, typed.Const: _constant, typed.Call: _call, typed.Case: _case, typed.Extreme: _extreme,
    typed.Compare: _comparison, typed.And: _and, typed.Or: _or, typed.Not: _not, typed.IsNull: _is_null,
    typed.IsTrue: _is_true,
}  # fmt: skip
