"""The worker: the one loop that joins. Insert, probe, check, mark, expire.

Threads, processes and Spark tasks run this same worker; who sends it which rows is the flow's affair. It
holds the two rings of subwindows and, for each branch of the condition and each side, how that side's rows
are found. Indexes are derived from the rows: they are chosen and built when the first probe comes, and again
after a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.condition import BoundCondition, Ends, Watch
from slidejoin.condition.types import I64_MAX, I64_MIN
from slidejoin.index import OWN, Entries, Index, Probes, Ranges, Sizes
from slidejoin.index.by_key import ByKey, SortedAhead
from slidejoin.kernels.marks import mark_ids, mark_ranges
from slidejoin.pairs import CANDIDATES, Check, Ordered, Segment, Singles, candidates, survivors
from slidejoin.plan import Access, Seen, choose, replan
from slidejoin.pools import ALONE, SHARE, Crew
from slidejoin.window.arrivals import FEW, Arrivals, Int32s, Reach, out_of_order
from slidejoin.window.ring import Memento, Ring
from slidejoin.window.subwindow import Shelf, Subwindow

Part = Segment | Singles | Ordered
Task = Callable[[], list[Segment]]
PADDED = {"inner": (), "left": (0,), "right": (1,), "full": (0, 1), "semi": (0,), "anti": (0,)}
PAIRED = ("inner", "left", "right", "full")  # kinds of join whose results are pairs
NO_ROW = -1  # in a journal: nothing is written here
EDGE = 4  # one row in so many, or less, that reach a subwindow: then it is worth picking them
BUSY = 0.25  # candidates per row from which compacting pays: it costs as much as checking so many


@dataclass
class Step:
    """What one call has produced so far, and how to take it back."""

    parts: list[Part] = field(default_factory=list)
    matches: int = 0
    marked: list[tuple[NDArray[np.uint8], Int32s]] = field(default_factory=list)

    def journal(self, marks: NDArray[np.uint8], most: int) -> Int32s:
        """Room to write down at most so many rows while they are marked; it is known before, whatever interrupts."""
        newly = np.full(most, NO_ROW, dtype=np.int32)
        self.marked.append((marks, newly))
        return newly

    def unmark(self) -> None:
        """Take the marks back."""
        for marks, newly in self.marked:
            marks[newly[newly != NO_ROW]] = 0


class Home(NamedTuple):
    """Where arriving rows were stored."""

    subwindow: Subwindow
    first: int


class Ready(NamedTuple):
    """Arriving rows, sorted for the indexes. It is made from the rows alone, so before their turn comes.

    ``own`` is what the indexes of their own side are going to hold, with ids from 0; ``ends`` are of the keys that are
    only watched. ``asked`` has the probes of each branch, by the kind of index that they are arranged for. ``plans`` is
    what all this was made for.
    """

    arrivals: Arrivals
    plans: tuple[tuple[Access, ...] | None, tuple[Access, ...] | None]
    own: tuple[Entries, ...]
    ends: tuple[Ends | None, ...]
    asked: tuple[dict[type[Index], Probes], ...]
    ahead: SortedAhead | None = None  # another thread is still sorting what is in ``own``

    def settled(self) -> Ready:
        """The same when everything is sorted."""
        if self.ahead is not None:
            self.ahead.unfinished.settle()
        return self


class Foreseen(NamedTuple):
    """Rows that another thread sorts for the indexes of their own side, in case that they take part as they are."""

    batch: pa.RecordBatch
    plan: Access
    sorted: SortedAhead


class Vain(NamedTuple):
    """How many candidates were out of the window, and whether more than the edge of a piece has probed."""

    candidates: int
    probed: bool


class Placed(NamedTuple):
    """Rows whose turn has come: they are stored, but not yet in the indexes."""

    ready: Ready
    home: Home

    @property
    def arrivals(self) -> Arrivals:
        return self.ready.arrivals


class Worker:
    def __init__(self, *, how: str, order: str, index: str, crew: Crew, sizes: Sizes = OWN) -> None:
        self.how = how
        self.order = order
        self.index = index
        self.crew = crew
        self.sizes = sizes  # of indexes, asked for; others are for subwindows begun from then on
        self.rings: list[Ring | None] = [None, None]
        self.bound: BoundCondition | None = None
        self.access: list[tuple[Access, ...] | None] = [None, None]
        self.seen = (Seen(), Seen())
        self._foreseen: Foreseen | None = None
        self._outside: list[int] = []  # candidates out of the window, as threads have found them
        self._probed = False

    # -- rows in ---------------------------------------------------------------------------------------

    def admit(self, arrivals: Arrivals) -> Arrivals:
        """Leave out rows that no branch's filter lets through, unless they are wanted unmatched."""
        if self.bound is None or arrivals.side in PADDED[self.how] or arrivals.rows == 0:
            return arrivals
        if not self.bound.branches:
            return arrivals.slice(0, 0)
        passing = np.zeros(arrivals.rows, dtype=bool)
        for branch in self.bound.branches:
            mask = one_sided(branch.filters, arrivals.side, arrivals.batch)
            if mask is None:
                return arrivals
            passing |= mask
        if passing.all():
            return arrivals
        return arrivals.select(np.flatnonzero(passing).astype(np.int32))

    def store(self, arrivals: Arrivals) -> Home:
        """Put rows into the newest subwindow; its indexes get them from ``fill``."""
        ring = self.rings[arrivals.side]
        assert ring is not None
        return Home(*ring.append(arrivals, lambda new: self._begin(new, arrivals.side)))

    def foresee(self, side: int, batch: pa.RecordBatch) -> None:
        """Rows have come: let another thread sort them while it is found out which take part, and what they may join.

        Nothing depends on it. Only columns as they are: expressions wait until it is known which rows they are for.
        """
        self._foreseen = None
        chosen = self.access[side] or ()
        if self.crew.threads == 1 or len(chosen) != 1:
            return
        plan = chosen[0]
        if plan.path is None or plan.branch.filters[side] is not None or not issubclass(plan.index, ByKey):
            return
        keys = plan.path.plain_keys(batch, narrow=plan.index.narrow)
        ahead = None if keys is None else plan.index.arrange_ahead(keys, self.crew)
        if ahead is not None:
            self._foreseen = Foreseen(batch, plan, ahead)

    def _as_foreseen(self, group: Sequence[Arrivals]) -> SortedAhead | None:
        """The rows of a group, if another thread was to sort just these."""
        foreseen, self._foreseen = self._foreseen, None
        if foreseen is None or len(group) != 1 or group[0].batch is not foreseen.batch:
            return None
        chosen = self.access[group[0].side]
        as_planned = chosen is not None and len(chosen) == 1 and chosen[0] is foreseen.plan
        return foreseen.sorted if as_planned else None

    def prepare(self, arrivals: Arrivals, crew: Crew = ALONE, ahead: SortedAhead | None = None) -> Ready:
        """Sort rows for the indexes of both sides; nothing that others change is read, so it may be done ahead."""
        mine, theirs = self.access[arrivals.side] or (), self.access[1 - arrivals.side] or ()
        own = self._own(arrivals, crew) if ahead is None else (ahead.entries,)
        asked = []
        for number, access in enumerate(theirs):
            held = own[number] if number < len(own) else None
            probes = None if held is None else around(access, mine[number], held, ahead)
            if probes is None:
                if ahead is not None:
                    ahead.unfinished.settle()
                probes = arranged(access, arrivals, None if held is None else held.ids)
            asked.append({access.index: probes})
        plans = (self.access[0], self.access[1])
        return Ready(arrivals, plans, own, self._ends(arrivals), tuple(asked), ahead)

    def _own(self, arrivals: Arrivals, crew: Crew = ALONE) -> tuple[Entries, ...]:
        """What the indexes of the rows' own side are going to hold of them."""
        return tuple(
            access.index.arrange_entries(*entries(access, arrivals.batch), crew)
            for access in self.access[arrivals.side] or ()
        )

    def _ends(self, arrivals: Arrivals) -> tuple[Ends | None, ...]:
        """Between which the keys of the rows lie that are only watched."""
        return tuple(
            None if access.watch is None else access.watch.held(arrivals.batch)
            for access in self.access[arrivals.side] or ()
        )

    def place(self, group: Sequence[Ready]) -> list[Placed]:
        """Store rows that arrive together; what is probed for the first time gets its indexes.

        Rows of a side without a plan have no entries of their own: choosing builds its indexes from the rows that
        are stored, these included. So entries are never arranged between storing and filling.
        """
        fresh = [ready if self._current(ready) else self.prepare(ready.arrivals) for ready in group]
        return self._placed(fresh, [self.store(ready.arrivals) for ready in fresh])

    def _placed(self, group: Sequence[Ready], homes: Sequence[Home]) -> list[Placed]:
        for ready in group:
            self._choose(1 - ready.arrivals.side, ready.arrivals.batch)
        return [Placed(ready, home) for ready, home in zip(group, homes, strict=True)]

    def _current(self, ready: Ready) -> bool:
        """Whether rows are still sorted as the plans want them."""
        return all(
            was is now
            or (
                was is not None
                and now is not None
                and all(a.index is b.index and a.path is b.path for a, b in zip(was, now, strict=True))
            )
            for was, now in zip(ready.plans, self.access, strict=True)
        )

    def fill(self, placed: Placed, crew: Crew = ALONE) -> None:
        """Insert rows that were stored into the indexes of their subwindow, sorted or not yet."""
        ready, (subwindow, first) = placed.ready, placed.home
        if not ready.own:
            # No plan then; if there is one by now, the indexes were built with these rows in them.
            return
        rows = ready.arrivals.rows
        if ready.ahead is not None and subwindow.late_among(first, rows) is None:
            [index] = subwindow.timely.indexes
            assert isinstance(index, ByKey)
            index.insert_ahead(ready.ahead, first, crew)
        else:
            shelve(subwindow, ready.settled().own, first, rows, crew)
        subwindow.ends = [joined(*both) for both in zip(subwindow.ends, placed.ready.ends, strict=True)]

    def insert(self, arrivals: Arrivals) -> None:
        """Store rows and fill their indexes, without probing: they come from a log, or others probe."""
        plans = (self.access[0], self.access[1])
        ready = Ready(arrivals, plans, self._own(arrivals), self._ends(arrivals), ())
        self.fill(Placed(ready, self.store(arrivals)))

    def probe(self, arrivals: Arrivals) -> list[Segment]:
        """The pairs with the other side's window of rows that are stored elsewhere."""
        ring = self.rings[1 - arrivals.side]
        if ring is None or not ring.subwindows:
            return []
        self._choose(1 - arrivals.side, arrivals.batch)
        ready = Ready(arrivals, (self.access[0], self.access[1]), (), (), ())
        return self._gathered(self.probing(Placed(ready, Home(ring.subwindows[-1], 0))))

    def _begin(self, subwindow: Subwindow, side: int) -> None:
        """Give a new subwindow its indexes; each starts from its predecessor, if that is of the same kind."""
        ring = self.rings[side]
        before = ring.subwindows[-1].timely.indexes if ring is not None and ring.subwindows else []
        chosen = self.access[side] or ()
        subwindow.timely.indexes = [
            before[n].successor() if n < len(before) and type(before[n]) is access.index else access.index()
            for n, access in enumerate(chosen)
        ]
        subwindow.ends = [None if access.watch is None else access.watch.nothing for access in chosen]

    # -- probing ---------------------------------------------------------------------------------------

    def join(self, group: Sequence[Arrivals], step: Step) -> None:
        """Store and probe rows that arrive together; results and marks go to ``step``."""
        homes: list[Home] = []
        ahead = self._as_foreseen(group)
        ready = self.crew.meanwhile(
            lambda: homes.extend(map(self.store, group)),
            lambda: [self.prepare(arrivals, self.crew, ahead) for arrivals in group],
        )
        placed = self._placed(ready, homes)
        if len(placed) == 1:
            # Rows that come alone meet the other side only, so their own indexes can be filled later or meanwhile.
            tasks = self.probing(placed[0])
            if ahead is not None and not ahead.unfinished.done:  # there is time before probing
                self.fill(placed[0], self.crew)
                found = [self._gathered(tasks)]
            elif self.crew.threads == 1 or len(tasks) < 2:
                fill = partial(self.fill, placed[0], self.crew)
                found = [self.crew.meanwhile(fill, lambda: self._gathered(tasks))]
            else:
                tasks.insert(0, partial(self._fill_meanwhile, placed[0]))
                found = [self._gathered(tasks)]
        else:
            for one in placed:
                self.fill(one, self.crew)
            found = [self._gathered(self.probing(one)) for one in placed]
        self.conclude(placed, found, step)

    def conclude(self, placed: Sequence[Placed], found: Sequence[list[Segment]], step: Step) -> None:
        """Count and mark what was found for rows that arrived together, and emit it as the kind of join asks."""
        for segments, one in zip(found, placed, strict=True):
            side, own = one.arrivals.side, one.ready.settled().own
            self.seen[side].stored(one.arrivals.rows, own[0].keys if own else None)
            pairs = sum(segment.pairs for segment in segments)
            self.seen[1 - side].probed(one.arrivals.rows, pairs)
            step.matches += pairs
        together = [segment for segments in found for segment in segments]
        if self.how in PAIRED or self.order == "none":
            for segments, one in zip(found, placed, strict=True):
                self._mark(segments, one.arrivals, one.home, step)
            if self.how in PAIRED and together:
                step.parts += (
                    together if self.order == "none" else [Ordered(together, self.order == "strict")]
                )
        elif together:
            self._first_matches(Ordered(together, self.order == "strict"), placed, step)

    def _gathered(self, tasks: Sequence[Task]) -> list[Segment]:
        return [segment for answer in self.crew.each(tasks) for segment in answer]

    def _fill_meanwhile(self, placed: Placed) -> list[Segment]:
        """A task beside the probing ones: it finds nothing."""
        self.fill(placed)
        return []

    def probing(self, placed: Placed, among: Callable[[Subwindow], bool] | None = None) -> list[Task]:
        """Tasks that find the pairs of arriving rows with the other side's window.

        Where the index does not share the work of a task, the probes are cut, by key if they are sorted so: then each
        thread reads its own part of the index. ``among`` picks subwindows instead; then the probes of a branch
        stay whole.
        """
        ready = placed.ready
        arrivals, stored = ready.arrivals, 1 - ready.arrivals.side
        ring, chosen = self.rings[stored], self.access[stored]
        if ring is None or chosen is None or arrivals.rows == 0:
            return []
        mine = [subwindow for subwindow in ring.subwindows if among is None or among(subwindow)]
        groups = by_reach(arrivals, mine)
        tasks: list[Task] = []
        for number, access in enumerate(chosen):
            bounds = self._bounds(ready, number, access)
            for kind, alike in by_kind(groups, number).items():
                of_kind = access if kind is access.index else replace(access, index=kind)
                probes = self._asked(ready, number, of_kind)
                asking = [Asking(group, group.probes(probes)) for group in alike]
                asking = [one for one in asking if len(one.probes)]
                crew = ALONE
                if among is not None:  # others may be asking the same of their subwindows
                    pieces = [[one._replace(probes=one.probes.twin()) for one in asking]]
                elif self.crew.threads == 1 or kind.shares:
                    pieces, crew = [asking], self.crew
                else:
                    pieces = [
                        [one._replace(probes=piece)] for one in asking for piece in one.probes.pieces(SHARE)
                    ]
                tasks += [
                    partial(self._answers, piece, number, of_kind, bounds, arrivals, crew)
                    for piece in pieces
                    if piece
                ]
        asked = sum(group.reach.rows for group in groups if group.near)
        self._probed = self._probed or 2 * asked >= arrivals.rows
        return tasks

    @staticmethod
    def _asked(ready: Ready, number: int, access: Access) -> Probes:
        """The probes of a branch for indexes of a kind; arranged now if the kind was not foreseen."""
        foreseen = ready.asked[number].get(access.index) if number < len(ready.asked) else None
        if foreseen is not None:
            return foreseen
        hint = ready.settled().own[number].ids if number < len(ready.own) else None
        probes = arranged(access, ready.arrivals, hint)
        if number < len(ready.asked):
            ready.asked[number][access.index] = probes
        return probes

    def _bounds(self, ready: Ready, number: int, access: Access) -> Ends | None:
        """Between which all keys must lie that a branch only watches, for every pair to pass."""
        if access.watch is None:
            return None
        mine = self.access[1 - access.stored] or ()
        own = mine[number].watch if number < len(mine) else None
        held = ready.ends[number] if number < len(ready.ends) else None
        return access.watch.asked(ready.arrivals.batch, own, held)

    def _answers(
        self,
        asking: Sequence[Asking],
        number: int,
        access: Access,
        bounds: Ends | None,
        arrivals: Arrivals,
        crew: Crew,
    ) -> list[Segment]:
        """What subwindows answer, as pairs that are known to match.

        Ranges over rows that are all in the window need no expanding; so where much of a subwindow that is
        partly gone matches, taking the gone rows out once is cheaper than looking at every pair. It is done at once
        where it was the last time.
        """
        segments: list[Segment] = []
        for (reach, near, _), probes in asking:
            for subwindow, shelf in near:
                if shelf.busy and not covers(reach, shelf):
                    subwindow.compact(crew)
            # Asked before probing: another thread may compact meanwhile.
            partly = [not covers(reach, shelf) for _, shelf in near]
            first = [first_visible(reach, *one) if cut else 0 for one, cut in zip(near, partly, strict=True)]
            found = access.index.probe_all([shelf.indexes[number] for _, shelf in near], probes, crew, first)
            for (subwindow, shelf), to_check, cut, answers in zip(near, partly, first, found, strict=True):
                ranges, watched = answers, subwindow.ends[number]
                left_out = cut > 0 and all(one.cut for one in answers)
                if to_check:
                    shelf.passed_over = left_out
                window = to_check and not left_out
                certain = bounds is not None and watched is not None and watched.within(bounds)
                verify = None if certain else access.verify
                if window and access.index.by_arrival and shelf.ascending:
                    window, ranges = False, [within(each.settled(), arrivals, subwindow) for each in answers]
                if verify is None:
                    shelf.busy = sum(one.pairs for one in ranges) > BUSY * subwindow.rows
                    if window and shelf.busy:
                        subwindow.compact(crew)
                        if covers(reach, shelf):
                            window = False
                            [ranges] = access.index.probe_all([shelf.indexes[number]], probes, crew)
                segments += self._checked(ranges, subwindow, Check(window, verify), arrivals, crew)
        return segments

    def _checked(
        self,
        answers: Sequence[Ranges],
        subwindow: Subwindow,
        check: Check,
        arrivals: Arrivals,
        crew: Crew,
    ) -> list[Segment]:
        if not check.window and check.predicate is None:
            return [Segment(arrivals, subwindow, ranges, ranges.pairs) for ranges in answers if ranges.pairs]
        keep_all = self.order != "none"
        kept = [
            survivors(ranges.settled(), arrivals, subwindow, check, crew, self._outside, keep_all=keep_all)
            for ranges in answers
            if ranges.pairs
        ]
        return [segment for segment in kept if segment is not None]

    def in_vain(self) -> Vain:
        """What has been looked at in vain since this was last asked."""
        vain = Vain(sum(self._outside), self._probed)
        self._outside, self._probed = [], False
        return vain

    def _choose(self, stored: int, probing: pa.RecordBatch) -> None:
        """Decide how the stored side is found, and build the indexes, when it is first probed."""
        ring = self.rings[stored]
        if self.access[stored] is not None or self.bound is None or ring is None or not ring.subwindows:
            return
        rows = ring.subwindows[-1].payload.batches()[0]
        chosen = (choose(branch, stored, self.index, rows, probing) for branch in self.bound.branches)
        self.access[stored] = tuple(access.of_sizes(self.sizes) for access in chosen)
        for subwindow in ring.subwindows:
            self._build(stored, subwindow)

    def _build(self, side: int, subwindow: Subwindow) -> None:
        """Give a subwindow with rows its indexes."""
        equip(subwindow, self.access[side] or ())

    # -- outer, semi and anti --------------------------------------------------------------------------

    def _mark(self, segments: list[Segment], arrivals: Arrivals, home: Home, step: Step) -> None:
        """Remember which rows have matched; a semi join emits those of the left that had not before."""
        padded = PADDED[self.how]
        if not segments or not padded:
            return
        if arrivals.side in padded:
            subwindow, first = home.subwindow, home.first
            rows = np.unique(np.concatenate([matched_rows(segment) for segment in segments]))
            self._note(step, subwindow, mark(subwindow, first + rows, step))
        if 1 - arrivals.side in padded:
            for segment in segments:
                for newly in mark_segment(segment, step):
                    self._note(step, segment.stored, newly)

    def _note(self, step: Step, subwindow: Subwindow, newly: Int32s) -> None:
        if self.how == "semi" and len(newly):
            step.parts.append(Singles(0, subwindow, newly))

    def _first_matches(self, ordered: Ordered, placed: Sequence[Placed], step: Step) -> None:
        """Mark left rows in the order in which their first partners arrive."""
        home_of = {id(one.arrivals): (one.home.subwindow, one.home.first) for one in placed}
        for chunk in ordered.chunks(1 << 16):
            assert chunk.left is not None
            assert chunk.left.which is not None
            which, ids = chunk.left.which, chunk.left.ids
            begin = 0
            for end in [*(np.flatnonzero(np.diff(which)) + 1).tolist(), len(which)]:
                source = chunk.left.sources[which[begin]]
                subwindow, first = home_of.get(id(source), (source, 0))
                assert isinstance(subwindow, Subwindow)
                self._note(step, subwindow, mark(subwindow, ids[begin:end] + np.int32(first), step))
                begin = end

    def expire(self, side: int, bound: int, step: Step) -> None:
        """Let rows below the bound go; those wanted unmatched are emitted."""
        ring = self.rings[side]
        if ring is None:
            return
        for subwindow, gone in ring.expire(bound, partial(self._build, side), self.crew):
            self._pad(side, subwindow, gone, step)

    def complete(self, side: int) -> None:
        """Complete the newest subwindow of a side if it is long enough; the next one may get another plan."""
        ring = self.rings[side]
        if ring is None or not ring.complete(self.crew):
            return
        figures = self.seen[side].summed_up(ring.rows)
        chosen = self.access[side]
        if not chosen:
            return
        planned = [replan(access, figures, self.index, self.sizes) for access in chosen]
        ring.subwindows_to_a_window = max(subwindows for _, subwindows in planned)
        self.access[side] = tuple(access for access, _ in planned)

    def clear(self, step: Step) -> None:
        """The end of both streams: every row goes."""
        for side, ring in enumerate(self.rings):
            if ring is not None:
                for subwindow, gone in ring.clear():
                    self._pad(side, subwindow, gone, step)

    def _pad(self, side: int, subwindow: Subwindow, gone: Int32s, step: Step) -> None:
        if side in PADDED[self.how] and self.how != "semi" and len(gone):
            alone = subwindow.unmarked(gone)
            if len(alone):
                step.parts.append(Singles(side, subwindow, alone))

    # -- taking back -----------------------------------------------------------------------------------

    def memento(self, sides: Sequence[bool]) -> tuple[Memento | None, ...]:
        """What ``restore`` needs; ``sides`` tells which are going to take rows."""
        return tuple(
            None if ring is None else ring.memento(growing=growing)
            for ring, growing in zip(self.rings, sides, strict=True)
        )

    def restore(self, memento: Sequence[Memento | None], step: Step) -> None:
        """Undo a step that failed."""
        step.unmark()
        for side, (ring, before) in enumerate(zip(self.rings, memento, strict=True)):
            if ring is None or before is None:
                continue
            ring.restore(before)
            chosen = self.access[side]
            # Unset while indexes are rebuilt: should that fail too, the next probe builds them all.
            self.access[side] = None
            for subwindow in ring.subwindows:
                shelf, below = subwindow.timely, subwindow.dead_below
                dropped = shelf.cut_below is not None and (below is None or shelf.cut_below > below)
                if chosen is None or not shelf.indexes or dropped:
                    equip(subwindow, chosen or ())
            self.access[side] = chosen

    def check(self) -> None:
        for side, ring in enumerate(self.rings):
            if ring is None:
                continue
            ring.check()
            chosen = self.access[side]
            for subwindow in ring.subwindows:
                for shelf in subwindow.shelves:
                    gone = subwindow.dead_below is not None and shelf.high < subwindow.dead_below
                    assert chosen is None or gone or len(shelf.indexes) == len(chosen), (
                        "an index for each branch"
                    )
            if chosen is not None and ring.subwindows and not ring.subwindows[-1].complete:
                kinds = [type(index) for index in ring.subwindows[-1].timely.indexes]
                assert kinds == [access.index for access in chosen], "the newest is filled as planned"


