"""What every flow is: rows of a push in, errands for the worker out. Pure routing and gathering, no matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import pyarrow as pa

from slidejoin.window.arrivals import Arrivals
from slidejoin.worker import Step, Worker

Leave = Callable[[int, int], int]


class Flow(Protocol):
    """``piece_rows``: the most rows that are joined at a time."""

    name: ClassVar[str]
    worker: Worker
    piece_rows: int

    def __init__(self, worker: Worker, piece_rows: int) -> None: ...

    def foresee(self, side: int, batch: pa.RecordBatch) -> None:
        """Rows have come that are routed as soon as the books are kept; if as they are, what is begun now is of use."""

    def route(self, arrivals: Sequence[Arrivals], *, together: bool, step: Step, leave: Leave | None) -> None:
        """Send a push on its way. ``together``: the sides arrive interleaved by rank.

        ``leave(side, seen)`` is the bound below which rows leave once the stream has shown ``seen`` rows;
        None where rows leave by time, at the end of the push.
        """

    def describe(self) -> str:
        """Who gets which row, for ``explain()``."""


def let_leave(worker: Worker, group: Sequence[Arrivals], leave: Leave | None, step: Step) -> None:
    """A group has been joined: rows leave that it pushed out, and a subwindow that is long enough is completed."""
    for piece in group:
        if leave is not None:
            seen = piece.positions.first + piece.rows
            worker.expire(piece.side, leave(piece.side, seen), step)
        worker.complete(piece.side)
