"""How many random examples: ``ci`` for every run, ``deep`` for a night (HYPOTHESIS_PROFILE=deep)."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

_COMMON: dict[str, Any] = {
    "deadline": None,  # the first call of a process compiles kernels
    "print_blob": True,  # a failure prints how to repeat it
    # Random schemas may lack what a condition needs; a test whose every input is filtered out fails all the same.
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}


def load() -> None:
    settings.register_profile("ci", max_examples=40, stateful_step_count=20, **_COMMON)
    settings.register_profile("deep", max_examples=3000, stateful_step_count=60, **_COMMON)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def examples(share: float) -> settings:
    """A test's share of the profile's examples: cheap tests take more, dear ones less."""
    return settings(max_examples=max(5, int(settings().max_examples * share)))
