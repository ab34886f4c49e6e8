"""The typer application: one command per module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import slidejoin
from slidejoin.cli.bench import PASS_ON, bench
from slidejoin.cli.demo import demo
from slidejoin.cli.endings import FAILURE, INTERRUPTION, USAGE, complain
from slidejoin.cli.explain import explain
from slidejoin.cli.run import run

_INTERRUPTED = 130  # what typer makes of Ctrl-C while it reads the arguments


class Commands(TyperGroup):
    """The commands; with ``--json`` a mistake in the options is reported as every other error is."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse the arguments and run one command."""
        given = sys.argv[1:] if args is None else list(args)
        as_json = standalone_mode and "--json" in given
        code: Any = None
        try:
            code = super().main(
                given, prog_name, complete_var, standalone_mode and not as_json, windows_expand_args, **extra
            )
        except SystemExit as end:
            code = end.code
        except typer.TyperException as error:
            if not as_json:
                raise
            worded = getattr(
                error, "format_message", error.__str__
            )  # names the option; not every kind has it
            complain(worded(), USAGE, kind="UsageError", as_json=True)
            code = USAGE
        if not standalone_mode:
            return code
        if code == _INTERRUPTED:
            complain(INTERRUPTION, FAILURE, kind="Interrupted", as_json=as_json)
            code = FAILURE
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=Commands,
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
