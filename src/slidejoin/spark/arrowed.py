"""Arrow columns in a pandas frame that Spark turns back into Arrow without looking at a value.

The stateful operator must yield pandas frames. Before Spark makes Arrow of them again, it takes every array and
struct apart in Python, value by value (``Series.apply`` with a function of its own), as a pandas column could hold
anything. Columns made here hold Arrow already and say so: to apply a function to them gives them back as they are.
A Spark that went about it differently would convert the values; the rows would be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa


class ArrowColumn(pd.Series):  # type: ignore[misc]  # pandas has no types here
    """A column that needs no conversion."""

    @property
    def _constructor(self) -> type[ArrowColumn]:
        return ArrowColumn

    def apply(self, *_: Any, **__: Any) -> ArrowColumn:
        return self


class ArrowFrame(pd.DataFrame):  # type: ignore[misc]
    """A frame of such columns, whichever of them are picked."""

    @property
    def _constructor(self) -> type[ArrowFrame]:
        return ArrowFrame

    @property
    def _constructor_sliced(self) -> type[ArrowColumn]:
        return ArrowColumn

    def __getitem__(self, key: Any) -> Any:
        """Spark picks the columns of every frame by name; where that is all of them in their order, it is this frame."""
        return self if isinstance(key, list) and key == self.columns.tolist() else super().__getitem__(key)


def arrowed(columns: Sequence[pa.Array], names: Sequence[str]) -> ArrowFrame:
    """Arrow columns as a frame. Nothing is copied."""
    return ArrowFrame(
        {
            name: pd.Series(pd.arrays.ArrowExtensionArray(column))
            for name, column in zip(names, columns, strict=True)
        }
    )