class Near(NamedTuple):
    """Rows that a batch may meet."""

    subwindow: Subwindow
    shelf: Shelf


class Group(NamedTuple):
    """Rows of a batch with the same reach, more or less, and what is within it."""

    reach: Reach
    near: list[Near]
    rows: NDArray[np.bool_] | None  # which; None: all

    def probes(self, probes: Probes) -> Probes:
        """Those of its rows."""
        return probes if self.rows is None else probes.part(np.flatnonzero(self.rows[probes.rows]))


class Asking(NamedTuple):
    """The probes of a group for indexes of one kind."""

    group: Group
    probes: Probes


def within_reach(reach: Reach, subwindows: Sequence[Subwindow]) -> list[Near]:
    """Shelves that have rows within it.

    There may be thousands of subwindows. None has rows later than where the stream was when a later one was begun.
    """
    first = bisect_left(subwindows, reach.low, key=lambda subwindow: subwindow.start)
    return [
        Near(subwindow, shelf)
        for subwindow in subwindows[max(0, first - 1) :]
        if subwindow.low <= reach.high
        for shelf in subwindow.shelves
        if shelf.high >= reach.low and shelf.lowest <= reach.high
    ]


def by_reach(arrivals: Arrivals, subwindows: Sequence[Subwindow]) -> list[Group]:
    """All rows, or those that are out of order apart from the others, if they are few and reach for more.

    What the others reach for is asked by all rows, unless it lies in the window of the others for certain.
    """
    whole, positions = arrivals.reach, arrivals.positions.values
    near = within_reach(whole, subwindows)
    if positions is None:
        return [Group(whole, near, None)]
    if sum(not covers(whole, shelf) for _, shelf in near) < 2:
        return by_edge(whole, near)  # one lies across the edge of a window anyway
    astray, count = out_of_order(positions, int(positions[0]))
    if not 0 < FEW * count <= len(positions):
        return by_edge(whole, near)
    others, their = ~astray, whole.select(astray)
    reach = whole.select(others)
    theirs = within_reach(their, subwindows)
    ours = within_reach(reach, subwindows)
    if any(covers(reach, shelf) and not covers(whole, shelf) for _, shelf in ours):
        return [Group(reach, ours, others), Group(their, theirs, astray)]
    further = [one for one in theirs if one not in ours]
    return [Group(whole, ours, None), Group(their, further, astray)]


