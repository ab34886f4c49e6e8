"""Spark Connect: the core of the suite, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("spark")

TESTS = Path(__file__).resolve().parents[1]


def test_through_connect(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "SPARK_LOCAL_DIRS": str(tmp_path / "scratch")}
    environment.pop("PYSPARK_PYTHON", None)  # settings() says it
    done = subprocess.run(
        [sys.executable, "-m", "spark.connect_core", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=400,
        cwd=tmp_path,
    )
    assert "as the oracle says" in done.stdout, done.stderr[-4000:]
