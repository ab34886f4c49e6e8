"""Ctrl-C and SIGTERM: the command unwinds, removes what is half written, and ends; always.

An exception that a signal raises can get lost: inside a finaliser Python prints it and goes on, a library's callback
may swallow it, and the command would wait for its input as if nothing had happened. So a timer asks again until the
stack is unwound. While it unwinds nothing is raised, or cleaning up would be cut short; unless that hangs too (a pipe
that nobody reads).
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.25  # seconds after which a lost interruption is raised once more
PATIENCE = 3.0  # seconds that cleaning up may take before it is interrupted as well

_ASKING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt in this block until it is left."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    asked: list[float] = []  # when the first signal came

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        asked.append(now)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        if not _unwinding() or now - asked[0] > PATIENCE:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (*_ASKING, signal.SIGALRM)}
    heard = [
        number for number in _ASKING if before[number] is not signal.SIG_IGN
    ]  # nohup and the like stay deaf
    try:
        for number in (*heard, signal.SIGALRM):
            signal.signal(number, interrupt)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (*heard, signal.SIGALRM):
            signal.signal(number, before[number])


def _unwinding() -> bool:
    """Whether an interruption is on its way up right now, in a ``with``, ``except`` or ``finally``."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
