"""Draw: the chart in docs/img/ and the tables of docs/performance.md, from the JSON of a run; nothing by hand.

``python -m bench.draw`` reads results/foundation.json; another file can be named. A table stands between two comments
``<!-- NAME -->`` and ``<!-- /NAME -->`` in the page, and everything between them is replaced.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt  # the backend is chosen first
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullLocator

from bench.report import RESULTS, Figure, goal, rounds, show
from bench.stage import ROOT

PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "img" / "throughput.png"
INK, FAINT = "#1f2933", "#6b7682"
HALO = withStroke(linewidth=2.5, foreground="white")  # numbers stay readable on grid lines
LABEL_GAP = 0.055  # names at the right are at least this part of the chart apart
SUBTITLE = "band join  abs(l.k − r.k) ≤ d,  2 matches a row,  batches of 32,768 rows;  logarithmic scale, higher is better"


class Line(NamedTuple):
    label: str
    colour: str
    marker: str
    offset: int  # where its values stand, in points above (or below) the line
    weight: float = 2.4
    font: str = "bold"


LINES = {  # by contender, from the top of the chart
    "slidejoin 2 threads": Line("slidejoin, 2 threads", "#0b5c8a", "o", 9),
    "slidejoin 1 thread": Line("slidejoin, 1 thread", "#2f9fd6", "o", -17),
    "polars": Line("Polars, 2 threads", "#c8702a", "s", 9, 1.8, "normal"),
    "duckdb": Line("DuckDB, 2 threads", "#7d6b9e", "D", -17, 1.8, "normal"),
}

Report = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.draw", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS / "foundation.json")
    parser.add_argument("--chart", type=Path, default=CHART, help="where the chart goes")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose tables are filled in")
    asked = parser.parse_args(arguments)
    report = json.loads(asked.results.read_text(encoding="utf-8"))
    asked.chart.parent.mkdir(parents=True, exist_ok=True)
    chart(report, asked.chart)
    fill(asked.page, report, TABLES)
    print(
        f"{asked.chart.name} and {asked.page.name} now show {asked.results.name}, taken {report['taken'][:10]}"
    )


# -- the chart -----------------------------------------------------------------------------------------


def chart(report: Report, path: Path) -> None:
    """Rows a second against the window, both logarithmic; thin bars show the spread of the rounds."""
    series = band_series(report)
    windows = sorted({window for points in series.values() for window in points})
    figure, axes = plt.subplots(figsize=(8.6, 4.9), dpi=160)
    figure.subplots_adjust(left=0.085, right=0.765, top=0.83, bottom=0.155)
    axes.set_yscale("log")
    values = [speed for points in series.values() for entry in points.values() for speed in entry["rounds"]]
    bottom, top = min(values) / 1.9, max(values) * 1.7
    axes.set_ylim(bottom, top)
    label = top
    for contender, line in LINES.items():
        if contender in series:
            last = draw_line(axes, windows, series[contender], line)
            label = min(
                last, label / (top / bottom) ** LABEL_GAP
            )  # from the top down, clear of the one above
            name(axes, line, (len(windows) - 1, label))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: amount(y).replace(".0", "")))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(windows)), [f"{window:,}" for window in windows])
    axes.set_xlim(-0.28, len(windows) - 0.78)
    axes.set_xlabel("rows in each stream's window", color=INK, fontsize=10, labelpad=7)
    axes.grid(axis="y", color="#e4e8ec", linewidth=0.9, zorder=0)
    axes.tick_params(colors=INK, length=0, labelsize=9.5)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.spines["bottom"].set_color("#b8c1ca")
    title = "Rows joined per second, both streams"
    figure.text(0.022, 0.935, title, fontsize=14, fontweight="bold", color=INK)
    figure.text(0.022, 0.885, SUBTITLE, fontsize=9.5, color=FAINT)
    figure.text(0.022, 0.022, caption(report), fontsize=7.5, color=FAINT)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def draw_line(axes: Axes, windows: list[int], points: dict[int, Report], line: Line) -> float:
    """One contender over the windows, each point with its value; returns the last."""
    xs = [windows.index(window) for window in sorted(points)]
    entries = [points[window] for window in sorted(points)]
    ys = [entry["rows_per_second"] for entry in entries]
    below = [y - min(entry["rounds"]) for y, entry in zip(ys, entries, strict=True)]
    above = [max(entry["rounds"]) - y for y, entry in zip(ys, entries, strict=True)]
    axes.errorbar(
        xs, ys, yerr=[below, above], color=line.colour, marker=line.marker, markersize=7, linewidth=line.weight,
        elinewidth=1, capsize=3, markeredgecolor="white", markeredgewidth=1, zorder=3,
    )  # fmt: skip
    for x, y in zip(xs, ys, strict=True):
        axes.annotate(
            amount(y), (x, y), xytext=(0, line.offset), textcoords="offset points", ha="center", fontsize=9,
            color=line.colour, fontweight=line.font, zorder=4, path_effects=[HALO],
        )  # fmt: skip
    return float(ys[-1])


def name(axes: Axes, line: Line, at: tuple[float, float]) -> None:
    """The contender's name, right of its last point."""
    axes.annotate(
        line.label, at, xytext=(22, 0), textcoords="offset points", va="center", ha="left", fontsize=10,
        color=line.colour, fontweight=line.font, annotation_clip=False,
    )  # fmt: skip


