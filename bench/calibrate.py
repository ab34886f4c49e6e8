"""Calibrate: what each structure costs on this machine, for the planner's table.

``python -m bench.calibrate`` fills a subwindow with each structure, over batch sizes, subwindow sizes, selectivities and
ways in which keys move, and writes src/slidejoin/plan/costs.json: nanoseconds a row for inserting and for probing,
growing (the newest subwindow, half full) and complete. The structures take turns, so that a slow moment hits all
of them; every figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.report import machine
from bench.stage import ROOT
from slidejoin import kernels
from slidejoin.index import OWN, REGISTRY, Index, Sizes, sized

TABLE = ROOT / "src" / "slidejoin" / "plan" / "costs.json"
VARIANTS = (
    ("bi_sort", OWN),
    ("rap_table", OWN),
    ("rap_table", Sizes(partition_rows=64)),
    ("rap_table", Sizes(partition_rows=256)),
    ("wib_tree", OWN),
    ("hash", OWN),
    ("bi_sort_paper", OWN),
    ("bi_sort_paper", Sizes(buffer_rows=128)),
    ("bi_sort_paper", Sizes(buffer_rows=8192)),
)
BATCHES = (32, 1 << 8, 1 << 11, 1 << 15)
ROWS = (1 << 13, 1 << 16, 1 << 19)
SELECTIVITIES = (1, 64, 4096)
MOVES = ("steady", "increasing")
DOMAIN = 1 << 31
PROBED = 1 << 15  # rows that are probed for a figure, at most
INSERTED = (
    1 << 12
)  # batches that are inserted for a figure, at most; larger subwindows begin with larger batches

Int64s = NDArray[np.int64]


def keys_of(move: str, rng: np.random.Generator, rows: int) -> Int64s:
    """The keys of a whole subwindow: all over the domain, or growing through it with a little disorder."""
    if move == "steady":
        return rng.integers(0, DOMAIN, rows)
    step = DOMAIN // rows
    return np.arange(rows) * step + rng.integers(0, 64 * step, rows)


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(kind: str, sizes: Sizes, move: str, batch: int, rows: int, seed: int) -> dict[str, float]:
    """Nanoseconds a row of one structure in one setting; the sorting of batches is the same for all and left out."""
    rng = np.random.default_rng(seed)
    keys = keys_of(move, rng, rows)
    before: Index = sized(REGISTRY[kind], sizes)()  # a predecessor, as all subwindows but the first have
    earlier = keys_of(move, rng, rows) - (0 if move == "steady" else DOMAIN)
    before.insert(before.arrange_entries(earlier, np.arange(rows, dtype=np.int32)))
    index = before.successor()
    most = min(rows, batch * INSERTED)
    if most < rows:  # small batches into a subwindow that has rows already
        index.insert(index.arrange_entries(keys[: rows - most], np.arange(rows - most, dtype=np.int32)))
    costs: dict[str, float] = {}
    inserting = 0.0
    # About half full, and so is a buffer of any of the sizes: 576 = 64 + 512, and 4,096 more.
    halfway = max(rows - most, rows // 2) + (576 if rows < 1 << 15 else 4096 + 576)
    for at in range(rows - most, rows, batch):
        ids = np.arange(at, min(rows, at + batch), dtype=np.int32)
        entries = index.arrange_entries(keys[at : at + batch], ids)
        inserting += timed(lambda entries=entries: index.insert(entries))
        if at <= halfway < at + batch:
            costs |= probed(index, kind, "growing", rng, keys[: at + batch], batch, rows)
    inserting += timed(index.merge)
    costs["insert"] = inserting / most * 1e9
    return costs | probed(index, kind, "complete", rng, keys, batch, rows)


def probed(
    index: Index, kind: str, state: str, rng: np.random.Generator, keys: Int64s, batch: int, rows: int
) -> dict[str, float]:
    """Nanoseconds a probing row, by selectivity (matches in a full subwindow)."""
    costs = {}
    low, high = int(keys.min()), int(keys.max())
    count = min(PROBED, 64 * batch)
    for selectivity in SELECTIVITIES:
        if kind == "hash" and selectivity > 1:
            continue
        centres = rng.choice(keys, count) if kind == "hash" else rng.integers(low, high + 1, count)
        reach = 0 if kind == "hash" else selectivity * (high - low) // rows // 2
        seconds = 0.0
        for at in range(0, count, batch):
            some = centres[at : at + batch]
            probes = index.arrange_probes(None, some - reach, some + reach, None)
            seconds += timed(lambda probes=probes: type(index).probe_all([index], probes))
        costs[f"{state} {selectivity}"] = seconds / count * 1e9
    return costs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=TABLE)
    asked = parser.parse_args(arguments)
    kernels.ready()
    costs = []
    for move in MOVES:
        for rows in ROWS:
            for batch in BATCHES:
                taken: dict[tuple[str, Sizes], list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
                for seed in range(asked.rounds):
                    for variant in VARIANTS:
                        taken[variant].append(measure(*variant, move, min(batch, rows), rows, seed))
                for (kind, sizes), rounds in taken.items():
                    figures = {name: round(median(one[name] for one in rounds), 2) for name in rounds[0]}
                    said = {"kind": kind, **({"sizes": sizes.given} if sizes.given else {})}
                    costs.append({**said, "move": move, "rows": rows, "batch": batch, **figures})
                    print(costs[-1], flush=True)
    table = {"machine": machine()["cpu"], "unit": "nanoseconds a row", "costs": costs}
    lines = ",\n  ".join(json.dumps(entry) for entry in costs)
    text = f'{{\n "machine": {json.dumps(table["machine"])},\n "unit": "nanoseconds a row",\n "costs": [\n  {lines}\n ]\n}}\n'
    asked.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
