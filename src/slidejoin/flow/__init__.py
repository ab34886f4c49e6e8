"""The flows by name: who gets which tuple."""

from __future__ import annotations

from slidejoin.flow.single import Single

REGISTRY: dict[str, type[Single]] = {Single.name: Single}

__all__ = ["REGISTRY", "Single"]