def band_series(report: Report) -> dict[str, dict[int, Report]]:
    """Contender, window, measurements."""
    series: dict[str, dict[int, Report]] = {}
    for entry in report["detail"]["throughput"]["contenders"]:
        if entry["kind"] == "band":
            series.setdefault(entry["contender"], {})[entry["window"]] = entry
    return series


def amount(value: float) -> str:
    """Two digits or three and a letter: 4.7 M, 490 K."""
    if value >= 1e6:
        return f"{value / 1e6:.1f} M" if value < 1e7 else f"{value / 1e6:.0f} M"
    if value >= 1e3:
        return f"{value / 1e3:.1f} K" if value < 1e4 else f"{value / 1e3:.0f} K"
    return f"{value:.0f}"


def caption(report: Report) -> str:
    machine, versions = report["machine"], report["versions"]
    return (
        f"medians of {rounds_taken(report)} interleaved rounds, bars from the slowest to the fastest · {machine['cpu']}, "
        f"{machine['cores']} cores · Polars {versions['polars']}, DuckDB {versions['duckdb']} · {report['taken'][:10]}"
    )


def rounds_taken(report: Report) -> int:
    return len(report["detail"]["throughput"]["contenders"][0]["rounds"])


# -- the page ------------------------------------------------------------------------------------------


def fill(page: Path, report: Report, tables: dict[str, Callable[[Report], str]]) -> None:
    """Put every table between its comments."""
    text = page.read_text(encoding="utf-8")
    for name, make in tables.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(
                f"{page.name} has no place for {name!r}; expected <!-- {name} --> and <!-- /{name} -->"
            )
        text = block.sub(rf"\g<1>{_literal(make(report))}\n\g<2>", text)
    page.write_text(text, encoding="utf-8")


def _literal(text: str) -> str:
    """Text that means itself in a replacement."""
    return text.replace("\\", "\\\\")


def where(report: Report) -> str:
    machine = report["machine"]
    versions = ", ".join(
        f"{name} {number}" for name, number in report["versions"].items() if number != "unknown"
    )
    return (
        f"Taken {report['taken'][:10]} in {report['seconds'] / 60:.0f} minutes on {machine['cpu']}, {machine['cores']} "
        f"cores, {machine['memory_gb']} GB, {machine['system']}, load {machine['load_before']:.1f} before the start; "
        f"commit {committed(report['commit'])}; seed {report['seed']}; {versions}."
    )


def committed(commit: str | None) -> str:
    head, _, changes = (commit or "unknown").partition(" ")
    return f"`{head[:12]}` {changes}".strip()


def goals(report: Report) -> str:
    rows = []
    for entry in report["figures"]:
        met = {True: "yes", False: "**no**", None: ""}[entry["met"]]
        figure = Figure(**{key: value for key, value in entry.items() if key != "met"})
        rows.append([figure.what, show(figure.value, figure.unit), rounds(figure), goal(figure), met])
    return markdown(["figure", "measured", "rounds", "goal", "met"], rows)


def by_window(report: Report) -> str:
    series = band_series(report)
    windows = sorted({window for points in series.values() for window in points})
    rows = []
    for contender, line in LINES.items():
        points = series.get(contender, {})
        cells = [amount(points[window]["rows_per_second"]) if window in points else "" for window in windows]
        batches = ", ".join(
            str(points[w]["batches_a_side_per_round"]) if w in points else "-" for w in windows
        )
        rows.append([line.label, *cells, batches])
    return markdown(
        ["rows/s", *(f"w = {window:,}" for window in windows), "batches a side, each round"], rows
    )


def waits(report: Report) -> str:
    detail = report["detail"]["small_batches"]
    names = [name for name in detail["milliseconds"] if float(name) >= 50]
    heads = ["maximum" if name == "100" else f"{name} %" for name in names]
    rows = [
        [what, *(f"{detail[key][name]:.2f}" for name in names)]
        for what, key in (("done within, ms", "milliseconds"), ("processor time, ms", "cpu_milliseconds"))
    ]
    return markdown([f"of {detail['pushes']:,} pushes", *heads], rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(heads), ["---", *["---:"] * (len(heads) - 1)], *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: dict[str, Callable[[Report], str]] = {
    "where": where,
    "goals": goals,
    "by window": by_window,
    "waits": waits,
}


if __name__ == "__main__":
    main()
