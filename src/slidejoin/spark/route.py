"""Routing: which workers get which rows. No coordination: they follow from the row and its place in its task.

split   every worker gets every row. For an inner join each stores its share of both sides and all rows probe
        (SplitJoin: a pair is found where the earlier row is stored). Where rows of a side must be declared
        unmatched, each of those is at one home only, and the other side is held by every worker.
hash    rows with equal keys meet at one worker: each row is sent once.
grid    for bands of constant width: the key's range is cut into cells a few bands wide. A row of the anchored
        side goes to the worker of its own cell; a row of the other side goes to the workers of all cells that
        its band touches, one or two as a rule. A pair is found where its anchored row is, so exactly once.
        With an equality beside the band the cells are those of each key, so a hot key is spread.
spread  with hash and grid, a key's or a cell's place is a group of so many workers instead of one: those that
        follow its first. By hash the group is a rectangle (``Group``): a left row is at one line of it, a right row
        at one column, so a pair meets at one worker. By grid an anchored row is at one worker of its cell's
        group, the others at all workers of each group that they touch.

Exactness needs no more than a cell that grows with the key: whatever the width of cells, a band from lo to hi
touches all cells from that of lo to that of hi, and its partners' cells are between. Groups overlap, as there is
one for each first worker. That is harmless by hash, where rows that match have one group, and by grid, where the
anchored row of a pair is at one worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.condition import AccessPath, BoundCondition, Branch
from slidejoin.condition.ordinals import FLOAT_MAX, mix, to_floats
from slidejoin.errors import ConditionError, WindowError
from slidejoin.kernels import ready
from slidejoin.kernels.deal import deal, touch
from slidejoin.settings import Settings

ROUTINGS = ("auto", "split", "hash", "grid")
CELL_BANDS = 4  # a cell is as wide as four bands: one row in four goes to a second worker, cells stay many
MOST_CELL = float(2**62)
LINEAR = ("int", "uint", "saturate")  # codecs whose ordinals are values
SAMPLES = (0, 1, 1000)  # values of the probing side that a band's width is looked up at

Int64s = NDArray[np.int64]


class Target(NamedTuple):
    """Rows for one worker: which (None: all), and the home of each stretch of them as ``(worker, rows)``."""

    worker: int
    rows: Int64s | slice | None
    homes: list[tuple[int, int]]


ELSEWHERE = -1  # the home of rows that are copies; the kernels know it as negative
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Router:
    """Sends rows to workers; ``reason`` is for people."""

    workers: int
    reason: str = ""
    name = ""

    def targets(self, side: int, batch: pa.RecordBatch, turn: int) -> list[Target]:
        """Where the rows of a batch go. ``turn`` shifts what could go anywhere, so that it is spread."""
        raise NotImplementedError


@dataclass(frozen=True)
class Split(Router):
    name = "split"
    single: tuple[int, ...] = ()  # sides whose rows are at one worker only
    counted: bool = False  # count windows: every worker sees every row, if only to count it

    def targets(self, side: int, batch: pa.RecordBatch, turn: int) -> list[Target]:
        rows, workers = batch.num_rows, self.workers
        ends = [rows * (n + 1) // workers for n in range(workers)]
        stretches = [
            ((n + turn) % workers, begin, end) for n, (begin, end) in enumerate(pairwise([0, *ends]))
        ]
        if side in self.single and not self.counted:
            return [
                Target(home, slice(begin, end), [(home, end - begin)])
                for home, begin, end in stretches
                if end > begin
            ]
        homes = [(home, end - begin) for home, begin, end in stretches if end > begin]
        return [Target(worker, None, homes) for worker in range(workers)]


@dataclass(frozen=True)
class Group:
    """The workers that share a key, in lines: a row is dealt one of them, its home, and has copies beside it.

    A left row is at all workers of its home's line, a right row at all of its home's column. ``width`` is that of a
    line as each side sees it. The same for both, and a pair meets once: 1 leaves left rows at their homes alone, as
    many as there are workers does so for right rows. A full join has one line for left rows and one column for
    right ones: all rows at all workers, so that each meets its partners at home.
    """

    workers: int
    width: tuple[int, int]

    @staticmethod
    def of(workers: int, padded: tuple[int, ...]) -> Group:
        """A group for a join that may have rows of these sides unmatched, which one worker must be able to say."""
        if padded == (0, 1):
            return Group(workers, (workers, 1))
        if padded:
            width = 1 if padded == (0,) else workers
        else:  # as square as can be: fewest copies, if both sides have as many rows
            width = next(n for n in range(1, workers + 1) if workers % n == 0 and n * n >= workers)
        return Group(workers, (width, width))

    def copies(self, side: int) -> int:
        """Workers that hold a row of that side."""
        return self.width[0] if side == 0 else self.workers // self.width[1]

    def reaches(self, side: int, homes: Int64s, member: int) -> NDArray[np.bool_]:
        """Which rows, dealt these homes, are at that worker of the group."""
        width = self.width[side]
        reached: NDArray[np.bool_] = (
            homes // width == member // width if side == 0 else homes % width == member % width
        )
        return reached


ALONE = Group(1, (1, 1))


@dataclass(frozen=True)
class Hash(Router):
    name = "hash"
    path: AccessPath | None = None
    group: Group = ALONE

    def targets(self, side: int, batch: pa.RecordBatch, turn: int) -> list[Target]:
        assert self.path is not None
        values, valid = keys_of(self.path, side, batch)
        first = (mix(values) % np.uint64(self.workers)).astype(np.int64)
        if valid is not None:  # rows without a key can match nothing
            first = np.where(valid, first, (np.arange(len(first)) + turn) % self.workers)
        spread = self.group.workers
        if spread == 1:
            return gathered(first, self.workers)
        member = in_turn(first, self.workers, spread, turn)
        home = following(first, member, self.workers)
        copied = np.zeros((batch.num_rows, self.workers), dtype=bool)
        for other in range(spread):
            there = self.group.reaches(side, member, other) & (member != other)
            rows = np.flatnonzero(there if valid is None else there & valid)
            copied[rows, following(first[rows], other, self.workers)] = True
        return with_copies(home, copied)


@dataclass(frozen=True)
class Grid(Router):
    name = "grid"
    cells: tuple[Cells | None, Cells | None] = (None, None)  # for each anchored side
    equality: AccessPath | None = None
    spread: int = 1  # workers that share a cell

    def targets(self, side: int, batch: pa.RecordBatch, turn: int) -> list[Target]:
        ready("deal")
        rows = batch.num_rows
        shift, possible = None, None
        if self.equality is not None:
            values, possible = keys_of(self.equality, side, batch)
            shift = (mix(values) % np.uint64(self.workers)).astype(np.int64)
        own, other = self.cells[side], self.cells[1 - side]
        home = np.full(rows, ELSEWHERE, dtype=np.int64)
        if own is not None:
            cells, valid = own.of_keys(batch)
            home = self._worker(cells, shift)
            if self.spread > 1:
                home = following(home, in_turn(home, self.workers, self.spread, turn), self.workers)
            for present in (valid, possible):
                if present is not None:
                    home[~present] = ELSEWHERE
        copied = np.zeros((rows, self.workers), dtype=bool)
        if other is not None:
            self._touch(home, copied, other, batch, shift, possible)
        # A row that can match nothing still has to be counted, and perhaps padded, by somebody.
        nowhere = np.flatnonzero(home == ELSEWHERE)
        home[nowhere] = (nowhere + turn) % self.workers
        return with_copies(home, copied)

    def _worker(self, cells: Int64s, shift: Int64s | None) -> Int64s:
        """The (first) worker of cells."""
        placed = np.empty(len(cells), dtype=np.int64)
        deal(cells, NONE if shift is None else shift, self.workers, placed)
        return placed

    def _touch(
        self,
        home: Int64s,
        copied: NDArray[np.bool_],
        cells: Cells,
        batch: pa.RecordBatch,
        shift: Int64s | None,
        possible: NDArray[np.bool_] | None,
    ) -> None:
        """Copies for the workers of all cells that a row's band touches; a row without a home has it in the first."""
        found = cells.path.intervals(batch)
        rows = np.arange(len(home)) if found.rows is None else found.rows.astype(np.int64)
        low, high = found.lo, found.hi
        some = low <= high if possible is None else (low <= high) & possible[rows]
        if not some.all():
            rows, low, high = rows[some], low[some], high[some]
        touch(
            rows,
            cells.of(low),
            cells.of(high),
            NONE if shift is None else shift,
            self.workers,
            self.spread,
            home,
            copied,
        )


