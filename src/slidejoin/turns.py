"""Turns: calls on one join are made one after the other, whoever makes them.

Threads wait for each other. A signal handler that calls the join in the middle of a call would wait for itself: it is
refused. So is a forked child whose parent was in the middle of a call in another thread: that thread does not exist in
the child, and its call will never end there.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock, get_ident
from typing import TypeVar

from slidejoin.errors import StateError
from slidejoin.forks import forks

Answer = TypeVar("Answer")


class Turns:
    def __init__(self) -> None:
        self._lock = RLock()
        self._holder: int | None = None  # the thread that is in a call
        self._forks = forks()

    def take(self, call: Callable[[], Answer]) -> Answer:
        """What a call answers when its turn has come.

        The lock is its own context manager, not a function of ours, since an interruption between taking it and being
        ready to give it back would leave it taken for ever.
        """
        if self._forks != forks():
            self._after_fork()
        if self._holder == get_ident():
            raise StateError(
                "the join was called from within a call on it, as by a signal handler; expected a join between calls; "
                "let the handler set a flag, and call when the call under way has returned"
            )
        with self._lock:
            self._holder = get_ident()
            try:
                return call()
            finally:
                self._holder = None

    def _after_fork(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise StateError(
                "this process was forked while another thread was in a call on the join; expected a join between "
                "calls; fork before, or load a snapshot in the child"
            )
        self._lock.release()
        self._holder = None
        self._forks = forks()
