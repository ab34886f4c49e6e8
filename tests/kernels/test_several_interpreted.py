"""The kernels for several keys with the compiler switched off: what Numba runs is what Python would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INDEX = Path(__file__).parents[1] / "index"


def test_interpreted() -> None:
    suites = [str(INDEX / "test_several.py"), str(INDEX / "test_bplus_tree.py")]
    chosen = "outlives or several_intervals or full_leaves or one_row"
    # Differences that wrap are meant to (cell_runs.is_below); compiled, nobody is told.
    quiet = "ignore:overflow encountered:RuntimeWarning"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", quiet, "-k", chosen]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *suites],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