@dataclass(frozen=True)
class Cells:
    """The range of one side's key, cut into cells: any function of the ordinal that never decreases would do."""

    path: AccessPath
    width: float
    linear: bool = field(default=True)

    def of(self, ordinals: Int64s) -> Int64s:
        if self.linear:
            return np.floor_divide(ordinals, np.int64(max(1, int(self.width))))
        values = to_floats(np.clip(ordinals, -FLOAT_MAX, FLOAT_MAX))
        with np.errstate(over="ignore"):
            return np.clip(np.floor(values / self.width), -MOST_CELL, MOST_CELL).astype(np.int64)

    def of_keys(self, batch: pa.RecordBatch) -> tuple[Int64s, NDArray[np.bool_] | None]:
        keys = self.path.keys(batch)
        return self.of(keys.values), keys.valid


def keys_of(path: AccessPath, side: int, batch: pa.RecordBatch) -> tuple[Int64s, NDArray[np.bool_] | None]:
    """The ordinals that rows of either side have in an equality on the right side's key; and which have one."""
    if side == 1:
        keys = path.keys(batch)
        return np.ascontiguousarray(keys.values), keys.valid
    found = path.intervals(batch)
    if found.rows is None:
        some = found.lo <= found.hi
        return np.ascontiguousarray(found.lo), None if some.all() else some
    values = np.zeros(batch.num_rows, dtype=np.int64)
    valid = np.zeros(batch.num_rows, dtype=bool)
    values[found.rows], valid[found.rows] = found.lo, True
    return values, valid


