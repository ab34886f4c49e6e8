"""Single: one worker gets every row, in pieces that keep its working set in the cache.

Pure routing: it cuts a push into pieces, decides which arrive together, and tells the worker what has left
the window. Matching is the worker's affair; with several threads they share the probes of a piece by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from slidejoin.flow.pieces import pieces
from slidejoin.flow.protocol import Leave, let_leave
from slidejoin.flow.slices import Pace
from slidejoin.pools import SHARE
from slidejoin.window.arrivals import Arrivals
from slidejoin.worker import Step, Worker


class Single:
    name: ClassVar[str] = "single"

    def __init__(self, worker: Worker, piece_rows: int) -> None:
        self.worker = worker
        self.piece_rows = piece_rows
        self.pace = Pace(ordered=worker.order != "none")

    def foresee(self, side: int, batch: pa.RecordBatch) -> None:
        """Others can sort what comes in one piece."""
        if 2 * SHARE <= batch.num_rows <= self.piece_rows:
            self.worker.crew.wake()
            self.worker.foresee(side, batch)

    def route(self, arrivals: Sequence[Arrivals], *, together: bool, step: Step, leave: Leave | None) -> None:
        """Send a push to the worker, piece by piece."""
        if sum(one.rows for one in arrivals) >= 2 * SHARE:
            self.worker.crew.wake()
        pace = self.pace if leave is None else None
        for group in pieces(arrivals, self.piece_rows, together=together, pace=pace):
            admitted = [piece for piece in map(self.worker.admit, group) if piece.rows]
            if admitted:
                self.send(admitted, step)
            let_leave(self.worker, group, leave, step)
            self.pace.learn(self.worker.in_vain(), self.piece_rows)

    def send(self, group: Sequence[Arrivals], step: Step) -> None:
        """Give the worker rows that arrive together; a flow that keeps only some of them begins here."""
        self.worker.join(group, step)

    def describe(self) -> str:
        threads = self.worker.crew.threads
        return f"single, {threads} thread{'s' * (threads > 1)}"
