"""How one side's rows are found: an index on one part of the condition, the rest checked on candidates.

A branch of the condition may offer several ways in (an equality, a band, an inequality). Asked for ``auto``,
the planner measures each on a sample of the first rows that meet, and takes the one that keeps the least of
the window; what it does not cover is checked on the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slidejoin.condition import AccessPath, Branch, Predicate
from slidejoin.errors import ConditionError
from slidejoin.index import REGISTRY, Index
from slidejoin.plan.cost import SUBWINDOWS, Figures, pick, table

SAMPLE = 1024  # rows of each side that a selectivity is measured on
BEST_INDEX = "bi_sort"  # for equality too: a sorted batch meets sorted runs faster than it hashes (bench/throughput.py)


@dataclass(frozen=True)
class Access:
    """One branch, one stored side: the index, the path that it is on, and what remains to be checked."""

    branch: Branch
    stored: int
    index: type[Index]
    path: AccessPath | None
    reason: str
    planned: str = ""  # what the planner weighed when a subwindow was completed

    @property
    def verify(self) -> Predicate | None:
        return self.branch.verify if self.path is None else self.path.verify

    def __str__(self) -> str:
        checked = f", then check {self.verify.text}" if self.verify is not None else ""
        if self.path is None:
            return f"{self.index.name} over every row{checked} ({self.reason})"
        return (
            f"{self.index.name} on {self.path.key_text} for {self.path.bounds_text}{checked} ({self.reason})"
            + (f"\n{'':13} {self.planned}" if self.planned else "")
        )


def require(branches: tuple[Branch, ...], index: str) -> None:
    """Refuse an index that was asked for by name and cannot serve the condition."""
    if index in ("auto", "scan"):
        return
    for branch in branches:
        for stored in (0, 1):
            if not any(path.kind in REGISTRY[index].kinds for path in branch.paths(stored)):
                kinds = ", ".join(sorted(REGISTRY[index].kinds))
                raise ConditionError(
                    f"index {index!r} needs one of: {kinds}; the condition has none in '{branch.text}'; "
                    "use index='auto'"
                )


def choose(branch: Branch, stored: int, index: str, rows: pa.RecordBatch, probing: pa.RecordBatch) -> Access:
    """The way to find rows of the ``stored`` side; ``rows`` and ``probing`` are what has arrived so far."""
    if index == "scan":
        return Access(branch, stored, REGISTRY["scan"], None, "asked for")
    paths = [path for path in branch.paths(stored) if index == "auto" or path.kind in REGISTRY[index].kinds]
    if not paths:
        return Access(branch, stored, REGISTRY["scan"], None, "nothing in it can be indexed")
    if len(paths) == 1:
        return Access(branch, stored, _index(index), paths[0], f"the only {paths[0].kind}")
    kept = [selectivity(path, rows, probing) for path in paths]
    best = min(range(len(paths)), key=kept.__getitem__)
    measured = ", ".join(f"{path.bounds_text} {share:.2%}" for path, share in zip(paths, kept, strict=True))
    return Access(branch, stored, _index(index), paths[best], f"keeps the least of the window: {measured}")


def replan(access: Access, figures: Figures) -> tuple[Access, int]:
    """The access of the next subwindow, on the same path, and how many subwindows make a window."""
    path = access.path
    if path is None or access.index.name not in {entry.kind for entry in table()}:
        return access, SUBWINDOWS[0]
    able = [name for name, index in REGISTRY.items() if path.kind in index.kinds]
    choice = pick(figures, able)
    return replace(access, index=REGISTRY[choice.kind], planned=choice.reason), choice.subwindows


def selectivity(path: AccessPath, rows: pa.RecordBatch, probing: pa.RecordBatch) -> float:
    """The share of the stored rows that a probing row finds through this path, on samples of both."""
    keys = path.keys(_sample(rows))
    values = np.sort(keys.values if keys.valid is None else keys.values[keys.valid])
    sample = _sample(probing)
    found = path.intervals(sample)
    starts = np.searchsorted(values, found.lo)
    ends = np.searchsorted(values, found.hi, side="right")
    found_pairs = int(np.maximum(ends - starts, 0).sum())
    return found_pairs / max(1, len(keys.values) * int(sample.num_rows))


def _index(index: str) -> type[Index]:
    return REGISTRY[BEST_INDEX if index == "auto" else index]


def _sample(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_rows <= SAMPLE:
        return batch
    step = batch.num_rows // SAMPLE
    return batch.take(pa.array(np.arange(0, step * SAMPLE, step)))
