"""A benchmark of several sections, from its arguments to its file: what foundation and several share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from rich.console import Console

from bench import report
from bench.report import Section
from bench.stage import StageError
from bench.workloads import SEED

Measure = Callable[..., Section]  # takes what says how far it is, and ``quick``


def run(
    name: str, text: str | None, sections: Mapping[str, Measure], quick: str, arguments: Sequence[str] | None
) -> None:
    """Measure the sections asked for and write results/NAME.json; ``quick`` says what ``--quick`` does."""
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{name}", description=(text or "").partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--only", choices=sections, action="append", help="only this section (may be repeated)"
    )
    asked = parser.parse_args(arguments)
    console = Console()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    measured = report.commit()
    report.say_where(console, load)
    start = perf_counter()
    found = {}
    with console.status("starting") as status:
        for part in [part for part in sections if not asked.only or part in asked.only]:
            found[part] = sections[part](status.update, quick=asked.quick)
            title = f"{part.replace('_', ' ')} ({perf_counter() - start:.0f} s so far)"
            console.print(report.table(found[part].figures, title))
    # A part, or a quick run, goes to a file of its own: results/NAME.json is always a whole run.
    path = report.write(
        "-".join([name, *(asked.only or []), *(["quick"] if asked.quick else [])]),
        found,
        seed=SEED,
        quick=asked.quick,
        seconds=perf_counter() - start,
        load=load,
        measured=measured,
    )
    goals = [figure for section in found.values() for figure in section.figures if figure.goal is not None]
    met = sum(bool(figure.met) for figure in goals)
    console.print(
        f"{met} of {len(goals)} goals met in {perf_counter() - start:.0f} s; written to {path.name}"
    )


def or_say_why(main: Callable[[], None]) -> None:
    """Run a program that writes its file at the end."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was written")
    except StageError as error:
        sys.exit(str(error))
