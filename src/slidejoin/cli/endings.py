"""How a command ends: exit codes, and messages instead of tracebacks.

A mistake of the caller (path, column, condition, window) ends with 2, a failure on the way (unreadable data,
full disk, interruption) with 1. Anything not foreseen here is a bug and keeps its traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import typer

from slidejoin.cli.interrupts import terminable
from slidejoin.errors import ConditionError, SchemaError, SlidejoinError, WindowError

FAILURE = 1
USAGE = 2
INTERRUPTION = "interrupted; nothing was left half written"
IN_A_SHELL = {  # what a hint says in Python, and what it means on the command line
    "set Time(..., on=...) to": "set --time to",
    "set Rows(..., by=...) to": "set --by to",
    "raise lateness, or use late='keep' or 'count'": "raise --lateness, or use --late count",
}


class UsageError(SlidejoinError):
    """The command line asks for something that cannot be done."""


class InputError(SlidejoinError):
    """An input turned out to be unreadable when part of it had been read."""


@contextmanager
def orderly(condition: str | None = None, *, as_json: bool = False) -> Iterator[None]:
    """Run a command's body; turn the errors we know into a message and an exit code."""
    try:
        with terminable():
            yield
    except (ConditionError, UsageError, SchemaError, WindowError) as error:
        position = error.position if isinstance(error, ConditionError) else None
        complain(error, USAGE, condition=condition, position=position, as_json=as_json)
        raise typer.Exit(USAGE) from error
    except BrokenPipeError as error:  # the reader had enough
        _let_go_of_stdout()
        raise typer.Exit(FAILURE) from error
    except KeyboardInterrupt as error:
        _let_go_of_stdout()
        complain(INTERRUPTION, FAILURE, kind="Interrupted", as_json=as_json)
        raise typer.Exit(FAILURE) from error
    except (SlidejoinError, pa.ArrowException, OSError, MemoryError) as error:
        complain(error, FAILURE, as_json=as_json)
        raise typer.Exit(FAILURE) from error


def complain(
    error: BaseException | str,
    code: int,
    *,
    kind: str | None = None,
    condition: str | None = None,
    position: int | None = None,
    as_json: bool = False,
) -> None:
    """Say on stderr what went wrong, to a person or to a program."""
    message = str(error) or type(error).__name__
    for said, meant in IN_A_SHELL.items():
        message = message.replace(said, meant)
    if as_json:
        report: dict[str, object] = {
            "kind": kind or type(error).__name__,
            "message": message,
            "exit_code": code,
        }
        if position is not None:
            report["position"] = position
        typer.echo(json.dumps({"error": report}, indent=2), err=True)
        return
    typer.echo(f"error: {message}", err=True)
    for line in _pointer(condition, position):
        typer.echo(f"  {line}", err=True)


def _let_go_of_stdout() -> None:
    """What is still held back has no reader: Python would fail, or wait for one, when it flushes at exit."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _pointer(condition: str | None, position: int | None) -> tuple[str, ...]:
    """The line of the condition that holds ``position``, and a caret under it."""
    if condition is None or position is None or not 0 <= position <= len(condition):
        return ()
    start = condition.rfind("\n", 0, position) + 1
    line = condition[start:].split("\n", 1)[0]
    caret = position - start
    shown = 100  # characters: what a terminal shows without wrapping
    if len(line) > shown:
        cut = max(0, caret - shown // 2)
        line, caret = line[cut : cut + shown], caret - cut
    return line.replace("\t", " "), " " * caret + "^"
