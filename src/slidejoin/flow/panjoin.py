"""PanJoin: a manager, and workers that own subwindows.

Design      the manager (the calling thread) cuts a push into pieces and goes through five steps with each: it
            collects the rows that take part, sorts and packs them for the indexes, sends each worker its errands,
            waits for the answers, and lets rows leave and subwindows be completed. Subwindows belong to workers
            in turn: number n to worker n mod W. An errand says fill (to the owner of the newest subwindow) or
            probe (to every owner of a subwindow within reach); workers read their own subwindows and
            the message, and nothing of each other. While they are at it, somebody prepares the next piece: sorting
            reads the rows alone.
Invariants  an index is touched by its owner's errands only, one after the other, fill before probe; rows are stored,
            let go and completed while no errand is out; what was prepared for a plan that has changed since
            is prepared again.
Cost        a piece takes as long as its slowest worker. There are more workers than threads, and a thread that is done
            takes the next worker's errands, so that an old subwindow and a new one even out.
Failure     an errand that fails raises, when all the others have ended; the engine then puts everything back.
Reference   seed 000, III-A. We differ: the five steps are those of one push (its caller waits for the matches, so it
            is the caller who collects rows into batches); no mirror of the workers' arrays, as they are in one
            process; workers are not tied to threads, so their number can change from push to push.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import pyarrow as pa

from slidejoin.flow.pieces import pieces
from slidejoin.flow.protocol import Leave, let_leave
from slidejoin.flow.slices import Pace
from slidejoin.pairs import Segment
from slidejoin.pools import SHARE
from slidejoin.window.arrivals import Arrivals
from slidejoin.window.subwindow import Subwindow
from slidejoin.worker import Placed, Ready, Step, Task, Worker

WORKERS = 2  # for each thread: while one worker has little to do, its thread goes on with another
PIECE_ROWS = 1 << 14  # a push of 32 K is two pieces, so that one is sorted while the other is probed

Answers = list[list[Segment]]  # what was found for each of the sides that arrived together


class Piece(NamedTuple):
    """Rows that arrive together, and those of them that take part, sorted."""

    group: list[Arrivals]
    ready: list[Ready]


class Errands(NamedTuple):
    """What one worker is to do: fill its newest subwindow, then probe all that it owns."""

    fills: list[Placed]
    probes: list[list[Task]]


class PanJoin:
    name: ClassVar[str] = "panjoin"

    def __init__(self, worker: Worker, piece_rows: int) -> None:
        self.worker = worker
        self.piece_rows = piece_rows
        self.pace = Pace(ordered=worker.order != "none")

    @property
    def workers(self) -> int:
        """How many there are; it may be another number at the next push."""
        return WORKERS * self.worker.crew.threads

    def foresee(self, side: int, batch: pa.RecordBatch) -> None:
        """Nothing: pieces are sorted while others are probed with."""

    def route(self, arrivals: Sequence[Arrivals], *, together: bool, step: Step, leave: Leave | None) -> None:
        """Send a push through the workers, one piece being sorted while another is probed."""
        size = self.piece_rows if self.worker.crew.threads == 1 else min(self.piece_rows, PIECE_ROWS)
        if sum(one.rows for one in arrivals) >= 2 * SHARE:
            self.worker.crew.wake()
        pace = self.pace if leave is None else None
        groups = pieces(arrivals, size, together=together, pace=pace)
        piece = self._collect(next(groups, None))
        while piece is not None:
            piece = self._process(piece, next(groups, None), leave, step)
            self.pace.learn(self.worker.in_vain(), size)

    def describe(self) -> str:
        threads = self.worker.crew.threads
        return f"panjoin, {self.workers} workers on {threads} thread{'s' * (threads > 1)}"

    def _collect(self, group: list[Arrivals] | None) -> Piece | None:
        """Steps 1 and 2: the rows that take part, sorted for the indexes."""
        if group is None:
            return None
        admitted = [piece for piece in map(self.worker.admit, group) if piece.rows]
        return Piece(group, [self.worker.prepare(piece) for piece in admitted])

    def _process(
        self, piece: Piece, following: list[Arrivals] | None, leave: Leave | None, step: Step
    ) -> Piece | None:
        """Steps 3 to 5: send errands, gather the answers, let rows leave. Returns the next piece, sorted."""
        placed = self.worker.place(piece.ready)
        errands = self._errands(placed)
        coming: list[Piece | None] = []

        def prepare() -> Answers:
            coming.append(self._collect(following))
            return []

        tasks: list[Callable[[], Answers]] = [prepare, *(partial(self._work, mine) for mine in errands)]
        answers = self.worker.crew.each(tasks)[1:]
        if placed:
            found = [[segment for each in answers for segment in each[n]] for n in range(len(placed))]
            self.worker.conclude(placed, found, step)
        let_leave(self.worker, piece.group, leave, step)
        return coming[0]

    def _errands(self, placed: Sequence[Placed]) -> list[Errands]:
        """Step 3: a worker's errands, for each that has any."""
        workers = self.workers
        errands = []
        for owner in range(workers):

            def owned(subwindow: Subwindow, owner: int = owner) -> bool:
                return subwindow.number % workers == owner

            fills = [one for one in placed if owned(one.home.subwindow)]
            probes = [self.worker.probing(one, owned) for one in placed]
            if fills or any(probes):
                errands.append(Errands(fills, probes))
        return errands

    def _work(self, errands: Errands) -> Answers:
        """Step 4, one worker's: it fills first, as rows that arrive together meet each other."""
        for one in errands.fills:
            self.worker.fill(one)
        return [[segment for task in tasks for segment in task()] for tasks in errands.probes]
