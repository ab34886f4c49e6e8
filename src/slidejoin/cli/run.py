"""``slidejoin run``: join two inputs, write the result as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import slidejoin as sj
from slidejoin.cli import query as q
from slidejoin.cli import screen
from slidejoin.cli.endings import UsageError, orderly
from slidejoin.cli.feed import LEFT, RIGHT, Side, feed_by_rows, feed_by_time
from slidejoin.cli.formats import FormatName
from slidejoin.cli.sinks import format_to, open_sink
from slidejoin.cli.sources import PIPE, Input, Source

FILES = "Inputs and output"
BATCH_ROWS = 65_536  # as many rows as a result batch has; large enough to hide the cost of a push

EngineName = Literal["local", "spark"]
FileFormat = FormatName | None


def run(
    left: Annotated[
        str, typer.Option(help="File, folder of files, or '-'.", metavar="PATH", rich_help_panel=FILES)
    ],
    right: Annotated[
        str, typer.Option(help="File, folder of files, or '-'.", metavar="PATH", rich_help_panel=FILES)
    ],
    on: q.On,
    out: Annotated[
        str,
        typer.Option(
            help="File to write, or '-'; the ending names the format.", metavar="PATH", rich_help_panel=FILES
        ),
    ],
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
    left_format: Annotated[
        FileFormat, typer.Option(help="Default: by the ending; arrow for '-'.", rich_help_panel=FILES)
    ] = None,
    right_format: Annotated[
        FileFormat, typer.Option(help="Default: by the ending; arrow for '-'.", rich_help_panel=FILES)
    ] = None,
    out_format: Annotated[
        FileFormat, typer.Option(help="Default: by the ending; arrow for '-'.", rich_help_panel=FILES)
    ] = None,
    left_type: Annotated[
        list[str] | None,
        typer.Option(
            help="Type of a text column, e.g. ts=timestamp\\[us]; repeatable.",
            metavar="COL=TYPE",
            rich_help_panel=FILES,
        ),
    ] = None,
    right_type: Annotated[
        list[str] | None,
        typer.Option(help="The same for the right input.", metavar="COL=TYPE", rich_help_panel=FILES),
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(min=1, help="Rows pushed at a time, at most.", rich_help_panel=FILES)
    ] = BATCH_ROWS,
    engine: Annotated[EngineName, typer.Option(help="Where to run.")] = "local",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable summary.")] = False,
) -> None:
    """Join two inputs of Parquet, CSV, NDJSON or Arrow, and write the result.

    The inputs are played as two streams, in the order of their rows: the side whose clock is behind goes
    first, and rows that come later than --lateness allows are counted as late. Memory holds the windows, not
    the files. The output appears under its name only when it is complete.
    """
    with orderly(on, as_json=as_json):
        if engine == "spark":
            raise UsageError(
                "--engine spark needs slidejoin.spark, which this version does not have; expected --engine local; "
                "leave --engine out"
            )
        query = q.Query(on, window, time, rows, by, slide, how, lateness, late, order, index, flow, threads)
        if left == right == PIPE:
            raise UsageError(
                "--left and --right are both '-'; expected at most one of them on standard input; "
                "give the other as a path"
            )
        join = query.join()
        format_to(out, out_format)
        _spares_inputs(out, (left, right))
        inputs = (
            Input(LEFT, left, left_format, left_type or []),
            Input(RIGHT, right, right_format, right_type or []),
        )
        with closing(inputs[0].open(batch_rows)) as ours, closing(inputs[1].open(batch_rows)) as theirs:
            tally = _join_files(join, query, (ours, theirs), out, out_format, visible=not (quiet or as_json))
        if as_json:
            typer.echo(screen.as_json(tally.report(join)), err=out == PIPE)
        elif not quiet:
            tally.show(join, out)


def _spares_inputs(out: str, inputs: tuple[str, str]) -> None:
    """Refuse to write the result over what it is made from."""
    if out == PIPE:
        return
    target = Path(out).resolve()
    for option, source in zip(("--left", "--right"), inputs, strict=True):
        if source == PIPE:
            continue
        path = Path(source).resolve()
        if target == path or path in target.parents:
            raise UsageError(
                f"--out {out} would be written over or into {option} {source}; expected another place, so that the "
                "input stays as it is; name another file"
            )


@dataclass
class Tally:
    """What has been done so far."""

    began: float
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Rows of both inputs per second."""
        return self.rows_in / self.seconds if self.seconds else 0.0

    def report(self, join: sj.Join) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "seconds": round(self.seconds, 6),
            "rows_per_second": round(self.rate),
            "stats": join.stats(),
        }

    def show(self, join: sj.Join, out: str) -> None:
        """For a person. It goes to stderr: stdout may be the result."""
        where = "standard output" if out == PIPE else out
        screen.stderr.print(
            f"[bold]{self.rows_out:,}[/] {'row' if self.rows_out == 1 else 'rows'} to {where} from {self.rows_in:,} in {self.seconds:.2f} s "
            f"({screen.short(self.rate)} rows/s)"
        )
        stats = join.stats()
        for side in (LEFT, RIGHT):
            mine = stats[side]
            if mine["late"] or mine["null_time"]:
                screen.stderr.print(
                    f"[yellow]{side}: {mine['late']:,} late and {mine['null_time']:,} without a time were not "
                    "joined[/] (--lateness waits longer)"
                )


def _join_files(
    join: sj.Join,
    query: q.Query,
    sources: tuple[Source, Source],
    out: str,
    out_format: FileFormat,
    *,
    visible: bool,
) -> Tally:
    """Push everything through the join into the sink."""
    left, right = sources
    # Empty tables make the schemas known, so that a wrong column or type is found before a file is made.
    empty = join.push(left=left.schema.empty_table(), right=right.schema.empty_table())
    tally = Tally(perf_counter())
    sides = [Side(_counted(source.batches(), tally)) for source in sources]
    times = query.times
    if times is not None:
        results = feed_by_time(join, sides[0], sides[1], times)
    else:
        results = feed_by_rows(join, sides[0], sides[1], query.merges)
    with open_sink(out, out_format, empty.schema) as sink, _progress(sources, tally, visible=visible) as tick:
        for matches in results:
            for batch in matches:
                sink.write(batch)
                tally.rows_out += batch.num_rows
                tick()
            tick()
    tally.seconds = perf_counter() - tally.began
    return tally


def _counted(batches: Iterator[pa.RecordBatch], tally: Tally) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        tally.rows_in += batch.num_rows
        yield batch


@contextmanager
def _progress(sources: tuple[Source, Source], tally: Tally, *, visible: bool) -> Iterator[Any]:
    """Two bars on stderr while a person watches; calls the yielded function to bring them up to date."""
    shown = visible and screen.stderr.is_terminal
    columns = (
        TextColumn("{task.description:>5}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=screen.stderr, transient=True, disable=not shown) as progress:
        bars = [
            progress.add_task(side, total=1.0 if source.sized else None, note="")
            for side, source in zip((LEFT, RIGHT), sources, strict=True)
        ]

        def tick() -> None:
            for bar, source in zip(bars, sources, strict=True):
                if source.sized:
                    progress.update(bar, completed=source.fraction())
            tally.seconds = perf_counter() - tally.began
            progress.update(bars[0], note=f"{screen.short(tally.rate)} rows/s")
            progress.update(bars[1], note=f"{screen.short(tally.rows_out)} matches")

        yield tick if shown else _nothing


def _nothing() -> None:
    """Nobody watches."""