def by_edge(whole: Reach, near: Sequence[Near]) -> list[Group]:
    """All rows for what most of them reach; what only the first or the last of them reach is asked by these alone."""
    groups, rest = [], []
    for one in near:
        shelf, some = one.shelf, None
        if whole.low_most > shelf.high or whole.high_least < shelf.lowest:
            some = (whole.lows <= shelf.high) & (whole.highs >= shelf.lowest)
        if some is None or EDGE * np.count_nonzero(some) > whole.rows:
            rest.append(one)
        elif some.any():
            groups.append(Group(whole.select(some), [one], some))
    return [Group(whole, rest, None), *groups]


def by_kind(groups: Sequence[Group], number: int) -> dict[type[Index], list[Group]]:
    """What is near by the kind of its index for a branch; plans change, and a subwindow keeps its own."""
    kinds: dict[type[Index], list[Group]] = {}
    for group in groups:
        alike: dict[type[Index], list[Near]] = {}
        for one in group.near:
            alike.setdefault(type(one.shelf.indexes[number]), []).append(one)
        for kind, near in alike.items():
            kinds.setdefault(kind, []).append(group._replace(near=near))
    return kinds


def covers(reach: Reach, shelf: Shelf) -> bool:
    """Whether every row of a batch sees all of the shelf, so that nothing needs checking."""
    return reach.low_most <= shelf.lowest and shelf.high <= reach.high_least


