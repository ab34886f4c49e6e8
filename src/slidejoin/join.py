"""Join: the public face. It takes what users give, and tells them what goes on; the engine does the rest."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any, NoReturn

import pyarrow as pa

from slidejoin import snapshot
from slidejoin.collect import ROWS, Collector
from slidejoin.engine import Engine
from slidejoin.errors import StateError, WindowError
from slidejoin.explain import explain
from slidejoin.intake import late_table, to_batch
from slidejoin.matches import Matches
from slidejoin.settings import Settings, checked_threads
from slidejoin.stats import Counters
from slidejoin.tuning import Tuning
from slidejoin.turns import Turns
from slidejoin.window.spec import Window


class Join:
    """A join of two streams, ``l`` and ``r``, on any SQL condition over sliding windows.

    >>> import slidejoin as sj
    >>> join = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(100))
    >>> join.push(left={"x": [1, 5]}).num_rows
    0
    >>> join.push(right={"x": [2]}).to_table().to_pydict()
    {'x_l': [1], 'x_r': [2]}
    """

    def __init__(
        self,
        condition: str,
        window: Window | tuple[Window, Window] | None = None,
        how: str = "inner",
        lateness: Any = None,
        late: str = "count",
        order: str = "none",
        index: str = "auto",
        flow: str = "auto",
        threads: int | None = None,
        aliases: tuple[str, str] = ("l", "r"),
        suffixes: tuple[str, str] = ("_l", "_r"),
        tuning: Tuning | None = None,
    ) -> None:
        self._turns = Turns()  # rows arrive in the order of the calls
        self._engine = Engine(
            Settings.checked(
                condition, window, how, lateness, late, order, index, flow, threads, aliases, suffixes, tuning
            )
        )

    def push(self, *, left: Any = None, right: Any = None) -> Matches:
        """Rows have arrived, on one side or both; returns what they match.

        Accepts anything with an Arrow C stream (pyarrow, Polars, DuckDB, nanoarrow), pandas, or a dict of
        arrays. Cost: O(rows * log(window)) plus nothing for the matches until they are read.
        """
        known = self._engine.books.schemas
        batches = (
            None if left is None else to_batch(left, 0, known[0]),
            None if right is None else to_batch(right, 1, known[1]),
        )
        return self._turns.take(lambda: self._engine.push(batches))

    def advance(self, *, left: Any = None, right: Any = None) -> Matches:
        """Time has passed without rows: move the clocks, let rows leave, emit those wanted unmatched."""
        if not self._engine.settings.timed:
            raise WindowError(
                "advance() was called on a join over Rows; expected Time windows, as only they have clocks; "
                "push rows instead"
            )
        return self._turns.take(lambda: self._engine.advance((left, right)))

    def finish(self) -> Matches:
        """The end of both streams: emit every row that is still wanted unmatched. The join is then closed."""
        return self._turns.take(self._engine.finish)

    def collect(self, *, rows: int = ROWS, seconds: float | None = None) -> Collector:
        """Small pushes collected into batches: until there are ``rows``, or until the oldest has waited ``seconds``.

        >>> import slidejoin as sj
        >>> feed = sj.Join("l.x = r.x", window=sj.Rows(100)).collect(rows=1000, seconds=0.1)
        >>> feed.push(left={"x": [1]})
        >>> feed.push(right={"x": [1]})
        >>> feed.flush().num_rows
        1
        """
        return Collector(self._engine, self._turns, rows, seconds)

    def tune(
        self,
        *,
        threads: int | None = None,
        subwindow_rows: int | None = None,
        chunk_rows: int | None = None,
        partition_rows: int | None = None,
        buffer_rows: int | None = None,
        merge_rows: int | None = None,
    ) -> None:
        """Change threads and sizes between calls; None leaves one as it is. No row is lost, no result changes.

        Subwindows that are there keep their rows and the sizes of their indexes; they change hands if there are more or
        fewer workers.

        >>> import slidejoin as sj
        >>> join = sj.Join("l.x < r.x", window=sj.Rows(10), flow="panjoin", threads=1)
        >>> join.tune(threads=2, subwindow_rows=5)
        """

        def change() -> None:
            asked = {
                "subwindow_rows": subwindow_rows,
                "chunk_rows": chunk_rows,
                "partition_rows": partition_rows,
                "buffer_rows": buffer_rows,
                "merge_rows": merge_rows,
            }
            changed = {name: rows for name, rows in asked.items() if rows is not None}
            tuning = replace(self._engine.settings.tuning, **changed)
            self._engine.tune(threads=None if threads is None else checked_threads(threads), tuning=tuning)

        self._turns.take(change)

    def late(self) -> tuple[pa.Table, pa.Table]:
        """With ``late="keep"``: the late rows since the last call, left and right."""
        settings = self._engine.settings
        if settings.late != "keep":
            raise StateError(
                f"late() was called on a join with late={settings.late!r}; expected late='keep', which keeps late "
                "rows; make the join with late='keep'"
            )

        def take_out() -> tuple[pa.Table, pa.Table]:
            books = self._engine.books
            left, right = (
                pa.schema([]).empty_table() if schema is None else late_table(batches, schema)
                for batches, schema in zip(books.late_rows, books.schemas, strict=True)
            )
            books.late_rows = ((), ())
            return left, right

        return self._turns.take(take_out)

    def stats(self) -> Counters:
        """Counters: rows in, late, in state, evicted for each side; matches, emitted, bytes, watermark.

        >>> import slidejoin as sj
        >>> join = sj.Join("l.x < r.x", window=sj.Rows(10))
        >>> _ = join.push(left={"x": [1, 2]})
        >>> join.stats().left.state_rows
        2
        """
        return self._turns.take(self._engine.counters)

    def explain(self) -> str:
        """The condition taken apart, the plan and why, the window, and what bounds the state."""
        return self._turns.take(lambda: explain(self._engine))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a durable snapshot: replaced whole, so a crash leaves the previous one."""

        def write() -> None:
            self._engine.open("save()")
            snapshot.save(self._engine, path)

        self._turns.take(write)

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, condition: str | None = None, threads: int | None = None
    ) -> Join:
        """The join of a snapshot; ``condition``, if given, must be the one that it was saved with."""
        join = cls.__new__(cls)
        join._turns = Turns()  # noqa: SLF001 - its own
        join._engine = snapshot.load(path, condition=condition, threads=threads)  # noqa: SLF001 - its own
        return join

    def check(self) -> None:
        """Assert every invariant of every structure; a debugging aid, O(state)."""
        self._turns.take(self._engine.check)

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise StateError(
            "a Join was to be copied or pickled; expected it to stay where its rows are; save() it and load() the "
            "snapshot instead"
        )

    def __repr__(self) -> str:
        settings = self._engine.settings
        return f"<Join {settings.how} on {settings.condition!r}>"
