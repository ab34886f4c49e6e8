"""Sizes that are chosen well by themselves, for those who measure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral

from slidejoin.errors import WindowError

MOST_ROWS = 2**31 - 1  # row ids inside a subwindow are int32


@dataclass(frozen=True)
class Tuning:
    """``subwindow_rows``: rows after which a subwindow is complete; ``chunk_rows``: rows joined at a time.

    The others are of indexes that have such a part: ``partition_rows`` of RaP-Table's partitions, ``buffer_rows`` of the
    insertion buffer of BI-Sort as in the paper, ``merge_rows`` of SPO-Join's mutable part (the paper's delta: a slide, or a
    part of one).

    None leaves the choice to the join. None of them changes a result.
    """

    subwindow_rows: int | None = None
    chunk_rows: int | None = None
    partition_rows: int | None = None
    buffer_rows: int | None = None
    merge_rows: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= MOST_ROWS:
                raise WindowError(
                    f"Tuning({field.name}={value!r}); expected a whole number from 1 to {MOST_ROWS}, or None; leave it "
                    "out for the join's own choice"
                )
            object.__setattr__(self, field.name, int(value))