def gathered(home: Int64s, count: int) -> list[Target]:
    """Rows by the one worker that each is for."""
    order = np.argsort(home, kind="stable")
    ends = np.searchsorted(home[order], np.arange(count + 1))
    return [
        Target(worker, order[begin:end], [(worker, end - begin)])
        for worker, (begin, end) in enumerate(pairwise(ends.tolist()))
        if end > begin
    ]


def with_copies(home: Int64s, copied: NDArray[np.bool_]) -> list[Target]:
    """Rows by worker, those at home there and those that are copies apart; ``copied`` has a column for each."""
    found = []
    for worker in range(copied.shape[1]):
        for here, name in ((home == worker, worker), (copied[:, worker], ELSEWHERE)):
            chosen = np.flatnonzero(here)
            if len(chosen):
                found.append(Target(worker, chosen, [(name, len(chosen))]))
    return found


def in_turn(first: Int64s, count: int, spread: int, turn: int) -> Int64s:
    """A member of its group for every row: of the rows of one group each takes the next.

    Not of all rows: a key that every second row has would miss every second worker.
    """
    order = np.argsort(first, kind="stable")
    sizes = np.bincount(first, minlength=count)
    taken = np.empty(len(first), dtype=np.int64)
    taken[order] = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return (taken + turn) % spread


def following(first: Int64s, member: Int64s | int, count: int) -> Int64s:
    """The worker that comes so many after the first of its group; after the last comes worker 0."""
    worker = first + member
    return worker - count * (worker >= count)


# -- choosing ------------------------------------------------------------------------------------------


def resolve(
    asked: str,
    bound: BoundCondition,
    settings: Settings,
    schemas: tuple[pa.Schema, pa.Schema],
    workers: int,
    spread: int = 1,
) -> str:
    """The routing that ``auto`` means here; a name that was asked for is refused where it cannot work."""
    if asked not in ROUTINGS:
        raise WindowError(
            f"routing={asked!r}; expected one of {', '.join(ROUTINGS)}; leave it out for 'auto'"
        )
    name = asked
    if asked == "auto":
        name = "split"
        if settings.timed and equality_of(bound) is not None:
            name = "hash"
        elif settings.timed and grid_cells(bound, settings, schemas) is not None:
            name = "grid"
    router_of(name, bound, settings, schemas, workers, spread)
    return name