def first_visible(reach: Reach, subwindow: Subwindow, shelf: Shelf) -> int:
    """The first id that every row of a batch sees, with all that come after; 0 if there is none such."""
    if not (shelf is subwindow.timely and shelf.ascending) or len(subwindow.late_ids):
        return 0
    if reach.low < reach.low_most or reach.high_least < shelf.high:
        return 0
    return subwindow.first_from(reach.low)


def within(ranges: Ranges, arrivals: Arrivals, subwindow: Subwindow) -> Ranges:
    """Ranges over ids in arrival order, cut to each probing row's window."""
    positions = subwindow.positions.of(ranges.ids)
    starts = np.maximum(ranges.starts, np.searchsorted(positions, arrivals.reach.lows[ranges.rows])).astype(
        np.int32
    )
    ends = np.minimum(
        ranges.ends, np.searchsorted(positions, arrivals.reach.highs[ranges.rows], side="right")
    )
    some = np.flatnonzero(ends > starts)
    starts, ends = starts[some], ends[some].astype(np.int32)
    return Ranges(ranges.rows[some], starts, ends, ranges.ids, int((ends.astype(np.int64) - starts).sum()))


def one_sided(filters: tuple[object, object], side: int, batch: pa.RecordBatch) -> NDArray[np.bool_] | None:
    """Which rows pass a branch's filter of their side; None if it has none."""
    predicate = filters[side]
    if predicate is None:
        return None
    mask: NDArray[np.bool_] = predicate.mask(*((batch, None) if side == 0 else (None, batch)))  # type: ignore[attr-defined]
    return mask


