"""Single: one worker gets every row, in pieces that keep its working set in the cache.

Pure routing: it cuts a push into pieces, decides which arrive together, and tells the worker what has left
the window. Matching is the worker's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from slidejoin.window.arrivals import Arrivals
from slidejoin.worker import SHARE, Step, Worker


class Single:
    name: ClassVar[str] = "single"

    def __init__(self, worker: Worker, piece_rows: int) -> None:
        self.worker = worker
        self.piece_rows = piece_rows

    def route(
        self,
        arrivals: Sequence[Arrivals],
        *,
        together: bool,
        step: Step,
        leave: Callable[[int, int], int] | None,
    ) -> None:
        """Send a push to the worker. ``together``: the sides arrive interleaved by rank.

        ``leave(side, seen)`` is the bound below which rows leave once the stream has shown ``seen`` rows;
        None where rows leave by time, at the end of the push.
        """
        if sum(one.rows for one in arrivals) >= 2 * SHARE:
            self.worker.crew.wake()
        for group in (
            _interleaved(arrivals, self.piece_rows) if together else _in_turn(arrivals, self.piece_rows)
        ):
            admitted = [piece for piece in map(self.worker.admit, group) if piece.rows]
            if admitted:
                self.send(admitted, step)
            for piece in group:
                ring = self.worker.rings[piece.side]
                if leave is not None:
                    seen = piece.positions.first + piece.rows
                    self.worker.expire(piece.side, leave(piece.side, seen), step)
                if ring is not None:
                    ring.complete(self.worker.crew)

    def send(self, group: Sequence[Arrivals], step: Step) -> None:
        """Give the worker rows that arrive together; a flow that keeps only some of them begins here."""
        self.worker.join(group, step)


def _in_turn(arrivals: Sequence[Arrivals], size: int) -> Iterator[list[Arrivals]]:
    for one in arrivals:
        for at in range(0, one.rows, size):
            yield [one.slice(at, size)]


def _interleaved(arrivals: Sequence[Arrivals], size: int) -> Iterator[list[Arrivals]]:
    """Pieces of consecutive arrival ranks, whichever side they are of."""
    ranks = [one.ranks.array(one.rows) for one in arrivals]
    total = sum(one.rows for one in arrivals)
    for begin in range(0, total, size):
        group = []
        for one, rank in zip(arrivals, ranks, strict=True):
            a, b = (int(at) for at in np.searchsorted(rank, [begin, begin + size]))
            if b > a:
                group.append(one.slice(a, b - a))
        yield group
