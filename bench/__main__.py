"""All benchmarks: ``python -m bench``; or some by name: ``python -m bench foundation draw``.

Options that are not ours (``--quick``) go to every program named. ``draw`` changes files under docs/ and runs only
when it is named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from bench.stage import ROOT

PROGRAMS = {
    "foundation": "every figure of the embedded engine, against Polars and DuckDB (about five minutes)",
    "draw": "charts and tables for docs/ from results/foundation.json",
}
MEASURING = ("foundation",)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=(__doc__ or "").partition(":")[0] + "."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {', '.join(MEASURING)}")
    parser.add_argument("--list", action="store_true", help="list the programs and exit")
    asked, rest = parser.parse_known_args()
    if asked.list:
        for name, what in PROGRAMS.items():
            print(f"{name:12} {what}")
        return 0
    unknown = [name for name in asked.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; expected one of {', '.join(PROGRAMS)}")
    for name in asked.names or MEASURING:
        code = subprocess.run(
            [sys.executable, "-m", f"bench.{name}", *rest], cwd=ROOT, check=False
        ).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