def router_of(
    name: str,
    bound: BoundCondition,
    settings: Settings,
    schemas: tuple[pa.Schema, pa.Schema],
    workers: int,
    spread: int = 1,
) -> Router:
    """The router of that name, or why there is none."""
    if spread > 1 and name == "split":
        why = (
            "count windows have every row at every worker"
            if not settings.timed
            else "routing 'split', the one without an equality or a band to go by, has every row at every worker"
        )
        raise WindowError(
            f"spread={spread} was given, and {why}; expected 1, as there is no key or cell to divide; leave spread out"
        )
    if name == "split":
        single = () if settings.how in ("inner", "full") else settings.padded
        reason = (
            "a count window needs every worker to see every row"
            if not settings.timed
            else "any condition works: every worker sees every row"
        )
        return Split(workers, reason, single, not settings.timed)
    if not settings.timed:
        raise WindowError(
            f"routing={name!r} was given with Rows windows; expected 'split' or 'auto', as only workers that see "
            "every row can count them; leave routing out"
        )
    equality = equality_of(bound)
    if name == "hash":
        if equality is None:
            raise ConditionError(
                f"routing='hash' needs an equality of the two streams that every pair must meet; '{bound.text}' has "
                "none; use routing='auto'"
            )
        shared = f", each key shared by {spread} workers" if spread > 1 else ""
        reason = f"equal keys meet: {equality.bounds_text}{shared}"
        return Hash(workers, reason, equality, Group.of(spread, settings.padded))
    cells = grid_cells(bound, settings, schemas)
    if cells is None:
        missing = "none; use routing='auto'"
        if equality is not None:
            missing = "none, as an equality is no band; use routing='hash', with spread where a key is hot"
        raise ConditionError(
            f"routing='grid' needs a band of constant width that every pair must meet, such as abs(l.x - r.x) <= 1; "
            f"'{bound.text}' has {missing}"
        )
    some = next(one for one in cells if one is not None)
    beside = f", for each key of {equality.bounds_text}" if equality is not None else ""
    shared = f", each cell shared by {spread} workers" if spread > 1 else ""
    width = int(some.width) if some.linear else some.width
    reason = f"cells {width:g} wide for the band {some.path.bounds_text}{beside}{shared}"
    return Grid(workers, reason, cells, equality, spread)


def equality_of(bound: BoundCondition) -> AccessPath | None:
    """An equality that every matching pair meets; its key is the right side's."""
    branch = only_branch(bound)
    if branch is None:
        return None
    return next((path for path in branch.paths(1) if path.kind == "equality"), None)


def only_branch(bound: BoundCondition) -> Branch | None:
    return bound.branches[0] if len(bound.branches) == 1 else None


def grid_cells(
    bound: BoundCondition, settings: Settings, schemas: tuple[pa.Schema, pa.Schema]
) -> tuple[Cells | None, Cells | None] | None:
    """Cells for the sides that are anchored: those that may be padded, or one of the two."""
    branch = only_branch(bound)
    if branch is None:
        return None
    found = [cells_of(branch, side, schemas[1 - side]) for side in (0, 1)]
    wanted = settings.padded
    if any(found[side] is None for side in wanted):
        return None
    if not wanted:
        wanted = (1,) if found[1] is not None else (0,) if found[0] is not None else ()
        if not wanted:
            return None
    left, right = (found[side] if side in wanted else None for side in (0, 1))
    return left, right


def cells_of(branch: Branch, stored: int, probing: pa.Schema) -> Cells | None:
    """Cells on one side's key, if a band on it is equally wide for every probing row."""
    for path in branch.paths(stored):
        codec = path.trees[0].key.codec
        if path.kind != "band" or codec not in (*LINEAR, "float"):
            continue
        width = constant_width(path, probing, linear=codec in LINEAR)
        if width is not None:
            return Cells(path, CELL_BANDS * width, codec in LINEAR)
    return None


def constant_width(path: AccessPath, schema: pa.Schema, *, linear: bool) -> float | None:
    """The width of a band, looked up at a few rows; None if it varies, or is nothing."""
    widths: list[float] = []
    for sample in SAMPLES:
        found = path.intervals(sample_row(schema, sample))
        if len(found.lo) != 1 or found.lo[0] > found.hi[0]:
            return None
        low, high = int(found.lo[0]), int(found.hi[0])
        if linear:
            widths.append(float(high - low))
            continue
        if max(abs(low), abs(high)) > FLOAT_MAX:
            return None
        ends = to_floats(np.array([low, high], dtype=np.int64))
        widths.append(float(ends[1]) - float(ends[0]))
    least, most = min(widths), max(widths)
    return most if least > 0 and most - least <= 1e-6 * most and most < MOST_CELL / CELL_BANDS else None


def sample_row(schema: pa.Schema, value: int) -> pa.RecordBatch:
    """One row with the value in every column that can have it, NULL in the others."""
    columns = []
    for column in schema:
        try:
            columns.append(pa.array([value], type=pa.int64()).cast(pa.int32()).cast(column.type))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            try:
                columns.append(pa.array([value], type=pa.int64()).cast(column.type))
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
                columns.append(pa.nulls(1, column.type))
    return pa.RecordBatch.from_arrays(
        columns, schema=pa.schema([column.with_nullable(True) for column in schema])
    )
