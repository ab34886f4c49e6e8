"""Random testing is set up once, before any test module is imported."""

from __future__ import annotations

from generate import profiles

profiles.load()
