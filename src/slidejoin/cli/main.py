"""The typer application: one command per module."""

from __future__ import annotations

from typing import Annotated

import typer

import slidejoin
from slidejoin.cli.bench import PASS_ON, bench
from slidejoin.cli.demo import demo
from slidejoin.cli.explain import explain
from slidejoin.cli.run import run

app = typer.Typer(
    name="slidejoin",
    help="Sliding-window stream joins on any SQL condition.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"slidejoin {slidejoin.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Sliding-window stream joins on any SQL condition."""


app.command()(demo)
app.command()(run)
app.command()(explain)
app.command(context_settings=PASS_ON)(bench)


def main() -> None:
    """Entry point of the ``slidejoin`` script."""
    app()
