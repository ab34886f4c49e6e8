"""slidejoin: sliding-window stream joins on any condition.

>>> import slidejoin as sj
>>> join = sj.Join("abs(l.price - r.price) <= 0.05", window=sj.Rows(1_000_000))
"""

from __future__ import annotations

from slidejoin.collect import Collector
from slidejoin.errors import (
    ConditionError,
    LateRowError,
    SchemaError,
    SlidejoinError,
    StateError,
    WindowError,
)
from slidejoin.flow import REGISTRY as _FLOWS
from slidejoin.index import REGISTRY as _INDEXES
from slidejoin.join import Join
from slidejoin.matches import Matches
from slidejoin.tuning import Tuning
from slidejoin.window.spec import Rows, Time

__version__ = "0.1.0"


def indexes() -> list[str]:
    """The names that ``Join(index=...)`` takes besides ``auto``."""
    return list(_INDEXES)


def flows() -> list[str]:
    """The names that ``Join(flow=...)`` takes besides ``auto``."""
    return list(_FLOWS)


__all__ = [
    "Collector",
    "ConditionError",
    "Join",
    "LateRowError",
    "Matches",
    "Rows",
    "SchemaError",
    "SlidejoinError",
    "StateError",
    "Time",
    "Tuning",
    "WindowError",
    "flows",
    "indexes",
]
