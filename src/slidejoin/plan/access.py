"""How one side's rows are found: an index on one part of the condition or on several, the rest checked on candidates.

A branch of the condition may offer several ways in (an equality, a band, an inequality). Asked for ``auto``, the
planner measures on a sample of the first rows that meet how much of the window each of them keeps, and any two together.
One that keeps next to nothing is searched alone, and what it does not cover is checked on its candidates. Otherwise an
index that holds several keys takes them all, first the two that keep the least together, since those are searched and
the others only looked at: two halves of the window that have little in common do better than two narrower stretches
that have nothing to do with each other. A comparison that held for every pair of the sample, where the others leave few
candidates, is only watched. Cell-runs if the first is narrow, and either an equality or the two keep few rows
together; else a sort-tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.condition import AccessPath, BoundCondition, Branch, EqualityPath, Predicate, Watch
from slidejoin.errors import ConditionError
from slidejoin.index import REGISTRY, Index, Sizes, sized
from slidejoin.plan.cost import SUBWINDOWS, Figures, measured, pick, suiting

SAMPLE = 1024  # rows of each side that a selectivity is measured on
BEST_INDEX = "bi_sort"  # for equality too: a sorted batch meets sorted runs faster than it hashes (bench/throughput.py)
FEW = (
    1 / 50_000
)  # share of the window up to which candidates are so few that checking them costs less than more keys
# Share that two keys keep together up to which looking through cells costs less than a tree's blocks: measured with
# bands of a thousandth to an eighth of the window beside inequalities and bands, on keys that run together or do not.
LITTLE = 1 / 500
NARROW = 1 / 8  # share of the first of them up to which its cells are few
NARROW_INDEX, WIDE_INDEX = "cell_runs", "sort_tree"
NAMED = {"equality": "an equality", "band": "a band", "inequality": "an inequality", "unequal": "a <>"}


@dataclass(frozen=True)
class Access:
    """One branch, one stored side: the index, the path that it is on, and what remains to be checked."""

    branch: Branch
    stored: int
    index: type[Index]
    path: AccessPath | None
    reason: str
    watch: Watch | None = None  # over all that remains, where it has held for every pair of a sample
    planned: str = ""  # what the planner weighed when a subwindow was completed

    @property
    def verify(self) -> Predicate | None:
        return self.branch.verify if self.path is None else self.path.verify

    def of_sizes(self, sizes: Sizes) -> Access:
        """The same with indexes of these sizes, as far as they have such."""
        kind = sized(REGISTRY.get(self.index.name, self.index), sizes)
        return self if kind is self.index else replace(self, index=kind)

    def __str__(self) -> str:
        checked = f", then check {self.verify.text}" if self.verify is not None else ""
        if self.path is None:
            return f"{self.index.name} over every row{checked} ({self.reason})"
        return (
            f"{self.index.name} on {self.path.key_text} for {self.path.bounds_text}{checked} ({self.reason})"
            + (f"\n{'':13} {self.planned}" if self.planned else "")
        )


def require(bound: BoundCondition, index: str) -> None:
    """Refuse an index that was asked for by name and cannot serve the condition."""
    if index in ("auto", "scan"):
        return
    for branch in bound.branches:
        for stored in (0, 1):
            if not any(path.kind in REGISTRY[index].kinds for path in branch.paths(stored)):
                *others, last = (name for kind, name in NAMED.items() if kind in REGISTRY[index].kinds)
                kinds = f"{', '.join(others)} or {last}" if others else last
                where = f"in its part '{branch.text}'" if len(bound.branches) > 1 else "that every pair meets"
                raise ConditionError(
                    f"index {index!r} needs {kinds} of the two streams; '{bound.text}' has none {where}; "
                    "use index='auto'"
                )


def choose(branch: Branch, stored: int, index: str, rows: pa.RecordBatch, probing: pa.RecordBatch) -> Access:
    """The way to find rows of the ``stored`` side; ``rows`` and ``probing`` are what has arrived so far."""
    if index == "scan":
        return Access(branch, stored, REGISTRY["scan"], None, "asked for")
    paths = [path for path in branch.paths(stored) if index == "auto" or path.kind in REGISTRY[index].kinds]
    if not paths:
        return Access(branch, stored, REGISTRY["scan"], None, "nothing in it can be indexed")
    several = index != "auto" and REGISTRY[index].several
    if len(paths) == 1:
        path = branch.joint(paths) if several else paths[0]
        return Access(branch, stored, _index(index), path, f"the only {paths[0].kind}")
    samples = _sample(rows), _sample(probing)
    held = [matched(path, *samples) for path in paths]
    kept = [_share(one) for one in held]
    always = [path for path, share in zip(paths, kept, strict=True) if share == 1]
    order = sorted(range(len(paths)), key=kept.__getitem__)
    best = order[0]
    # Equalities taken together as a hash stand for the single ones; beside those they would be a key twice.
    apart = [number for number in order if not isinstance(paths[number], EqualityPath)]
    measured = ", ".join(
        f"{path.bounds_text} {_percent(share)}" for path, share in zip(paths, kept, strict=True)
    )
    if (index == "auto" and kept[best] > FEW and len(apart) > 1) or several:
        apart, pair = _leading_pair(apart, held, kept)
        together = _share(np.logical_and.reduce([held[number] for number in apart]))
        watch = None
        if not several and pair <= FEW:  # if the others hold no longer, checking candidates costs little
            fewer = apart[:2] + [n for n in apart[2:] if kept[n] < 1]
            watch = branch.watch([paths[n] for n in fewer], always)
            apart = apart if watch is None else fewer
        joint = branch.joint([paths[number] for number in apart])
        measured += f"; together {_percent(together)}"
        if len(apart) > 1:
            correlation = _correlation(paths[apart[0]], paths[apart[1]], samples[0])
            measured += f"; the first two {_percent(pair)}, correlated at {correlation:.4g}"
        if several:
            return Access(branch, stored, _index(index), joint, f"asked for: {measured}")
        narrow = kept[apart[0]] <= NARROW
        if (
            narrow and paths[apart[0]].kind == "equality"
        ):  # its cells, of one key each, are the answer as they are
            chosen, why = NARROW_INDEX, "the first key is a narrow equality"
        elif narrow and pair <= LITTLE:
            chosen, why = NARROW_INDEX, "the first key is narrow, and the first two keep little of the window"
        else:
            chosen, why = (
                WIDE_INDEX,
                f"{'two keys keep' if narrow else 'each alone keeps'} much of the window",
            )
        return Access(branch, stored, REGISTRY[chosen], joint, f"{why}: {measured}", watch)
    watch = branch.watch([paths[best]], always)
    return Access(
        branch, stored, _index(index), paths[best], f"keeps the least of the window: {measured}", watch
    )


def matched(path: AccessPath, rows: pa.RecordBatch, probing: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which stored row each probing row finds through this path: ``[probing, stored]``."""
    keys = path.keys(rows)
    found = path.intervals(probing)
    inside = (keys.values >= found.lo[:, None]) & (keys.values <= found.hi[:, None])
    if keys.valid is not None:
        inside &= keys.valid
    if found.rows is None:
        return inside
    out = np.zeros((probing.num_rows, rows.num_rows), dtype=bool)
    if len(found.rows):
        begins = np.flatnonzero(np.diff(found.rows, prepend=-1))  # a row's intervals stand side by side
        out[found.rows[begins]] = np.logical_or.reduceat(inside, begins, axis=0)
    return out


