"""How many forks led to this process: whoever notes it can tell later whether a fork has come in between.

Threads do not survive one, and locks stay as they were. Counting costs a join nothing; asking the system who one is, at
every call, does.
"""

from __future__ import annotations

import os

_forks = [0]


def forks() -> int:
    """Less than in any process that is forked from this one."""
    return _forks[0]


def _forked() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
