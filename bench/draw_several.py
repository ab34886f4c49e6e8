"""Draw: the charts and tables about several keys at once in docs/, from the JSON of a run; nothing by hand.

``python -m bench.draw_several`` reads results/several.json; another file can be named.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import draw
from bench.draw import FAINT, INK, PAGE, Report, plt
from bench.report import RESULTS, Figure, goal, show
from bench.stage import ROOT

CHART = ROOT / "docs" / "img" / "several.png"
COLOURS = {"bplus_tree": "#7d6b9e", "spo_join": "#c8702a", "sort_tree": "#0b5c8a", "cell_runs": "#2f9fd6"}
LABELS = {
    "bplus_tree": "B+-tree for each key",
    "spo_join": "SPO-Join",
    "sort_tree": "sort-tree",
    "cell_runs": "cell-runs",
}

# Said where a figure misses its goal; the figures themselves are filled in.
WHY_NOT = {
    "band.vs_peer": "the peer's inequality join does better here than where the goal was set",
    "band.vs_filter": "checking candidates is cheaper here than where the goal was set",
    "counted": "the better index does not list what it counts, but where so much of the window matches, a push of a few "
    "hundred rows costs what it costs before any index is asked",
    "q3": "a push of a few thousand rows costs what it costs before any index is asked, and the smaller the window, the "
    "less there is left to save",
    "po_vs_css": "our hash sets are open tables of 32-bit ids in flat memory, several times as fast as sets of objects on "
    "a heap that the paper's are; the smaller the slide, the more of them stay in the cache",
    "bits_vs_hash": "our hash sets are open tables of 32-bit ids in flat memory, which the cache holds",
    "q1.count": "building row numbers runs at hundreds of millions a second, so that there is less to save",
    "q1.built": "memory bandwidth",
    "ratio": "a change of subwindow falls into the slowest pushes",
    "three.always true": "a third column must be read, for the rows that are stored and for those that probe, which is "
    "about a tenth of a millisecond a push, and nothing wins it back where all rows pass",
    "three.bands.always true": "the least and the greatest of a third column must be found for each batch",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.draw_several", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS / "several.json")
    parser.add_argument("--chart", type=Path, default=CHART, help="where the chart goes")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose tables are filled in")
    asked = parser.parse_args(arguments)
    report = json.loads(asked.results.read_text(encoding="utf-8"))
    asked.chart.parent.mkdir(parents=True, exist_ok=True)
    chart(report, asked.chart)
    draw.fill(asked.page, report, TABLES)
    print(
        f"{asked.chart.name} and {asked.page.name} now show {asked.results.name}, taken {report['taken'][:10]}"
    )


def chart(report: Report, path: Path) -> None:
    """Insertion (as Figure 12 of seed 002) and memory (as Figure 13) against the window."""
    points = report["detail"]["growth"]["points"]
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.9), dpi=160)
    figure.subplots_adjust(left=0.08, right=0.97, top=0.77, bottom=0.17, wspace=0.24)
    for axis, key, title in (
        (axes[0], "nanoseconds_per_row", "Inserting half a window, CPU ns a row"),
        (axes[1], "bytes_per_row", "Held for a row of two keys, bytes"),
    ):
        for name, entries in points.items():
            xs = [entry["window"] for entry in entries]
            axis.plot(
                xs, [entry[key] for entry in entries], color=COLOURS[name], marker="o", markersize=5,
                linewidth=2, label=LABELS[name],
            )  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        axis.set_xlabel("rows in the window", color=INK, fontsize=9)
        axis.grid(axis="y", color="#e4e8ec", linewidth=0.9)
        axis.tick_params(colors=INK, labelsize=8.5)
        for edge in ("top", "right"):
            axis.spines[edge].set_visible(False)
    # One row above both charts: anywhere within, it would lie on some line.
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8.5, frameon=False, ncol=len(points), loc="upper left",
                  bbox_to_anchor=(0.01, 0.93))  # fmt: skip
    figure.text(
        0.02, 0.94, "Indexes for several keys, lower is better", fontsize=13, fontweight="bold", color=INK
    )
    machine = report["machine"]
    figure.text(
        0.02, 0.02, f"batches of 4,096 rows, one thread · {machine['cpu']} · {report['taken'][:10]}", fontsize=7,
        color=FAINT,
    )  # fmt: skip
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def verdicts(report: Report) -> str:
    """A line for each goal, from the figures."""
    lines = []
    for entry in report["figures"]:
        figure = Figure(**{key: value for key, value in entry.items() if key != "met"})
        if figure.goal is None:
            continue
        said = f"- {'Met' if figure.met else '**Not met**'}: {figure.what}: {show(figure.value, figure.unit)} ({goal(figure)})"
        if not figure.met:
            said += f". Why not here: {_why(figure.key)}"
        lines.append(f"{said}.")
    return "\n".join(lines)


def _why(key: str) -> str:
    for part, text in WHY_NOT.items():
        if key == part or key.startswith(f"{part}.") or key.endswith(f".{part}"):
            return text
    return "not known"


TABLES: dict[str, Callable[[Report], str]] = {
    "several where": draw.where,
    "several verdicts": verdicts,
    "several goals": draw.goals,
}


if __name__ == "__main__":
    main()
