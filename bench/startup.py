"""Startup: from ``import slidejoin`` to the first result in a fresh process, kernels cached or not.

Warm means that this machine has compiled the kernels before, which is every start but the first. The cold start is
given an empty cache directory, and must say that it compiles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench.report import Figure, Section, middle

SCRIPT = Path(__file__).with_name("first_result.py")
WARM_GOAL = 2.0  # s


def measure(say: Callable[[str], None], *, quick: bool) -> Section:
    say("startup: a first time, to have the kernels cached")
    fresh()
    runs = 2 if quick else 7
    warm = []
    for number in range(runs):
        say(f"startup: warm, {number + 1} of {runs}")
        warm.append(fresh())
    value, spread = middle([run["first_result"] for run in warm])
    what = "fresh process: import to first result"
    figures = [
        Figure("start.warm", f"{what}, kernels cached", value, "s", WARM_GOAL, at_most=True, spread=spread)
    ]
    detail: dict[str, Any] = {"warm": warm}
    if not quick:
        say("startup: cold, compiling")
        with TemporaryDirectory() as empty:
            cold = fresh({"SLIDEJOIN_CACHE": empty})
        detail["cold"] = cold
        figures.append(Figure("start.cold", f"{what}, kernels compiled", cold["first_result"], "s"))
        said = float("compil" in cold["message"])
        figures.append(Figure("start.message", "a cold start says that it compiles", said, "yes/no", 1))
    return Section(figures, detail)


def fresh(env: dict[str, str] | None = None) -> dict[str, Any]:
    """One process: what it measured, how long it lived, and what it said."""
    start = perf_counter()
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{SCRIPT.name} ended with code {done.returncode}:\n{done.stderr}")
    return {**json.loads(done.stdout), "process": perf_counter() - start, "message": done.stderr.strip()}
