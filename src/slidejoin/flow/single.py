"""Single: one worker gets every row, in pieces that keep its working set in the cache.

Pure routing: it cuts a push into pieces, decides which arrive together, and tells the worker what has left
the window. Matching is the worker's affair; with several threads they share the probes of a piece by key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from slidejoin.flow.pieces import pieces
from slidejoin.flow.protocol import Leave, let_leave
from slidejoin.pools import SHARE
from slidejoin.window.arrivals import Arrivals
from slidejoin.worker import Step, Worker, nothing


class Single:
    name: ClassVar[str] = "single"

    def __init__(self, worker: Worker, piece_rows: int) -> None:
        self.worker = worker
        self.piece_rows = piece_rows

    def route(self, arrivals: Sequence[Arrivals], *, together: bool, step: Step, leave: Leave | None) -> None:
        """Send a push to the worker, piece by piece."""
        if sum(one.rows for one in arrivals) >= 2 * SHARE:
            self.worker.crew.wake()
        for group in pieces(arrivals, self.piece_rows, together=together):
            admitted = [piece for piece in map(self.worker.admit, group) if piece.rows]
            leaving = partial(let_leave, self.worker, group, leave, step)
            if not admitted:
                leaving()
            elif len(group) == 1:
                self.send(admitted, step, leaving)
            else:
                self.send(admitted, step)
                leaving()

    def send(self, group: Sequence[Arrivals], step: Step, leaving: Callable[[], None] = nothing) -> None:
        """Give the worker rows that arrive together; a flow that keeps only some of them begins here.

        ``leaving`` lets rows of their side leave; it may be done while they are being probed with.
        """
        self.worker.join(group, step, leaving)

    def describe(self) -> str:
        threads = self.worker.crew.threads
        return f"single, {threads} thread{'s' * (threads > 1)}"
