"""Figures with their goals; where they were taken; the table on the screen and the JSON in results/."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

import slidejoin
from bench.stage import ROOT

RESULTS = ROOT / "bench" / "results"
PACKAGES = ("slidejoin", "numpy", "numba", "pyarrow", "sqlglot", "duckdb", "polars")


@dataclass(frozen=True)
class Figure:
    """A number that was measured; ``goal`` is the least or the most that it should be, None if it only informs."""

    key: str
    what: str
    value: float
    unit: str
    goal: float | None = None
    at_most: bool = False
    spread: tuple[float, float] | None = None  # the lowest and the highest round

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal


@dataclass(frozen=True)
class Section:
    """What one section of a benchmark found: figures, and the measurements they come from."""

    figures: Sequence[Figure]
    detail: dict[str, Any]


def middle(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The median of the rounds, and how far they spread."""
    return median(values), (min(values), max(values))


def show(value: float, unit: str) -> str:
    """A figure for people."""
    if unit == "rows/s":
        return f"{value / 1e6:.2f} M/s" if value >= 1e5 else f"{value / 1e6:.3f} M/s"
    if unit == "x":
        return f"{value:.1f}x" if value >= 2 else f"{value:.2f}x"  # near one, a hundredth is a difference
    if unit == "s" and value < 0.1:
        value, unit = value * 1e3, "ms"
    if unit == "yes/no":
        return "yes" if value else "no"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def table(figures: Sequence[Figure], title: str) -> Table:
    out = Table(title=title, title_justify="left", expand=True)
    out.add_column("figure", ratio=1)
    for column, style in (("measured", "bold"), ("rounds", "dim"), ("goal", ""), ("met", "")):
        out.add_column(column, justify="right", style=style, no_wrap=True)
    marks = {True: "[green]yes", False: "[red]no", None: "[dim]-"}
    for figure in figures:
        out.add_row(
            figure.what, show(figure.value, figure.unit), rounds(figure), goal(figure), marks[figure.met]
        )
    return out


def rounds(figure: Figure) -> str:
    """From the lowest round to the highest, in short."""
    if figure.spread is None:
        return ""
    low, high = (show(value, figure.unit) for value in figure.spread)
    return f"{low.split()[0].rstrip('x')} to {high.split()[0].rstrip('x')}"


def goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    if figure.unit == "yes/no":
        return "yes"
    return f"{'≤' if figure.at_most else '≥'} {show(figure.goal, figure.unit)}"


def write(
    name: str,
    sections: dict[str, Section],
    *,
    seed: int,
    quick: bool,
    seconds: float,
    load: float,
    measured: str | None,
) -> Path:
    """Write ``results/NAME.json``: everything needed to redraw and to compare."""
    report = {
        "name": name,
        "quick": quick,
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
        "seed": seed,
        "commit": measured,
        "machine": {**machine(), "load_before": load},
        "versions": versions(),
        "figures": [
            {**asdict(figure), "met": figure.met}
            for section in sections.values()
            for figure in section.figures
        ],
        "detail": {key: section.detail for key, section in sections.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(rounded(report), indent=1) + "\n", encoding="utf-8")
    return path


def say_where(console: Console, load: float) -> None:
    here = machine()
    console.print(f"[dim]{here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB; {here['system']}")
    if load > 0.5:
        console.print(f"[yellow]the machine is busy (load {load:.1f}): expect noise, and less than it can do")


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": len(psutil.Process().cpu_affinity())
        if hasattr(psutil.Process, "cpu_affinity")
        else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{package: version_of(package) for package in PACKAGES}}


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout that is on the path, not installed
        return slidejoin.__version__ if package == "slidejoin" else "unknown"


def commit() -> str | None:
    """The commit that is imported; marked if the code differs from it, None if it is not this checkout's.

    To be asked before measuring: the tree may move on meanwhile.
    """
    if not Path(slidejoin.__file__).resolve().is_relative_to(ROOT):
        return None

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        head = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--", "src", "bench/*.py")
    except FileNotFoundError:
        return None
    return f"{head} with changes" if head and changed else head or None


def rounded(value: Any) -> Any:
    """Six digits are more than a measurement has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value
