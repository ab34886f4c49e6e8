"""What a join tells about itself: condition, windows, bounds of the state, plan and reasons."""

from __future__ import annotations

from slidejoin.engine import Engine
from slidejoin.settings import Settings
from slidejoin.window.spec import SIDES, Rows, Time, Window, column_of


def explain(engine: Engine) -> str:
    """The text of ``Join.explain``."""
    settings, worker = engine.settings, engine.worker
    lines = [(engine.condition if worker.bound is None else worker.bound).describe().rstrip(), ""]
    for side, window in enumerate(settings.windows):
        name = f"{SIDES[side]} window"
        lines.append(f"{name:<13} {window}{_measured_on(window, side)}")
    if settings.timed:
        lines.append(f"lateness      {settings.lateness or 0}, late rows: {settings.late}")
    lines += [f"state         {text}" for text in _state_bounds(settings)]
    lines.append(f"join          {settings.how}, order {settings.order}")
    lines.append(f"flow          {engine.flow.describe()}")
    for side in (0, 1):
        chosen = worker.access[side]
        if chosen is None:
            text = f"index {settings.index}; chosen when the first rows of both streams meet"
            lines.append(f"find {SIDES[side]:<8} {text}")
        lines += [f"find {SIDES[side]:<8} {access}" for access in chosen or ()]
    return "\n".join(lines)


def _measured_on(window: Window, side: int) -> str:
    if isinstance(window, Time):
        return f" on {column_of(window.on, side)}"
    return "" if window.by is None else f", a push of both sides ordered by {column_of(window.by, side)}"


def _state_bounds(settings: Settings) -> list[str]:
    """What bounds the rows held, side by side."""
    texts = []
    for side, window in enumerate(settings.windows):
        if isinstance(window, Rows):
            texts.append(f"{SIDES[side]}: at most {window.n:,} rows")
        else:
            wait = f" + {settings.lateness} lateness" if settings.lateness and settings.lateness.ticks else ""
            texts.append(
                f"{SIDES[side]}: rows of the last {window.duration}{wait} before the slower stream's clock, "
                "and all after it"
            )
    return texts
