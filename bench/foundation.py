"""The embedded engine's figures: throughput against peers, small batches, memory, startup, many pairs, a backlog.

``python -m bench.foundation`` takes about five minutes and writes results/foundation.json. ``--quick`` takes about
twenty seconds, on smaller sizes; ``--only throughput`` measures one section. Both write files of other names, so that
results/foundation.json is always a whole run.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import backlog, many_pairs, memory, program, small_batches, startup, throughput

SECTIONS = {
    "throughput": throughput.measure,
    "small_batches": small_batches.measure,
    "memory": memory.measure,
    "startup": startup.measure,
    "many_pairs": many_pairs.measure,
    "backlog": backlog.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    program.run(
        "foundation", __doc__, SECTIONS, "smaller sizes and fewer rounds: about 20 seconds", arguments
    )


if __name__ == "__main__":
    program.or_say_why(main)
