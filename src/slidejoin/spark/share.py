"""Share: the flow of one worker among several. It stores its own rows and lets the others probe, or pass.

The embedded engine's flow cuts a push into pieces and hands them to the worker loop; this one does the same
and leaves out, piece by piece, what other workers store. It also notes what was stored, which is what goes
into the log, and numbers it, by which match marks are found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.flow import Single
from slidejoin.window.arrivals import Arrivals, Numbers
from slidejoin.worker import Step, Worker


class Span(NamedTuple):
    """Rows that were stored one after the other: the number of the first, and how many."""

    first: int
    rows: int


class Stored(NamedTuple):
    """Rows that a push has put into state, in arrival order."""

    side: int
    batch: pa.RecordBatch
    positions: NDArray[np.int64]
    span: Span

    def cut(self, size: int) -> Iterator[Stored]:
        """The same rows in pieces of about so many bytes."""
        count = min(self.span.rows, -(-self.batch.nbytes // size))
        if count <= 1:
            yield self
            return
        ends = [self.span.rows * n // count for n in range(count + 1)]
        for begin, end in pairwise(ends):
            span = Span(self.span.first + begin, end - begin)
            yield Stored(self.side, self.batch.slice(begin, end - begin), self.positions[begin:end], span)


class Share(Single):
    """``sharing``: sides of which only rows at home are stored; of these, ``passing`` rows do not even probe."""

    name = "share"

    def __init__(
        self, worker: Worker, piece_rows: int, *, sharing: Sequence[int], passing: Sequence[int]
    ) -> None:
        super().__init__(worker, piece_rows)
        self._sharing, self._passing = tuple(sharing), tuple(passing)
        self._homes: tuple[NDArray[np.bool_] | None, ...] = (None, None)
        self._firsts: tuple[int, ...] = (0, 0)
        self._counts = [0, 0]
        self.stored: list[Stored] = []

    def expect(
        self, homes: tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None], firsts: tuple[int, int]
    ) -> None:
        """What the next push brings: which of its rows are at home here (None: all), and their first numbers."""
        self._homes, self._firsts, self.stored = homes, firsts, []

    def send(self, group: Sequence[Arrivals], step: Step) -> None:
        worker = self.worker
        if self._sharing and not self._passing:
            for piece in group:
                mine = self._numbered(self._at_home(piece))
                if mine.rows:
                    worker.insert(mine)
                    self._note(mine)
            for piece in group:
                segments = worker.probe(piece)
                step.matches += sum(segment.pairs for segment in segments)
                step.parts += segments
            return
        kept = [
            self._numbered(self._at_home(piece) if piece.side in self._passing else piece) for piece in group
        ]
        kept = [piece for piece in kept if piece.rows]
        if kept:
            worker.join(kept, step)
        for piece in kept:
            self._note(piece)

    def refill(self, side: int, batch: pa.RecordBatch, positions: NDArray[np.int64]) -> Span:
        """Store rows that come from the log: no probing, no noting. In pieces, as subwindows fill up."""
        ring = self.worker.rings[side]
        assert ring is not None
        arrivals = Arrivals(side, batch, batch.num_rows, Numbers(0), Numbers(0, positions))
        span = Span(self._counts[side], arrivals.rows)
        for at in range(0, arrivals.rows, self.piece_rows):
            self.worker.insert(self._numbered(arrivals.slice(at, self.piece_rows)))
            ring.complete()
        return span

    def _at_home(self, piece: Arrivals) -> Arrivals:
        homes = self._homes[piece.side]
        if homes is None:
            return piece
        here = homes[piece.seqs.array(piece.rows) - self._firsts[piece.side]]
        return piece if here.all() else piece.select(np.flatnonzero(here).astype(np.int32))

    def _numbered(self, piece: Arrivals) -> Arrivals:
        """Stored rows are numbered as they are stored: consecutive numbers need no memory."""
        first = self._counts[piece.side]
        self._counts[piece.side] += piece.rows
        return piece._replace(seqs=Numbers(first))

    def _note(self, piece: Arrivals) -> None:
        span = Span(piece.seqs.first, piece.rows)
        self.stored.append(Stored(piece.side, piece.batch, piece.positions.array(piece.rows), span))
