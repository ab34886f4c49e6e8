"""Turns: calls on one join from several threads are made one after the other.

A forked child inherits the join as it was. If another thread was in the middle of a call, that thread does not exist
in the child and its call will never end there: such a join is refused instead of waited for.
"""

from __future__ import annotations

import os
from threading import RLock
from types import TracebackType

from slidejoin.errors import StateError


class Turns:
    def __init__(self) -> None:
        self._lock = RLock()
        self._process = os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            if not self._lock.acquire(blocking=False):
                raise StateError(
                    "this process was forked while another thread was in a call on the join; expected a join between "
                    "calls; fork before, or load a snapshot in the child"
                )
            self._lock.release()
            self._process = os.getpid()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
