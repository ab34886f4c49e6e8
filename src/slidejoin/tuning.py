"""Sizes that are chosen well by themselves, for those who measure."""

from __future__ import annotations

from dataclasses import dataclass

from slidejoin.errors import WindowError


@dataclass(frozen=True)
class Tuning:
    """``subwindow_rows``: rows after which a subwindow is complete; ``chunk_rows``: rows joined at a time.

    None leaves the choice to the join. Neither changes a result.
    """

    subwindow_rows: int | None = None
    chunk_rows: int | None = None

    def __post_init__(self) -> None:
        for what in ("subwindow_rows", "chunk_rows"):
            value = getattr(self, what)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise WindowError(f"Tuning({what}={value!r}); expected a whole number of at least 1, or None")
