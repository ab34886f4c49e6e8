"""Threads for probing: one pool per number of threads, shared by the joins of a process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool(threads: int) -> ThreadPoolExecutor:
    """The pool of that many threads. A forked child makes its own, as threads do not survive a fork."""
    return _pool(threads, os.getpid())


@lru_cache(maxsize=8)
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:  # noqa: ARG001 - part of the cache's key
    return ThreadPoolExecutor(threads, thread_name_prefix="slidejoin")
