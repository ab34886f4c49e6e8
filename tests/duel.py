"""The engine and the oracle side by side: every call is made on both, and everything visible is compared.

After each call: the multiset of index pairs, the rows that these pairs stand for, the pieces of iteration, the
order asked for, the late rows kept, the accounting, and the engine's own invariants (``Join.check``).
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import naive
import slidejoin as sj
from generate.cases import Advance, Call, Push, Setup, ticks_of
from slidejoin.index import REGISTRY
from slidejoin.window.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

LARGEST_PIECE = 65_536
SIDES = ("left", "right")

Raw = list[dict[str, Any]]


class InapplicableError(Exception):
    """A forced index that cannot serve the condition: the engine refuses, which is right."""


@contextmanager
def forced_index(name: str) -> Iterator[None]:
    try:
        yield
    except sj.ConditionError as error:
        if name != "auto" and "index" in str(error) and "needs" in str(error):
            raise InapplicableError(str(error)) from error
        raise


class FaultError(MemoryError):
    """A failure put into the engine on purpose."""


FRAGILE = [
    *(
        (index, name)
        for index in REGISTRY.values()
        for name in ("insert", "probe_all", "merge", "drop_below")
    ),
    *((Ring, name) for name in ("append", "complete", "expire")),
]


@contextmanager
def fault(after: int, *, done: bool) -> Iterator[None]:
    """Inside, the engine's parts work ``after`` times and then fail once: before their work, or when it is ``done``."""
    calls = itertools.count()

    def fragile(work: Callable[..., Any]) -> Callable[..., Any]:
        def attempt(*args: Any, **kwargs: Any) -> Any:
            failing = next(calls) == after
            if failing and not done:
                raise FaultError
            result = work(*args, **kwargs)
            if failing:
                raise FaultError
            return result

        return attempt

    with ExitStack() as patches:
        for part, name in FRAGILE:
            attempt = fragile(getattr(part, name))
            patched = staticmethod(attempt) if name == "probe_all" else attempt
            patches.enter_context(mock.patch.object(part, name, patched))
        yield


def build(setup: Setup, **override: Any) -> sj.Join:
    """The join that a setup describes."""
    windows: list[Any] = []
    for side in (0, 1):
        if setup.timed:
            assert setup.position is not None
            on = setup.position if setup.position[0] != setup.position[1] else setup.position[0]
            windows.append(sj.Time(setup.lengths[side], on=on, slide=setup.slides[side]))
        else:
            windows.append(sj.Rows(setup.lengths[side], by=setup.position, slide=setup.slides[side]))
    tuning = {
        name: value
        for name, value in (
            ("subwindow_rows", setup.subwindow_rows),
            ("chunk_rows", setup.chunk_rows),
            ("partition_rows", setup.part_rows),
            ("buffer_rows", setup.part_rows),
            ("merge_rows", setup.part_rows),
        )
        if value is not None
    }
    arguments: dict[str, Any] = {
        "window": windows[0] if windows[0] == windows[1] else tuple(windows),
        "how": setup.how,
        "order": setup.order,
        "index": setup.index,
        "flow": setup.flow,
        "threads": setup.threads,
        "aliases": setup.aliases,
        "suffixes": setup.suffixes,
        "tuning": sj.Tuning(**tuning),
    }
    if setup.timed:
        arguments |= {"lateness": setup.lateness_given, "late": setup.late}
    arguments |= override
    with forced_index(arguments["index"]):
        return sj.Join(setup.condition.bare, **arguments)


def pairs_of(matches: sj.Matches) -> list[naive.Pair]:
    left, right = matches.indices()
    assert left.dtype == right.dtype == np.int64
    return list(zip(left.tolist(), right.tolist(), strict=True))


