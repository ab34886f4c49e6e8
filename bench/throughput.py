"""Throughput: rows of both streams a second, by window, by threads, and against the peers.

Every contender of every window lives in its own process and takes a turn in every round, so a drift of the machine
hits all alike; a ratio is taken within a round, and the median of the rounds is the figure. The slow contenders join
fewer batches a turn (the JSON says how many): their time a batch does not depend on how many there were. One thread
and two take several turns a round, as what they differ by is less than what the machine drifts by. The first round is
not counted. On the batches that contenders have in common, their pairs are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.report import Figure, Section, middle
from bench.stage import Stage, alone
from bench.workloads import Workload

GOAL_WINDOW = 1 << 20
POLARS_GOAL, DUCKDB_GOAL = 8, 25
SLOWDOWN_WINDOWS, SLOWDOWN_GOAL = (1 << 17, 1 << 23), 4
THREADS_GOAL = 1.5
THREADS_TURNS = 3  # a round, of one thread and of two in turn

TARGETS = {
    "slidejoin 1 thread": ("bench.ours:Slidejoin", {"threads": 1}, {}),
    "slidejoin 2 threads": ("bench.ours:Slidejoin", {"threads": 2}, {}),
    "polars": ("bench.peers:Polars", {"threads": 2}, {"POLARS_MAX_THREADS": "2"}),
    "duckdb": ("bench.peers:DuckDB", {"threads": 2}, {}),
}
ONE, TWO, POLARS, DUCKDB = TARGETS


@dataclass(frozen=True)
class Entry:
    """A contender on a workload, and how many batches a side it joins in a turn."""

    contender: str
    workload: Workload
    batches: int

    @property
    def name(self) -> str:
        return f"{self.workload.kind} {self.workload.window} {self.contender}"


def entries(*, quick: bool) -> list[Entry]:
    """Who takes part. Batches a turn: a second or so of work each."""
    found = []
    windows = (1 << 17, 1 << 20) if quick else (1 << 17, 1 << 20, 1 << 23)
    for window in windows:
        work = Workload("band", window)
        found.append(Entry(ONE, work, 32 if quick else 64))
        if not quick or window == GOAL_WINDOW:
            size = window / GOAL_WINDOW
            found.append(Entry(TWO, work, 32 if quick else 64))
            found.append(Entry(POLARS, work, 2 if quick or size > 1 else 6 if size == 1 else 16))
            found.append(Entry(DUCKDB, work, 1 if quick or size > 1 else 3 if size == 1 else 8))
    if not quick:
        for kind in ("prices", "equality"):
            work = Workload(kind, GOAL_WINDOW)
            found += [Entry(ONE, work, 32), Entry(POLARS, work, 4), Entry(DUCKDB, work, 2)]
    return found


def measure(say: Callable[[str], None], *, quick: bool) -> Section:
    say("do all contenders find the same pairs?")
    compared = alone("bench.agreement:check", env={"POLARS_MAX_THREADS": "2"})
    field = entries(quick=quick)
    rounds = 2 if quick else 5
    turns: dict[str, list[dict[str, Any]]] = {entry.name: [] for entry in field}
    setups: dict[str, dict[str, Any]] = {}
    with ExitStack() as open_stages:
        stages = {}
        for entry in field:
            say(f"filling the windows of {entry.name}")
            target, arguments, env = TARGETS[entry.contender]
            stage = open_stages.enter_context(
                Stage(target, env=env, workload=asdict(entry.workload), **arguments)
            )
            filling = stage.call("fill")
            setups[entry.name] = {"fill_seconds": filling, **stage.call("setup")}
            stages[entry.name] = stage
        for number in range(rounds + 1):
            for entry in order_of_turns(field):
                say(f"{'warming up' if number == 0 else f'round {number} of {rounds}'}: {entry.name}")
                turn = stages[entry.name].call("turn", batches=entry.batches)
                turns[entry.name].append({"round": number, **turn})
    same_pairs(field, turns)
    return Section(figures(field, turns, quick=quick), {**compared, **detail(field, turns, setups)})


def order_of_turns(field: list[Entry]) -> list[Entry]:
    """Everyone once; one thread and two of the goal's window several times, one after the other."""
    rivals = [e for e in field if e.workload == Workload("band", GOAL_WINDOW) and e.contender in (ONE, TWO)]
    return [*field, *rivals * (THREADS_TURNS - 1)]


