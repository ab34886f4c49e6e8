"""Threads that share the work of a join; one pool per number of threads serves all joins of a process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import TypeVar, cast

Answer = TypeVar("Answer")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """The calling thread and ``threads - 1`` others."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def each(self, tasks: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Do all tasks, whoever is free the next; the answers in the order of the tasks.

        It ends when all have ended, also if one fails; then a failure is raised.
        """
        helpers = min(self.threads, len(tasks)) - 1
        if helpers < 1:
            return [task() for task in tasks]
        answers: list[Answer | None] = [None] * len(tasks)
        waiting = deque(enumerate(tasks))

        def work() -> None:
            while waiting:
                try:
                    number, task = waiting.popleft()
                except IndexError:  # somebody else took the last one
                    return
                answers[number] = task()

        others = [_pool(self.threads - 1, os.getpid()).submit(work) for _ in range(helpers)]
        try:
            work()
        finally:
            wait(others)
        for other in others:
            other.result()
        return cast(list[Answer], answers)


ALONE = Crew(1)


@lru_cache(maxsize=8)
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:  # noqa: ARG001 - threads do not survive a fork
    return ThreadPoolExecutor(threads, thread_name_prefix="slidejoin")