def gathered(tables: Sequence[pa.Table], setup: Setup, pairs: Sequence[naive.Pair]) -> pa.Table:
    """The rows that index pairs stand for, taken from what was pushed, named as the contract says."""
    sides = (0,) if setup.how in ("semi", "anti") else (0, 1)
    names = [{name for name, _ in setup.columns[side]} for side in (0, 1)]
    columns: list[pa.ChunkedArray] = []
    fields: list[tuple[str, pa.DataType]] = []
    for side in sides:
        take = pa.array([None if pair[side] == naive.ABSENT else pair[side] for pair in pairs], pa.int64())
        for name, kind in setup.columns[side]:
            clash = len(sides) == 2 and name in names[1 - side]
            fields.append((name + setup.suffixes[side] if clash else name, kind.arrow))
            columns.append(tables[side].column(name).combine_chunks().take(take))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def assert_same_rows(actual: pa.Table, expected: pa.Table) -> None:
    """Equal schemas and cells; NaN equals NaN and -0.0 is not 0.0 here, since payload must survive."""
    assert actual.schema.names == expected.schema.names
    assert actual.schema.types == expected.schema.types
    assert actual.num_rows == expected.num_rows
    for name in actual.schema.names:
        assert repr(_cells(actual.column(name))) == repr(_cells(expected.column(name))), name


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """Cells to compare by repr: temporal values as integers, since Python's types cannot hold all of them."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return column.to_pylist()


class Duel:
    """One join on both sides of the comparison."""

    def __init__(self, setup: Setup, **override: Any) -> None:
        self.setup = setup
        self.order = override.get("order", setup.order)
        self.index = override.get("index", setup.index)
        self.engine = build(setup, **override)
        self.oracle = setup.naive()
        self.pushed = [setup.table(side, []) for side in (0, 1)]
        self.known: set[str] = set()

    def call(self, call: Call) -> list[naive.Pair]:
        if isinstance(call, Push):
            return self.push(call.left, call.right)
        assert isinstance(call, Advance)
        return self.advance(call.left, call.right)

    def push(self, left: Raw | None = None, right: Raw | None = None) -> list[naive.Pair]:
        given = {
            SIDES[side]: self.setup.table(side, rows)
            for side, rows in enumerate((left, right))
            if rows is not None
        }
        try:
            expected = self.oracle.push(*self.oracle_rows(left, right))
        except naive.LateError:
            with pytest.raises(sj.LateRowError), forced_index(self.index):
                self.engine.push(**given)
            return self.settle([], None)
        with forced_index(self.index):
            matches = self.engine.push(**given)
        self.known |= given.keys()
        for side, name in enumerate(SIDES):
            if name in given:
                self.pushed[side] = pa.concat_tables([self.pushed[side], given[name]])
        return self.settle(expected, matches)

    def oracle_rows(self, *sides: Raw | None) -> list[list[naive.Row] | None]:
        return [
            None if rows is None else self.setup.naive_rows(side, rows) for side, rows in enumerate(sides)
        ]

    def push_with_fault(self, left: Raw, right: Raw, after: int, *, done: bool) -> None:
        """A push in which the engine's own parts may fail: all of it happens, or nothing does."""
        given = {"left": self.setup.table(0, left), "right": self.setup.table(1, right)}
        given = {name: table for name, table in given.items() if table.num_rows}
        with fault(after, done=done):
            try:
                matches = self.engine.push(**given)
            except (FaultError, sj.LateRowError):
                matches = None
        if matches is None:
            self.settle([], None)
            return
        expected = self.oracle.push(*self.oracle_rows(left or None, right or None))
        self.known |= given.keys()
        for side, name in enumerate(SIDES):
            if name in given:
                self.pushed[side] = pa.concat_tables([self.pushed[side], given[name]])
        self.settle(expected, matches)

    def advance(self, left: int | None = None, right: int | None = None) -> list[naive.Pair]:
        beats = {
            SIDES[side]: self.setup.instant(side, ticks)
            for side, ticks in enumerate((left, right))
            if ticks is not None
        }
        expected = self.oracle.advance(left, right)
        return self.settle(expected, self.engine.advance(**beats))

    def finish(self) -> list[naive.Pair]:
        expected = self.oracle.finish()
        return self.settle(expected, self.engine.finish())

    def save_and_load(self, path: Path) -> None:
        self.engine.save(path)
        self.engine = sj.Join.load(path)
        self.settle([], None)

    # -- what must hold after every call --------------------------------------------------------------

    def settle(self, expected: list[naive.Pair], matches: sj.Matches | None) -> list[naive.Pair]:
        pairs: list[naive.Pair] = []
        if matches is not None:
            assert matches.num_rows == len(expected)
            pairs = pairs_of(matches)
            assert Counter(pairs) == Counter(expected)
            self.check_rows(pairs, matches)
            self.check_order(pairs, expected)
        self.check_stats()
        self.check_late()
        self.engine.check()
        return pairs

    def check_rows(self, pairs: list[naive.Pair], matches: sj.Matches) -> None:
        table = matches.to_table()
        assert table.num_rows == len(pairs)
        if self.known == {
            "left",
            "right",
        }:  # a side never pushed has no schema, so its columns have no types yet
            assert_same_rows(table, gathered(self.pushed, self.setup, pairs))
        pieces = list(matches)
        assert all(isinstance(piece, pa.RecordBatch) and piece.num_rows <= LARGEST_PIECE for piece in pieces)
        assert_same_rows(pa.Table.from_batches(pieces, schema=table.schema), table)

    def check_order(self, pairs: list[naive.Pair], expected: list[naive.Pair]) -> None:
        """Results of an earlier arriving row come first; ``strict``: from its oldest partner to its newest.

        Rows emitted alone belong to no arrival; no place among the others is promised for them."""
        if self.order == "none":
            return
        moment = dict(zip(expected, self.oracle.belongs_to, strict=True))
        joined = [pair for pair in pairs if moment[pair] is not None]
        moments = [moment[pair] for pair in joined]
        assert moments == sorted(moments)
        if self.order == "strict":
            assert joined == [pair for pair in expected if moment[pair] is not None]

    def check_stats(self) -> None:
        stats = self.engine.stats()
        for side, name in enumerate(SIDES):
            truth, counted = self.oracle.sides[side], stats[name]
            assert counted["rows_in"] == truth.rows_in
            assert counted["late"] == truth.late
            assert counted["null_time"] == truth.null_time
            assert counted["accepted"] == len(truth.accepted)
            assert counted["rows_in"] == counted["accepted"] + counted["late"] + counted["null_time"]
            assert counted["accepted"] == counted["state_rows"] + counted["evicted"]
            # Rows that never needed storing count as evicted, so the engine may hold less than the window.
            assert 0 <= counted["state_rows"] <= truth.state_rows
        assert stats["matches"] == self.oracle.matches
        assert stats["emitted"] == self.oracle.emitted
        assert stats["state_bytes"] >= 0
        if self.known and not self.oracle.finished:  # heartbeats before any schema have no kind of time yet
            assert stats["held_by"] == self.oracle.held_by
            assert ticks_of(stats["watermark"]) == self.readable(self.oracle.watermark)

    def readable(self, watermark: int | None) -> int | None:
        """Datetimes end at microseconds."""
        assert self.setup.position is not None or watermark is None
        if watermark is None or self.setup.column(0, self.setup.position[0]).family == "number":
            return watermark
        return watermark // 1000 * 1000

    def check_late(self) -> None:
        if self.setup.late != "keep":
            return
        for side, (table, expected) in enumerate(
            zip(self.engine.late(), self.oracle.late_rows(), strict=True)
        ):
            assert table.num_rows == len(expected)
            if expected:
                assert_same_rows(table, self.pushed[side].take(pa.array(expected, pa.int64())))


def fight(setup: Setup, calls: Sequence[Call], **override: Any) -> Duel:
    """All calls and the end, on both; a forced index that does not apply gives way to ``auto``."""
    try:
        duel = Duel(setup, **override)
        for call in calls:
            duel.call(call)
    except InapplicableError:
        return fight(setup, calls, **(override | {"index": "auto"}))
    duel.finish()
    return duel