def same_pairs(field: list[Entry], turns: dict[str, list[dict[str, Any]]]) -> None:
    """Contenders that joined the same batches must have found the same pairs."""
    for workload in {entry.workload for entry in field}:
        rivals = [entry for entry in field if entry.workload == workload]
        prints = [[p for turn in turns[entry.name] for p in turn["prints"]] for entry in rivals]
        common = min(map(len, prints))
        for entry, found in zip(rivals[1:], prints[1:], strict=True):
            if found[:common] != prints[0][:common]:
                raise RuntimeError(
                    f"{entry.name} and {rivals[0].contender} found different pairs in the timed batches; expected the "
                    "same; no figure is worth reporting before that is settled"
                )


def counted(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the first round's."""
    return [turn for turn in turns if turn["round"]]


def figures(field: list[Entry], turns: dict[str, list[dict[str, Any]]], *, quick: bool) -> list[Figure]:
    speeds = {name: [turn["rows_per_second"] for turn in counted(taken)] for name, taken in turns.items()}

    def ratio(above: str, below: str) -> tuple[float, tuple[float, float]]:
        mine, other = speeds[above], speeds[below]
        common = min(len(mine), len(other))  # the first turn of a round, if one of them had more
        rounds = zip(mine[:: len(mine) // common], other[:: len(other) // common], strict=True)
        return middle([a / b for a, b in rounds])

    at = f"{power(GOAL_WINDOW)}"
    one, two, polars, duckdb = (f"band {GOAL_WINDOW} {name}" for name in (ONE, TWO, POLARS, DUCKDB))
    found = []
    for key, name, what in (
        ("band.rate", one, "1 thread"),
        ("band.rate_2_threads", two, "2 threads"),
        ("band.polars", polars, "Polars, 2 threads"),
        ("band.duckdb", duckdb, "DuckDB, 2 threads"),
    ):
        value, spread = middle(speeds[name])
        found.append(Figure(key, f"band join, w = {at}: {what}", value, "rows/s", spread=spread))
    for key, below, what, goal in (
        ("band.vs_polars", polars, "1 thread against Polars on 2", POLARS_GOAL),
        ("band.vs_duckdb", duckdb, "1 thread against DuckDB on 2", DUCKDB_GOAL),
    ):
        value, spread = ratio(one, below)
        found.append(Figure(key, f"band join, w = {at}: {what}", value, "x", goal, spread=spread))
    value, spread = ratio(two, one)
    found.append(
        Figure("threads.speedup", f"2 threads against 1, w = {at}", value, "x", THREADS_GOAL, spread=spread)
    )
    windows = sorted({entry.workload.window for entry in field if entry.workload.kind == "band"})
    small, large = windows[0], windows[-1]
    value, spread = ratio(f"band {small} {ONE}", f"band {large} {ONE}")
    slowdown_goal = SLOWDOWN_GOAL if (small, large) == SLOWDOWN_WINDOWS else None
    what = f"slower from w = {power(small)} to {power(large)}, 1 thread"
    found.append(Figure("window.slowdown", what, value, "x", slowdown_goal, at_most=True, spread=spread))
    if not quick:
        for kind, what in (("prices", "band on float64 prices"), ("equality", "equality")):
            mine, *theirs = (f"{kind} {GOAL_WINDOW} {name}" for name in (ONE, POLARS, DUCKDB))
            value, spread = middle(speeds[mine])
            found.append(
                Figure(f"{kind}.rate", f"{what}, w = {at}: 1 thread", value, "rows/s", spread=spread)
            )
            for name, peer in zip(("Polars", "DuckDB"), theirs, strict=True):
                value, spread = ratio(mine, peer)
                key = f"{kind}.vs_{name.lower()}"
                found.append(Figure(key, f"{what}: 1 thread against {name} on 2", value, "x", spread=spread))
    return found


def detail(
    field: list[Entry], turns: dict[str, list[dict[str, Any]]], setups: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    out = []
    for entry in field:
        warming, taken = turns[entry.name][0], counted(turns[entry.name])
        speeds = [turn["rows_per_second"] for turn in taken]
        rows = sum(turn["rows"] for turn in taken)
        out.append(
            {
                "contender": entry.contender,
                **asdict(entry.workload),
                "condition": entry.workload.condition,
                "batches_a_side_per_round": entry.batches,
                "rows_per_second": median(speeds),
                "rounds": speeds,
                "cpu_seconds_per_million_rows": sum(turn["cpu_seconds"] for turn in taken) / rows * 1e6,
                "warm_up_seconds": warming["seconds"],
                "matches_per_row": sum(turn["pairs"] for turn in taken) / rows,
                **setups[entry.name],
            }
        )
    return {"contenders": out}


def power(rows: int) -> str:
    return f"2^{rows.bit_length() - 1}" if rows & (rows - 1) == 0 else f"{rows:,}"
