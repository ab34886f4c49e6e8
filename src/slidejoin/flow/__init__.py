"""The flows by name: who gets which tuple."""

from __future__ import annotations

from slidejoin.flow.panjoin import PanJoin
from slidejoin.flow.protocol import Flow
from slidejoin.flow.single import Single

REGISTRY: dict[str, type[Flow]] = {flow.name: flow for flow in (Single, PanJoin)}

__all__ = ["REGISTRY", "Flow", "PanJoin", "Single"]
