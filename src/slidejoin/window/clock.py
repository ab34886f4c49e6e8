"""Clocks and the watermark: how far each stream has come, and what is therefore late.

Each side's clock is the largest event time it has shown or been advanced to. The watermark is the smaller
clock less the lateness; a side that has shown nothing holds it at minus infinity, written None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Clocks:
    left: int | None = None
    right: int | None = None
    lateness: int = 0

    def shown(self, side: int, time: int) -> Clocks:
        """The clocks after a side has shown a time; clocks never go back."""
        now = self.left if side == 0 else self.right
        later = time if now is None else max(now, time)
        return replace(self, left=later) if side == 0 else replace(self, right=later)

    @property
    def watermark(self) -> int | None:
        if self.left is None or self.right is None:
            return None
        return min(self.left, self.right) - self.lateness

    @property
    def held_by(self) -> str:
        """Which side holds the watermark back."""
        if self.left == self.right:
            return "both"
        if self.left is None:
            return "left"
        if self.right is None:
            return "right"
        return "left" if self.left < self.right else "right"

    def scaled(self, before: int, after: int, lateness: int) -> Clocks:
        """The clocks on another scale, rounded down: a clock must not claim more than what has passed."""
        return Clocks(
            None if self.left is None else self.left * before // after,
            None if self.right is None else self.right * before // after,
            lateness,
        )
