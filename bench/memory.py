"""Memory: what a row in the window costs, and whether a join that runs for long grows.

State      ``stats().state_bytes`` for each row held, at its highest over a turn of the window, against one and a half
           times the bytes of the row as it came (Arrow buffers) plus 16; and, beside it, by how much the process grew.
Turnovers  a small window is turned over 200 times, so that all that ever leaks is much more than what is held, and the
           process's resident memory is read after each turn. The first tenth is warm-up: allocators fill their caches.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import psutil
import pyarrow as pa

import slidejoin as sj
from bench.report import Figure, Section
from bench.stage import alone
from bench.workloads import Workload, trades

SHAPES = ("keys", "trades")
GROWTH_GOAL = 8.0  # MB over all turns: what is pushed meanwhile is a hundred times as much
BATCH = 1 << 15
MB = 1 << 20


def measure(say: Callable[[str], None], *, quick: bool) -> Section:
    figures, detail = [], {}
    for shape in SHAPES:
        say(f"memory: rows held, {shape}")
        held = alone("bench.memory:state", shape=shape, window=1 << (17 if quick else 20))
        detail[f"state {shape}"] = held
        row = f"{shape}, {held['payload_bytes_per_row']:.0f} bytes a row"
        bound = 1.5 * held["payload_bytes_per_row"] + 16
        value = held["state_bytes_per_row"]
        figures.append(
            Figure(f"memory.state.{shape}", f"state ({row})", value, "bytes/row", bound, at_most=True)
        )
        figures.append(
            Figure(
                f"memory.process.{shape}",
                f"process growth ({row})",
                held["process_bytes_per_row"],
                "bytes/row",
            )
        )
    for kind in ("rows", "time"):
        turns = 10 if quick else 200
        say(f"memory: {turns} turns of a {kind} window")
        run = alone("bench.memory:turnovers", kind=kind, window=1 << 16, turns=turns)
        detail[f"turnovers {kind}"] = run
        what = f"{kind} window, turned over {turns} times: process growth"
        goal = None if quick else GROWTH_GOAL
        figures.append(Figure(f"memory.growth.{kind}", what, run["growth_mb"], "MB", goal, at_most=True))
    return Section(figures, detail)


def state(shape: str, window: int) -> dict[str, Any]:
    """In a fresh process: fill both windows, turn them over once, and read what is held."""
    condition = (
        Workload("band", window).condition if shape == "keys" else Workload("prices", window).condition
    )
    _join(condition, sj.Rows(64), _rows(shape, window, 0, 128)).finish()  # engines and kernels, loaded
    gc.collect()
    before = psutil.Process().memory_info().rss
    join = sj.Join(condition, window=sj.Rows(window), threads=1)
    highest = process = 0.0
    rows_bytes = rows = 0
    for number, (side, batch) in enumerate(_rows(shape, window, 0, 2 * window)):
        _push(join, side, batch)
        rows_bytes, rows = rows_bytes + batch.nbytes, rows + batch.num_rows
        del batch
        if number >= 2 * (window // BATCH):
            stats = join.stats()
            held = stats.left.state_rows + stats.right.state_rows
            highest = max(highest, stats.state_bytes / held)
            process = max(process, (psutil.Process().memory_info().rss - before) / held)
    return {
        "window": window,
        "payload_bytes_per_row": rows_bytes / rows,
        "state_bytes_per_row": highest,
        "process_bytes_per_row": process,
    }


def turnovers(kind: str, window: int, turns: int, batch: int = 4096) -> dict[str, Any]:
    """In a fresh process: turn a window over many times; resident memory after each."""
    work = Workload("prices", window, batch)
    spec = sj.Rows(window) if kind == "rows" else sj.Time(window, on="ts")
    join = sj.Join(work.condition, window=spec, threads=1)
    process, taken, matches = psutil.Process(), [], 0
    for turn in range(turns + 1):
        for side, rows in _trades(turn * window, window, batch):
            matches += len(_push(join, side, rows).indices()[0])
        taken.append(process.memory_info().rss / MB)
    warm = taken[max(1, turns // 10) :]
    edge = max(1, len(warm) // 10)
    start, end = median(warm[:edge]), median(warm[-edge:])
    stats = join.stats()
    return {
        "window": window,
        "batch": batch,
        "turns": turns,
        "rows": stats.left.rows_in + stats.right.rows_in,
        "matches": matches,
        "state_rows": stats.left.state_rows + stats.right.state_rows,
        "state_mb": stats.state_bytes / MB,
        "start_mb": start,
        "end_mb": end,
        "max_mb": max(warm),
        "growth_mb": end - start,
        "each_turn_mb": taken,
    }


def _join(condition: str, window: sj.Rows, pushes: Iterator[tuple[int, pa.RecordBatch]]) -> sj.Join:
    join = sj.Join(condition, window=window, threads=1)
    for side, batch in pushes:
        _push(join, side, batch)
    return join


def _push(join: sj.Join, side: int, batch: pa.RecordBatch) -> sj.Matches:
    return join.push(left=batch) if side == 0 else join.push(right=batch)


def _rows(shape: str, window: int, first: int, rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if shape == "trades":
        yield from _trades(first, rows, min(rows, BATCH))
    else:
        for push in Workload("band", window, BATCH).pushes(first, rows):
            yield push.side, push.batch


def _trades(first: int, rows: int, batch: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    for at in range(first, first + rows, batch):
        for side in (0, 1):
            yield side, trades(side, at, batch)
