"""``slidejoin bench``: run the programs under ``bench/`` of a source checkout, one process each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import slidejoin
from slidejoin.cli.endings import FAILURE, UsageError, orderly
from slidejoin.cli.screen import as_json, stderr


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Programs to run; default: all.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the programs and exit.")] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Measure on this machine: the programs under bench/ of a source checkout."""
    with orderly():
        programs = _programs()
        unknown = [name for name in names or () if name not in programs]
        if unknown:
            raise UsageError(
                f"there is no benchmark {unknown[0]!r}; expected one of {', '.join(programs)}; see --list"
            )
        if list_:
            described = {name: _first_line(path) for name, path in programs.items()}
            if as_json_:
                typer.echo(as_json(described))
            else:
                for name, what in described.items():
                    typer.echo(f"{name:12} {what}")
            return
        codes = {}
        for name in names or programs:
            if not as_json_:
                stderr.rule(f"[bold]bench/{programs[name].name}", align="left")
            codes[name] = subprocess.run(  # noqa: S603  # a program of this checkout, by its full path
                [sys.executable, str(programs[name])],
                check=False,
                stdout=subprocess.DEVNULL if as_json_ else None,
            ).returncode
        if as_json_:
            typer.echo(as_json({"exit_codes": codes}))
        if any(codes.values()):
            raise typer.Exit(FAILURE)


def _programs() -> dict[str, Path]:
    """The benchmark programs by name."""
    checkout = Path(slidejoin.__file__).resolve().parents[2]
    folder = checkout / "bench"
    found = {
        path.stem: path
        for path in sorted(folder.glob("*.py"))
        if "__main__" in path.read_text(encoding="utf-8") and not path.stem.startswith("_")
    }
    if not found or not (checkout / "pyproject.toml").is_file():
        raise UsageError(
            "the benchmarks are not part of the installed package; expected a source checkout with its bench/ "
            "folder; clone the repository and run 'make bench'"
        )
    return found


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").lstrip('"').split("\n", 1)[0].strip('" ')