def entries(access: Access, batch: pa.RecordBatch) -> tuple[NDArray[Any], Int32s | None]:
    """Keys and ids of the rows that an index holds: filter passed, key not NULL. No ids: it holds all rows."""
    mask = one_sided(access.branch.filters, access.stored, batch)
    if access.path is None:
        keys = np.zeros(batch.num_rows, dtype=np.int64)
    else:
        keys, valid = access.path.keys(batch, narrow=access.index.narrow)
        if valid is not None:
            mask = valid if mask is None else mask & valid
    return (keys, None) if mask is None else (keys[mask], np.flatnonzero(mask).astype(np.int32))


def arranged(access: Access, arrivals: Arrivals, hint: Int32s | None) -> Probes:
    """The probes of arriving rows, in the order that the index wants."""
    mask = one_sided(access.branch.filters, arrivals.side, arrivals.batch)
    rows: Int32s | None = None
    if access.path is None:
        lows = highs = np.zeros(arrivals.rows, dtype=np.int64)
    else:
        rows, lows, highs = access.path.intervals(arrivals.batch)
    if mask is not None:
        passing = mask if rows is None else mask[rows]
        rows = np.flatnonzero(passing).astype(np.int32) if rows is None else rows[passing]
        lows, highs = lows[passing], highs[passing]
    return access.index.arrange_probes(rows, lows, highs, hint)


