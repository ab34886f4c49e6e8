"""Agreement: before anything is timed, all contenders give the same pairs, on windows small enough to compare all."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.ours import Slidejoin
from bench.peers import DuckDB, Polars
from bench.workloads import KINDS, Workload


def check(batches: int = 15) -> dict[str, Any]:
    """Pair for pair, over three turns of the window; raises if any contender differs."""
    compared = 0
    for kind in KINDS:
        work = Workload(kind, window=5000, batch=1000)
        rivals = [Slidejoin(work), Slidejoin(work, threads=2), Polars(work), DuckDB(work)]
        for rival in rivals:
            rival.fill()
        ours, *others = (rival.results(batches) for rival in rivals)
        for rival, theirs in zip(rivals[1:], others, strict=True):
            for mine, other in zip(ours, theirs, strict=True):
                if not all(map(np.array_equal, mine, other)):
                    raise RuntimeError(
                        f"{type(rival).__name__} and slidejoin found different pairs for {work}"
                    )
        compared += sum(len(left) for left, _ in ours)
    return {"pairs_compared_before_timing": compared}
