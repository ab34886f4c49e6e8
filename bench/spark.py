"""Joins on Spark: ours against Spark's own with bucket keys; other conditions; small micro-batches; a model.

``python -m bench spark`` takes about an hour and writes results/spark.json. ``--only SECTION`` measures
some sections and puts them in the place of those in the file, each with its own date and commit. ``--quick`` takes
about a quarter of an hour on smaller sizes and writes a file of another name.

Figures are rows of both sides per second over the steady half: the second half of the micro-batches that came
once the window was full, by the time that Spark says each took. Every contender of the band join has first run its
own query for the same time on small micro-batches, as the JVM goes on compiling for minutes. Then they take turns, as
a machine's speed drifts: all their queries are open, and their processes are stopped while it is another's turn. Only
micro-batches that a turn had from begin to end count, once it was under way, and of the first round none. Spark ends
Python workers that did nothing for a minute, and those after them import everything and read the state anew; so beside
the in-memory store nobody rests that long, and beside RocksDB, where a micro-batch takes a minute, turns begin later.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, time
from typing import Any, NamedTuple

from rich.console import Console

from bench import report, spark_model
from bench.report import RESULTS, Figure, Section, middle
from bench.stage import Stage, StageError
from bench.workloads import SEED
from slidejoin.spark.session import UNIX_SOCKETS

PACKAGES = (*report.PACKAGES, "pyspark", "pandas")
TARGET = "bench.spark_queries:Spark"
LIMIT = 180.0  # seconds for one query
LONGEST = 330.0  # for a contender to get to its first turn
WARM = 300.0  # seconds of micro-batches for the JVM to compile by, before those that count; the same for every contender
GOALS = {"memory": {"large": 20.0, "small": 6.0}, "rocksdb": {"large": 50.0, "small": 15.0}}
NAMES = {  # in figures
    "ours": ("", "slidejoin"),
    "uncounted": (".uncounted", "slidejoin without counters"),
    "memory": (".memory", "Spark's own on its in-memory store"),
    "rocksdb": (".rocksdb", "Spark's own on RocksDB"),
}
MINE = ("ours", "uncounted")


class Match(NamedTuple):
    """How ours, with counters and without, take turns with one of Spark's own: seconds, and how many rounds."""

    mine: float
    theirs: float  # time for a micro-batch at least
    settling: float  # of a turn, before it counts
    rounds: int


MATCHES = {"memory": Match(14.0, 40.0, 4.0, 6), "rocksdb": Match(24.0, 130.0, 10.0, 3)}
SMALL = {"ours": 40, "uncounted": 40, "memory": 4, "rocksdb": 4}  # small micro-batches
LARGE = {"ours": 250, "uncounted": 250, "memory": 60, "rocksdb": 40}  # more than there is time for

Say = Callable[[str], None]
Run = dict[str, Any]


