"""The structures for several keys on their own: parts of SPO-Join against their alternatives, insertion, memory.

Seed 002 measures the mutable and the immutable part of SPO-Join separately, each against an alternative; so do we, in
one process, the contenders taking turns on the same rows.
"""

from __future__ import annotations

from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.queries import Query
from slidejoin import kernels
from slidejoin.index import REGISTRY, BPlusTree, SpoCss, SpoHash, SpoJoin
from slidejoin.index.spo_join import SpoCssBits

LOWEST, GREATEST = -(2**63), 2**63 - 1
BATCH = 4096


def q3_keys(rows: int, correlation: float, side: int = 0) -> NDArray[np.int64]:
    columns = Query("q3", window=rows, correlation=correlation).rows(side, 0, rows)
    return np.stack([columns["a"], columns["b"]], axis=1)


def q3_bounds(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Q3 as a probe: a shorter distance, a higher fare."""
    lows, highs = np.full_like(keys, LOWEST), np.full_like(keys, GREATEST)
    highs[:, 0], lows[:, 1] = keys[:, 0] - 1, keys[:, 1] + 1
    return lows, highs


def inserted(index: Any, keys: NDArray[np.int64], batch: int = BATCH) -> float:
    """Insert rows batch by batch; the processor's seconds it took."""
    seconds = 0.0
    for at in range(0, len(keys), batch):
        some = keys[at : at + batch]
        start = process_time()
        index.insert(index.arrange_entries(some, np.arange(at, at + len(some), dtype=np.int32)))
        seconds += process_time() - start
    return seconds


def whole(kind: type[SpoJoin]) -> type[SpoJoin]:
    """The kind that merges only when it is told to."""
    return type("Whole", (kind,), {"merge_rows": 1 << 30})


def probing(window: int, correlation: float, probes: int, rounds: int) -> dict[str, Any]:
    """Both parts of SPO-Join: microseconds a probe, by contender and round. The slide is a tenth of the window."""
    kernels.ready()
    slide = window // 10
    keys = q3_keys(window, correlation)
    asked = q3_bounds(q3_keys(probes, correlation, side=1))
    immutable: dict[str, list[Any]] = {}
    for name, kind in (("po_join", SpoJoin), ("css_hash", SpoCss), ("css_bits", SpoCssBits)):
        immutable[name] = []
        for at in range(0, window, slide):
            index = whole(kind)()
            inserted(index, keys[at : at + slide])
            index.merge()
            index.advance(1 << 40)
            immutable[name].append(index)
    mutable: dict[str, list[Any]] = {}
    for name, kind in (("bits", SpoJoin), ("hash", SpoHash)):
        mutable[name] = [whole(kind)()]
        inserted(mutable[name][0], keys[:slide])
    found: dict[str, list[float]] = {name: [] for name in (*immutable, *mutable)}
    pairs = {}
    for _ in range(rounds + 1):
        for name, indexes in (*immutable.items(), *mutable.items()):
            start = perf_counter()
            arranged = indexes[0].arrange_probes(None, *asked, None)
            pairs[name] = sum(ranges.pairs for index in indexes for ranges in index.probe(arranged))
            found[name].append((perf_counter() - start) / probes * 1e6)
    if len({pairs[name] for name in immutable}) > 1 or len({pairs[name] for name in mutable}) > 1:
        raise RuntimeError(f"the parts found different numbers of pairs: {pairs}")
    return {
        "window": window,
        "slide": slide,
        "correlation": correlation,
        "probes": probes,
        "pairs_per_probe": {name: count / probes for name, count in pairs.items()},
        "microseconds": {name: times[1:] for name, times in found.items()},  # the first warms up
    }


def growing(name: str, window: int, rows: int) -> dict[str, Any]:
    """Figures 12 and 13: what inserting rows costs into a window that is full, and what the window takes.

    The window is kept as its structure would keep it: a B+-tree of everything and key, SPO-Join as entries and a
    mutable part, the others in two subwindows. Seconds are the processor's, since each point is measured once.
    """
    kernels.ready()
    keys = q3_keys(window + rows, 0.99)
    ids = np.arange(window + rows, dtype=np.int32)
    if name == "bplus_tree":
        trees = [BPlusTree() for _ in range(2)]
        for at in range(0, window, BATCH):
            for j, tree in enumerate(trees):
                tree.insert(tree.arrange_entries(keys[at : at + BATCH, j].copy(), ids[at : at + BATCH]))
        start = process_time()
        for at in range(window, window + rows, BATCH):
            for j, tree in enumerate(trees):
                tree.insert(tree.arrange_entries(keys[at : at + BATCH, j].copy(), ids[at : at + BATCH]))
        seconds = process_time() - start
        held = sum(tree.nbytes for tree in trees)
    else:
        kind = REGISTRY[name]
        piece = window // 10 if name == "spo_join" else window // 2
        indexes: list[Any] = [kind()]
        for at in range(0, window, piece):
            inserted(indexes[-1], keys[at : at + piece])
            indexes[-1].merge()
            indexes.append(indexes[-1].successor())
        seconds = inserted(indexes[-1], keys[window:])
        held = sum(index.nbytes for index in indexes)
    return {
        "name": name,
        "window": window,
        "inserted": rows,
        "nanoseconds_per_row": seconds / rows * 1e9,
        "bytes_per_row": held / (window + rows),
    }
