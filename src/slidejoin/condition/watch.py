"""Watches: comparisons that hold for nearly every pair, so that looking at the ends of batches is enough.

Where all keys of a subwindow lie within the bounds of all rows of a batch, every pair of theirs passes. An index need
not hold such a key, and its candidates need no checking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from slidejoin.condition.paths import AccessPath
from slidejoin.condition.types import I64_MAX, I64_MIN


class Ends(NamedTuple):
    """Of each key, the least and the greatest that occur; or of its bounds, the greatest lower and the least upper one."""

    least: tuple[int, ...]
    most: tuple[int, ...]

    def within(self, bounds: Ends) -> bool:
        """Whether all keys are within all bounds."""
        below = all(key <= bound for key, bound in zip(self.most, bounds.most, strict=True))
        return below and all(key >= bound for key, bound in zip(self.least, bounds.least, strict=True))

    def with_those(self, other: Ends) -> Ends:
        """Of the keys of both."""
        return Ends(tuple(map(min, self.least, other.least)), tuple(map(max, self.most, other.most)))


class Watch:
    """Comparisons of a branch on one stored side, each exact and with one interval a row."""

    __slots__ = ("_near", "paths")

    def __init__(self, paths: Sequence[AccessPath]) -> None:
        self.paths = tuple(paths)
        self._near: tuple[Watch, list[tuple[int, int | None, int | None]] | None] | None = None

    @property
    def nothing(self) -> Ends:
        """The ends of no keys: any bounds are around them."""
        return Ends((I64_MAX,) * len(self.paths), (I64_MIN,) * len(self.paths))

    def held(self, batch: pa.RecordBatch) -> Ends | None:
        """Between which the keys of stored rows lie; None if one is NULL, as then no pair of it passes."""
        ends = [path.trees[0].key.ends(batch) for path in self.paths]
        known = [one for one in ends if one is not None]
        return Ends(*zip(*known, strict=True)) if len(known) == len(ends) else None

    def asked(self, batch: pa.RecordBatch, own: Watch | None, held: Ends | None) -> Ends | None:
        """The bounds of probing rows; ``held`` are the ends of their own keys, which ``own`` watches."""
        distances = None if own is None or held is None else self._distances(own)
        if distances is not None and held is not None:
            lows = [I64_MIN if below is None else held.most[n] + below for n, below, _ in distances]
            highs = [I64_MAX if above is None else held.least[n] + above for n, _, above in distances]
            return Ends(tuple(lows), tuple(highs))
        ends = []
        for path in self.paths:
            rows, lower, upper = path.intervals(batch)
            if rows is not None:
                return None
            ends.append((int(lower.max()), int(upper.min())))
        return Ends(*zip(*ends, strict=True))

    def _distances(self, own: Watch) -> list[tuple[int, int | None, int | None]] | None:
        """For each key, which of the rows' own keys its bounds lie around, and how far; None if not so for every row."""
        if self._near is None or self._near[0] is not own:  # paths stay as they are: once is enough
            found = []
            for path in self.paths:
                around = ((n, path.around(other)) for n, other in enumerate(own.paths))
                found += [(n, *ends) for n, ends in around if ends is not None][:1]
            self._near = own, found if len(found) == len(self.paths) else None
        return self._near[1]