def _share(inside: NDArray[np.bool_]) -> float:
    return float(np.count_nonzero(inside)) / max(1, inside.size)


def _leading_pair(
    apart: list[int], held: list[NDArray[np.bool_]], kept: list[float]
) -> tuple[list[int], float]:
    """The two that keep the least together, then the others, the most selective first; and what the two keep."""
    shares = {(a, b): _share(held[a] & held[b]) for a, b in combinations(apart, 2)}
    if not shares:
        return apart, kept[apart[0]]
    best = min(shares, key=lambda pair: (shares[pair], kept[pair[0]] + kept[pair[1]]))
    return [*best, *(number for number in apart if number not in best)], shares[best]


def _correlation(first: AccessPath, second: AccessPath, rows: pa.RecordBatch) -> float:
    """Of the ranks of two keys, so that neither units nor outliers matter; 0 where one of them is constant."""
    keys = [path.keys(rows) for path in (first, second)]
    both = np.ones(rows.num_rows, dtype=bool)
    for one in keys:
        both &= True if one.valid is None else one.valid
    ranks = [np.unique(one.values[both], return_inverse=True)[1].astype(np.float64) for one in keys]
    spread = [float(rank.std()) if len(rank) else 0.0 for rank in ranks]
    if min(spread) == 0:
        return 0.0
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean()) / (
        spread[0] * spread[1]
    )


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 0.0001 or share == 0 else f"{100 * share:.1g}%"


def replan(access: Access, figures: Figures, index: str, asked: Sizes) -> tuple[Access, int]:
    """The access of the next subwindow, on the same path, and how many subwindows make a window.

    An ``index`` and sizes that were ``asked`` for are not the planner's to choose.
    """
    path = access.path
    if index != "auto":
        return access.of_sizes(asked.over(suiting(access.index.name, figures))), SUBWINDOWS[0]
    if path is None or access.index.name not in {kind for kind, _ in measured()}:
        return access.of_sizes(asked), SUBWINDOWS[0]
    able = tuple(name for name, one in REGISTRY.items() if path.kind in one.kinds)
    choice = pick(figures.rounded(), able)
    kind = sized(REGISTRY[choice.kind], asked.over(choice.sizes))
    return replace(access, index=kind, planned=choice.reason), choice.subwindows


def _index(index: str) -> type[Index]:
    return REGISTRY[BEST_INDEX if index == "auto" else index]


def _sample(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_rows <= SAMPLE:
        return batch
    step = batch.num_rows // SAMPLE
    return batch.take(pa.array(np.arange(0, step * SAMPLE, step)))
