"""PanJoin's figures: ``python -m bench panjoin`` (about eight minutes), ``--quick`` (ten seconds), ``--only PART``.

Parts are structures (figures 10 to 13), system (figure 15), goals, phases and disorder; those left out keep their results
of the last run. ``--draw`` also draws docs/img/panjoin and fills in docs/panjoin.md; ``--draw-only`` does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from rich.console import Console

from bench import report
from bench.panjoin import disorder, draw, phases, system
from bench.panjoin.findings import judged
from bench.panjoin.structures import FULL, QUICK, Bench
from bench.report import Figure, Section
from slidejoin import kernels

PARTS = ("structures", "system", "goals", "phases", "disorder")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench panjoin", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: to see that it works")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be repeated")
    parser.add_argument(
        "--draw", action="store_true", help="draw the pictures and fill in the page afterwards"
    )
    parser.add_argument("--draw-only", action="store_true", help="draw from the last run")
    asked = parser.parse_args(arguments)
    if not asked.draw_only:
        measure(asked.only or PARTS, quick=asked.quick)
    if asked.draw or asked.draw_only:
        draw.all_of(json.loads((report.RESULTS / "panjoin.json").read_text(encoding="utf-8")))


def measure(parts: Sequence[str], *, quick: bool) -> None:
    console = Console()
    load, commit, start = os.getloadavg()[0], report.commit(), perf_counter()
    report.say_where(console, load)
    kernels.ready()
    name = "panjoin-quick" if quick else "panjoin"
    sections = earlier(name)
    with console.status("") as status:

        def say(text: str) -> None:
            status.update(text)

        if "structures" in parts:
            lines = dict(Bench(QUICK if quick else FULL, say).all())
            sections["structures"] = Section([], {"rows": (QUICK if quick else FULL).rows, "lines": lines})
        if "system" in parts:
            sections["system"] = Section([], figure_15(quick=quick, say=say))
        if "goals" in parts:
            sections["goals"] = Section(*system.goals(quick=quick, say=say))
        if "phases" in parts:
            sections["phases"] = Section(*phases.run(quick=quick, say=say))
        if "disorder" in parts:
            sections["disorder"] = Section(*disorder.run(quick=quick, say=say))
    lines = {
        k: v
        for part in ("structures", "system")
        if part in sections
        for k, v in sections[part].detail["lines"].items()
    }
    for finding in judged(lines):
        console.print(f"{finding.figure:>4}  {'holds' if finding.holds else 'does not hold'}: {finding.text}")
    figures = [figure for section in sections.values() for figure in section.figures]
    console.print(report.table(figures, "goals"))
    path = report.write(
        name, sections, seed=0, quick=quick, seconds=perf_counter() - start, load=load, measured=commit
    )
    console.print(f"[dim]{perf_counter() - start:.0f} s; {path.name}")


def figure_15(*, quick: bool, say: Any) -> dict[str, Any]:
    small, large = (1 << 16, 1 << 18) if quick else (1 << 19, 1 << 22)
    rounds = 1 if quick else 5
    selectivities = (1, 4096) if quick else (1, 16, 256, 4096)
    lines = {
        "15a": system.by_batch(
            small, (256, 1 << 12, 1 << 15) if quick else (256, 2048, 1 << 14, 1 << 17), rounds, say
        ),
        "15b": system.by_selectivity(small, selectivities, rounds, say),
    }
    kinds = ("rap_table", "wib_tree", "bi_sort")
    for figure, window in (("15e", small), ("15f", large)):
        loop = system.nested_loop(window)
        joined = (
            lines["15b"]
            if window == small
            else system.by_selectivity(window, selectivities[:: len(selectivities) - 1], rounds, say, kinds)
        )
        lines[figure] = {kind: [(s, speed / loop) for s, speed in joined[kind]] for kind in kinds}
    return {"windows": [small, large], "lines": lines}


def earlier(name: str) -> dict[str, Section]:
    """The sections of the last run, for parts that are not measured now."""
    path = report.RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    last = json.loads(path.read_text(encoding="utf-8"))
    prefix = {"goals": "speed.", "phases": "phases.", "disorder": "disorder."}
    fields = ("key", "what", "value", "unit", "goal", "at_most", "spread")
    return {
        part: Section(
            [
                Figure(**{field: figure[field] for field in fields})
                for figure in last["figures"]
                if part in prefix and figure["key"].startswith(prefix[part])
            ],
            detail,
        )
        for part, detail in last["detail"].items()
    }


if __name__ == "__main__":
    main()
