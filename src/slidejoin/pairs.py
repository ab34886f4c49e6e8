"""Results before they are rows: which row of an arriving batch joins which rows of a subwindow.

Design      a segment points from one arriving batch into one subwindow by ranges; nothing is expanded until
            somebody asks for rows, and then in bounded pieces. Candidates that must be checked (a window's
            edge, a residual) are expanded while probing and only the survivors are kept; if there are very
            many, not even those: they are found again when rows are asked for.
Order       ``ordered`` arranges the segments of one step by the arrival of the probing row and, if strict,
            of its partners, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.condition import Predicate
from slidejoin.index import Ranges
from slidejoin.kernels.chores import Chores, write_check, write_expand
from slidejoin.kernels.expand import expand, expand_numbers, expand_visible
from slidejoin.pools import Crew
from slidejoin.window.arrivals import Arrivals, Int32s, Int64s, Source
from slidejoin.window.payload import from_several, no_columns
from slidejoin.window.subwindow import Subwindow

CANDIDATES = 1 << 18  # candidate pairs checked at a time: a few MB of gathered columns
SURVIVORS = (
    1 << 25
)  # surviving pairs of one segment kept in memory (8 bytes each) before they are only counted

NONE = np.empty(0, dtype=np.int64)
COUNTED = np.arange((1 << 16) + 1, dtype=np.int32)  # written once: most lists of pairs are no longer
COUNTED.flags.writeable = False


class Chunk(NamedTuple):
    """Some result rows: for each side the sources, which of them each row is from, and its id there.

    ``which`` is None where all rows are from the first source; a side is None where it is absent.
    """

    left: Gather | None
    right: Gather | None
    rows: int


class Gather(NamedTuple):
    sources: Sequence[Source]
    which: Int32s | None
    ids: Int32s

    def seqs(self) -> Int64s:
        if self.which is None:
            return self.sources[0].seqs_of(self.ids)
        out = np.empty(len(self.ids), dtype=np.int64)
        for number, source in enumerate(self.sources):
            here = np.flatnonzero(self.which == number)
            out[here] = source.seqs_of(self.ids[here])
        return out

    def columns(self, names: Sequence[str]) -> pa.RecordBatch:
        if self.which is None:
            return self.sources[0].take(self.ids, names)
        return from_several(lambda number, some: self.sources[number].take(some, names), self.which, self.ids)


class Check(NamedTuple):
    """What the candidates of a segment must still pass."""

    window: bool
    predicate: Predicate | None


class Sharing:
    """Work on pairs that the threads of a crew are going to share."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.chores = Chores()

    def room(self, pairs: int, cuts: Int64s | None) -> tuple[Int64s, Int64s]:
        """Room for the chores of so many pairs, and where to cut them, if that is known and worth it."""
        pieces = self.crew.pieces(pairs)
        if pieces == 1 or cuts is None:
            return self.chores.room(pieces), NONE
        return self.chores.room(len(cuts) // 2), cuts


class Segment(NamedTuple):
    """Pairs of one arriving batch with one subwindow."""

    probing: Arrivals
    stored: Subwindow
    found: Ranges
    pairs: int
    check: Check | None = None  # set: the ranges are candidates and `pairs` counts those that pass

    @property
    def ranges(self) -> Ranges:
        """What was found, when everything is there."""
        return self.found.settled()

    def pieces(self, limit: int) -> Iterator[tuple[Int32s, Int32s]]:
        """The pairs as ``(probing rows, stored ids)``, at most ``limit`` at a time."""
        if self.check is not None:
            for rows, ids in candidates(self.ranges, self.probing, self.stored, self.check, limit):
                if len(rows):
                    yield rows, ids
            return
        ranges = self.ranges
        for at, offset, count in cuts(ranges, limit):
            rows, ids = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
            expand(*ranges[:4], at, offset, rows, ids)
            yield rows, ids

    def write_numbers(self, left: Int64s, right: Int64s, sharing: Sharing | None) -> None:
        """Fill in the row numbers of all pairs, or leave it to be shared; the arrays are as long as there are pairs."""
        probing, stored = (left, right) if self.probing.side == 0 else (right, left)
        if self.check is not None:
            self._write_checked(probing, stored)
            return
        ranges, numbers, column = self.ranges, self.probing.seqs, self.stored.seqs
        of_rows, of_ids = NONE if numbers.values is None else numbers.values, column.values
        if sharing is None:
            expand_numbers(*ranges[:4], of_rows, numbers.first, of_ids, column.first, probing, stored)
            return
        room, cuts = sharing.room(self.pairs, ranges.cuts)
        write_expand(
            room,
            *ranges[:4],
            cuts,
            of_rows,
            numbers.first,
            of_ids,
            column.first,
            probing,
            stored,
        )
        sharing.chores.hold(of_rows, of_ids)

    def _write_checked(self, probing: Int64s, stored: Int64s) -> None:
        at = 0
        for rows, ids in self.pieces(CANDIDATES):
            probing[at : at + len(rows)] = self.probing.seqs_of(rows)
            stored[at : at + len(ids)] = self.stored.seqs_of(ids)
            at += len(rows)

    def chunks(self, limit: int) -> Iterator[Chunk]:
        for rows, ids in self.pieces(limit):
            probing, stored = Gather((self.probing,), None, rows), Gather((self.stored,), None, ids)
            pair = (probing, stored) if self.probing.side == 0 else (stored, probing)
            yield Chunk(*pair, len(rows))


class Singles(NamedTuple):
    """Rows of one side alone: padding of outer joins, results of semi and anti joins."""

    side: int
    source: Source
    ids: Int32s

    @property
    def pairs(self) -> int:
        return len(self.ids)

    def write_numbers(self, left: Int64s, right: Int64s, sharing: Sharing | None) -> None:
        """Fill in the row numbers."""
        del sharing  # there is nothing to share
        mine, other = (left, right) if self.side == 0 else (right, left)
        mine[:] = self.source.seqs_of(self.ids)
        other.fill(-1)

    def chunks(self, limit: int) -> Iterator[Chunk]:
        for at in range(0, len(self.ids), limit):
            ids = self.ids[at : at + limit]
            alone = Gather((self.source,), None, ids)
            yield Chunk(alone, None, len(ids)) if self.side == 0 else Chunk(None, alone, len(ids))


def cuts(ranges: Ranges, limit: int) -> Iterator[tuple[int, int, int]]:
    """Where to resume expanding, ``limit`` pairs at a time: ``(range, offset in it, pairs)``."""
    if ranges.pairs <= limit:
        if ranges.pairs:
            yield 0, 0, ranges.pairs
        return
    ends = np.cumsum(ranges.ends.astype(np.int64) - ranges.starts)
    for done in range(0, ranges.pairs, limit):
        at = int(np.searchsorted(ends, done, side="right"))
        yield at, done - (int(ends[at - 1]) if at else 0), min(limit, ranges.pairs - done)


def candidates(
    ranges: Ranges,
    probing: Arrivals,
    stored: Subwindow,
    check: Check,
    limit: int = CANDIDATES,
    outside: list[int] | None = None,
) -> Iterator[tuple[Int32s, Int32s]]:
    """The candidate pairs that pass, from at most ``limit`` candidates at a time.

    Where a list for it is given, how many were ``outside`` of the window is appended to that.
    """
    for at, offset, count in cuts(ranges, limit):
        rows, ids = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
        if check.window:
            positions = stored.positions
            kept = expand_visible(
                ranges.rows, ranges.starts, ranges.ends, ranges.ids, positions.values, positions.first,
                *probing.reach.bounds, at, offset, count, rows, ids,
            )  # fmt: skip
            rows, ids = rows[:kept], ids[:kept]
            if outside is not None:
                outside.append(count - int(kept))
        else:
            expand(ranges.rows, ranges.starts, ranges.ends, ranges.ids, at, offset, rows, ids)
        if check.predicate is not None and len(rows):
            passed = np.flatnonzero(holds(check.predicate, probing, rows, stored, ids))
            rows, ids = rows[passed], ids[passed]
        yield rows, ids


def holds(predicate: Predicate, probing: Arrivals, rows: Int32s, stored: Source, ids: Int32s) -> np.ndarray:
    """Whether SQL says TRUE, pair by pair."""
    sides: list[tuple[Source, Int32s]] = [(probing, rows), (stored, ids)]
    if probing.side == 1:
        sides.reverse()
    left, right = (
        source.take(which, names) if names else None
        for (source, which), names in zip(sides, predicate.columns, strict=True)
    )
    if left is None and right is None:
        left = no_columns(len(rows))
    return predicate.mask(left, right)


def visible(ranges: Ranges, probing: Arrivals, stored: Subwindow, crew: Crew) -> tuple[Int32s, Int32s]:
    """The pairs inside the window; threads of the crew look at some of the ranges each."""
    pieces = crew.pieces(ranges.pairs)
    if pieces == 1:
        return next(candidates(ranges, probing, stored, Check(window=True, predicate=None)))
    out, kept = np.empty((2, ranges.pairs), dtype=np.int32), np.empty((pieces, 2), dtype=np.int64)
    positions = stored.positions
    chores = Chores()
    write_check(
        chores.room(pieces),
        *ranges[:4],
        positions.values,
        positions.first,
        *probing.reach.bounds,
        *out,
        kept.ravel(),
    )
    crew.share(chores)
    taken = [slice(begin, begin + count) for begin, count in kept.tolist()]
    return np.concatenate([out[0, some] for some in taken]), np.concatenate([out[1, some] for some in taken])


def survivors(
    ranges: Ranges,
    probing: Arrivals,
    stored: Subwindow,
    check: Check,
    crew: Crew,
    outside: list[int],
    *,
    keep_all: bool,
) -> Segment | None:
    """The segment of the candidates that pass; None if none does. To ``outside`` go those out of the window."""
    if check.predicate is None and ranges.pairs <= CANDIDATES:
        row, one = visible(ranges, probing, stored, crew)
        outside.append(ranges.pairs - len(row))
        return Segment(probing, stored, listed(row, one), len(row)) if len(row) else None
    rows: list[Int32s] = []
    ids: list[Int32s] = []
    total = 0
    for some_rows, some_ids in candidates(ranges, probing, stored, check, outside=outside):
        total += len(some_rows)
        if total <= SURVIVORS or keep_all:
            rows.append(some_rows)
            ids.append(some_ids)
        else:
            rows, ids = [], []
    if total == 0:
        return None
    if total > SURVIVORS and not keep_all:
        return Segment(probing, stored, ranges, total, check)
    return Segment(probing, stored, listed(np.concatenate(rows), np.concatenate(ids)), total)


def listed(rows: Int32s, ids: Int32s) -> Ranges:
    """Pairs spelled out, as ranges of one."""
    ends = COUNTED[: len(rows) + 1] if len(rows) < len(COUNTED) else np.arange(len(rows) + 1, dtype=np.int32)
    return Ranges(rows, ends[:-1], ends[1:], ids, len(rows))


class Ordered(NamedTuple):
    """Segments of one step, by arrival of the probing row; its partners too if ``strict``."""

    segments: Sequence[Segment]
    strict: bool

    @property
    def pairs(self) -> int:
        return sum(segment.pairs for segment in self.segments)

    def write_numbers(self, left: Int64s, right: Int64s, sharing: Sharing | None) -> None:
        """Fill in the row numbers of all pairs, in order."""
        del sharing  # the order is made of all of them at once
        at = 0
        for chunk in self.chunks(CANDIDATES):
            assert chunk.left is not None
            assert chunk.right is not None
            left[at : at + chunk.rows], right[at : at + chunk.rows] = chunk.left.seqs(), chunk.right.seqs()
            at += chunk.rows

    def chunks(self, limit: int) -> Iterator[Chunk]:
        by_rank = [_sorted_by_rank(segment) for segment in self.segments]
        ranks = np.concatenate([ranks for ranks, _ in by_rank])
        lengths = np.concatenate([(r.ends.astype(np.int64) - r.starts) for _, r in by_rank])
        present, where = np.unique(ranks, return_inverse=True)
        totals = np.bincount(where, weights=lengths).astype(np.int64)
        ends = np.cumsum(totals)
        first = 0
        while first < len(present):
            done = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + limit, side="right")))
            yield from self._block(by_rank, int(present[first]), int(present[last - 1]), limit)
            first = last

    def _block(
        self, by_rank: list[tuple[Int64s, Ranges]], low: int, high: int, limit: int
    ) -> Iterator[Chunk]:
        """All pairs of the probing rows ranked ``low`` to ``high``."""
        parts: list[tuple[Int64s, Int32s, Int32s, Int32s]] = []
        for number, (ranks, ranges) in enumerate(by_rank):
            a, b = np.searchsorted(ranks, low), np.searchsorted(ranks, high, side="right")
            if a == b:
                continue
            starts, ends = ranges.starts[a:b], ranges.ends[a:b]
            count = int((ends.astype(np.int64) - starts).sum())
            rows, ids = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
            expand(ranges.rows[a:b], starts, ends, ranges.ids, 0, 0, rows, ids)
            pair_ranks = np.repeat(ranks[a:b], ends - starts)
            parts.append((pair_ranks, np.full(count, number, dtype=np.int32), rows, ids))
        ranks, which, rows, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
        if self.strict:
            ages = {id(s): age for age, s in enumerate(_oldest_first(self.segments))}
            age = np.array([ages[id(segment.stored)] for segment in self.segments])[which]
            order = np.lexsort((ids, age, ranks))
        else:
            order = np.argsort(ranks, kind="stable")
        for at in range(0, len(order), limit):
            piece = order[at : at + limit]
            yield self._chunk(which[piece], rows[piece], ids[piece])

    def _chunk(self, which: Int32s, rows: Int32s, ids: Int32s) -> Chunk:
        """Pairs of several segments: each side's sources are batches for some and subwindows for others."""
        on_left = np.array([segment.probing.side == 0 for segment in self.segments])[which]
        left_ids, right_ids = np.where(on_left, rows, ids), np.where(on_left, ids, rows)
        left = [s.probing if s.probing.side == 0 else s.stored for s in self.segments]
        right = [s.stored if s.probing.side == 0 else s.probing for s in self.segments]
        return Chunk(_compact(left, which, left_ids), _compact(right, which, right_ids), len(which))


def _oldest_first(segments: Sequence[Segment]) -> list[Subwindow]:
    seen = {id(segment.stored): segment.stored for segment in segments}
    return sorted(seen.values(), key=lambda subwindow: subwindow.number)


def _compact(sources: Sequence[Source], which: Int32s, ids: Int32s) -> Gather:
    """Name each distinct source once."""
    distinct: dict[int, int] = {}
    named: list[Source] = []
    numbers = np.empty(len(sources), dtype=np.int32)
    for number, source in enumerate(sources):
        if id(source) not in distinct:
            distinct[id(source)] = len(named)
            named.append(source)
        numbers[number] = distinct[id(source)]
    return Gather(named, numbers[which], ids)


def _sorted_by_rank(segment: Segment) -> tuple[Int64s, Ranges]:
    ranges = segment.ranges
    ranks = segment.probing.ranks.of(ranges.rows)
    order = np.argsort(ranks, kind="stable")
    ordered = Ranges(ranges.rows[order], ranges.starts[order], ranges.ends[order], ranges.ids, ranges.pairs)
    return ranks[order], ordered
