"""``slidejoin bench``: run ``python -m bench`` of a source checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

import slidejoin
from slidejoin.cli.endings import FAILURE, UsageError, orderly
from slidejoin.cli.screen import as_json

STDERR = 2  # where the programs' tables go when stdout is for machines
PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True}  # --list, --quick and the like


def bench(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENT",
            help="Names of programs, --list, --quick: passed on to 'python -m bench'.",
            show_default=False,
        ),
    ] = None,
    as_json_: Annotated[
        bool, typer.Option("--json", help="Print the results that were written, machine-readable.")
    ] = False,
) -> None:
    """Measure on this machine: the programs under bench/ of a source checkout."""
    with orderly(as_json=as_json_):
        checkout = _checkout()
        began = time.time()
        finished = subprocess.run(  # noqa: S603  # a program of this checkout, without a shell
            [sys.executable, "-m", "bench", *(arguments or [])],
            cwd=checkout,
            check=False,
            stdout=STDERR if as_json_ else None,
        )
        if as_json_:
            written = [
                path
                for path in sorted((checkout / "bench" / "results").glob("*.json"))
                if path.stat().st_mtime >= began
            ]
            results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in written}
            typer.echo(as_json({"exit_code": finished.returncode, "results": results}))
        if finished.returncode:
            raise typer.Exit(finished.returncode if finished.returncode == 2 else FAILURE)


def _checkout() -> Path:
    """The root of the source checkout that this package is imported from."""
    root = Path(slidejoin.__file__).resolve().parents[2]
    if not ((root / "bench" / "__main__.py").is_file() and (root / "pyproject.toml").is_file()):
        raise UsageError(
            "the benchmarks are not part of the installed package; expected a source checkout with its bench/ "
            "folder; clone the repository and run 'make bench'"
        )
    return root
