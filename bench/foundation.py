"""The embedded engine's figures: throughput against peers, small batches, memory, startup, many pairs.

``python -m bench.foundation`` takes about five minutes and writes results/foundation.json. ``--quick`` takes about
twenty seconds, on smaller sizes; ``--only throughput`` measures one section. Both write files of other names, so that
results/foundation.json is always a whole run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from time import perf_counter

from rich.console import Console

from bench import many_pairs, memory, report, small_batches, startup, throughput
from bench.stage import StageError
from bench.workloads import SEED

SECTIONS = {
    "throughput": throughput.measure,
    "small_batches": small_batches.measure,
    "memory": memory.measure,
    "startup": startup.measure,
    "many_pairs": many_pairs.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.foundation", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes and fewer rounds: about 20 seconds"
    )
    parser.add_argument(
        "--only", choices=SECTIONS, action="append", help="only this section (may be repeated)"
    )
    asked = parser.parse_args(arguments)
    chosen = [name for name in SECTIONS if not asked.only or name in asked.only]
    console = Console()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    measured = report.commit()
    report.say_where(console, load)
    start = perf_counter()
    sections = {}
    with console.status("starting") as status:
        for name in chosen:
            sections[name] = SECTIONS[name](status.update, quick=asked.quick)
            took = perf_counter() - start
            console.print(
                report.table(sections[name].figures, f"{name.replace('_', ' ')} ({took:.0f} s so far)")
            )
    parts = ["foundation", *(asked.only or []), *(["quick"] if asked.quick else [])]
    path = report.write(
        "-".join(parts),
        sections,
        seed=SEED,
        quick=asked.quick,
        seconds=perf_counter() - start,
        load=load,
        measured=measured,
    )
    goals = [figure for section in sections.values() for figure in section.figures if figure.goal is not None]
    met = sum(bool(figure.met) for figure in goals)
    console.print(
        f"{met} of {len(goals)} goals met in {perf_counter() - start:.0f} s; written to {path.name}"
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was written")
    except StageError as error:
        sys.exit(str(error))
