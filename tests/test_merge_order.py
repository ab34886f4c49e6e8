"""``Rows(by=)``: rows of both sides that come together are merged by value, whatever types the two columns have."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import slidejoin as sj
from duel import pairs_of

EDGE = 2**53
NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), st.integers(EDGE - 2, EDGE + 3) | st.integers(2**63 - 3, 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(EDGE - 2, EDGE + 3) | st.integers(2**64 - 3, 2**64 - 1)),
    "decimal": (pa.decimal128(20, 2), st.decimals("0.6", "0.8", places=2)),
    "float64": (pa.float64(), st.sampled_from([EDGE - 1.0, EDGE + 0.0, EDGE + 2.0, 2.0**63, 2.0**64, 0.7, math.nan])),
    "float32": (pa.float32(), st.sampled_from([float(EDGE), 2.0**24, 0.699999988079071, -math.inf, math.nan])),
}  # fmt: skip


def merged(left: list[Any], right: list[Any]) -> list[tuple[int, int]]:
    """The pairs of windows of one row, by exact arithmetic: a row meets the last of the other side before it."""

    def place(value: Any) -> tuple[int, Fraction]:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return (9 if value is None else 8 if math.isnan(value) else 7 if value > 0 else -1), Fraction(0)
        return 0, Fraction(value)

    rows = [
        (place(value), side, n) for side, column in enumerate((left, right)) for n, value in enumerate(column)
    ]
    last: list[int | None] = [None, None]
    pairs = []
    for _, side, n in sorted(rows):
        last[side] = n
        other = last[1 - side]
        if other is not None:
            pairs.append((n, other) if side == 0 else (other, n))
    return pairs


@pytest.mark.parametrize("floating", ["float64", "float32"])
@pytest.mark.parametrize("exact", ["int64", "uint64", "decimal", "float64"])
@given(data=st.data(), swapped=st.booleans())
def test_numbers_of_two_types_are_merged_exactly(
    data: st.DataObject, exact: str, floating: str, *, swapped: bool
) -> None:
    kinds, columns = [], []
    for name in (exact, floating):
        kind, values = NUMBERS[name]
        kinds.append(kind)
        columns.append(data.draw(st.lists(values | st.none(), min_size=1, max_size=6), label=name))
    if swapped:
        kinds.reverse()
        columns.reverse()
    left, right = (pa.table({"at": pa.array(c, type=k)}) for c, k in zip(columns, kinds, strict=True))
    found = sj.Join("TRUE", window=sj.Rows(1, by="at")).push(left=left, right=right)
    assert sorted(pairs_of(found)) == sorted(merged(left["at"].to_pylist(), right["at"].to_pylist()))


@example(values=[EDGE + 1, EDGE])
@given(values=st.lists(st.integers(EDGE - 2, EDGE + 2), min_size=1, max_size=5))
def test_a_dictionary_of_numbers_is_merged_by_its_values(values: list[int]) -> None:
    left = pa.table({"at": pa.array(values).dictionary_encode()})
    found = sj.Join("TRUE", window=sj.Rows(1, by="at")).push(left=left, right={"at": [float(EDGE)]})
    assert sorted(pairs_of(found)) == sorted(merged(values, [float(EDGE)]))
