"""Which side is pushed next: two finite inputs played as two streams.

Time windows   push the side whose clock is behind, so that the watermark moves and neither side piles up. An
               input that has ended no longer holds the watermark: its clock goes with the other's.
Count windows  with a merge column, push both sides up to the value both have reached, so that the joint order
               is the same for every batch size; without one the sides take turns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

import slidejoin as sj
from slidejoin.matches import Matches

LEFT, RIGHT = "left", "right"


class Side:
    """One side's batches, with one of them in hand."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    @property
    def batch(self) -> pa.RecordBatch | None:
        """The batch in hand, never empty; None after the last. Read when looked at: a pipe may be slow."""
        if self._rest is None:
            self._rest = next((batch for batch in self._batches if batch.num_rows), None)
        return self._rest

    def take(self, rows: int | None = None) -> pa.RecordBatch:
        """The batch in hand, or its first rows; what is left stays in hand."""
        batch = self.batch
        assert batch is not None  # narrows the type: callers look first
        taken = batch.slice(0, rows)
        self._rest = batch.slice(taken.num_rows) if taken.num_rows < batch.num_rows else None
        return taken


def feed_by_time(join: sj.Join, left: Side, right: Side, times: tuple[str, str]) -> Iterator[Matches]:
    """Push everything, the side that is behind first."""
    sides = {LEFT: (left, times[0]), RIGHT: (right, times[1])}
    while left.batch is not None or right.batch is not None:
        if left.batch is None or right.batch is None:
            side, ended = (RIGHT, LEFT) if left.batch is None else (LEFT, RIGHT)
        else:
            side, ended = (RIGHT if join.stats()["held_by"] == RIGHT else LEFT), None
        source, time = sides[side]
        batch = source.take()
        yield join.push(**{side: batch})
        latest = pc.max(batch[time])
        if ended is not None and latest.is_valid and join.stats()["held_by"] == ended:
            yield join.advance(**{ended: latest.as_py() if pa.types.is_integer(latest.type) else latest})
    yield join.finish()


def feed_by_rows(join: sj.Join, left: Side, right: Side, merges: tuple[str, str] | None) -> Iterator[Matches]:
    """Push everything, in the order of the merge columns or in turns."""
    while left.batch is not None and right.batch is not None:
        if merges is None:
            yield join.push(left=left.take(), right=right.take())
            continue
        ours, theirs = left.batch[merges[0]], right.batch[merges[1]]
        ours_last, theirs_last = pc.max(ours), pc.max(theirs)
        # Ties go left first, and the left side's next batch may begin with the value this one ends with: so
        # the right side waits with rows that are equal to the left side's last.
        if _true(pc.less_equal(ours_last, theirs_last)):
            waiting = _first(pc.greater_equal(theirs, ours_last))
            if waiting == 0:
                yield join.push(left=left.take())
            else:
                yield join.push(left=left.take(), right=right.take(waiting))
        else:
            waiting = _first(pc.greater(ours, theirs_last))
            if waiting == 0:
                yield join.push(right=right.take())
            else:
                yield join.push(left=left.take(waiting), right=right.take())
    while left.batch is not None:
        yield join.push(left=left.take())
    while right.batch is not None:
        yield join.push(right=right.take())
    yield join.finish()


def _true(answer: pa.Scalar) -> bool:
    """NULL (a batch of nothing but NULLs) counts as not yet reached: the other side goes on."""
    return bool(answer.as_py())


def _first(mask: pa.Array) -> int:
    """The position of the first true element, or the length."""
    found: int = pc.index(mask, pa.scalar(True)).as_py()
    return len(mask) if found < 0 else found
