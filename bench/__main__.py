"""All benchmarks: ``python -m bench``; or some by name: ``python -m bench foundation draw``.

Names come first; options (``--quick``) go to every program named. ``draw`` changes files under docs/ and runs only
when it is named.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile

from bench.stage import ROOT

PROGRAMS = {
    "foundation": "every figure of the embedded engine, against Polars and DuckDB (about five minutes)",
    "several": "several inequalities at once, against SPO-Join, its alternatives, Polars and DuckDB (about five minutes)",
    "spark": "joins on Spark, against its own with bucket keys (about an hour)",
    "panjoin": "PanJoin's figures and goals: structures, flow, planner (about two minutes)",
    "calibrate": "the planner's table of costs, src/slidejoin/plan/costs.json (about two minutes)",
    "draw": "charts and tables for docs/ from results/foundation.json",
    "draw_spark": "charts and tables for docs/ from results/spark.json",
    "draw_several": "charts and tables for docs/ from results/several.json",
}
MEASURING = ("foundation", "several")


USAGE = (
    "usage: python -m bench [--list] [NAME ...] [options of the programs: --quick, --only SECTION, --help]"
)


def main(arguments: Sequence[str]) -> int:
    names = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = list(arguments[len(names) :])
    if options == ["--list"]:
        for name, what in PROGRAMS.items():
            print(f"{name:12} {what}")
        return 0
    if options in (["-h"], ["--help"]) and not names:
        print(USAGE, *(f"  {name:12} {what}" for name, what in PROGRAMS.items()), sep="\n")
        return 0
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        print(
            f"there is no benchmark {unknown[0]!r}; expected one of {', '.join(PROGRAMS)}; see --list",
            file=sys.stderr,
        )
        return 2
    for name in names or MEASURING:
        command = [sys.executable, "-m", f"bench.{name}", *options]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
