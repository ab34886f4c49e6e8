"""Sizes of an index: the same structure with partitions, a buffer or a mutable part of another size.

An index that has such a size has it as an attribute of its class. One of another size is a class of its own, made once, so
that subwindows of several sizes live side by side as those of several structures do.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from slidejoin.index.protocol import Index


class Sizes(NamedTuple):
    """Rows of a part of an index; None where nobody has said. An index looks at those that it has.

    ``partition_rows``: of RaP-Table's partitions, which are as many as the rows expected make of them.
    ``buffer_rows``: of the insertion buffer of BI-Sort as in the paper. ``merge_rows``: of SPO-Join's mutable part.
    """

    partition_rows: int | None = None
    buffer_rows: int | None = None
    merge_rows: int | None = None

    @property
    def given(self) -> dict[str, int]:
        """Those that somebody has said, by name."""
        return {name: rows for name, rows in self._asdict().items() if rows is not None}

    def over(self, others: Sizes) -> Sizes:
        """These, and where nobody has said, the others."""
        return Sizes(*(mine if mine is not None else other for mine, other in zip(self, others, strict=True)))

    def of(self, kind: type[Index]) -> dict[str, int]:
        """Those that an index has."""
        return {name: rows for name, rows in self.given.items() if hasattr(kind, name)}


OWN = Sizes()  # every index its own


@cache
def sized(kind: type[Index], sizes: Sizes) -> type[Index]:
    """The index with these sizes.

    >>> from slidejoin.index import SpoJoin
    >>> small = sized(SpoJoin, Sizes(merge_rows=1000))
    >>> small.name, small.merge_rows, small is sized(SpoJoin, Sizes(merge_rows=1000))
    ('spo_join', 1000, True)
    """
    theirs = sizes.of(kind)
    return type(kind.__name__, (kind,), theirs) if theirs else kind
