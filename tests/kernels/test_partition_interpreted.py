"""``test_partition`` with the compiler switched off: what Numba runs is what Python would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_interpreted() -> None:
    suite = Path(__file__).with_name("test_partition.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(suite)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
