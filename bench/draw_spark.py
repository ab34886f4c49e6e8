"""Draw: the Spark part of docs/performance.md and its charts, from results/spark.json; nothing by hand.

Sections that have not been measured are named as such. A place in the page is what lies between ``<!-- NAME -->``
and ``<!-- /NAME -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt  # the backend is chosen first
from matplotlib.axes import Axes

from bench.draw import FAINT, INK, PAGE, amount, committed, markdown
from bench.report import RESULTS, Figure, goal, show
from bench.stage import ROOT

IMAGES = ROOT / "docs" / "img"
WANTED = {
    "band": "the band join against Spark's own on its in-memory store, and the join's share of a micro-batch",
    "rocksdb": "the band join against Spark's own on RocksDB",
    "floor": "the same micro-batches without a join",
    "others": "conditions that Spark's own join refuses",
    "one_row": "micro-batches of one row",
    "far": "the window of 2,000,000 rows a side",
    "model": "the model of many workers",
}
COLOURS = {"split": "#c8702a", "grid": "#0b5c8a", "hash": "#7d6b9e"}
BARS = (("slidejoin", "#0b5c8a"), ("Spark's own, in memory", "#c8702a"), ("Spark's own, RocksDB", "#7d6b9e"))

Report = dict[str, Any]


def main() -> None:
    sections: Report = json.loads((RESULTS / "spark.json").read_text(encoding="utf-8"))["sections"]
    text = PAGE.read_text(encoding="utf-8")
    for name, make in PLACES.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(
                f"{PAGE.name} has no place for {name!r}; expected <!-- {name} --> and <!-- /{name} -->"
            )
        made = make(sections)
        text = block.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text)
    PAGE.write_text(text, encoding="utf-8")
    drawn = []
    if "band" in sections:
        bars(sections, IMAGES / "spark_band.png")
        drawn.append("spark_band.png")
    if "model" in sections:
        curves(sections["model"], IMAGES / "spark_workers.png")
        drawn.append("spark_workers.png")
    print(f"{PAGE.name} and {', '.join(drawn) or 'no chart'} now show spark.json")


# -- the page ------------------------------------------------------------------------------------------


def where(sections: Report) -> str:
    lines = []
    for name, what in WANTED.items():
        if name not in sections:
            lines.append(f"- Not measured yet: {what} (`python -m bench spark --only {name}`).")
            continue
        one = sections[name]
        machine = one["machine"]
        lines.append(
            f"- {what[0].upper()}{what[1:]}: {one['taken'][:10]}, {one['seconds']:.0f} s, {machine['cpu']}, "
            f"{machine['cores']} cores, load {machine['load_before']:.1f} before the start, commit "
            f"{committed(one['commit'])}, Spark {one['versions']['pyspark']}."
        )
    return "\n".join(lines)


def goals(sections: Report) -> str:
    rows = []
    for name in WANTED:
        for entry in sections.get(name, {}).get("figures", []):
            met = {True: "yes", False: "**no**", None: ""}[entry["met"]]
            figure = Figure(**{key: value for key, value in entry.items() if key != "met"})
            rows.append([figure.what, show(figure.value, figure.unit), goal(figure), met])
    return markdown(["figure", "measured", "goal", "met"], rows)


def verdict(sections: Report) -> str:
    figures = [entry for name in WANTED for entry in sections.get(name, {}).get("figures", [])]
    judged = [entry for entry in figures if entry["met"] is not None]
    missed = [entry["what"] for entry in judged if not entry["met"]]
    said = f"{len(judged) - len(missed)} of {len(judged)} goals that were measured are met."
    if missed:
        said += " Missed: " + "; ".join(missed) + "."
    chart = "![Band join on Spark, rows per second](img/spark_band.png)\n\n" if "band" in sections else ""
    return chart + said


def workers(sections: Report) -> str:
    if "model" not in sections:
        return "Not measured yet."
    detail = sections["model"]["detail"]
    checks = "; ".join(
        f"{routing}: {found['predicted']:.2f} µs a row predicted, {found['measured']:.2f} measured"
        for routing, found in detail["checks"].items()
    )
    return (
        "![Throughput, network and memory against workers, for each routing](img/spark_workers.png)\n\n"
        f"A row costs {detail['a_us']:.2f} µs of CPU time once and {detail['b_us']:.2f} µs for each worker that it is sent "
        f"to. On two workers: {checks}. By `split`, doubling the workers gives less than a quarter more from about "
        f"{detail['stops_paying']:.0f} workers on."
    )


def one_row(sections: Report) -> str:
    """Every variant's micro-batches of one row, so that a reader sees how steady they were."""
    if "one_row" not in sections:
        return "Not measured yet."
    rows = []
    for name, run in sections["one_row"]["detail"].items():
        took = [batch["ms"] for batch in run["batches"] if batch["rows"] == 2]
        rows.append([name, *(f"{ms:,.0f}" for ms in (took[0], min(took), max(took), took[-1]))])
    return markdown(["a row of each side, ms", "first", "fastest", "slowest", "last"], rows)


