"""How a command ends: exit codes, and messages instead of tracebacks.

A mistake of the caller (path, column, condition, window) ends with 2, a failure on the way (unreadable data,
full disk, interruption) with 1. Anything not foreseen here is a bug and keeps its traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pyarrow as pa
import typer

from slidejoin.errors import ConditionError, SchemaError, SlidejoinError, WindowError

FAILURE = 1
USAGE = 2


class UsageError(SlidejoinError):
    """The command line asks for something that cannot be done."""


class InputError(SlidejoinError):
    """An input turned out to be unreadable when part of it had been read."""


@contextmanager
def orderly(condition: str | None = None) -> Iterator[None]:
    """Run a command's body; turn the errors we know into a message and an exit code."""
    try:
        with _terminable():
            yield
    except ConditionError as error:
        _complain(str(error), *_pointer(condition, error.position))
        raise typer.Exit(USAGE) from error
    except (UsageError, SchemaError, WindowError) as error:
        _complain(str(error))
        raise typer.Exit(USAGE) from error
    except BrokenPipeError as error:
        # The reader had enough. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILURE) from error
    except KeyboardInterrupt as error:
        _complain("interrupted; nothing was left half written")
        raise typer.Exit(FAILURE) from error
    except (SlidejoinError, pa.ArrowException, OSError, MemoryError) as error:
        _complain(str(error) or type(error).__name__)
        raise typer.Exit(FAILURE) from error


def _complain(message: str, *more: str) -> None:
    typer.echo(f"error: {message}", err=True)
    for line in more:
        typer.echo(f"  {line}", err=True)


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


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that temporary files go away."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
