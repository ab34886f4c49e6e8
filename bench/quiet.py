"""Measuring while the machine is ours: a virtual one is not always.

The host may give a core to somebody else for some milliseconds, and says so afterwards (``steal``). What was measured
meanwhile says nothing about the program, and less about two threads than about one, as either core may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psutil

Measured = TypeVar("Measured")

TRIES = 4  # a host that is never quiet is measured as it is


def undisturbed(measure: Callable[[], Measured]) -> Measured:
    """What ``measure`` gives when no core was taken away meanwhile, or the last of some tries."""
    for _ in range(TRIES):
        before = stolen()
        value = measure()
        if stolen() == before:
            break
    return value


def stolen() -> float:
    """Seconds of all cores that the host has given to others; 0 where it does not say."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
