"""Shards kept between micro-batches: a cache of the log, never a second truth.

Design      a Python worker process keeps, for each worker that it has served, the shard and the manifest that
            the shard stands at. When a micro-batch begins, the manifest in the state store decides: the same
            tag, and the shard is used as it is; a later state of the same history, and the shard reads the
            entries that it missed; anything else, and it is thrown away and built from the log.
Exactness   a shard is taken out of the cache while a micro-batch runs and put back when all of it has gone
            well, so that a failed attempt leaves nothing behind; one that is ahead of the state, because its
            micro-batch was never committed, does not fit and is thrown away.
Memory      shards that were used longest ago go first once all of them exceed the budget.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidejoin.spark.log import Entry, Log, Manifest
from slidejoin.spark.query import Query
from slidejoin.spark.shard import Outcome, Shard
from slidejoin.spark.share import Span


class Key(NamedTuple):
    """Whose shard it is: streaming query, join in it, worker."""

    query_id: str | None
    join: str
    worker: int


@dataclass
class Replica:
    """A shard and the state that it stands at."""

    shard: Shard
    manifest: Manifest
    spans: dict[int, list[Span]] = field(default_factory=dict)  # the rows of entries that have match marks

    @staticmethod
    def new(query: Query, worker: int) -> Replica:
        return Replica(Shard(query, worker), Manifest(0, query.fingerprint, 1, (None, None), (0, 0), ()))

    @property
    def nbytes(self) -> int:
        return sum(ring.nbytes for ring in self.shard.engine.worker.rings if ring is not None)

    def fits(self, later: Manifest) -> bool:
        """Whether that state follows from this one by adding entries and letting rows leave."""
        if later.version <= self.manifest.version or not _reached(self.manifest, later):
            return False
        there = {entry.id: entry for entry in later.entries}
        newest = max((entry.id for entry in self.manifest.entries), default=0)
        newest = max(newest, self.manifest.next_id - 1)
        for entry in self.manifest.entries:
            same = there.get(entry.id)
            if same is None:
                # Gone by then: it must have left the window there, which the bound of that state tells.
                bound = _bound(self.shard, entry.side, later)
                if bound is None or entry.high >= bound:
                    return False
            elif same.digest != entry.digest:
                return False
        known = {entry.id for entry in self.manifest.entries}
        return all(number in known or number > newest for number in there)

    def catch_up(self, later: Manifest, log: Log) -> None:
        """Read what is missing and be at that state."""
        known = {entry.id: entry for entry in self.manifest.entries}
        padded = self.shard.query.settings.padded
        for entry in later.entries:
            if entry.id not in known:
                rows, positions = log.rows(entry)
                span = self.shard.refill(entry.side, rows, positions)
                if entry.side in padded:
                    self.spans[entry.id] = [span]
        self.shard.arrive_at(later.clocks, later.seen)
        for side in padded:
            remembered = {entry.id: entry.marks for entry in self.manifest.entries}
            changed = [
                entry
                for entry in later.entries
                if entry.side == side and entry.marks != remembered.get(entry.id, "")
            ]
            if changed:
                self._set_marks(side, changed, log)
        live = {entry.id for entry in later.entries}
        self.spans = {number: spans for number, spans in self.spans.items() if number in live}
        self.manifest = later

    def _set_marks(self, side: int, entries: list[Entry], log: Log) -> None:
        numbers = np.concatenate([_numbers(self.spans[entry.id]) for entry in entries])
        marks = np.concatenate([log.marks(entry) for entry in entries])
        order = np.argsort(numbers)
        self.shard.set_marks(side, numbers[order], marks[order])

    def _marks(self, side: int, entries: list[Entry], log: Log) -> dict[int, Entry]:
        """The entries of a side with their marks as they are now, written where they have changed."""
        held, marks = self.shard.marks(side)
        found = {}
        for entry in entries:
            numbers = _numbers(self.spans[entry.id])
            mine = np.zeros(len(numbers), dtype=np.uint8)
            at = np.searchsorted(held, numbers)
            here = np.flatnonzero(at < len(held))
            here = here[held[at[here]] == numbers[here]]
            mine[here] = marks[at[here]]  # rows that have left need no mark any more
            found[entry.id] = log.mark(entry, mine)
        return found

    def record(self, outcome: Outcome, log: Log) -> None:
        """Write what a micro-batch has changed to the log, and stand at the new state."""
        shard, before = self.shard, self.manifest
        padded = shard.query.settings.padded
        bounds = [shard.bound(side) for side in (0, 1)]
        kept: list[Entry] = []
        gone: list[Entry] = []
        for entry in before.entries:
            bound = bounds[entry.side]
            (gone if bound is not None and entry.high < bound else kept).append(entry)
        number = before.next_id
        for fresh in outcome.fresh:
            kept.append(log.append(number, fresh.side, fresh.rows, fresh.positions))
            if fresh.side in padded:
                self.spans[number] = fresh.spans
            number += 1
        for side in padded:
            now = self._marks(side, [entry for entry in kept if entry.side == side], log)
            kept = [now.get(entry.id, entry) for entry in kept]
        log.drop(gone)
        for entry in gone:
            self.spans.pop(entry.id, None)
        self.manifest = Manifest(
            before.version + 1, before.fingerprint, number, shard.clocks, shard.seen, tuple(kept)
        )
        log.seal(self.manifest)


_kept: OrderedDict[Key, Replica] = OrderedDict()


def resume(key: Key, query: Query, log: Log) -> tuple[Replica, bool]:
    """The replica at the state that the log is at; and whether the cache had it just so."""
    replica = _kept.pop(key, None)
    manifest = log.manifest()
    if manifest is None:
        return Replica.new(query, key.worker), False
    if replica is not None and replica.manifest.tag == manifest.tag:
        return replica, True
    if replica is None or not replica.fits(manifest):
        replica = Replica.new(query, key.worker)
    replica.catch_up(manifest, log)
    return replica, False


def keep(key: Key, replica: Replica, budget: int) -> None:
    """Put a replica (back) into the cache, the oldest ones out of it if they are too much together."""
    _kept[key] = replica
    _kept.move_to_end(key)
    held = sum(other.nbytes for other in _kept.values())
    while _kept and held > budget:
        _, oldest = _kept.popitem(last=False)
        held -= oldest.nbytes


def _bound(shard: Shard, side: int, at: Manifest) -> int | None:
    """The position below which a side's rows have left at some state."""
    query = shard.query
    if query.timeline is None:
        window = query.settings.windows[side]
        return window.first_visible(at.seen[side])  # type: ignore[union-attr]
    left, right = at.clocks
    if left is None or right is None:
        return None
    return query.timeline.earliest_partner(side, min(left, right) - query.timeline.lateness)


def _reached(earlier: Manifest, later: Manifest) -> bool:
    """Whether clocks and counts have only gone forward; a micro-batch that was never committed may be ahead."""
    for then, now in zip(earlier.clocks, later.clocks, strict=True):
        if then is not None and (now is None or now < then):
            return False
    return all(now >= then for then, now in zip(earlier.seen, later.seen, strict=True))


def _numbers(spans: list[Span]) -> NDArray[np.int64]:
    """The numbers of an entry's rows, in their order."""
    return np.concatenate([np.arange(span.first, span.first + span.rows) for span in spans])
