"""What can go wrong, by name.

Every message has three beats: what was found, what was expected, what to try. A call that raises one of
these leaves the join as it was before the call.
"""

from __future__ import annotations


class SlidejoinError(Exception):
    """Base of every error that slidejoin raises on purpose."""


class ConditionError(SlidejoinError):
    """The join condition cannot be used; ``position`` is the 0-based offset in its text, if known."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class SchemaError(SlidejoinError):
    """A batch does not look as the join expects: columns, types, or a change between pushes."""


class WindowError(SlidejoinError):
    """A window, lateness or heartbeat that makes no sense or whose state could not be bounded."""


class StateError(SlidejoinError):
    """A snapshot that cannot be trusted, or a call that does not fit the join's life cycle."""


class LateRowError(SlidejoinError):
    """A row arrived below the watermark and the join was told to raise."""