class Sizes:
    """Rows of one side: in a window, in a large and in a small micro-batch."""

    def __init__(self, *, quick: bool) -> None:
        self.window, self.large, self.small = (40_000, 25_000, 5_000) if quick else (400_000, 250_000, 50_000)
        self.far = 5 * self.window  # the large window
        self.filling = [self.window // 2] * 2
        self.warm = 10.0 if quick else WARM
        self.turn = 0.4 if quick else 1.0  # the share of the usual length of a turn


def pace(batches: Sequence[Run]) -> float:
    """Rows of both sides per second over the second half."""
    half = batches[len(batches) // 2 :]
    return sum(batch["rows"] for batch in half) / sum(batch["ms"] for batch in half) * 1000


def warming(sizes: Sizes) -> dict[str, Any]:
    """What to run before what counts.

    What the JVM is slow to compile runs once in a micro-batch, whatever its size: planning, scheduling, checkpoints.
    """
    return {"window": 20_000, "sizes": [10_000] * 1_000, "limit": sizes.warm}


def of_size(run: Run, size: int, filled: int) -> list[Run]:
    """The micro-batches of a size that came when the window was full."""
    done = list(zip(run["sizes"], run["batches"], strict=False))
    return [batch for given, batch in done[filled:] if given == size]


# -- Spark's own join --------------------------------------------------------------------------------


class Turn(NamedTuple):
    """When it was a contender's turn, in seconds since the epoch; ``begin`` is when it was under way."""

    begin: float
    end: float

    def whole(self, batches: Sequence[Run]) -> list[Run]:
        """The micro-batches that began and ended in it."""
        return [
            batch
            for batch in batches
            if self.begin <= batch["at"] and batch["at"] + batch["ms"] / 1000 <= self.end
        ]


def band(say: Say, sizes: Sizes) -> Section:
    """The band join against Spark's own on its in-memory store; and what of a micro-batch is the join's."""
    return against("memory", say, sizes)


def rocksdb(say: Say, sizes: Sizes) -> Section:
    """The band join against Spark's own on RocksDB."""
    return against("rocksdb", say, sizes)


def against(store: str, say: Say, sizes: Sizes) -> Section:
    """The band join beside Spark's own on one of its stores, on large and small micro-batches."""
    check = {"kind": "band", "window": 5_000, "sizes": [4_000] * 4, "check": True}
    match = MATCHES[store]
    prints, warmed = {}, {}
    turns: dict[str, list[Turn]] = {name: [] for name in (*MINE, store)}
    runs: dict[str, Run] = {}
    with ExitStack() as stages:
        contenders = {}
        for name in turns:
            say(f"band join, {sizes.window:,} rows a side: {name}")
            stage = contenders[name] = stages.enter_context(Stage(TARGET))
            checked = stage.call("run", join=name, **check)
            prints[name] = [
                sum(batch[part] or 0 for batch in checked["batches"]) for part in ("pairs", "print")
            ]
            warmed[name] = len(stage.call("run", join=name, kind="band", **warming(sizes))["batches"])
            plan = sizes.filling + [sizes.small] * SMALL[name] + [sizes.large] * LARGE[name]
            stage.call("begin", kind="band", window=sizes.window, sizes=plan, join=name)
            wait_for(stage, len(plan) - LARGE[name] + 1, name)
            stage.rest()
        for number in range(match.rounds):
            for name, stage in contenders.items():
                say(
                    f"band join, {sizes.large:,} rows a side per trigger, round {number + 1} of {match.rounds}: {name}"
                )
                begin = time() + sizes.turn * match.settling
                stage.go_on()
                sleep(sizes.turn * (match.mine if name in MINE else match.theirs))
                stage.rest()
                turns[name].append(Turn(begin, time()))
        for name, stage in contenders.items():
            stage.go_on()
            runs[name] = stage.call("end", limit=0)
            stage.call("close")
    if len({tuple(found) for found in prints.values()}) != 1:
        raise StageError(f"the joins found different pairs: {prints}")
    whole = {name: [turn.whole(runs[name]["batches"]) for turn in turns[name]] for name in runs}
    figures = [
        *compared("small", sizes.small, store, {name: [alone(run, sizes)] for name, run in runs.items()}),
        *compared("large", sizes.large, store, in_rounds(whole)),
    ]
    if store == "memory":
        figures += share([batch for batches in whole["ours"][1:] for batch in batches])
    took = {name: [[batch["ms"] for batch in batches] for batches in whole[name]] for name in whole}
    return Section(
        figures, {"runs": runs, "whole_ms": took, "warmed": warmed, "pairs_compared": prints["ours"][0]}
    )


def wait_for(stage: Stage, batches: int, name: str) -> None:
    """Let a query do so many micro-batches."""
    begun = perf_counter()
    while (done := stage.call("done")) < batches:
        if perf_counter() - begun > LONGEST:
            raise StageError(
                f"{name} did {done} micro-batches in {LONGEST:.0f} s; expected {batches}; try again when the machine "
                "is less busy"
            )
        sleep(1)


def alone(run: Run, sizes: Sizes) -> float:
    """Rows per second on the small micro-batches, which are not done in turns."""
    return pace(of_size(run, sizes.small, len(sizes.filling)))


def in_rounds(whole: dict[str, list[list[Run]]]) -> dict[str, list[float | None]]:
    """Rows per second of both sides in each round but the first; None if there was no whole micro-batch."""
    return {
        name: [
            1000 * sum(batch["rows"] for batch in batches) / sum(batch["ms"] for batch in batches)
            if batches
            else None
            for batches in rounds[1:]
        ]
        for name, rounds in whole.items()
    }


def compared(what: str, size: int, store: str, paces: dict[str, list[float | None]]) -> list[Figure]:
    """What each contender does, and ours against Spark's own, in every round in which both did a micro-batch."""
    figures = []
    title = f"band join, {size:,} rows a side per trigger"
    for name in (*MINE, store) if store == "memory" else (store,):  # ours is in the table once
        key, called = NAMES[name]
        value, spread = middle(some(paces[name], called))
        figures.append(
            Figure(f"spark.band.{what}{key}", f"{title}: {called}", value, "rows/s", spread=spread)
        )
    for name in MINE:
        key, called = NAMES[name]
        both = zip(paces[name], paces[store], strict=True)
        ratios = [ours / theirs if ours and theirs else None for ours, theirs in both]
        value, spread = middle(some(ratios, f"{called} and {NAMES[store][1]}"))
        figures.append(
            Figure(
                f"spark.band.{what}{key}.against_{store}", f"{title}: {called} against {NAMES[store][1]}",
                value, "x", GOALS[store][what], spread=spread,
            )
        )  # fmt: skip
    return figures


def some(rounds: Sequence[float | None], what: str) -> list[float]:
    """The rounds that have a figure."""
    found = [value for value in rounds if value is not None]
    if not found:
        raise StageError(
            f"{what}: no whole micro-batch in any of {len(rounds)} rounds; expected one; try again when the machine is less "
            "busy"
        )
    return found


def share(batches: Sequence[Run]) -> list[Figure]:
    """How much of a micro-batch is the join's own: time in workers over the time that all of them had."""

    def part(*names: str) -> float:
        return 100 * sum(
            sum(batch[name] for name in names) / batch["workers"] / batch["ms"] for batch in batches
        ) / len(batches)  # fmt: skip

    title = "large micro-batches"
    return [
        Figure("spark.share.join", f"{title}: the join's own part (join and state)", part("join_ms", "state_ms"), "%",
               50.0, at_most=True),
        Figure("spark.share.kernels", f"{title}: of it, joining and catching up", part("join_ms"), "%"),
        Figure("spark.share.state", f"{title}: of it, reading and writing state", part("state_ms"), "%"),
        Figure("spark.share.pack", f"{title}: packing, before the shuffle", part("pack_ms"), "%"),
    ]  # fmt: skip


# -- other sizes, other conditions -------------------------------------------------------------------


def floor(say: Say, sizes: Sizes) -> Section:
    """The same micro-batches without a join: what no join in Python can save."""
    figures = []
    say("the band join's micro-batches without a join")
    with Stage(TARGET) as stage:
        plan = sizes.filling + [sizes.large] * 60 + [sizes.small] * 40
        run = stage.call("run", kind="band", window=sizes.window, sizes=plan, join="floor")
        stage.call("close")
    for what, size in (("large", sizes.large), ("small", sizes.small)):
        speed = pace(of_size(run, size, len(sizes.filling)))
        title = f"{size:,} rows a side per trigger: the same query without a join or state"
        figures.append(Figure(f"spark.floor.{what}", title, speed, "rows/s"))
    return Section(figures, {"run": run})


def far(say: Say, sizes: Sizes) -> Section:
    """A window five times as long."""
    say(f"band join, {sizes.far:,} rows a side")
    with Stage(TARGET) as stage:
        filling = [sizes.large] * (sizes.far // sizes.large)
        run = stage.call("run", kind="band", window=sizes.far, sizes=filling + [sizes.large] * 8)
        stage.call("close")
    speed = pace(run["batches"][len(filling) :])
    what = f"band join, window of {sizes.far:,} rows a side: slidejoin"
    return Section([Figure("spark.far", what, speed, "rows/s", 300_000.0)], {"run": run})


def others(say: Say, sizes: Sizes) -> Section:
    """Conditions that Spark's own join refuses."""
    figures, runs = [], {}
    with Stage(TARGET) as stage:
        for kind in ("two inequalities", "or of bands", "unequal with band"):
            say(f"{kind}, {sizes.window:,} rows a side")
            run = stage.call(
                "run", kind=kind, window=sizes.window, sizes=sizes.filling + [sizes.large] * 6, limit=LIMIT
            )
            runs[kind] = run
            batches = run["batches"][len(sizes.filling) :]
            if batches:
                figures.append(
                    Figure(f"spark.others.{kind}", f"{kind}: slidejoin", pace(batches), "rows/s", 100_000.0)
                )
        stage.call("close")
    return Section(figures, runs)


def one_row(say: Say, sizes: Sizes) -> Section:
    """A micro-batch that is empty but for a row of each side, with our settings and without each of them."""
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    variants: dict[str, dict[str, Any]] = {
        "with settings()": {},
        "over loopback TCP": {"plain": [UNIX_SOCKETS]},
        "without the checkpoint file manager": {"plain": [manager]},
        "with 8 partitions": {"partitions": 8},
    }
    figures, detail = [], {}
    for name, changed in variants.items():
        say(f"micro-batches of one row, {name}")
        with Stage(TARGET, **changed) as stage:
            run = stage.call("run", kind="band", window=sizes.window, sizes=sizes.filling + [1] * 30)
            stage.call("close")
        detail[name] = run
        took = [batch["ms"] for batch in run["batches"][-10:]]  # until then the JVM compiles much
        figures.append(
            Figure(f"spark.one_row.{name}", f"a micro-batch of one row a side, {name}", median(took), "ms")
        )
    return Section(figures, detail)


def model(say: Say, sizes: Sizes) -> Section:
    """Costs of a row on 1 and 2 workers for each routing."""
    runs = []
    for cores in (1, 2):
        with Stage(TARGET, cores=cores) as stage:
            say(f"{cores} workers: warming up")
            stage.call("run", kind="band", **warming(sizes))
            for routing, kind in (("split", "band"), ("grid", "band"), ("hash", "equality")):
                say(f"{routing} on {cores} workers")
                run = stage.call(
                    "run",
                    kind=kind,
                    window=sizes.window,
                    sizes=sizes.filling + [sizes.large] * 16,
                    routing=routing,
                )
                runs.append({"cores": cores, **run})
            stage.call("close")
    return spark_model.section(runs, len(sizes.filling))


SECTIONS = {
    "band": band,
    "rocksdb": rocksdb,
    "floor": floor,
    "others": others,
    "one_row": one_row,
    "far": far,
    "model": model,
}


# -- the program -------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes: about a quarter of an hour")
    parser.add_argument(
        "--only", choices=SECTIONS, action="append", help="only this section (may be repeated)"
    )
    asked = parser.parse_args(arguments)
    console = Console()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    measured = report.commit()
    report.say_where(console, load)
    path = RESULTS / ("spark-quick.json" if asked.quick else "spark.json")
    start = perf_counter()
    with console.status("starting") as status:
        for name in asked.only or SECTIONS:
            began = perf_counter()
            section = SECTIONS[name](status.update, Sizes(quick=asked.quick))
            took = perf_counter() - began
            console.print(report.table(section.figures, f"{name.replace('_', ' ')} ({took:.0f} s)"))
            keep(path, name, section, load=load, seconds=took, measured=measured, quick=asked.quick)
    console.print(f"{perf_counter() - start:.0f} s; written to {path.name}")


def keep(
    path: Path, name: str, section: Section, *, load: float, seconds: float, measured: Any, quick: bool
) -> None:
    """Put a section into the file, in the place of an older one."""
    kept = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"name": "spark", "sections": {}}
    )
    versions = {package: report.version_of(package) for package in PACKAGES}
    kept["sections"][name] = {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": measured,
        "quick": quick,
        "seconds": seconds,
        "seed": SEED,
        "machine": {**report.machine(), "load_before": load},
        "versions": versions,
        "figures": [{**asdict(figure), "met": figure.met} for figure in section.figures],
        "detail": section.detail,
    }
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(report.rounded(kept), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; sections that were done are written")
    except StageError as error:
        sys.exit(str(error))
