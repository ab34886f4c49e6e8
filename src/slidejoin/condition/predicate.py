"""A predicate on pairs of rows: what is left to check on candidates, or all of it for a scan."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slidejoin.condition import typed
from slidejoin.condition.evaluate import mask
from slidejoin.condition.typed import Expr


class Predicate:
    """A typed condition with its text and the columns it needs."""

    __slots__ = ("columns", "expression", "text")

    def __init__(self, expression: Expr) -> None:
        self.expression = expression
        self.text = expression.text
        self.columns = typed.columns(expression)

    def mask(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> np.ndarray:
        """True where SQL says TRUE for row i of left with row i of right. O(rows); thread-safe."""
        return mask(self.expression, left, right)

    def __repr__(self) -> str:
        return f"Predicate({self.text})"


def predicate_of(parts: list[Expr]) -> Predicate | None:
    """The AND of parts; None when there is nothing to check."""
    return Predicate(typed.conjunction(parts)) if parts else None
