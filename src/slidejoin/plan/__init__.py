"""The planner: which index serves each branch of the condition, on which key, and why."""

from __future__ import annotations

from slidejoin.plan.access import Access, choose, replan, require
from slidejoin.plan.cost import Seen

__all__ = ["Access", "Seen", "choose", "replan", "require"]
