"""A model of the join on many workers, fitted on one and two.

Cost        a row costs the cluster a + b * copies CPU seconds, of Spark and of Python alike: a once (reading, packing,
            storing, results), b for every worker that it is sent to (the shuffle, probing). What a micro-batch costs
            whatever its rows is in a. W cores share the cost, so
                rows/s = W / (a + b * copies)
Copies      split: W. hash: 1. grid: 1, and a second one for rows whose band reaches into the next cell.
Fit, check  CPU time is measured, not the clock: one worker has a thread of the JVM and a Python process, and so the
            two cores here are busy with one already. a and b come from split on one and two workers; the costs of
            grid and hash on two workers are then predicted from their own on one worker, and compared.
Leaves out  skew, cores that wait, and a network that is slower than the shuffle here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.report import Figure, Section

MOST = 256  # workers
PAYS = 1.25  # doubling the workers pays while it gives at least so many times the rows per second
ROUTINGS = ("split", "grid", "hash")

Run = dict[str, Any]


def steady(run: Run, filled: int) -> dict[str, float]:
    """A run's averages over its steady half."""
    batches = run["batches"][filled:]
    half = batches[len(batches) // 2 :]
    rows = sum(batch["rows"] for batch in half)
    last = half[-1]
    return {
        "cores": run["cores"],
        "rows_per_second": rows / sum(batch["ms"] for batch in half) * 1000,
        "cost_us": sum(batch["cpu_ms"] for batch in half) * 1000 / rows,
        "copies": sum(batch["rows_all_workers"] for batch in half) / rows,
        "bytes_a_row": last["state_bytes"] / max(1, last["state_rows"]),
        "stored": last["state_rows"],
    }


def fitted(one: dict[str, float], two: dict[str, float]) -> tuple[float, float]:
    """The costs a and b in microseconds; b is at least a hundredth of the cost, as noise could make it nothing."""
    b = max((two["cost_us"] - one["cost_us"]) / (two["copies"] - one["copies"]), one["cost_us"] / 100)
    return max(one["cost_us"] - b * one["copies"], 0.0), b


def stops_paying(a: float, b: float) -> float:
    """The workers from which on twice as many give less than PAYS times the rows per second by split."""
    # W / (a + bW) doubled: 2 (a + bW) / (a + 2bW) = PAYS
    return a * (2 - PAYS) / (2 * b * (PAYS - 1))


def copies(routing: str, workers: int, second: float) -> float:
    """Workers that a row is sent to; ``second`` is the share of rows that the grid sends twice."""
    if routing == "split":
        return float(workers)
    return 1.0 if routing == "hash" or workers == 1 else 1.0 + second


def section(runs: Sequence[Run], filled: int) -> Section:
    found = {(run["routing"], run["cores"]): steady(run, filled) for run in runs}
    a, b = fitted(found["split", 1], found["split", 2])
    second = found["grid", 2]["copies"] - 1
    figures = [
        Figure("spark.model.once", "model: CPU time of a row, once", a, "µs"),
        Figure("spark.model.copy", "model: CPU time of a row for each worker it is sent to", b, "µs"),
    ]
    checks = {}
    for routing in ("grid", "hash"):
        one, two = found[routing, 1], found[routing, 2]
        predicted = one["cost_us"] + b * (two["copies"] - one["copies"])
        checks[routing] = {"predicted": predicted, "measured": two["cost_us"]}
        error = 100 * (predicted / two["cost_us"] - 1)
        figures.append(
            Figure(
                f"spark.model.check.{routing}",
                f"model: CPU time of a row by {routing} on two workers, predicted too high by",
                error,
                "%",
            )
        )
    point = stops_paying(a, b)
    figures += [
        Figure("spark.model.second", "grid: rows sent to a second worker", 100 * second, "%"),
        Figure(
            "spark.model.split_pays", f"split pays (x{PAYS} for twice the workers) up to", point, "workers"
        ),
    ]
    measured = {f"{routing} {cores}": values for (routing, cores), values in found.items()}
    curves = []
    for workers in [2**power for power in range(MOST.bit_length())]:
        for routing in ROUTINGS:
            sent = copies(routing, workers, second)
            base = a if routing == "split" else max(found[routing, 1]["cost_us"] - b, 0.0)
            curves.append({
                "routing": routing, "workers": workers, "rows_per_second": workers * 1e6 / (base + b * sent),
                "copies": sent, "stored_share": (1.0 if routing == "split" else sent) / workers,
            })  # fmt: skip
    return Section(
        figures,
        {
            "a_us": a,
            "b_us": b,
            "stops_paying": point,
            "measured": measured,
            "checks": checks,
            "curves": curves,
        },
    )
