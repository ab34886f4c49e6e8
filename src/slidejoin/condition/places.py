"""Places: where in the text a part of a condition begins.

sqlglot knows where its names, literals and calls stand, and forgets it for what begins with a word or a sign: an
INTERVAL, a parameter, a subquery, CASE. The translator walks the tree in the order of the text, so such a part begins
at the first word of its kind after all that has been read.
"""

from __future__ import annotations

from bisect import bisect_left

import sqlglot
from sqlglot import exp

_QUOTED = frozenset(
    {"STRING", "IDENTIFIER", "NATIONAL_STRING", "RAW_STRING", "HEREDOC_STRING", "BYTE_STRING"}
)
_OPENINGS: tuple[tuple[tuple[type, ...], frozenset[str]], ...] = (
    ((exp.Interval,), frozenset({"INTERVAL"})),
    ((exp.Placeholder, exp.Parameter), frozenset({"?", ":", "$", "@"})),
    ((exp.Exists,), frozenset({"EXISTS"})),
    ((exp.Any,), frozenset({"ANY", "SOME"})),
    ((exp.All,), frozenset({"ALL"})),
    ((exp.Query,), frozenset({"SELECT", "WITH", "FROM", "VALUES"})),
    ((exp.Case,), frozenset({"CASE"})),
    ((exp.Cast,), frozenset({"CAST", "TRY_CAST"})),
    ((exp.Struct,), frozenset({"{"})),
    ((exp.Array,), frozenset({"[", "ARRAY"})),
    ((exp.Boolean,), frozenset({"TRUE", "FALSE"})),
    ((exp.Null,), frozenset({"NULL"})),
)  # fmt: skip


class Places:
    """The words of one text, and how far the translator has come in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._here = 0  # the last known beginning, for parts that carry none
        self._passed = 0  # everything before this has been read
        self._words: tuple[list[int], list[str]] | None = None

    def of(self, node: exp.Expression) -> int:
        """Where a node begins; to be asked in the order of the text."""
        start = _start(node)
        opening = self._opening(node, start)
        if opening is not None:
            start, self._passed = opening, opening + 1
        elif isinstance(node, exp.Column | exp.Literal):
            name = node.this if isinstance(node, exp.Column) else node
            end = name.meta.get("end") if isinstance(name, exp.Expression) else None
            self._passed = max(self._passed, end + 1 if isinstance(end, int) else 0)
        if start is not None:
            self._here = start
        return self._here

    def _opening(self, node: exp.Expression, start: int | None) -> int | None:
        words = next((words for kinds, words in _OPENINGS if isinstance(node, kinds)), None)
        if words is None:
            if start is not None or not isinstance(node, exp.Func):
                return None
            words = frozenset({node.sql_name().upper()})  # a call without parentheses: CURRENT_DATE
        starts, found = self._read()
        first = bisect_left(starts, self._passed)
        last = len(starts) if start is None else bisect_left(starts, start + 1)
        return next((starts[i] for i in range(first, last) if found[i] in words), None)

    def _read(self) -> tuple[list[int], list[str]]:
        if self._words is None:
            tokens = sqlglot.tokenize(self._text, dialect="duckdb")
            plain = [token for token in tokens if token.token_type.name not in _QUOTED]
            self._words = [token.start for token in plain], [token.text.upper() for token in plain]
        return self._words


def _start(node: exp.Expression) -> int | None:
    """The position that a node carries, or that of its leftmost part that has one."""
    current: object = node
    for _ in range(10_000):
        if not isinstance(current, exp.Expression):
            break
        if isinstance(current, exp.Column):
            current = (
                current.args.get("catalog")
                or current.args.get("db")
                or current.args.get("table")
                or current.this
            )
            continue
        start = current.meta.get("start")
        if isinstance(start, int):
            return start
        following = current.args.get("this")
        if not isinstance(following, exp.Expression):
            following = next((part for part in current.iter_expressions()), None)
        current = following
    return None
