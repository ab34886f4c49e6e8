"""``slidejoin demo``: two live feeds, joined on a band before your eyes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

import slidejoin as sj
from slidejoin.cli import screen
from slidejoin.cli.endings import orderly
from slidejoin.cli.market import Market

CONDITION = "abs(l.price - r.price) <= 0.01 AND l.qty <= r.size"
WINDOW, LATENESS = "2 seconds", "50 milliseconds"
BATCH_ROWS = 4_096
REFRESH = 0.1  # seconds between two pictures
SAMPLE_ROWS = 6
BLOCKS = "▁▂▃▄▅▆▇█"
HISTORY = 32  # bars of the throughput chart


def demo(
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long to stream.")] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same feeds.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Join two synthetic live feeds, trades and quotes, on a price band within two seconds of each other."""
    with orderly(CONDITION, as_json=as_json):
        _warm_up(seed)
        show = Show(_join(), Market(seed), seconds)
        if as_json:
            show.stream(lambda: None)
            typer.echo(screen.as_json(show.report()))
            return
        out = screen.stdout
        out.print(f"\n[bold]trades l × quotes r[/]  [dim]within {WINDOW} of each other, on[/]\n{CONDITION}\n")
        with Live(console=out, auto_refresh=False, transient=True) as live:
            show.stream(lambda: live.update(show.picture(), refresh=True))
        for part in (show.picture(), show.sample(), screen.accounts(show.stats)):
            out.print(part)
            out.print()
        out.print("next: [bold]slidejoin explain --help[/], [bold]slidejoin run --help[/], README.md")


def _join() -> sj.Join:
    return sj.Join(CONDITION, window=sj.Time(WINDOW, on="ts"), lateness=LATENESS)


def _warm_up(seed: int) -> None:
    """Load the compiled kernels, so that the first latency shown is one of joining."""
    trades, quotes = Market(seed).next(64)
    _join().push(left=trades, right=quotes).to_table()


@dataclass
class Show:
    """The running demo and what has been seen of it."""

    join: sj.Join
    market: Market
    seconds: float
    rows: int = 0
    matches: int = 0
    streamed: float = 0.0  # seconds since the first push
    pushing: float = 0.0  # seconds of them inside the join
    latencies: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    found: pa.RecordBatch | None = None
    stats: Any = None

    def stream(self, refresh: Callable[[], None]) -> None:
        """Push batch after batch until the time is over."""
        began = perf_counter()
        due, before = REFRESH, (0, 0.0)
        while self.streamed < self.seconds:
            trades, quotes = self.market.next(BATCH_ROWS)
            start = perf_counter()
            for batch in self.join.push(left=trades, right=quotes):
                self.matches += batch.num_rows
                self.found = batch
            end = perf_counter()
            self.rows += trades.num_rows + quotes.num_rows
            self.latencies.append(end - start)
            self.pushing += end - start
            self.streamed = end - began
            if self.streamed >= due:
                self.rates.append((self.rows - before[0]) / (self.pushing - before[1]))
                due, before = self.streamed + REFRESH, (self.rows, self.pushing)
                self.stats = self.join.stats()
                refresh()
        self.stats = self.join.stats()

    def report(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "condition": CONDITION,
            "window": WINDOW,
            "lateness": LATENESS,
            "seconds": round(self.streamed, 3),
            "market_seconds": round(self.market.now, 3),
            "rows": self.rows,
            "rows_per_second": round(self.rows / self.pushing),
            "batch_rows": BATCH_ROWS,
            "latency_ms": {f"p{p}": round(self._latency(p) * 1e3, 3) for p in (50, 99)},
            "matches": self.matches,
            "sample": self._some(),
            "stats": self.stats,
        }

    def picture(self) -> RenderableType:
        """The figures and the bar."""
        stats = self.stats
        rows = stats["left"]["state_rows"] + stats["right"]["state_rows"]
        figures = Table.grid(padding=(0, 2))
        figures.add_column(style="dim")
        figures.add_column(justify="right", style="bold")
        figures.add_column()
        figures.add_row("throughput", f"{screen.short(self.rows / self.pushing)} rows/s", self._chart())
        figures.add_row(
            "latency",
            f"{screen.milliseconds(self._latency(50))}",
            f"p99 {screen.milliseconds(self._latency(99))}; a push of 2 × {BATCH_ROWS:,} rows, results built",
        )
        figures.add_row("state", f"{screen.short(rows)} rows", screen.size(stats["state_bytes"]))
        figures.add_row("matches", screen.short(self.matches), f"from {screen.short(self.rows)} rows")
        figures.add_row("watermark", f"{stats['watermark']:%H:%M:%S}", f"held by {stats['held_by']}")
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self.seconds, completed=min(self.streamed, self.seconds), width=46),
            f"{self.streamed:.1f} s",
            f"[dim]{self.market.now:.0f} s of market time[/]",
        )
        return Group(bar, "", figures)

    def sample(self) -> Table:
        """A few of the latest matches."""
        table = Table(title="some of the latest matches", title_justify="left", box=None, pad_edge=False)
        for name in ("symbol", "trade", "at", "price", "qty", "quote", "at", "price", "size"):
            table.add_column(name, justify="left" if name == "symbol" else "right")
        for row in self._some():
            table.add_row(
                row["symbol_l"],
                str(row["trade_id"]),
                f"{row['ts_l']:%M:%S.%f}"[:-3],
                f"{row['price_l']:.3f}",
                f"{row['qty']:,}",
                str(row["quote_id"]),
                f"{row['ts_r']:%M:%S.%f}"[:-3],
                f"{row['price_r']:.3f}",
                f"{row['size']:,}",
            )
        return table

    def _some(self) -> list[dict[str, Any]]:
        """Rows from all over the latest batch of results."""
        if self.found is None:
            return []
        last = self.found.num_rows - 1
        rows: list[dict[str, Any]] = self.found.take(
            np.linspace(0, last, SAMPLE_ROWS).astype(np.int64)
        ).to_pylist()
        return rows

    def _latency(self, percent: int) -> float:
        return float(np.percentile(self.latencies, percent))

    def _chart(self) -> str:
        recent = self.rates[-HISTORY:]
        top = max(recent, default=1.0)
        return "[green]" + "".join(BLOCKS[round(rate / top * (len(BLOCKS) - 1))] for rate in recent) + "[/]"
