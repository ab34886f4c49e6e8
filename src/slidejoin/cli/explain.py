"""``slidejoin explain``: how a condition is taken apart, and what the planner makes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from slidejoin.cli import query as q
from slidejoin.cli.endings import UsageError, orderly
from slidejoin.cli.formats import FormatName
from slidejoin.cli.screen import as_json
from slidejoin.cli.sources import Input


def explain(
    on: q.On,
    left: Annotated[str | None, typer.Option(help="Take the left columns' types from this input.")] = None,
    right: Annotated[str | None, typer.Option(help="Take the right columns' types from this input.")] = None,
    window: q.Window = None,
    time: q.TimeColumn = None,
    rows: q.RowCount = None,
    by: q.By = None,
    slide: q.Slide = None,
    how: q.How = "inner",
    lateness: q.Lateness = None,
    late: q.Late = "count",
    order: q.Order = "none",
    index: q.Index = "auto",
    flow: q.Flow = "auto",
    threads: q.Threads = None,
    left_format: Annotated[FormatName | None, typer.Option(help="Format of --left.")] = None,
    right_format: Annotated[FormatName | None, typer.Option(help="Format of --right.")] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Show how a condition is taken apart, the plan and why, the window and the bound of the state.

    Without inputs the types are unknown and the plan stays open; no rows are read in either case.
    """
    with orderly(on, as_json=as_json_):
        query = q.Query(on, window, time, rows, by, slide, how, lateness, late, order, index, flow, threads)
        join = query.join()
        if (left is None) != (right is None):
            given, missing = ("--left", "--right") if right is None else ("--right", "--left")
            raise UsageError(f"{given} was given without {missing}; expected both inputs, or neither")
        if left is not None and right is not None:
            inputs = Input("left", left, left_format, []), Input("right", right, right_format, [])
            join.push(**{each.side: each.schema().empty_table() for each in inputs})
        text = join.explain()
        typer.echo(as_json({"condition": on, "explain": text}) if as_json_ else text)
