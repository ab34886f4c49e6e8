"""Draw PanJoin's figures: pictures in docs/img/panjoin, sentences and tables in docs/panjoin.md; nothing by hand."""

from __future__ import annotations

import re
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt  # the backend is chosen first
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.panjoin.findings import Finding, judged
from bench.report import Figure, goal, rounds, show
from bench.stage import ROOT

PAGE = ROOT / "docs" / "panjoin.md"
PICTURES = ROOT / "docs" / "img" / "panjoin"
GROUPS = {"10": "RaP-Table", "11": "WiB+-Tree", "12": "BI-Sort", "13": "Comparison", "15": "System"}
COLOURS = ("#0b5c8a", "#c8702a", "#4c8c4a", "#7d6b9e", "#b03a48", "#6b7682")
BY_KIND = dict(zip(("rap_table", "wib_tree", "bi_sort_paper", "bi_sort"), COLOURS, strict=False))
INK, FAINT = "#1f2933", "#6b7682"
BY_BATCH = ("a", "b", "c")  # of figures 10 to 12: against the batch size


def all_of(report: dict[str, Any]) -> None:
    lines = {
        k: v
        for part in ("structures", "system")
        for k, v in report["detail"].get(part, {}).get("lines", {}).items()
    }
    findings = {finding.figure: finding for finding in judged(lines)}
    PICTURES.mkdir(parents=True, exist_ok=True)
    for group in GROUPS:
        drawn = {k: v for k, v in lines.items() if k.startswith(group)}
        if drawn:
            picture(group, drawn, findings, report)
    page(report, findings)


def picture(group: str, lines: dict[str, Any], findings: dict[str, Finding], report: dict[str, Any]) -> None:
    """All figures of one number, with a legend each."""
    columns = 3 if len(lines) > 4 else 2
    height = -(-len(lines) // columns)
    figure, grid = plt.subplots(
        height, columns, figsize=(4.3 * columns, 3.3 * height + 0.5), dpi=110, squeeze=False
    )
    for axes, (name, drawn) in zip(grid.flat, lines.items(), strict=False):
        plot(axes, name, drawn, findings[name].title)
    for axes in list(grid.flat)[len(lines) :]:
        axes.set_visible(False)
    figure.tight_layout(rect=(0, 0.03, 1, 1), h_pad=1.6, w_pad=1.4)
    caption = f"{report['machine']['cpu']}, {report['machine']['cores']} cores; {report['taken'][:10]}; logarithmic scales"
    figure.text(0.01, 0.008, caption, fontsize=7, color=FAINT)
    figure.savefig(PICTURES / f"figure{group}.png", metadata={"Software": None})
    plt.close(figure)


def plot(axes: Axes, name: str, drawn: dict[str, Any], title: str) -> None:
    for (label, points), colour in zip(drawn.items(), COLOURS, strict=False):
        xs, ys = zip(*points, strict=True)
        axes.plot(
            xs, ys, marker="o", markersize=4, linewidth=1.8, color=BY_KIND.get(label, colour), label=label
        )
    if name != "10f":
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{name}  {title}", fontsize=9, loc="left", color=INK)
    axes.set_xlabel(across(name), fontsize=8, color=INK)
    axes.set_ylabel(up(name), fontsize=8, color=INK)
    axes.grid(color="#e4e8ec", linewidth=0.8)
    axes.tick_params(labelsize=7.5, colors=INK)
    axes.legend(fontsize=7, frameon=False)
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)


def amount(value: float) -> str:
    """A round number in short."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def across(name: str) -> str:
    if name == "10f":
        return "adjustments"
    if name in ("12f", "13a", "15a") or (name[:2] in ("10", "11", "12") and name[2] in BY_BATCH):
        return "rows a batch"
    return "selectivity: matches a row"


def up(name: str) -> str:
    if name == "10f":
        return "normalised mean error"
    return "times as fast" if name in ("11f", "15e", "15f") else "rows a second"


# -- the page ------------------------------------------------------------------------------------------


def page(report: dict[str, Any], findings: dict[str, Finding]) -> None:
    """Put each table between its comments."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = {f"figure {group}": group_block(group, findings) for group in GROUPS}
    blocks["goals"] = table([f for f in report["figures"] if f["key"].startswith("speed.")])
    blocks["phases"] = phase_table(report)
    blocks["disorder"] = disorder_table(report)
    machine = report["machine"]
    blocks["taken"] = (
        f"Taken {report['taken'][:10]} on {machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB."
    )
    for name, block in blocks.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not place.search(text):
            raise SystemExit(
                f"{PAGE.name} has no place for {name!r}; expected <!-- {name} --> and <!-- /{name} -->"
            )
        text = place.sub(lambda found, block=block: f"{found[1]}{block}\n{found[2]}", text)
    PAGE.write_text(text, encoding="utf-8")


def group_block(group: str, findings: dict[str, Finding]) -> str:
    rows = [
        f"| {name} | {finding.claim} | {finding.sentence} |"
        for name, finding in findings.items()
        if name.startswith(group)
    ]
    picture_line = f"![{GROUPS[group]}](img/panjoin/figure{group}.png)"
    return "\n".join([picture_line, "", "| figure | the paper finds | here |", "|---|---|---|", *rows])


def table(found: list[dict[str, Any]]) -> str:
    lines = ["| figure | measured | rounds | goal | met |", "|---|---|---|---|---|"]
    for one in found:
        figure = Figure(**{name: value for name, value in one.items() if name != "met"})
        met = {True: "yes", False: "**no**", None: ""}[figure.met]
        lines.append(
            f"| {figure.what} | {show(figure.value, figure.unit)} | {rounds(figure)} | {goal(figure)} | {met} |"
        )
    return "\n".join(lines)


def phase_table(report: dict[str, Any]) -> str:
    detail = report["detail"].get("phases", {})
    slower = {
        figure["what"].partition(":")[0]: figure["value"]
        for figure in report["figures"]
        if figure["key"].startswith("phases.")
    }
    lines = [
        "| phase | auto | bi_sort | rap_table | wib_tree | best fixed over auto |",
        "|---|---|---|---|---|---|",
    ]
    for name, phase in detail.items():
        speeds = phase["rows_per_second"]
        cells = [show(speeds[kind], "rows/s") for kind in ("auto", "bi_sort", "rap_table", "wib_tree")]
        lines.append(f"| {name} | {' | '.join(cells)} | {slower[name]:.2f}x |")
    return "\n".join(lines)


def disorder_table(report: dict[str, Any]) -> str:
    lines = ["| event times | rows a second, one thread | of those in order |", "|---|---|---|"]
    shares = report["detail"].get("disorder", {}).get("shares", {})
    for one in report["figures"]:
        part, _, one_in = one["key"].partition(".")
        if part == "disorder":
            lines.append(f"| {one['what']} | {show(one['value'], 'rows/s')} | {100 * shares[one_in]:.0f} % |")
    return "\n".join(lines)
