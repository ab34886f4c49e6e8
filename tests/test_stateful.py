"""A life of a join: pushes, heartbeats, snapshots and the end, in any order, never differing from the oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import slidejoin as sj
from duel import Duel, InapplicableError
from generate.cases import Feed, Setup, setups

blocks = st.binary(max_size=60)


class JoinLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.duel: Duel
        self.feed: Feed
        self.finished = False

    @initialize(
        setup=setups(),
        index=st.sampled_from(("auto", *sj.indexes())),
        flow=st.sampled_from(sj.flows()),
        know=st.booleans(),
    )
    def begin(self, setup: Setup, index: str, flow: str, know: bool) -> None:
        self.feed = Feed(setup)
        try:
            self.duel = Duel(setup, index=index, flow=flow)
            if know or index != "auto":  # an index that does not apply is refused when both schemas are known
                self.duel.push([], [])
        except InapplicableError:
            self.duel = Duel(setup, index="auto", flow=flow)

    @precondition(lambda self: not self.finished)
    @rule(block=blocks)
    def push_left(self, block: bytes) -> None:
        self.duel.push(left=self.feed.rows(0, block))

    @precondition(lambda self: not self.finished)
    @rule(block=blocks)
    def push_right(self, block: bytes) -> None:
        self.duel.push(right=self.feed.rows(1, block))

    @precondition(lambda self: not self.finished)
    @rule(left=blocks, right=blocks)
    def push_both(self, left: bytes, right: bytes) -> None:
        self.duel.push(self.feed.rows(0, left), self.feed.rows(1, right))

    @precondition(lambda self: not self.finished)
    @rule(left=blocks, right=blocks, after=st.integers(0, 12), done=st.booleans())
    def push_with_fault(self, left: bytes, right: bytes, after: int, done: bool) -> None:
        self.duel.push_with_fault(self.feed.rows(0, left), self.feed.rows(1, right), after, done=done)

    @precondition(lambda self: not self.finished and self.duel.setup.timed)
    @rule(sides=st.sampled_from(((0,), (1,), (0, 1))), steps=st.sampled_from((0, 1, 5, -3, 30)))
    def advance(self, sides: tuple[int, ...], steps: int) -> None:
        self.duel.advance(*(self.feed.ahead(side, steps) if side in sides else None for side in (0, 1)))

    @precondition(lambda self: not self.finished)
    @rule()
    def save_and_load(self) -> None:
        self.duel.save_and_load(Path(self.folder.name) / "join.snapshot")

    @precondition(lambda self: not self.finished)
    @rule(
        threads=st.sampled_from((None, 1, 2, 3)),
        subwindow_rows=st.sampled_from((None, 1, 3, 50)),
        chunk_rows=st.sampled_from((None, 1, 4, 1000)),
    )
    def tune(self, threads: int | None, subwindow_rows: int | None, chunk_rows: int | None) -> None:
        """Workers and sizes change; nothing else does."""
        self.duel.engine.tune(threads=threads, subwindow_rows=subwindow_rows, chunk_rows=chunk_rows)
        self.duel.settle([], None)

    @rule()
    def look(self) -> None:
        """Looking changes nothing; the next settlement would tell."""
        assert self.duel.engine.explain()
        self.duel.settle([], None)

    @precondition(lambda self: not self.finished)
    @rule(sure=st.integers(0, 3))
    def finish(self, sure: int) -> None:
        if sure:  # mostly go on living
            return
        self.duel.finish()
        self.finished = True
        with pytest.raises(sj.StateError):
            self.duel.engine.push(left=self.duel.setup.table(0, []))
        with pytest.raises(sj.StateError):
            self.duel.engine.finish()
        self.duel.settle([], None)

    def teardown(self) -> None:
        try:
            if not self.finished and hasattr(self, "duel"):
                self.duel.finish()
        finally:
            self.folder.cleanup()


TestJoinLife = JoinLife.TestCase
TestJoinLife.settings = settings(max_examples=settings().max_examples)
