"""Threads that share the work of a join; one pool per number of threads serves all joins of a process.

Kernels run without the interpreter, so threads are enough. A helper that has just worked, or was told that work
is coming, watches for it instead of sleeping: see kernels/waiting.py.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar, cast

import numpy as np

from slidejoin.kernels.waiting import changes

Answer = TypeVar("Answer")

LOOKS = 1_000_000  # how often a helper looks for work before it sleeps: about a millisecond


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """The calling thread and ``threads - 1`` others."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def wake(self) -> None:
        """Work is coming in a moment."""
        for _ in range(self.threads - 1):
            self._helpers.post(_nothing)

    def each(self, tasks: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Do all tasks, whoever is free the next; the answers in the order of the tasks.

        The caller waits for tasks, not for threads: if it is done before another one has woken up, it goes on.
        After a failure no task is begun; those under way end before it is raised.
        """
        helpers = min(self.threads, len(tasks)) - 1
        if helpers < 1:
            return [task() for task in tasks]
        shared = _Shared(tasks)
        for _ in range(helpers):
            self._helpers.post(shared.help_out)
        shared.finish()
        return shared.outcome()

    @property
    def _helpers(self) -> _Helpers:
        return _helpers(self.threads - 1, os.getpid())


ALONE = Crew(1)


class _Shared(Generic[Answer]):
    """Tasks that several threads take from."""

    def __init__(self, tasks: Sequence[Callable[[], Answer]]) -> None:
        self._count = len(tasks)
        self._answers: list[Answer | None] = [None] * len(tasks)
        self._waiting = deque(enumerate(tasks))
        self._failures: list[BaseException] = []
        self._ended: SimpleQueue[None] = SimpleQueue()

    def _work(self) -> int:
        """Take tasks while there are some; how many were taken."""
        taken = 0
        while True:
            try:
                number, task = self._waiting.popleft()
            except IndexError:
                return taken
            taken += 1
            try:
                if not self._failures:
                    self._answers[number] = task()
            except BaseException as error:  # noqa: BLE001 - raised by the calling thread
                self._failures.append(error)

    def help_out(self) -> None:
        for _ in range(self._work()):
            self._ended.put(None)

    def finish(self) -> None:
        """Take part, then wait for what others have taken."""
        under_way = self._count - self._work()
        while under_way:
            try:
                self._ended.get()
                under_way -= 1
            except BaseException as error:  # noqa: BLE001 - interrupted: first let the others end
                self._failures.append(error)

    def outcome(self) -> list[Answer]:
        if self._failures:
            raise self._failures[0]
        return cast(list[Answer], self._answers)


class _Helpers:
    """Threads that do what is posted."""

    def __init__(self, threads: int) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._posted = np.zeros(1, dtype=np.int64)
        for number in range(threads):
            Thread(target=self._serve, name=f"slidejoin-{number}", daemon=True).start()

    def post(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        self._posted[0] += 1

    def _serve(self) -> None:
        while True:
            seen = int(self._posted[0])
            try:
                job = self._jobs.get_nowait()
            except Empty:
                if changes(self._posted, seen, LOOKS):
                    continue
                job = self._jobs.get()
            job()


def _nothing() -> None:
    """Being awake is all."""


@lru_cache(maxsize=8)
def _helpers(threads: int, pid: int) -> _Helpers:  # noqa: ARG001 - threads do not survive a fork
    return _Helpers(threads)