def around(access: Access, own: Access, held: Entries, ahead: SortedAhead | None) -> Probes | None:
    """The probes made of the rows' own entries, which may be sorted ``ahead``, where intervals lie around their keys.

    Both are of the same rows then: where one expression is NULL, so is the other, and the filters are the branch's.
    """
    if access.path is None or own.path is None or own.branch is not access.branch or not len(held.keys):
        return None
    ends = access.path.around(own.path) if access.index.by_key and own.index.by_key else None
    if ends is None:
        return None
    below, above = ends
    if below is None or above is None:
        return None
    least, most = (int(held.keys[0]), int(held.keys[-1])) if ahead is None else (ahead.least, ahead.most)
    if least + min(below, above) < I64_MIN or most + max(below, above) > I64_MAX:
        return None
    return Probes.around(held.ids, held.keys, below, above, None if ahead is None else ahead.unfinished)


def equip(subwindow: Subwindow, chosen: Sequence[Access]) -> None:
    """Give a subwindow with rows its indexes, and the ends of the keys that are only watched."""
    subwindow.timely, subwindow.late = subwindow.timely.bare(), subwindow.late.bare()
    for shelf in (subwindow.timely,) if subwindow.late.empty else (subwindow.timely, subwindow.late):
        shelf.indexes = [access.index() for access in chosen]
    first = 0
    for batch in subwindow.payload.batches():
        own = [access.index.arrange_entries(*entries(access, batch)) for access in chosen]
        shelve(subwindow, own, first, batch.num_rows)
        first += batch.num_rows
    if subwindow.complete:
        for shelf in subwindow.shelves:
            for index in shelf.indexes:
                index.merge()
    subwindow.ends = [None if access.watch is None else ends_of(access.watch, subwindow) for access in chosen]


