"""Several inequalities at once: our indexes for them, SPO-Join as in the paper, its alternatives, and the peers.

``python -m bench.several`` takes about five minutes and writes results/several.json. ``--quick`` takes about half a
minute, on smaller sizes; ``--only band`` measures one section. Both write files of other names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import median
from typing import Any

import numpy as np

from bench import program
from bench.queries import Query
from bench.report import Figure, Section, middle
from bench.stage import Stage, alone

Say = Callable[[str], None]
OURS, PEERS = "bench.several_contenders:Ours", "bench.several_contenders"
ENV = {"POLARS_MAX_THREADS": "2"}
RHO = 0.9999  # of distance and fare: a metered tariff with little noise
LOOSER = (0.9, 0.99)  # also measured for Q3
WARM = 5  # turns of the fast contender to one of the slow
TIMES = 1e6
RESOLUTION = 0.02  # of the comparison of three predicates with two: two differ from themselves by that much


@dataclass(frozen=True)
class Entry:
    """A contender on a query, and how many batches a side it joins in a turn."""

    name: str
    target: str
    query: Query
    batches: int
    arguments: tuple[tuple[str, Any], ...] = ()


def ours(name: str, query: Query, batches: int, index: str = "auto") -> Entry:
    return Entry(name, OURS, query, batches, (("index", index),))


def contest(say: Say, field: Sequence[Entry], rounds: int) -> dict[str, Any]:
    """Every contender in its own process, taking turns; the pairs of common batches must be the same."""
    turns: dict[str, list[dict[str, Any]]] = {entry.name: [] for entry in field}
    setups: dict[str, Any] = {}
    with ExitStack() as open_stages:
        stages = {}
        for entry in field:
            say(f"filling the windows of {entry.name}")
            stage = Stage(entry.target, env=ENV, workload=asdict(entry.query), **dict(entry.arguments))
            stages[entry.name] = open_stages.enter_context(stage)
            setups[entry.name] = {"fill_seconds": stage.call("fill")}
        for number in range(rounds + 1):
            for entry in field:
                say(f"{'warming up' if number == 0 else f'round {number} of {rounds}'}: {entry.name}")
                turns[entry.name].append(stages[entry.name].call("turn", batches=entry.batches))
        for entry in field:
            setups[entry.name] |= stages[entry.name].call("setup")
    first = field[0]
    for other in field[1:]:
        if other.query != first.query:
            continue
        both = [[p for turn in turns[entry.name] for p in turn["prints"]] for entry in (first, other)]
        common = min(map(len, both))
        if both[0][:common] != both[1][:common]:
            raise RuntimeError(
                f"{other.name} and {first.name} found different pairs in the timed batches; expected the same; no "
                "figure is worth reporting before that is settled"
            )
    detail = {}
    for entry in field:
        _, *taken = turns[entry.name]
        rows = sum(turn["rows"] for turn in taken)
        detail[entry.name] = {
            **asdict(entry.query),
            "condition": entry.query.condition,
            "batches_a_side_per_round": entry.batches,
            "rounds": [turn["rows_per_second"] for turn in taken],
            "rows_per_second": median(turn["rows_per_second"] for turn in taken),
            "matches_per_row": sum(turn["pairs"] for turn in taken) / rows,
            **setups[entry.name],
        }
    return detail


def rate(detail: dict[str, Any], key: str, name: str, what: str) -> Figure:
    value, spread = middle(detail[name]["rounds"])
    return Figure(key, what, value, "rows/s", spread=spread)


def ratio(
    detail: dict[str, Any], key: str, above: str, below: str, what: str, goal: float | None = None
) -> Figure:
    """Of rounds next to each other, so that a drift of the machine hits both."""
    pairs = zip(detail[above]["rounds"], detail[below]["rounds"], strict=True)
    value, spread = middle([a / b for a, b in pairs])
    return Figure(key, what, value, "x", goal, spread=spread)


def band(say: Say, *, quick: bool) -> Section:
    """The two-dimensional band of seeds 001 and 004."""
    window = 1 << (16 if quick else 20)
    query = Query("band", window=window, batch=1 << (13 if quick else 15))
    field = [
        ours("slidejoin", query, 16),
        ours("slidejoin, one index and a filter", query, 1, "bi_sort"),
        Entry("Polars", f"{PEERS}:Polars", query, 1),
        Entry("DuckDB", f"{PEERS}:DuckDB", query, 1),
    ]
    detail = contest(say, field, 2)
    at = f"band in two dimensions, w = {window:,}"
    figures = [rate(detail, f"band.{e.name}", e.name, f"{at}: {e.name}") for e in field]
    fastest = max(("Polars", "DuckDB"), key=lambda name: detail[name]["rows_per_second"])
    goals = (None, None) if quick else (20.0, 5.0)
    figures.append(
        ratio(detail, "band.vs_peer", "slidejoin", fastest, f"{at}: against {fastest}, 2 threads", goals[0])
    )
    figures.append(
        ratio(
            detail,
            "band.vs_filter",
            "slidejoin",
            field[1].name,
            f"{at}: against one index and a filter",
            goals[1],
        )
    )
    return Section(figures, detail)


def q3(say: Say, *, quick: bool) -> Section:
    """Q3 on keys that run together: each inequality keeps half of the window, both next to nothing."""
    figures, detail = [], {}
    for window in (20_000,) if quick else (100_000, 1_000_000):
        query = Query("q3", window, batch=4096, correlation=RHO, slide=window // 10)
        large = window > 200_000
        field = [
            ours("slidejoin", query, 4 if large else 16),
            ours("SPO-Join as in the paper", query, 1, "paper:spo_join"),
            ours("one index and a filter", Query(**{**asdict(query), "batch": 512}), 1, "bi_sort"),
            Entry("Polars", f"{PEERS}:Polars", query, 1),
            Entry("DuckDB", f"{PEERS}:DuckDB", query, 1),
        ]
        if large:
            field.pop(
                2
            )  # half a million candidates a row are checked one by one: minutes for a few hundred rows
        found = contest(say, field, 2)
        detail[str(window)] = found
        at = f"Q3, w = {window:,}"
        figures += [rate(found, f"q3.{window}.{e.name}", e.name, f"{at}: {e.name}") for e in field]
        figures += [
            ratio(
                found,
                f"q3.{window}.vs.{e.name}",
                "slidejoin",
                e.name,
                f"{at}: against {e.name}",
                10.0 if e is field[1] and not quick else None,
            )
            for e in field[1:]
        ]
    return Section(figures, detail)


def looser(say: Say, *, quick: bool) -> Section:
    """Q3 on keys that run together less: a hundredth or more of the window matches, and the output takes over.

    PO-Join lists every match to count it, so both are asked for the number of matches, and for row numbers as well. The
    fast one takes several turns where the slow one takes one, or half its time would be that of caches filling.
    """
    figures, detail = [], {}
    sizes = ((20_000, 512, 2),) if quick else ((100_000, 1024, 8), (1_000_000, 256, 4))
    for window, batch, batches in sizes:
        for correlation in LOOSER:
            at = f"Q3 at {correlation}, w = {window:,}"
            query = Query("q3", window, batch=batch, correlation=correlation, slide=window // 10)
            indexes = {"slidejoin": "auto", "SPO-Join as in the paper": "paper:spo_join"}
            rounds = []
            with ExitStack() as open_stages:
                stages = {
                    name: open_stages.enter_context(Stage(OURS, workload=asdict(query), index=index))
                    for name, index in indexes.items()
                }
                say(f"{at}: filling the windows")
                for stage in stages.values():
                    stage.call("fill")
                for number in range(6):
                    say(f"{at}: round {number}")
                    rounds.append(
                        {
                            name: [
                                _short(stage.call("counted", batches=batches, build=True))
                                for _ in range(WARM if name == "slidejoin" else 1)
                            ]
                            for name, stage in stages.items()
                        }
                    )
            turns = {name: [taken[name] for taken in rounds] for name in indexes}
            ours_, theirs = (list(chain.from_iterable(taken)) for taken in turns.values())
            if [turn["pairs"] for turn in ours_[: len(theirs)]] != [turn["pairs"] for turn in theirs]:
                raise RuntimeError(f"{at}: the two found different numbers of pairs; expected the same")
            share = ours_[0]["pairs"] / ours_[0]["rows"] / window
            key = f"looser.{window}.{correlation}"
            counted, built = [], []
            for several, (one,) in list(zip(*turns.values(), strict=True))[1:]:
                counted.append(one["seconds"] / median(turn["seconds"] for turn in several))
                whole = median(turn["seconds"] + turn["building_seconds"] for turn in several)
                built.append((one["seconds"] + one["building_seconds"]) / whole)
            value, spread = middle(counted)
            what = f"{at}, {share:.2%} of the window matches: against SPO-Join as in the paper"
            goal = None if quick else 10.0
            figures.append(Figure(f"{key}.counted", f"{what}, counted", value, "x", goal, spread=spread))
            value, spread = middle(built)
            figures.append(Figure(f"{key}.built", f"{what}, row numbers built", value, "x", spread=spread))
            detail[f"{window} {correlation}"] = {
                **asdict(query),
                "share_of_the_window": share,
                "turns": turns,
            }
    return Section(figures, detail)


def parts(say: Say, *, quick: bool) -> Section:
    """The parts of SPO-Join against what the paper compares them with."""
    figures, detail = [], {}
    for window in (20_000,) if quick else (100_000, 1_000_000):
        say(f"parts of SPO-Join at w = {window:,}")
        probes = 256 if window < 200_000 else 64
        found = alone(
            "bench.several_parts:probing",
            window=window,
            correlation=RHO,
            probes=probes,
            rounds=2 if quick else 5,
        )
        detail[str(window)] = found
        times = found["microseconds"]
        at = f"w = {window:,}"
        for key, fast, slow, what, goal in (
            ("po_vs_css", "po_join", "css_hash", "PO-Join against CSS-trees and hash sets", 10.0),
            ("po_vs_css_bits", "po_join", "css_bits", "PO-Join against CSS-trees and bit arrays", None),
            ("bits_vs_hash", "bits", "hash", "mutable part, bit arrays against hash sets", 5.0),
        ):
            value, spread = middle([b / a for a, b in zip(times[fast], times[slow], strict=True)])
            figures.append(
                Figure(
                    f"parts.{window}.{key}",
                    f"{what}, {at}",
                    value,
                    "x",
                    None if quick else goal,
                    spread=spread,
                )
            )
    return Section(figures, detail)


def q1(say: Say, *, quick: bool) -> Section:
    """Q1 on keys that have nothing to do with each other: a quarter of the window matches every row."""
    window = 20_000 if quick else 200_000
    query = Query("q1", window, batch=512, slide=window // 10)
    turns = []
    with Stage(OURS, workload=asdict(query), index="auto") as stage:
        say("Q1: filling the windows")
        stage.call("fill")
        for number in range(4 if quick else 8):
            say(f"Q1: round {number}")
            # Apart: building writes so much memory that counting would begin with cold caches every time. So many
            # pushes that each round has its share of the merging and compacting that some of them do.
            counting = stage.call("counted", batches=16)
            turns.append({**stage.call("counted", batches=4, build=True), "counting": _short(counting)})
        setup = stage.call("setup")
    taken = turns[1:]
    built, built_spread = middle([turn["pairs"] / turn["building_seconds"] for turn in taken])
    # Seconds a pair: rounds of counting and of building are of different rows.
    times, times_spread = middle(
        [
            (turn["seconds"] + turn["building_seconds"])
            / turn["pairs"]
            / (turn["counting"]["seconds"] / turn["counting"]["pairs"])
            for turn in taken
        ]
    )
    share = sum(turn["pairs"] for turn in taken) / sum(turn["rows"] for turn in taken) / window
    goals = (None, None) if quick else (20.0, 10.0)
    return Section(
        [
            Figure("q1.built", f"Q1, w = {window:,}: row numbers of both sides, 1 thread", built / TIMES, "M rows/s",
                   goals[0], spread=(built_spread[0] / TIMES, built_spread[1] / TIMES)),
            Figure("q1.count", f"Q1, w = {window:,}: counting against building rows", times, "x", goals[1],
                   spread=times_spread),
        ],
        {**asdict(query), "share_of_the_window": share, "turns": [_short(turn) for turn in taken], **setup},
    )  # fmt: skip


def metering(say: Say, *, quick: bool) -> Section:
    """How long a push waits while the index merges: as many rows as fill a subwindow and begin the next."""
    figures, detail = [], {}
    for window in (20_000,) if quick else (100_000, 1_000_000):
        for index, kind, batch in (
            ("spo_join", "q3", 128), ("sort_tree", "q3", 128), ("sort_tree", "q3", 2048),
            ("cell_runs", "band", 128), ("cell_runs", "band", 2048),
        ):  # fmt: skip
            if index == "spo_join" and window > 200_000:
                continue  # its merges are of 16,384 rows whatever the window, and probing takes minutes
            at = f"{index}, batches of {batch:,}, w = {window:,}"
            query = Query(kind, window, batch=batch, correlation=RHO, slide=window // 10)
            with Stage(OURS, workload=asdict(query), index=index) as stage:
                say(f"{at}: filling the windows")
                stage.call("fill")
                stage.call("counted", batches=20)
                say(f"{at}: merging by the meter")
                turn = stage.call("counted", batches=max(200, int(0.6 * window / batch)))
            # The processor's: where it is shared, one push in a hundred waits some milliseconds for its turn.
            waits = np.array(turn["pushes_cpu"]) * 1e3
            p50, p99, p999, most = (float(np.percentile(waits, p)) for p in (50, 99, 99.9, 100))
            figures += [
                Figure(f"merge.{index}.{batch}.{window}.p50", f"{at}: a push, median of CPU time", p50, "ms"),
                Figure(f"merge.{index}.{batch}.{window}.p99", f"{at}: a push, p99 of CPU time", p99, "ms"),
                Figure(f"merge.{index}.{batch}.{window}.ratio", f"{at}: p99 of a push against the median", p99 / p50,
                       "x", None if quick else 3.0, at_most=True),
            ]  # fmt: skip
            quantiles = {"50": p50, "99": p99, "99.9": p999, "100": most}
            by_the_clock = {
                str(p): float(np.percentile(turn["pushes"], p)) * 1e3 for p in (50, 99, 99.9, 100)
            }
            detail[at] = {
                **asdict(query),
                "pushes": len(waits),
                "milliseconds": quantiles,
                "by_the_clock": by_the_clock,
            }
    return Section(figures, detail)


def growth(say: Say, *, quick: bool) -> Section:
    """Insertion and memory against the window, as in Figures 12 and 13 of seed 002."""
    windows = (1 << 15, 1 << 16) if quick else (1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21)
    found: dict[str, list[Any]] = {}
    for name in ("bplus_tree", "spo_join", "sort_tree", "cell_runs"):
        found[name] = []
        for window in windows:
            say(f"growing windows: {name}, {window:,}")
            found[name].append(
                alone("bench.several_parts:growing", name=name, window=window, rows=window // 2)
            )
    largest = f"w = {windows[-1]:,}"
    figures = []
    for name, points in found.items():
        last = points[-1]
        figures.append(
            Figure(f"insert.{name}", f"insertion, {largest}: {name}", last["nanoseconds_per_row"], "ns/row")
        )
        figures.append(
            Figure(f"memory.{name}", f"memory, {largest}: {name}", last["bytes_per_row"], "bytes/row")
        )
    return Section(figures, {"points": found})


def three(say: Say, *, quick: bool) -> Section:
    """A third predicate: one that changes nothing about the result, and two that cut it down.

    All in one process, push by push, on the same rows; two predicates are there twice, which shows how much of a
    difference is noise.
    """
    window = 20_000 if quick else 100_000
    settings: dict[str, tuple[str, dict[str, Any]]] = {
        "": (
            f"Q3, w = {window:,}",
            {"kind": "q3", "window": window, "batch": 4096, "correlation": RHO, "slide": window // 10},
        ),
        "bands.": (
            f"bands, w = {1 << (15 if quick else 18):,}",
            {"kind": "band", "window": 1 << (15 if quick else 18), "batch": 1 << (13 if quick else 15)},
        ),
    }
    figures, detail = [], {}
    for prefix, (at, query) in settings.items():
        found, detail[at] = third_predicates(say, prefix, at, query, quick=quick)
        figures += found
    return Section(figures, detail)


def third_predicates(
    say: Say, prefix: str, at: str, query: dict[str, Any], *, quick: bool
) -> tuple[list[Figure], dict[str, Any]]:
    thirds = {
        "two": "none", "two, again": "none", "always true": "always true", "a half": "a half", "a hundredth": "a hundredth",
    }  # fmt: skip
    workloads = {name: asdict(Query(**query, third=third)) for name, third in thirds.items()}
    turns = []
    # In several processes: where its memory happens to lie makes a join some per cent faster or slower than its twin.
    for process in range(1 if quick else 4):
        with Stage(f"{PEERS}:Together", workloads=workloads) as stage:
            say(f"three predicates, {at}: filling the windows")
            stage.call("fill")
            stage.call("turn", batches=4)
            for number in range(2 if quick else 4):
                say(f"three predicates, {at}: process {process}, round {number}")
                turns.append(stage.call("turn", batches=4 if quick else 12))
            setup = stage.call("setup")
    for turn in turns:
        if len({tuple(turn["prints"][name]) for name in ("two", "two, again", "always true")}) > 1:
            raise RuntimeError("a predicate that is always true changed the pairs; expected the same")
    figures = []
    for name in list(thirds)[1:]:
        ratios = [
            median(a / b for a, b in zip(turn["seconds"]["two"], turn["seconds"][name], strict=True))
            for turn in turns
        ]
        value, spread = middle(ratios)
        goal = 1 - RESOLUTION if name == "always true" and not quick else None
        what = (
            "two predicates against themselves, for the noise" if name == "two, again"
            else "three predicates against two on the same output" if name == "always true"
            else f"a third that keeps {name} of the output, against two"
        )  # fmt: skip
        figures.append(Figure(f"three.{prefix}{name}", f"{at}: {what}", value, "x", goal, spread=spread))
    detail = {
        "workloads": workloads,
        "turns": [{"seconds": t["seconds"], "pairs": t["pairs"]} for t in turns],
        "setup": setup,
    }
    return figures, detail


def _short(turn: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in turn.items() if not key.startswith("pushes")}


SECTIONS = {
    "band": band, "q3": q3, "looser": looser, "parts": parts, "q1": q1, "metering": metering, "growth": growth, "three": three,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    program.run(
        "several", __doc__, SECTIONS, "smaller sizes and fewer rounds: about half a minute", arguments
    )


if __name__ == "__main__":
    program.or_say_why(main)
