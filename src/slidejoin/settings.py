"""What a join was asked for: frozen, validated when it is made, written to and read from snapshots."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Any

from slidejoin.errors import ConditionError, SchemaError, WindowError
from slidejoin.flow import REGISTRY as FLOWS
from slidejoin.index import REGISTRY as INDEXES
from slidejoin.pools import cores
from slidejoin.tuning import Tuning
from slidejoin.window.duration import Duration, duration
from slidejoin.window.spec import Rows, Time, Window, window_pair
from slidejoin.worker import PADDED

HOW = tuple(PADDED)
LATE = ("count", "keep", "raise")
ORDER = ("none", "arrival", "strict")
MOST_THREADS = 1024  # more than there are cores, and fewer than an operating system refuses to start


@dataclass(frozen=True)
class Settings:
    """The arguments of ``Join``, checked and in one form each."""

    condition: str
    windows: tuple[Window, Window]
    how: str
    lateness: Duration | None
    late: str
    order: str
    index: str
    flow: str
    threads: int
    aliases: tuple[str, str]
    suffixes: tuple[str, str]
    tuning: Tuning = field(default_factory=Tuning)

    @staticmethod
    def checked(
        condition: Any,
        window: Any,
        how: Any,
        lateness: Any,
        late: Any,
        order: Any,
        index: Any,
        flow: Any,
        threads: Any,
        aliases: Any,
        suffixes: Any,
        tuning: Any,
    ) -> Settings:
        """Refuse what makes no sense, each with its own error."""
        if not isinstance(condition, str):
            raise ConditionError(
                f"the condition is a {type(condition).__name__}; expected SQL text; try 'l.x < r.x'"
            )
        windows = window_pair(window)
        return Settings(
            condition=condition,
            windows=windows,
            how=_one_of("how", how, HOW),
            lateness=_lateness(lateness, timed=isinstance(windows[0], Time)),
            late=_one_of("late", late, LATE),
            order=_one_of("order", order, ORDER),
            index=_one_of("index", index, ("auto", *INDEXES)),
            flow=_one_of("flow", flow, ("auto", *FLOWS)),
            threads=checked_threads(threads),
            aliases=_pair("aliases", aliases, empty=False),
            suffixes=_pair("suffixes", suffixes, empty=True),
            tuning=_tuning(tuning),
        )

    @property
    def timed(self) -> bool:
        """Whether the windows are measured in event time."""
        return isinstance(self.windows[0], Time)

    @property
    def padded(self) -> tuple[int, ...]:
        """The sides whose rows are wanted unmatched, or once only."""
        return PADDED[self.how]

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("condition", "how", "late", "order", "index", "flow")}
        return plain | {
            "windows": [_window_to_json(window) for window in self.windows],
            "lateness": None if self.lateness is None else _length_to_json(self.lateness),
            "threads": self.threads,
            "aliases": list(self.aliases),
            "suffixes": list(self.suffixes),
            "tuning": asdict(self.tuning),
        }

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Settings:
        left, right = (window_from_json(window) for window in stored["windows"])
        lateness = stored["lateness"]
        return Settings.checked(
            stored["condition"],
            (left, right),
            stored["how"],
            None if lateness is None else length_from_json(lateness),
            stored["late"],
            stored["order"],
            stored["index"],
            stored["flow"],
            stored["threads"],
            tuple(stored["aliases"]),
            tuple(stored["suffixes"]),
            Tuning(**stored["tuning"]),
        )


def _lateness(value: Any, *, timed: bool) -> Duration | None:
    if value is None:
        return None
    if not timed:
        raise WindowError(
            f"lateness={value!r} was given with Rows windows; expected it with Time windows only, as rows that are "
            "counted cannot be late; leave it out"
        )
    lateness = duration(value, "lateness")
    if lateness.ticks < 0:
        raise WindowError(f"lateness={value!r} is negative; expected zero or more; try '30 seconds'")
    return lateness


def _one_of(what: str, value: Any, names: tuple[str, ...]) -> str:
    if value not in names:
        error = ConditionError if what == "index" else WindowError
        raise error(f"{what}={value!r}; expected one of {', '.join(names)}; leave it out for {names[0]!r}")
    return str(value)


def checked_threads(value: Any) -> int:
    """How many threads; None means all cores."""
    if value is None:
        return cores()
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= MOST_THREADS:
        raise WindowError(
            f"threads={value!r}; expected a whole number from 1 to {MOST_THREADS:,}; leave it out for all cores"
        )
    return int(value)


def _pair(what: str, value: Any, *, empty: bool) -> tuple[str, str]:
    if (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(name, str) and (name or empty) for name in value)
        and value[0] != value[1]
    ):
        return (value[0], value[1])
    raise SchemaError(
        f"{what}={value!r}; expected a pair of different texts; try {what}={('_l', '_r') if empty else ('l', 'r')}"
    )


def _tuning(value: Any) -> Tuning:
    if value is None:
        return Tuning()
    if not isinstance(value, Tuning):
        raise WindowError(
            f"tuning={value!r}; expected sj.Tuning(...); leave it out for the join's own choice"
        )
    return value


def _window_to_json(window: Window) -> dict[str, Any]:
    if isinstance(window, Rows):
        return {"kind": "rows", "n": window.n, "by": window.by, "slide": window.slide}
    step = window.step
    return {
        "kind": "time",
        "length": _length_to_json(window.duration),
        "on": window.on,
        "slide": None if step is None else _length_to_json(step),
    }


def window_from_json(stored: dict[str, Any]) -> Window:
    if stored["kind"] == "rows":
        return Rows(stored["n"], by=stored["by"], slide=stored["slide"])
    slide = stored["slide"]
    length = length_from_json(stored["length"])
    return Time(length, on=stored["on"], slide=None if slide is None else length_from_json(slide))


def _length_to_json(length: Duration) -> dict[str, Any]:
    return {"nanoseconds" if length.physical else "ticks": length.ticks}


def length_from_json(stored: dict[str, Any]) -> str | int:
    if "ticks" in stored:
        return int(stored["ticks"])
    return f"{stored['nanoseconds']} nanoseconds"