def shelve(subwindow: Subwindow, own: Sequence[Entries], first: int, rows: int, crew: Crew = ALONE) -> None:
    """Insert rows that are stored from id ``first`` on into the indexes of their shelves."""
    late = subwindow.late_among(first, rows)
    if late is None:
        for index, batch in zip(subwindow.timely.indexes, own, strict=True):
            index.insert(batch.shifted(first), crew)
        return
    for shelf, here in ((subwindow.timely, ~late), (subwindow.late, late)):
        for index, batch in zip(shelf.indexes, own, strict=True):
            index.insert(batch.among(here).shifted(first))


def ends_of(watch: Watch, subwindow: Subwindow) -> Ends | None:
    ends: Ends | None = watch.nothing
    for batch in subwindow.payload.batches():
        ends = joined(ends, watch.held(batch))
    return ends


def joined(ends: Ends | None, more: Ends | None) -> Ends | None:
    """The ends of both; None if either has none."""
    return None if ends is None or more is None else ends.with_those(more)


def mark(subwindow: Subwindow, ids: Int32s, step: Step) -> Int32s:
    """Mark rows as matched; returns those that were not, in the order given."""
    assert subwindow.marks is not None
    newly = step.journal(subwindow.marks, len(ids))
    count = mark_ids(ids.astype(np.int32, copy=False), subwindow.marks, newly)
    return newly[:count]


def mark_segment(segment: Segment, step: Step) -> list[Int32s]:
    """Mark the stored rows of a segment; returns those that were not marked before."""
    subwindow = segment.stored
    assert subwindow.marks is not None
    if segment.check is not None:
        found = candidates(segment.ranges, segment.probing, subwindow, segment.check)
        return [mark(subwindow, ids, step) for _, ids in found]
    ranges: Ranges = segment.ranges
    if ranges.pairs < len(ranges.ids):  # an index may hold its ids in several orders, one after the other
        return [mark(subwindow, ids, step) for _, ids in segment.pieces(CANDIDATES)]
    depth = np.zeros(len(ranges.ids) + 1, dtype=np.int32)
    newly = step.journal(subwindow.marks, len(ranges.ids))
    count = mark_ranges(ranges.starts, ranges.ends, ranges.ids, depth, subwindow.marks, newly)
    return [newly[:count]]


def matched_rows(segment: Segment) -> Int32s:
    """The probing rows that have a partner in this segment."""
    if segment.check is None:
        return segment.ranges.rows
    found = candidates(segment.ranges, segment.probing, segment.stored, segment.check)
    return np.unique(np.concatenate([rows for rows, _ in found]))
