"""Counters of a join, read by name or by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Counters(dict[str, Any]):
    """A dict whose keys can be read as attributes: ``stats.left.rows_in`` is ``stats["left"]["rows_in"]``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no counter {name!r}; there are {', '.join(self)}") from None


@dataclass(frozen=True)
class Intaken:
    """What has come in on one side. ``accepted`` is the rest: ``rows_in - late - null_time``."""

    rows_in: int = 0
    late: int = 0
    null_time: int = 0

    @property
    def accepted(self) -> int:
        return self.rows_in - self.late - self.null_time

    def counters(self, state_rows: int) -> Counters:
        return Counters(
            rows_in=self.rows_in,
            accepted=self.accepted,
            late=self.late,
            null_time=self.null_time,
            state_rows=state_rows,
            evicted=self.accepted - state_rows,
        )
