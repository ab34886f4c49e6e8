"""The options that describe a join, shared by ``run`` and ``explain``, and the join they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

import slidejoin as sj
from slidejoin.cli.endings import UsageError
from slidejoin.cli.screen import pair

JOIN = "The join"
HowName = Literal["inner", "left", "right", "full", "semi", "anti"]
LateName = Literal["count", "raise"]
OrderName = Literal["none", "arrival", "strict"]

On = Annotated[
    str,
    typer.Option("--on", help="SQL condition; the streams are l and r.", metavar="SQL", rich_help_panel=JOIN),
]
Window = Annotated[
    str | None,
    typer.Option(
        help="Length of a time window, e.g. '10 minutes', or a number for an integer --time column; "
        "'left,right' if they differ.",
        metavar="LENGTH",
        rich_help_panel=JOIN,
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time", help="Event-time column; 'left,right' if they differ.", metavar="COL", rich_help_panel=JOIN
    ),
]
RowCount = Annotated[
    str | None,
    typer.Option(
        "--rows",
        help="Count window instead: the last N rows; 'left,right' if they differ.",
        metavar="N",
        rich_help_panel=JOIN,
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        help="With --rows: ascending column that merges the two inputs into one arrival order. "
        "Without it the inputs take turns, one batch each.",
        metavar="COL",
        rich_help_panel=JOIN,
    ),
]
Slide = Annotated[
    str | None,
    typer.Option(help="Rows leave the window together with their slide.", rich_help_panel=JOIN),
]
How = Annotated[HowName, typer.Option(help="Kind of join.", rich_help_panel=JOIN)]
Lateness = Annotated[
    str | None,
    typer.Option(help="How long to wait for stragglers, e.g. '30 seconds'.", rich_help_panel=JOIN),
]
Late = Annotated[
    LateName, typer.Option(help="Late rows: drop and count, or stop with exit code 1.", rich_help_panel=JOIN)
]
Order = Annotated[OrderName, typer.Option(help="Order of the results.", rich_help_panel=JOIN)]
Index = Annotated[
    str, typer.Option(help="Index structure; 'auto' lets the planner choose.", rich_help_panel=JOIN)
]
Flow = Annotated[
    str,
    typer.Option(help="Routing of rows to workers; 'auto' lets the planner choose.", rich_help_panel=JOIN),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Default: the machine's cores.", rich_help_panel=JOIN)
]


@dataclass(frozen=True)
class Query:
    """A join as the command line describes it."""

    on: str
    window: str | None
    time: str | None
    rows: str | None
    by: str | None
    slide: str | None
    how: HowName
    lateness: str | None
    late: LateName
    order: OrderName
    index: str
    flow: str
    threads: int | None

    def join(self) -> sj.Join:
        """A fresh join; raises what :class:`slidejoin.Join` raises."""
        options: dict[str, Any] = {}
        if self.lateness is not None:
            options["lateness"] = self.lateness_given
        return sj.Join(
            self.on,
            window=self.windows(),
            how=self.how,
            late=self.late,
            order=self.order,
            index=self.index,
            flow=self.flow,
            threads=self.threads,
            **options,
        )

    @property
    def times(self) -> tuple[str, str] | None:
        """The event-time columns, for a time window."""
        return pair(self.time, "--time")

    @property
    def merges(self) -> tuple[str, str] | None:
        """The columns that merge two inputs, for a count window."""
        return pair(self.by, "--by")

    @property
    def lateness_given(self) -> str | int | None:
        """As :class:`slidejoin.Join` takes it."""
        return None if self.lateness is None else _length(self.lateness)

    def windows(self) -> Any:
        """The windows of both sides."""
        if self.rows is not None:
            return self._count_windows()
        lengths, times = pair(self.window, "--window"), self.times
        if lengths is None or times is None:
            missing = "--window" if lengths is None else "--time"
            raise UsageError(
                f"{missing} is missing; expected --window LENGTH --time COLUMN, or --rows N; "
                "for example --window '10 minutes' --time ts"
            )
        if self.by is not None:
            raise UsageError("--by goes with --rows; a time window follows --time; leave --by out")
        slide = None if self.slide is None else _length(self.slide)
        return tuple(sj.Time(_length(length), on=times, slide=slide) for length in lengths)

    def _count_windows(self) -> Any:
        if self.window is not None or self.time is not None:
            raise UsageError(
                "--rows and --window/--time were both given; expected one kind of window; drop one of them"
            )
        counts = pair(self.rows, "--rows")
        assert counts is not None  # narrows the type: --rows was given
        slide = 1 if self.slide is None else _count(self.slide, "--slide")
        return tuple(sj.Rows(_count(text, "--rows"), by=self.merges, slide=slide) for text in counts)


def _length(text: str) -> str | int:
    """A length of time: digits alone count the units of an integer column."""
    return int(text) if text.strip().isdecimal() else text


def _count(text: str, option: str) -> int:
    digits = text.replace("_", "").strip()
    if not digits.isdecimal():
        raise UsageError(
            f"{option} {text!r} is not a whole number; expected a count of rows; for example 100000"
        )
    return int(digits)