PLACES: dict[str, Callable[[Report], str]] = {
    "spark where": where,
    "spark verdict": verdict,
    "spark goals": goals,
    "spark one row": one_row,
    "spark workers": workers,
}


# -- the charts ----------------------------------------------------------------------------------------


def bars(sections: Report, path: Path) -> None:
    """Rows a second at two sizes of micro-batch, logarithmic."""
    found = {
        entry["key"]: entry["value"]
        for name in ("band", "rocksdb")
        for entry in sections.get(name, {}).get("figures", [])
    }
    groups = [("large", "250,000 rows a side per trigger"), ("small", "50,000 rows a side per trigger")]
    figure, axes = plt.subplots(figsize=(8.6, 4.4), dpi=160)
    figure.subplots_adjust(left=0.085, right=0.98, top=0.78, bottom=0.1)
    axes.set_yscale("log")
    for number, (suffix, (label, colour)) in enumerate(zip(("", ".memory", ".rocksdb"), BARS, strict=True)):
        places = [
            (at + (number - 1) * 0.27, found[f"spark.band.{size}{suffix}"])
            for at, (size, _) in enumerate(groups)
            if f"spark.band.{size}{suffix}" in found
        ]
        axes.bar([x for x, _ in places], [y for _, y in places], 0.25, color=colour, label=label, zorder=3)
        for x, y in places:
            axes.annotate(amount(y), (x, y), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9.5,
                          color=colour, fontweight="bold")  # fmt: skip
    axes.set_xticks(range(len(groups)), [label for _, label in groups])
    axes.set_ylim(1e3, max(found[f"spark.band.{size}"] for size, _ in groups) * 3)
    axes.set_ylabel("rows/s, both streams", color=INK)
    tidy(axes)
    figure.text(
        0.022, 0.925, "Band join on Spark, rows per second", fontsize=14, fontweight="bold", color=INK
    )
    figure.text(0.022, 0.868, "window of 400,000 rows a side, 2 matches a row, local[2]; logarithmic scale, higher is better",
                fontsize=9.5, color=FAINT)  # fmt: skip
    figure.legend(loc="upper right", ncols=3, fontsize=9, frameon=False, bbox_to_anchor=(0.985, 0.85))
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def curves(section: Report, path: Path) -> None:
    """Throughput, network and memory against workers, from the model; points are measured."""
    detail = section["detail"]
    size = detail["measured"]["split 1"]["bytes_a_row"]
    panels: list[tuple[str, Callable[[Report], float]]] = [
        ("rows/s", lambda point: point["rows_per_second"]),
        ("bytes sent for each row", lambda point: point["copies"] * size),
        ("part of the state held by a worker", lambda point: point["stored_share"]),
    ]
    figure, all_axes = plt.subplots(1, 3, figsize=(11, 4.2), dpi=160)
    figure.subplots_adjust(left=0.06, right=0.98, top=0.76, bottom=0.14, wspace=0.28)
    for axes, (title, value) in zip(all_axes, panels, strict=True):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for routing, colour in COLOURS.items():
            points = [point for point in detail["curves"] if point["routing"] == routing]
            style = "--" if routing == "hash" else "-"
            axes.plot([p["workers"] for p in points], [value(p) for p in points], style, color=colour, label=routing,
                      linewidth=2)  # fmt: skip
        if title == "rows/s":
            for name, found in detail["measured"].items():
                axes.plot(
                    found["cores"],
                    found["rows_per_second"],
                    "o",
                    color=COLOURS[name.split()[0]],
                    markersize=6,
                )
            if 1 <= detail["stops_paying"] <= 256:
                axes.axvline(detail["stops_paying"], color=FAINT, linewidth=1, linestyle=":")
                axes.annotate("split stops\npaying", (detail["stops_paying"], axes.get_ylim()[0] * 1.3), fontsize=8,
                              color=FAINT, xytext=(4, 0), textcoords="offset points")  # fmt: skip
        axes.set_title(title, fontsize=10.5, color=INK, loc="left")
        axes.set_xlabel("workers", color=INK, fontsize=9.5)
        axes.set_xticks([1, 4, 16, 64, 256], ["1", "4", "16", "64", "256"])
        tidy(axes)
    figure.text(
        0.022, 0.925, "What more workers bring, by routing", fontsize=14, fontweight="bold", color=INK
    )
    figure.text(0.022, 0.868, "a model fitted on split with 1 and 2 workers; points are measured; inner band join",
                fontsize=9.5, color=FAINT)  # fmt: skip
    all_axes[0].legend(fontsize=9, frameon=False)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def tidy(axes: Axes) -> None:
    axes.grid(axis="y", color="#e4e8ec", linewidth=0.9, zorder=0)
    axes.tick_params(colors=INK, labelsize=9)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)


if __name__ == "__main__":
    main()
